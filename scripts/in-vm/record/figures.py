#!/usr/bin/env python3
"""Turns traces of record.sh into cases of `zerolag validate`.

    figures.py OUT WORKLOAD.toml CPUS[/CACHES] PRESET[:SERIES]=DIRECTORY[,SETTING=VALUE...]...

Writes OUT/NAME.toml and OUT/workloads/NAME.toml. The figures are those of `Measure` (crates/lab/src/validate), each take's; turns and delays of all takes are
kept as quantiles, and figures of their own say how far each take is from the others. The window is between 0.5 and 3.5 s after the start of the workload, which is at 200 ms of the simulation. Threads of the kernel are left out: a turn that one of them interrupts is one turn, and its
time is not counted. SERIES is the recorded kernel if it has no preset of its own.
"""

import gzip
import pathlib
import re
import shutil
import statistics
import sys
import tomllib

FROM, TO = 500_000, 3_500_000  # microseconds
QUANTILES = 25
ENOUGH, ENOUGH_FOR_P99 = 5, 100  # delays of a take, or turns
TICK_MS = 4
# Ticks of two virtual CPUs, measured with irq_vectors:local_timer_entry (1500 ticks of two workloads): by how many us the second follows the first, and in how many of 1000
# CPU 0 is the first.
TURN_US = 25  # of more CPUs
TICKS = {"6.1": (15, 814), "6.12": (20, 827), "6.18": (11, 810), "7.3": (15, 883)}
LINE = re.compile(r"\s*(.{16}-?\S*)\s+\[(\d+)\]\s+(\S+)\s+(\d+)\.(\d{6})\d*: (\w+): (.*)")
SWITCH = re.compile(r"prev_comm=(.*?) prev_pid=(\d+) prev_prio=\S+ prev_state=(\S+) ==> next_comm=(.*?) next_pid=(\d+) next_prio=(-?\d+)")
COMM = re.compile(r"comm=(.*?) pid=(\d+)")
MOVED = re.compile(r"comm=.*? pid=(\d+) prio=(-?\d+) orig_cpu=\d+ dest_cpu=(\d+)")
MOVES = ("wakeup", "newidle", "tick", "nohz", "active", "push", "pull")


# Threads of one pool do the same work. The first group is the only CPU on which they run.
POOLS = [(re.compile(r"kworker/(\d+):.*"), "kworker/{}"), (re.compile(r"kworker/u.*"), "kworker/u"), (re.compile(r"(?:ksoftirqd|cpuhp)/(\d+)"), None)]
PLAYER = {"play", "init"}
FAIR = "120"


def pool(thread):
    """The name of a kernel thread's pool, and its CPU."""
    for pattern, name in POOLS:
        if found := pattern.fullmatch(thread):
            cpu = int(found.group(1)) if pattern.groups else None
            return (name.format(cpu) if name else thread), cpu
    return thread, None


def kind(current, cpu, flags, moved, before):
    """What moved a task, from the event in the trace: the kernel's events have no reasons. `before` is the event before it on the CPU that moved it."""
    pid, prio, to = moved.groups()
    # select_task_rq runs under the lock of sched_waking; a push of the woken task (task_woken_rt) holds those of run queues too, so preemption is disabled deeper.
    if before == ("sched_waking", pid, flags[3]):
        return "wakeup"
    if int(prio) < 100:
        return "pull" if int(to) == int(cpu) else "push"
    if current.lstrip().startswith("migration/"):
        return "active"
    # SCHED_SOFTIRQ, in an interrupt or in its thread.
    if flags[2] in "sH" or current.lstrip().startswith("ksoftirqd/"):
        return "tick" if int(to) == int(cpu) else "nohz"
    return "newidle" if int(to) == int(cpu) else None


