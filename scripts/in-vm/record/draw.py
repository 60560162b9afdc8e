#!/usr/bin/env python3
"""Draws workloads that no rule was fitted to, for fresh.sh: the same seed and count give the same files.

    draw.py SEED COUNT CPUS OUT    writes OUT/drawn-CPUS-NUMBER.toml, from 0 to COUNT - 1

Each is a few tasks on one or two CPUs, of which at least one per CPU always computes: fair tasks with nice values and policies, in groups with weights and
limits, that compute, sleep or run periodically; FIFO, RR and deadline tasks; tasks that change their policy in mid-run. The fields are independent draws,
so mechanisms meet that no case was written for. Number N of a seed does not depend on the count.
"""

import math
import pathlib
import random
import sys

FIRST_US, APART_US = 201_000, 300  # the tasks begin one after the other, in the order of the file
FOREVER = 1_000_000_000
WINDOW_US = 3_600_000  # to the end of what is measured, from the start of the workload


def about(dice, least, most):
    """A time in us, as likely between 1 and 2 as between 2 and 4, of two digits."""
    drawn = math.exp(dice.uniform(math.log(least), math.log(most)))
    digit = 10 ** max(0, math.floor(math.log10(drawn)) - 1)
    return round(drawn / digit) * digit


def groups(dice, cpus):
    """Paths with their lines."""
    found = {}
    for index in range(dice.choice([0, 0, 0, 1, 1, 2, 2, 3])):
        above = dice.choice(list(found)) if found and dice.random() < 0.35 else ""
        lines = []
        if dice.random() < 0.12:
            lines.append('"cpu.idle" = 1')
        elif dice.random() < 0.7:
            lines.append(f'"cpu.weight" = {dice.choice([1, 10, 50, 100, 200, 500])}')
        if dice.random() < 0.35:
            period = dice.choice([5, 10, 20, 50, 100, 100]) * 1000
            percent = dice.choice([10, 20, 30, 50, 70] + [120] * (cpus > 1))
            lines.append(f'"cpu.max" = "{max(1000, period * percent // 100)} {period}"')
        found[f"{above}/g{index}"] = lines
    return found


def fair(dice):
    """The attributes of a fair task."""
    policy = dice.choices(["SCHED_OTHER", "SCHED_BATCH", "SCHED_IDLE"], [84, 8, 8])[0]
    nice = 0 if dice.random() < 0.5 else dice.choice([-10, -5, -2, -1, 1, 2, 5, 10, 19])
    return [f'policy = "{policy}"', f"nice = {nice}"]


def real_time(dice):
    return [f'policy = "{dice.choice(["SCHED_FIFO", "SCHED_RR"])}"', f"priority = {dice.choice([1, 2, 5, 10])}"]


def steps(*steps):
    return "steps = [" + ", ".join(f'{{ {verb} = "{value}us" }}' if verb != "timer" else f'{{ timer = {{ period = "{value}us" }} }}' for verb, value in steps) + "]"


def computes(dice):
    return steps(("run", 100_000))


def sleeps(dice):
    return steps(("run", about(dice, 50, 20_000)), ("sleep", about(dice, 100, 50_000)))


def ticks(dice):
    period = about(dice, 2_000, 60_000)
    return steps(("run", max(50, int(period * dice.uniform(0.03, 0.6)))), ("timer", period))


