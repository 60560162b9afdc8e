#!/usr/bin/env python3
"""Prints how often and how long the kernel's own threads ran: what `run.sh IMAGE threads` brought back.

    threads.py DIRECTORY

A run begins when the thread gets a CPU and ends when it blocks: turns between which it was preempted are one run. Table in Markdown, per CPU.
"""

import pathlib
import re
import sys


def group(name):
    """The threads of a kind: kworker/0:1 and kworker/1:2H serve one CPU, kworker/u4:0 any."""
    for pattern, title in [(r"kworker/u", "kworker/u"), (r"kworker/R", "kworker/R"), (r"kworker/\d+:\d+H", "kworker/N:H"), (r"kworker/", "kworker/N")]:
        if re.match(pattern, name):
            return title
    return re.sub(r"[/.]\d+$", "/N", name)


def main():
    folder = pathlib.Path(sys.argv[1])
    machine = dict(word.split("=", 1) for word in (folder / "machine").read_text().split())
    seconds, cpus = float(machine["seconds"]), int(machine["cpus"])
    times = {}
    for name, sign in [("before.txt", -1), ("after.txt", 1)]:
        for line in (folder / name).read_text().splitlines():
            pid, comm, ns, turns = line.split()
            of = times.setdefault(pid, [comm, 0, 0])
            of[0], of[1], of[2] = comm, of[1] + sign * int(ns), of[2] + sign * int(turns)
    kernel = set(times)
    since, ran, begun, runs, gaps, last = {}, {}, {}, {}, {}, {}
    for line in (folder / "switches.txt").read_text().splitlines():
        cpu, at, before, state, after, names = line.split(" ", 5)
        at = float(at) * 1e6
        before_name, after_name = names.split(" ", 1) if " " in names else (names, "")
        if before in since:
            ran[before] = ran.get(before, 0.0) + at - since.pop(before)
            if not state.startswith("R"):
                runs.setdefault(group(before_name), []).append(ran.pop(before))
                begun.pop(before, None)
        if after in kernel or re.match(r"kworker|rcu|ksoftirqd", after_name):
            since[after] = at
            if after not in begun:
                begun[after] = at
                key = group(after_name)
                if (key, cpu) in last:
                    gaps.setdefault(key, []).append(at - last[key, cpu])
                last[key, cpu] = at
    print(" ".join(f"{key}={value}" for key, value in machine.items()))
    print("| thread | runs per second | median, us | 90 %, us | longest, us | median distance, ms | share, % |\n|---|" + "--:|" * 6)
    for key in sorted(runs, key=lambda key: -len(runs[key])):
        of, apart = sorted(runs[key]), sorted(gaps.get(key, [0.0]))
        place = lambda q: of[min(int(len(of) * q), len(of) - 1)]
        rate, share = len(of) / seconds / cpus, sum(of) / seconds / cpus / 1e4
        print(f"| `{key}` | {rate:.2f} | {place(0.5):.0f} | {place(0.9):.0f} | {of[-1]:.0f} | {apart[len(apart) // 2] / 1000:.1f} | {share:.3f} |")
    # What the kernel itself counted, also of threads that the filter does not name.
    total = {}
    for comm, ns, turns in times.values():
        if turns > 0:
            of = total.setdefault(group(comm), [0, 0])
            of[0], of[1] = of[0] + ns, of[1] + turns
    for key, (ns, turns) in sorted(total.items(), key=lambda item: -item[1][1]):
        print(f"schedstat: {key} {turns / seconds / cpus:.2f} turns per second, {ns / seconds / cpus / 1e7:.3f} %", file=sys.stderr)


main()
