#!/usr/bin/env python3
"""Writes workloads in which a task sets the policy of other tasks, one per pair of policies, for record.sh.

    pairs.py OUT    writes OUT/POLICY-POLICY.toml (one CPU), OUT/absent-POLICY.toml, and OUT/two/running-POLICY-POLICY.toml (two CPUs) for pairs without SCHED_DEADLINE

`x` computes most of the time and `y` sleeps most of the time; every 18.7 ms the task `changer`, more urgent than both, gives one of them, in turn, the other policy of the
pair. 18.7 ms is no multiple of a tick. `hog` is a fair task beside them. On one CPU a changed task waits or sleeps, since the changing one runs. On two CPUs the tasks are confined
to CPU 1 and the changing one to CPU 0, so that the changed task runs, waits or sleeps.
"""

import itertools
import pathlib
import sys

POLICIES = {
    "other": 'policy = "SCHED_OTHER", nice = 0',
    "batch": 'policy = "SCHED_BATCH", nice = 0',
    "idle": 'policy = "SCHED_IDLE", nice = 0',
    "fifo": 'policy = "SCHED_FIFO", priority = 5',
    "rr": 'policy = "SCHED_RR", priority = 5',
    "deadline": 'policy = "SCHED_DEADLINE", runtime = "2ms", deadline = "10ms", period = "10ms"',
}
APART_US, COMPUTES_US = 18_700, 200
HALF_US = COMPUTES_US // 2 + 25  # after its timer: it wakes some us later
AWAY_EVERY_US, AWAY_US = 23_300, 3_100
BEGIN_US, END_US = 201_000, 3_800_000


def task(name, index, lines, work):
    out = ["", f"[task.{name}]", f'delay = "{index * 3000}us"', *lines]
    out += [f"[[task.{name}.phase]]", 'name = "start"', f'steps = [{{ run = "300us" }}, {{ timer = {{ period = "{BEGIN_US - 3000 * index}us" }} }}]']
    return out + [f"[[task.{name}.phase]]", 'name = "work"', "loop = 1000000000", f"steps = [{work}]"]


def text(one, other, cpus):
    def on(cpu):
        return [f'cpus = "{cpu}"'] if cpus > 1 else []

    def of(policy):
        return POLICIES[policy].split(", ")

    changes = []
    for number in range(END_US // APART_US):
        at = BEGIN_US + APART_US * (number + 1) + HALF_US
        policy = other if number // 2 % 2 == 0 else one
        changes.append(f'    {{ at = "{at}us", task = "{"xy"[number % 2]}", {POLICIES[policy]} }},')
    out = [f"# A task changes two others from {one} to {other} and back{', while they run too' if cpus > 1 else ''}.", 'duration = "4200ms"', "change = [", *changes, "]"]
    if "deadline" in (one, other):
        # No admission test: after some tens of these changes 7.3.4 refuses the next one (EBUSY) although a third of the bandwidth is in use; not explained.
        out += ["", "[settings]", 'rt_throttling = "off"']
    # Two real-time policies: beside a task that always computes no other would run.
    work = '{ run = "7ms" }, { sleep = "3ms" }' if {one, other} == {"fifo", "rr"} else '{ run = "100ms" }'
    out += task("hog", 0, [*of("other"), *on(1)], '{ run = "100ms" }')
    out += task("x", 1, [*of(one), *on(1)], work)
    out += task("y", 2, [*of(one), *on(1)], '{ run = "400us" }, { sleep = "6100us" }')
    out += task("changer", 3, ['policy = "SCHED_FIFO"', "priority = 90", *on(0)], f'{{ timer = {{ period = "{APART_US}us" }} }}, {{ run = "{COMPUTES_US}us" }}')
    return "\n".join(out) + "\n"


def absent(other):
    """A task leaves SCHED_DEADLINE for 3.1 ms and comes back, mostly before its deadline."""
    changes = []
    for number in range(END_US // AWAY_EVERY_US):
        for at, policy in ((0, other), (AWAY_US, "deadline")):
            changes.append(f'    {{ at = "{BEGIN_US + AWAY_EVERY_US * (number + 1) + HALF_US + at}us", task = "x", {POLICIES[policy]} }},')
    out = [f"# A deadline task becomes {other} for 3.1 ms and comes back.", 'duration = "4200ms"', "change = [", *changes, "]", "", "[settings]", 'rt_throttling = "off"']
    out += task("hog", 0, POLICIES["other"].split(", "), '{ run = "100ms" }')
    out += task("x", 1, POLICIES["deadline"].split(", "), '{ run = "100ms" }')
    away = f'{{ timer = {{ period = "{AWAY_EVERY_US}us" }} }}, {{ run = "{COMPUTES_US}us" }}, {{ sleep = "{AWAY_US - COMPUTES_US}us" }}, {{ run = "{COMPUTES_US}us" }}'
    # A deadline task of its own, with an earlier deadline: another one would preempt it between its timer and its change.
    urgent = ['policy = "SCHED_DEADLINE"', 'runtime = "500us"', 'deadline = "1ms"', 'period = "1ms"']
    out += task("changer", 2, urgent, away)
    return "\n".join(out) + "\n"


def main(out):
    out = pathlib.Path(out)
    (out / "two").mkdir(parents=True, exist_ok=True)
    for one, other in itertools.combinations(POLICIES, 2):
        (out / f"{one}-{other}.toml").write_text(text(one, other, 1))
        if other == "deadline" and one in ("other", "fifo"):
            (out / f"absent-{one}.toml").write_text(absent(one))
        if other != "deadline":
            (out / "two" / f"running-{one}-{other}.toml").write_text(text(one, other, 2))


if __name__ == "__main__":
    main(*sys.argv[1:])