class Figures:
    def __init__(self, trace, origin, names):
        self.moves = dict.fromkeys(MOVES, 0)
        self.lengths = {name: [] for name in names}
        before = {}  # CPU: the last event, the task that it is about, and how deep preemption was disabled
        self.run = dict.fromkeys(names, 0)
        self.turns = dict.fromkeys(names, 0)
        self.delays = {name: [] for name in names}
        self.created_on = {}
        self.migrations = 0
        self.threads = {}  # (name, CPU) of a kernel thread's pool: lengths of its turns in the window
        woken = {}
        current = {}  # CPU: [name, start of this piece, whole turn so far, start of the turn]
        other = {}  # CPU: a kernel thread that runs there, and since when
        pieces = {}  # what it has run before it was preempted
        interrupted = {}  # CPU: the same, of a task that a kernel thread has preempted
        lost = re.compile(r"LOST")
        for line in trace:
            found = LINE.match(line)
            if not found:
                if lost.search(line):
                    raise SystemExit(f"events are lost: {line}")
                continue
            doing, cpu, flags, seconds, micros, event, rest = found.groups()
            at = (int(seconds) * 1_000_000_000 + int(micros) * 1000 - origin) // 1000
            if event == "sched_waking":
                name = COMM.match(rest).group(1)
                if name in self.run:
                    woken[name] = at
            elif event == "sched_migrate_task":
                name = COMM.match(rest).group(1)
                if name in self.run and FROM <= at <= TO:
                    self.migrations += 1
                    if reason := kind(doing, cpu, flags, MOVED.match(rest), before.get(cpu)):
                        self.moves[reason] += 1
            elif event == "sched_switch":
                prev, _, state, following, pid, prio = SWITCH.match(rest).groups()
                if prev in self.run and at < 0:
                    # It sleeps there until the workload begins: the CPU on which play.c created it, if its group did not move it.
                    self.created_on[prev] = int(cpu)
                turn = current.pop(cpu, None)
                if turn:
                    name, since, so_far, began = turn
                    self.run[name] += max(0, min(at, TO) - max(since, FROM))
                    turn = [name, None, so_far + at - since, began]
                is_own = following in self.run
                if turn and not is_own and pid != "0" and state.startswith("R"):
                    interrupted[cpu] = turn
                elif turn:
                    self.ended(cpu, turn, at)
                if is_own or pid == "0":
                    if (waiting := interrupted.pop(cpu, None)) and waiting[0] != following:
                        self.ended(cpu, waiting, at)
                        waiting = None
                    if is_own:
                        if (since := woken.pop(following, None)) is not None and FROM <= since and at <= TO:
                            self.delays[following].append(at - since)
                        current[cpu] = [following, at, *((waiting[2], waiting[3]) if waiting else (0, at))]
                if thread := other.pop(cpu, None):
                    pieces[thread[0]] = pieces.get(thread[0], 0) + at - thread[1]
                    if not state.startswith("R") and FROM <= at <= TO:
                        self.threads.setdefault(pool(thread[0]), []).append(pieces.pop(thread[0]))
                if not is_own and pid != "0" and prio == FAIR and following not in PLAYER:
                    other[cpu] = (following, at)
            about = COMM.match(rest)
            before[cpu] = (event, about.group(2) if about else None, flags[3])

    def ended(self, cpu, turn, at):
        name, _, length, began = turn
        self.turns[name] += FROM <= at <= TO
        if began >= FROM and at <= TO:
            self.lengths[name].append(length)


def alike(tasks):
    sets = {}
    for name, task in tasks.items():
        key = str(sorted((key, str(value)) for key, value in task.items() if key not in ("delay", "phase"))) + str(task["phase"][1:])
        sets.setdefault(key, []).append(name)
    return [names for names in sets.values() if len(names) > 1 and "pipe" not in str(tasks[names[0]])]


def release(where):
    """The recorded release, from the log of its boot: stable releases have rules that the preset of their series need not have."""
    found = re.search(r"^== Linux (\d+\.\d+\.\d+)", (where / "log").read_text(errors="replace"), re.MULTILINE)
    return [f'release = "{found.group(1)}"'] if found else []


def read(where, take, tasks):
    """The figures of a take, or nothing if its player did not begin."""
    written = (where / f"{take}.origin").read_text().strip()
    if not written:
        print(f"{where}/{take}: not played, left out", file=sys.stderr)
        return None
    origin = int(written)
    with gzip.open(where / f"{take}.txt.gz", "rt") as trace:
        return Figures(trace, origin, tasks)


