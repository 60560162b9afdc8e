#!/usr/bin/env python3
"""Prints what models.sh brought back, beside simulations with the same models and loads.

    models.py DIRECTORY [ARGUMENTS OF zerolag, for example --costs PROFILE]

ZEROLAG is the program (else `zerolag`). Two tables in Markdown: timerlat's quantiles in microseconds and, in the last column, how many times the host's the
simulated figure is; and osnoise per second.
"""

import os
import pathlib
import subprocess
import sys

PLACES = [("p50", 0.5), ("p99", 0.99), ("p99.9", 0.999), ("max", 1.0)]
MODELS = ["none", "voluntary", "full", "lazy", "rt"]
LOADS = ["none", "kernel"]
CONTEXTS = ["irq", "thread"]
CLASS_NS, CLASSES = 100, 1_000_000


def quantiles(samples):
    samples = sorted(samples)
    return [samples[min(int(len(samples) * place), len(samples) - 1)] / 1000 for _, place in PLACES] if samples else [0.0] * len(PLACES)


def zerolag(tool, machine, model, load, more):
    release = ".".join(machine["release"].split(".")[:2])
    command = [os.environ.get("ZEROLAG", "zerolag"), *tool, "-d", machine["seconds"], "--cpus", machine["cpus"], "--kernel", release]
    command += ["--noise", "none", "--load", load, f"--set=preempt={model}", "-q", *more]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def timerlat(machine, model, load, more):
    tool = ["timerlat", "hist", "--nano", "-b", str(CLASS_NS), "-E", str(CLASSES), "--no-header", "--no-summary", "-p", "1000", "-P", "f:95"]
    of = {context: [] for context in CONTEXTS}
    for line in zerolag(tool, machine, model, load, more).splitlines():
        fields = line.split()
        if fields and fields[0].isdigit():
            for context, count in zip(CONTEXTS, fields[1:]):
                of[context] += [int(fields[0]) + CLASS_NS // 2] * int(count)
    return of


def osnoise(machine, model, load, priority, more):
    tool = ["osnoise", "top", "-P", "o:0" if priority == "other" else f"f:{priority}"]
    if priority != "other":
        tool += ["--set=fair_server=off", "--set=rt_throttling=off"]
    row = zerolag(tool, machine, model, load, more).splitlines()[-1].split()
    # CPU, period, runtime, noise, available, most noise in a period, longest gap, counts.
    seconds = int(row[2]) / 1e6
    return [float(row[4]), int(row[6])] + [int(count) / seconds for count in row[7:12]]


def host_osnoise(path):
    rows = [line.split() for line in path.read_text().splitlines()]
    seconds = sum(int(row[1]) for row in rows) / 1e6
    available = 100 * (1 - sum(int(row[2]) for row in rows) / 1e6 / seconds)
    return [available, max(int(row[4]) for row in rows)] + [sum(int(row[n]) for row in rows) / seconds for n in range(5, 10)]


def main():
    folder, more = pathlib.Path(sys.argv[1]), sys.argv[2:]
    models = [model for model in MODELS if (folder / model / "machine").exists()]
    machine = {model: dict(word.split("=", 1) for word in (folder / model / "machine").read_text().split()) for model in models}
    for model in models:
        print(f"{model}: {machine[model]}", file=sys.stderr)
        assert machine[model]["preempt"] == model, machine[model]
    head = [f"host {name}" for name, _ in PLACES] + [f"simulated {name}" for name, _ in PLACES] + ["factors"]
    for load in LOADS:
        print(f"\nload {load}\n\n| | model | " + " | ".join(head) + " |\n|---|---|" + "--:|" * len(head))
        for context in CONTEXTS:
            for model in models:
                lines = [line.split() for line in (folder / model / f"host.{load}.txt").read_text().splitlines()]
                real = quantiles([int(line[3]) for line in lines if line[2] == context])
                ours = quantiles(timerlat(machine[model], model, load, more)[context])
                factors = ", ".join(f"{b / a:.2g}" for a, b in zip(real, ours))
                cells = [f"{us:.1f}" for us in real + ours]
                print(f"| {context} | `{model}` | " + " | ".join(cells) + f" | {factors} |")
    columns = ["available, %", "longest gap, us", "no cause", "NMIs", "interrupts", "softirqs", "threads"]
    print("\n| load | threads of | model | | " + " | ".join(columns) + " |\n|---|---|---|---|" + "--:|" * len(columns))
    for load in LOADS[1:]:
        for priority in ["other", "95"]:
            for model in models:
                path = folder / model / f"osnoise.{load}.{priority}.txt"
                runs = [("host", host_osnoise(path))] if path.exists() and path.read_text() else []
                for whose, row in runs + [("simulated", osnoise(machine[model], model, load, priority, more))]:
                    cells = [f"{row[0]:.2f}"] + [f"{figure:.0f}" for figure in row[1:]]
                    print(f"| {load} | {priority} | `{model}` | {whose} | " + " | ".join(cells) + " |")


main()
