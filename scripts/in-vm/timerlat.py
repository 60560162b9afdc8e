#!/usr/bin/env python3
"""Compares the latencies of `run.sh IMAGE timerlat` with simulations under the profiles of that boot.

    timerlat.py DIRECTORY [ARGUMENTS OF zerolag timerlat]

ZEROLAG is the program (else `zerolag`). Prints a table in Markdown: the host's runs and, between them, the simulation with the profile that was recorded
there. The last columns are the largest factor between two runs of the host in a row, and between a simulation and the run before or after it. Other figures
than those of the table go to stderr: samples, the largest, and quantiles per CPU.
"""

import os
import pathlib
import subprocess
import sys

PLACES = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999)]
CONTEXTS = ["irq", "thread"]
CLASS_NS, CLASSES = 100, 1_000_000


def quantiles(samples):
    samples.sort()
    return [samples[min(int(len(samples) * place), len(samples) - 1)] for _, place in PLACES]


def host(path):
    """Latencies by context."""
    of = {context: [] for context in CONTEXTS}
    for line in path.read_text().splitlines():
        _, _, context, ns = line.split()
        of[context].append(int(ns))
    return of


def simulated(zerolag, machine, profile, more):
    release = ".".join(machine["release"].split(".")[:2])
    command = [zerolag, "timerlat", "hist", "--nano", "-b", str(CLASS_NS), "-E", str(CLASSES), "--no-header", "--no-summary", "-q"]
    command += ["-p", "1000", "-P", "f:95", "-d", machine["seconds"], "--cpus", machine["cpus"], "--kernel", release, "--costs", str(profile)]
    command += ["--noise", "none", "--load", machine["load"]] + ([f"--set=preempt={machine['preempt']}"] if machine.get("preempt") else []) + more
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    of = {context: [] for context in CONTEXTS}
    for line in text.splitlines():
        fields = line.split()
        if not fields or not fields[0].isdigit():
            continue
        at, counts = int(fields[0]) + CLASS_NS // 2, [int(field) for field in fields[1:]]
        for index, context in enumerate(CONTEXTS):
            of[context] += [at] * sum(counts[index::2])
    return of


def factor(a, b):
    return max(a, b) / max(min(a, b), 1)


def main():
    folder, more = pathlib.Path(sys.argv[1]), sys.argv[2:]
    machine = dict(word.split("=", 1) for word in (folder / "machine").read_text().split())
    number = lambda path: int(path.name.split(".")[1])
    # A boot that was cut short has a profile without a run after it.
    profiles = [path for path in sorted(folder.glob("profile.*.toml"), key=number) if (folder / f"host.{number(path)}.txt").exists()]
    hosts = [host(folder / f"host.{n}.txt") for n in range(len(profiles) + 1)]
    simulations = [simulated(os.environ.get("ZEROLAG", "zerolag"), machine, profile, more) for profile in profiles]
    print(" ".join(f"{key}={value}" for key, value in machine.items()) + ", microseconds")
    head = ["host"] + ["simulated", "host"] * len(profiles) + ["host, in a row", "simulated, its neighbours"]
    print("| | " + " | ".join(head) + " |\n|---|" + "--:|" * len(head))
    for context in CONTEXTS:
        for run in hosts + simulations:
            print(context, len(run[context]), "samples, largest", max(run[context], default=0), file=sys.stderr)
        real, ours = [quantiles(run[context]) for run in hosts], [quantiles(run[context]) for run in simulations]
        for row, (name, _) in enumerate(PLACES):
            cells = [real[0][row]]
            for before, run in zip(ours, real[1:]):
                cells += [before[row], run[row]]
            spread = max((factor(a[row], b[row]) for a, b in zip(real, real[1:])), default=1)
            off = max((factor(a[row], b[row]) for n, a in enumerate(ours) for b in real[n : n + 2]), default=1)
            shown = [f"{ns / 1000:.1f}" for ns in cells] + [f"{spread:.2f}", f"{off:.2f}"]
            print(f"| {context}: {name} | " + " | ".join(shown) + " |")


main()
