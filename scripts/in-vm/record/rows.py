#!/usr/bin/env python3
"""Turns recordings of busy loops under cpu.max into rows of conformance/bandwidth/busy-loops.csv.

    rows.py KERNEL CPUS DIRECTORY >> busy-loops.csv

DIRECTORY is that of record.sh, whose workloads were `busy-loops.toml:loops=N,max=QUOTA PERIOD,count=/g FROM TO`. CPU time is from the trace, the other figures
are from cpu.stat; each is the mean of the takes.
"""

import gzip
import pathlib
import re
import statistics
import sys

import figures

CASE = re.compile(r"== case (busy-loops-(\d+)-(\d+)-(\d+)), take (\d+): code 0, origin (\d+) (.*?), overrun")
FROM, TO = 1_000_000, 6_000_000  # microseconds, as in `count`


def take(where, found):
    name, loops, _, _, number, origin, counters = found.groups()
    loops = int(loops)
    names = [f"loop-{i}" for i in range(loops)] if loops > 1 else ["loop"]
    counters = {key: int(value) for key, value in re.findall(r"(\S+\.\S+) (\d+)", counters)}
    with gzip.open(where / f"{name}.{number}.txt.gz", "rt") as trace:
        run = figures.Figures(trace, int(origin), names).run
    counted = {key: counters[f"to.{key}"] - counters[f"from.{key}"] for key in ("nr_throttled", "throttled_usec")}
    return sum(run.values()) * 100 / (TO - FROM), counted["nr_throttled"], counted["throttled_usec"] / 1000


def main(kernel, cpus, where):
    figures.FROM, figures.TO = FROM, TO
    where, cpus = pathlib.Path(where), int(cpus)
    on = f"{cpus} virtual CPU{'s' if cpus > 1 else ''} in virtual time"
    cases = {}
    for line in (where / "log").read_text().splitlines():
        if found := CASE.match(line):
            cases.setdefault(found.groups()[:4], []).append(take(where, found))
    for (_, loops, quota, period), takes in cases.items():
        print(f"{len(takes)} takes: {takes}", file=sys.stderr)
        used, count, throttled = (statistics.fmean(values) for values in zip(*takes))
        turns, nohz = (figures.TICKS[kernel][0], "off") if cpus > 1 else ("", "")
        print(
            f"{kernel},{on},{cpus},{loops} loop{'s' if loops != '1' else ''} {quota} {period},{FROM // 1000},{(TO - FROM) // 1000},{loops},{quota} {period},"
            f"{used:.2f},{count:g},{throttled:.1f},,../costs/virtual-{kernel}.toml,off,{turns},{nohz}"
        )


if __name__ == "__main__":
    main(*sys.argv[1:])
