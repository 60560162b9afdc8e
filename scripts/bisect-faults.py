#!/usr/bin/env python3
"""Asks `zerolag compare --bisect` which fault two kernels differ in: for every known fault that one preset has and a neighbour has not.

    scripts/bisect-faults.py [KEY ...]

The workloads are the scenarios of the fault's spec, without a kernel and a value of their own for the fault, under the settings and costs of the
spec's blocks; the kernels are the last preset with the fault and the first one without, and the last one before it and the first one with. A fault is
named if it is in the answer, and matters if it is told so; the best of all runs counts. Prints a row each, and the sums, for docs/lab. ZEROLAG is the
program.
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
ZEROLAG = os.environ.get("ZEROLAG", os.path.join(HERE, "../target/quick/zerolag"))
# Costs by distance, and the others: all are zero but those of a block.
BY_DISTANCE = ["ipi_latency", "ipi_work", "rq_lock_transfer", "cache_refill"]
PLAIN = ["context_switch", "fair_switch", "wakeup_local", "wakeup_remote", "fair_wakeup", "queued_wakeup", "syscall", "waiting_call", "sleep_call",
         "boost", "unboost", "pipe_io", "ipi_send", "ipi_handler", "inner_lock", "timer_irq", "tick", "fair_tick", "hrtick", "rq_lock_hold", "scan_per_cpu",
         "scan_per_task", "migrate_task", "throttle", "idle_exit"]
# Words of a block that say what is shown of a run.
SHOWN = {"only", "from", "to", "step", "settle", "violates", "kernel", "seed", "costs"}
BLOCK = re.compile(r"^```(?:timeline|switches|events|totals|end)\b(.*)$", re.M)


def zerolag(*args):
    return subprocess.run([ZEROLAG, *args], capture_output=True, text=True, timeout=600)


def version(name):
    return [int(part) for part in name.split(".")]


def costs(words, directory):
    """The option for the costs of a block."""
    given = {key[5:]: value for key, value in words if key.startswith("cost.")}
    if not given:
        return ["--costs", "zero"]
    lines = [f'{key} = "{given.get(key, "0ns")}"' for key in PLAIN]
    for key in BY_DISTANCE:
        value = given.get(key, "0ns")
        lines.append(f'{key} = {{ smt = "{value}", llc = "{value}", socket = "{value}", remote = "{value}" }}')
    path = os.path.join(directory, "costs.toml")
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
    return ["--costs", path]


def variations(text, names):
    """Scenarios without a kernel and the fault's setting, each with the words of its blocks."""
    found = []
    for part in text.split("\n```toml\n")[1:]:
        scenario, rest = part.split("```", 1)
        own = "|".join(re.escape(name) for name in names)
        scenario = re.sub(rf'^(kernel|"?({own})"?)\s*=.*\n', "", scenario, flags=re.M)
        blocks = {}
        for block in BLOCK.finditer(rest):
            words = [tuple(word.split("=", 1)) for word in block.group(1).split() if "=" in word]
            words = [(key, value) for key, value in words if key not in SHOWN and key not in names]
            blocks[tuple(words)] = True
        found.extend((scenario, words) for words in blocks or {(): True})
    return found


def bisect(scenario, words, kernels, directory):
    """The bisection of two kernels; None if nothing differs or it is refused."""
    path = os.path.join(directory, "scenario.toml")
    with open(path, "w") as file:
        file.write(scenario)
    args = ["compare", path, "--kernel", kernels[0], "--kernel", kernels[1], "--bisect", "--runs", "1", "--json", "-q"]
    args += costs(words, directory)
    for key, value in words:
        if key == "duration":
            args += ["--duration", value]
        elif key == "cpus":
            args += ["--cpus", value]
        elif not key.startswith("cost."):
            args += ["--set", f"{key}={value}"]
    ended = zerolag(*args)
    return json.loads(ended.stdout)["bisection"] if ended.returncode == 0 else None


def main():
    known = json.loads(zerolag("settings", "--faults", "--json").stdout)
    presets, wanted = known["kernels"], sys.argv[1:]
    sums = {"named": 0, "matters": 0, "other": 0, "nothing": 0}
    print("| fault | kernels | figure | answer | |\n|---|---|---|---|---|")
    began = time.monotonic()
    for fault in known["faults"]:
        if not fault["presets"] or (wanted and fault["key"] not in wanted):
            continue
        key, having = fault["key"], fault["presets"]
        after = [name for name in presets if version(name) > version(having[-1])]
        before = [name for name in presets if version(name) < version(having[0])]
        pairs = [pair for pair in ((having[-1], after[0] if after else None), (before[-1] if before else None, having[0])) if None not in pair]
        name = key if fault["wrong"] == "on" else f"{key} = {fault['wrong']}"
        with open(os.path.join(HERE, "../specs", fault["spec"])) as file:
            text = file.read()
        best = ("nothing", None, None)
        with tempfile.TemporaryDirectory() as directory:
            for scenario, words in variations(text, {key, key.removeprefix("fault.")}):
                for pair in pairs:
                    found = bisect(scenario, words, pair, directory)
                    if found is None:
                        continue
                    answer = [one["key"] for one in found["settings"] if one["together_share"] is not None]
                    matters = any(one["name"] == name and one["matters"] for one in found["faults"])
                    rank = "named" if key in answer and found["explained"] else "matters" if matters else "other"
                    order = list(sums)
                    if best[1] is None or order.index(rank) < order.index(best[0]):
                        best = (rank, pair, found)
                if best[0] == "named":
                    break
        rank, pair, found = best
        sums[rank] += 1
        if found is None:
            print(f"| `{name}` | | | | nothing differs |", flush=True)
            continue
        answer = ", ".join(f"`{one['key']}`" for one in found["settings"] if one["together_share"] is not None)
        said = "" if found["explained"] else "not explained"
        print(f"| `{name}` | {pair[0]}, {pair[1]} | {found['owner']} {found['figure']} | {answer} | {rank} {said}{', cut' if found['cut'] else ''} |", flush=True)
    print(f"\n{sums}, {time.monotonic() - began:.0f} s")


main()
