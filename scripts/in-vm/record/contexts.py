#!/usr/bin/env python3
"""Compares how long turns take in a recording and in the simulation, turns of one kind with each other.

    contexts.py RECORDED WORKLOAD.toml KERNEL COSTS.toml [LEAST_US]

RECORDED is a directory of record.sh, one CPU. A turn's kind is: the turn before and how it ended, its task and how it ends, the task after, the tasks woken meanwhile, and
whether a tick came. In one kind the recorded turns differ by a microsecond or two, so that the medians tell which operation's cost is wrong, where shares and
delays only say that something is. ZEROLAG is the program (else that of target/release).
"""

import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import figures

FEWEST = 20
TICK_US = figures.TICK_MS * 1000


def turns(lines, origin_us):
    """The turns of the window as (kind, length)."""
    found, woken, current = [], [], None
    for line in lines:
        if not (match := figures.LINE.match(line)):
            continue
        *_, seconds, micros, event, text = match.groups()
        at = int(seconds) * 1_000_000 + int(micros) - origin_us
        if event == "sched_waking":
            woken.append(name(figures.COMM.match(text).group(1)))
        elif event == "sched_switch":
            before, _, state, after, *_ = figures.SWITCH.match(text).groups()
            if current and name(before) == current[0] and figures.FROM <= current[1] < figures.TO:
                end = "waits" if state[0] not in "R" else "ready"
                found.append((current[0], end, at - current[1], ",".join(sorted(woken)), current[1] // TICK_US != at // TICK_US))
            else:
                found.append(None)
            current, woken = (name(after), at), []
    kinds = {}
    for before, turn, after in zip(found, found[1:], found[2:]):
        if before and turn and after:
            kind = (f"{before[0]} {before[1]}", f"{turn[0]} {turn[1]}", after[0], turn[3], "tick" if turn[4] else "")
            kinds.setdefault(kind, []).append(turn[2])
    return kinds


def name(task):
    return "idle" if task.startswith("swapper") else task.removesuffix("-0")


def recorded(directory, case):
    kinds = {}
    for trace in sorted(pathlib.Path(directory).glob(f"{case}.*.txt.gz")):
        origin = int(trace.with_name(trace.name.replace(".txt.gz", ".origin")).read_text()) // 1000
        with figures.gzip.open(trace, "rt") as lines:
            for kind, lengths in turns(lines, origin).items():
                kinds.setdefault(kind, []).extend(lengths)
    return kinds


def simulated(workload, kernel, costs):
    zerolag = os.environ.get("ZEROLAG", pathlib.Path(__file__).parents[3] / "target/quick/zerolag")
    with tempfile.TemporaryDirectory() as directory:
        trace = pathlib.Path(directory, "trace.txt")
        options = ["--kernel", kernel, "--costs", costs, "--cpus", "1", "--background", "none", "--set", "irq_time_accounting=off"]
        subprocess.run([zerolag, "run", workload, *options, "--trace", trace, "--quiet"], check=True, stdout=subprocess.DEVNULL)
        with trace.open() as lines:
            return turns(lines, 200_000)


def main(directory, workload, kernel, costs, least="0"):
    ours, theirs = simulated(workload, kernel, costs), recorded(directory, pathlib.Path(workload).stem)
    print(f"{'before':16} {'turn':16} {'after':10} {'woken':14}      {'recorded':>14} {'simulated':>14}   us")
    for kind, lengths in sorted(theirs.items()):
        if len(lengths) < FEWEST or kind not in ours:
            continue
        error = statistics.median(ours[kind]) - statistics.median(lengths)
        if abs(error) >= float(least):
            before, turn, after, woken, tick = kind
            counts = [f"{statistics.median(some):.0f} ({len(some)})" for some in (lengths, ours[kind])]
            print(f"{before:16} {turn:16} {after:10} {woken:14} {tick:4} {counts[0]:>14} {counts[1]:>14} {error:+5.1f}")


if __name__ == "__main__":
    main(*sys.argv[1:])