def values(take, sets):
    """The figures of one take. Tasks that differ in name only have no order: the first has the largest."""
    of = {f"share.{task}": time * 100 / (TO - FROM) for task, time in take.run.items()}
    of |= {f"turns.{task}": turns for task, turns in take.turns.items()}
    of |= {f"delay.{task}": sorted(delays)[len(delays) // 2] / 1000 for task, delays in take.delays.items() if len(delays) >= ENOUGH}
    of |= {f"delay_p99.{task}": sorted(delays)[len(delays) * 99 // 100] / 1000 for task, delays in take.delays.items() if len(delays) >= ENOUGH_FOR_P99}
    for kind, names in ((kind, names) for kind in ("share", "turns", "delay", "delay_p99") for names in sets):
        keys = [key for task in names if (key := f"{kind}.{task}") in of]
        of |= dict(zip(keys, sorted((of[key] for key in keys), reverse=True)))
    return of


def figures_of(takes):
    """The lines of the figures: the value of each take."""
    for key in takes[0]:
        of = [round(take[key], 3) for take in takes if key in take]
        if len(of) == len(takes):
            yield f'"{key}" = {of[0]}' if len(set(of)) == 1 else f'"{key}" = {{ takes = {of} }}'


def quantiles(values):
    """Those of the middles of equal parts, as in `Distribution` (crates/lab/src/validate/distance.rs)."""
    ordered = sorted(values)
    return [ordered[(2 * part + 1) * len(ordered) // (2 * QUANTILES)] for part in range(QUANTILES)]


def distance(recorded, others):
    """Of two lists of quantiles, in percent of the mean of the first."""
    return 100 * sum(abs(one - other) for one, other in zip(recorded, others)) / max(sum(recorded), QUANTILES)


def distributions(takes, tasks, sets):
    """Name of a distance: the distance of each take from the others, and the quantiles of all takes. Tasks that differ in name only are one."""
    alike = {task: names[0] for names in sets for task in names}
    found = {}
    for kind, of in (("turn", "lengths"), ("delay", "delays")):
        for first in dict.fromkeys(alike.get(task, task) for task in tasks):
            each = [[value for task, values in getattr(take, of).items() if alike.get(task, task) == first for value in values] for take in takes]
            if all(len(values) >= ENOUGH for values in each):
                rest = [[value for other, values in enumerate(each) if other != take for value in values] for take in range(len(each))]
                apart = [distance(quantiles(others), quantiles(values)) for values, others in zip(each, rest)] if len(each) > 1 else [0]
                found[f"{kind}_distance.{first}"] = apart, quantiles([value for values in each for value in values])
    return found


def threads(takes):
    """The kernel threads that ran about once per take or more often: how far apart, and how long."""
    found = {}
    for take in takes:
        for key, turns in take.threads.items():
            found.setdefault(key, []).extend(turns)
    for (name, cpu), turns in sorted(found.items(), key=str):
        if len(turns) >= len(takes):
            every = len(takes) * (TO - FROM) / 1000 / len(turns)
            where = f", cpu = {cpu}" if cpu is not None else ""
            yield f'    {{ name = "{name}", every_ms = {max(1, round(every / TICK_MS)) * TICK_MS}, run_us = {round(statistics.median(turns))}{where} }},'


def main(out, workload, cpus, *recordings):
    out, workload = pathlib.Path(out), pathlib.Path(workload)
    cpus, caches = (int(number) for number in f"{cpus}/1".split("/")[:2])
    name = workload.stem
    text = workload.read_text()
    tasks = tomllib.loads(text)["task"]
    (out / "workloads").mkdir(parents=True, exist_ok=True)
    if workload.resolve() != (out / "workloads" / workload.name).resolve():
        shutil.copy(workload, out / "workloads" / workload.name)
    title = text.splitlines()[0].removeprefix("# ").removesuffix(".")
    case = [f'title = "{title}"', f'workload = "workloads/{workload.name}"']
    if sets := alike(tasks):
        case += ["# These tasks differ in name only: they are compared in order of their figures.", f"alike = {sets}".replace("'", '"')]
    if cpus == 1:
        # The takes begin at a tick, and anywhere in the periods of RT throttling and of deadline servers.
        case += ["begins = { times = 8, every_ms = 260 }"]
    else:
        # Workloads are recorded from a tick on.
        case += ["# Which task moves depends on microseconds.", "begins = { times = 8, every_ms = 4 }"]
    # What a person wrote about a recording stays.
    before = tomllib.loads((out / f"{name}.toml").read_text()) if (out / f"{name}.toml").exists() else {}
    because = {(recorded["kernel"], recorded["on"]): recorded.get("because") for recorded in before.get("recorded", [])}
    case += ["", "[band.share]", "absolute = 0.5", "", "[band.turns]", "absolute = 2", "percent = 5", "", "[band.delay]", "absolute = 0.1", "percent = 25"]
    case += ["", "[band.delay_p99]", "absolute = 0.1", "percent = 25", "", "[band.turn_distance]", "absolute = 10", "", "[band.delay_distance]", "absolute = 25"]
    case += ["", "[band.moves]", "absolute = 5", "percent = 25"] if cpus > 1 else []
    for recording in recordings:
        kernel, _, where = recording.partition("=")
        kernel, _, series = kernel.partition(":")
        where, *settings = where.split(",")
        where = pathlib.Path(where)
        takes = [read(where, path.name.removesuffix(".txt.gz"), tasks) for path in sorted(where.glob(f"{name}.*.txt.gz"))]
        takes = [take for take in takes if take]
        on = f"{f'{series}, ' if series else ''}{cpus} virtual CPU{'s' if cpus > 1 else ''}{f' in {caches} caches' if caches > 1 else ''} in virtual time"
        case += ["", "[[recorded]]", f'kernel = "{kernel}"', *release(where), f'on = "{on}"', f"cpus = {cpus}", *([f"caches = {caches}"] if caches > 1 else [])]
        # On PREEMPT_RT user space cannot see what the timers of fair threads take: the costs are those of the stock kernel of the same source.
        case += [f'costs = "../costs/virtual-{(series or kernel).removesuffix("-rt")}.toml"']
        if cpus > 1:
            # One clock counts the instructions of all CPUs, and idle ones poll.
            case += [f"costs_times = {cpus}"]
        if cpus > 2:
            case += [f"turns_of_us = {TURN_US}"]
        elif cpus > 1:
            turn, first = TICKS[series or kernel]
            case += [f"turns_of_us = {turn}", f"first_permille = {first}"]
        case += [f'because = "{words}"'] if (words := because.get((kernel, on))) else []
        if cpus > 1:
            case += ["# Per take, the CPU on which each task slept before the start, in the order of the workload."]
            case += [f"created_on = {[[take.created_on[task] for task in tasks] for take in takes]}"]
        if rows := list(threads(takes)):
            case += ["threads = [", *rows, "]"]
        case += ["from_ms = 700", "window_ms = 3000"]
        # Debian's kernels are built without CONFIG_IRQ_TIME_ACCOUNTING.
        settings = ["irq_time_accounting=off", *settings]
        # With `idle=poll` the tick goes on in idle CPUs.
        settings += ["nohz=off"] if cpus > 1 else []
        case += ["settings = { " + ", ".join(f'"{key}" = "{value}"' for key, value in (one.split("=") for one in settings)) + " }"]
        apart = distributions(takes, tasks, sets)
        case += ["", "[recorded.figures]"]
        each = [values(take, sets) | {key: of[nth] for key, (of, _) in apart.items()} for nth, take in enumerate(takes)]
        case += figures_of([of | ({f"moves.{kind}": count for kind, count in take.moves.items()} if cpus > 1 else {}) for of, take in zip(each, takes)])
        case += ["", "[recorded.quantiles]", *(f'"{key}" = {of}' for key, (_, of) in apart.items())]
    (out / f"{name}.toml").write_text("\n".join(case) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