def changing(dice):
    """Phases of different policies, each for some hundreds of ms of its own time; the last stays."""
    phases, left = [], WINDOW_US
    kinds = [fair, real_time, fair]
    at = dice.randrange(2)
    while left > 0 and len(phases) < 12:
        run, sleep = about(dice, 200, 8_000), about(dice, 500, 20_000)
        loops = max(1, dice.randrange(100_000, 400_000) // (run + sleep))
        phases.append((kinds[at % 2](dice), loops, steps(("run", run), ("sleep", sleep))))
        left -= loops * (run + sleep)
        at += 1
    return phases


def light(dice):
    """Steps of a real-time task: at most a third of a CPU."""
    period = about(dice, 2_000, 50_000)
    return steps(("run", max(50, int(period * dice.uniform(0.02, 0.33)))), ("timer", period))


def deadline(dice, free):
    period = about(dice, 5_000, 60_000)
    part = min(free, dice.uniform(0.05, 0.35))
    runtime = max(1000, int(period * part) // 10 * 10)
    deadline = period if dice.random() < 0.7 else max(runtime, int(period * dice.uniform(0.5, 1.0)) // 10 * 10)
    lines = ['policy = "SCHED_DEADLINE"', f'runtime = "{runtime}us"', f'deadline = "{deadline}us"', f'period = "{period}us"']
    work = computes(dice) if dice.random() < 0.25 else steps(("run", int(runtime * dice.uniform(0.4, 1.2))), ("timer", period))
    return lines, work, runtime / period


def workload(dice, cpus):
    paths = groups(dice, cpus)
    free = 0.5 * cpus  # of the bandwidth of deadline tasks
    tasks = []  # attributes, phases
    count = dice.randint(2, 6) if cpus == 1 else dice.randint(3, 8)
    for index in range(count):
        kind = "computes" if index < cpus else dice.choices(
            ["computes", "sleeps", "ticks", "rt", "rt hog", "dl", "changing"], [24, 30, 16, 10, 3, 9, 8])[0]
        if kind == "dl" and free < 0.1:
            kind = "sleeps"
        phases = None
        if kind == "dl":
            lines, work, used = deadline(dice, free)
            free -= used
        elif kind.startswith("rt"):
            lines, work = real_time(dice), computes(dice) if kind == "rt hog" else light(dice)
        elif kind == "changing":
            phases = changing(dice)
            lines = phases[0][0]
        else:
            lines, work = fair(dice), {"computes": computes, "sleeps": sleeps, "ticks": ticks}[kind](dice)
            if paths and dice.random() < 0.6:
                lines = [*lines, f'group = "{dice.choice(list(paths))}"']
        if cpus > 1 and kind != "dl" and dice.random() < 0.12:
            lines = [*lines, f'cpus = "{dice.randrange(cpus)}"']
        tasks.append((kind.replace(" ", "-"), lines, phases or [([], FOREVER, work)]))
    dice.shuffle(tasks)
    # A group with groups below it has no tasks of its own in the kernel.
    parents = {path.rsplit("/", 1)[0] for path in paths}
    leaf = {path: next(other for other in paths if other.startswith(path) and other not in parents) for path in paths}
    return paths, [(kind, [line if not line.startswith("group") else f'group = "{leaf[line.split(chr(34))[1]]}"' for line in lines], phases) for kind, lines, phases in tasks]


def text(title, paths, tasks):
    out = [f"# {title}", f'duration = "4200ms"']
    for path, lines in paths.items():
        out += ["", f'[group."{path}"]', *lines]
    for index, (kind, lines, phases) in enumerate(tasks):
        name = f"{kind.replace('-', '')}{index}"
        begins = FIRST_US + index * APART_US - index * 3_000
        out += ["", f"[task.{name}]", f'delay = "{index * 3000}us"', *lines]
        out += [f"[[task.{name}.phase]]", 'name = "start"', f'steps = [{{ run = "300us" }}, {{ timer = {{ period = "{begins}us" }} }}]']
        for number, (attributes, loops, work) in enumerate(phases):
            last = number + 1 == len(phases)
            label = "work" if number == 0 else f"work{number}"
            out += [f"[[task.{name}.phase]]", f'name = "{label}"', *(attributes if number else []), f"loop = {FOREVER if last else loops}", work]
    return "\n".join(out) + "\n"


def main(seed, count, cpus, out):
    count, cpus, out = int(count), int(cpus), pathlib.Path(out)
    out.mkdir(parents=True, exist_ok=True)
    for number in range(count):
        dice = random.Random(f"{seed} {cpus} {number}")
        paths, tasks = workload(dice, cpus)
        title = f"Workload {number} of seed {seed} on {cpus} CPU{'s' if cpus > 1 else ''}: {len(tasks)} tasks, {len(paths)} groups."
        (out / f"drawn-{cpus}-{number:02}.toml").write_text(text(title, paths, tasks))


if __name__ == "__main__":
    main(*sys.argv[1:])
