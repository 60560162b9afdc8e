#!/usr/bin/env python3
"""Imports the recordings of scripts/what-if-vm.sh, simulates each change with SEEDS (6) seeds, and compares it with what the change did.

    scripts/what-if-vm.py DIRECTORY [PROGRAM ...]

Prints per machine and program the base error of each figure (the recorded settings, simulated) and a table for docs/lab: the range over seeds of each recording,
and the values of each take. An open client sends at other instants in each take, so a recording is compared with the take of the same number only, which has
its instants: it is the same load under the other limit. Then how many measured values are inside, and how many rows meet the goals (the median predicted value is within GOALS of the median
measured one), by half. `*` marks figures of `--form fitted`, which has requests; all others are of the exact form, imported as the guide says, with `--work`.
ZEROLAG is the program. Files that are written: DIRECTORY/CPUS/PROGRAM.TAKE.toml and .fitted.toml, DIRECTORY/results.json.
"""
import json
import os
import re
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PLAN = os.environ.get("PLAN", os.path.join(HERE, "in-vm/what-if/plan.txt"))
ZEROLAG = os.environ.get("ZEROLAG", os.path.join(HERE, "../target/quick/zerolag"))
SEEDS = range(int(os.environ.get("SEEDS", "6")))
SERVER = "/zl/server"
CLIENT = "/zl/client"
# By which share a predicted value may be off, or by how much in its unit where that is more.
GOALS = {"throttled periods": (0.2, 2), "throttled ms": (0.2, 50), "CPU s": (0.2, 0.02), "requests/s": (0.1, 0), "seconds": (0.1, 0), "p50 ms": (1 / 3, 0.1), "p99 ms": (1 / 3, 0.1)}


def run(*words):
    done = subprocess.run([ZEROLAG, *words], capture_output=True, text=True)
    if done.returncode not in (0, 99):
        raise RuntimeError(f"zerolag {' '.join(words)}: {done.stderr}")
    return done.stdout


def plan():
    programs = {}
    for line in open(PLAN):
        match line.split():
            case ["program", name, half, kind, server, end]:
                programs[name] = {"half": half, "kind": kind, "server": server, "end": end, "changes": {}}
            case ["change", name, change, quota, period, burst, workers]:
                programs[name]["changes"][change] = (quota, period, burst, workers)
    return programs


def stat(path):
    """The instant and the server's counters."""
    words = [line.split() for line in open(path)]
    return int(next(word[1] for word in words if word[0] == "at")), {word[1]: int(word[2]) for word in words if word[0] == "server"}


def measured(take):
    (began, before), (ended, after) = stat(f"{take}/stat.before"), stat(f"{take}/stat.after")
    of = {key: after[key] - before[key] for key in after}
    text = open(f"{take}/out").read()
    found = {"throttled periods": of["nr_throttled"], "throttled ms": of["throttled_usec"] / 1e3, "CPU s": of["usage_usec"] / 1e6, "seconds": (ended - began) / 1e9}
    if said := re.search(r"answered (\d+)", text):
        found["requests/s"] = int(said[1]) / found["seconds"]
    if said := re.search(r"p50 ([\d.]+) p99 ([\d.]+) ms", text):
        found["p50 ms"], found["p99 ms"] = float(said[1]), float(said[2])
    if said := re.search(r'^"GET",(.*)$', text, re.M):
        columns = [float(one.strip('"')) for one in said[1].split(",")]
        found["requests/s"], found["p50 ms"], found["p99 ms"] = columns[0], columns[3], columns[5]
    return found


def plain(name):
    """The recorded name of a simulated thread: `worker` of `worker:31462-0`."""
    return re.sub(r"(#\d+|(:\d+)+(-\d+)?|-\d+)$", "", name)


def trace_start(path):
    """The first instant of a recording, in ns."""
    for line in open(path, errors="replace"):
        if found := re.search(r" (\d+)\.(\d{6}): ", line):
            return int(found[1]) * 1_000_000_000 + int(found[2]) * 1000
    raise RuntimeError(f"{path} is empty")


def figures(report, take, program, fitted):
    of = next(one["cpu.stat"] for one in report["groups"] if one["path"] == SERVER)
    found = {"throttled periods": of["nr_throttled"], "throttled ms": of["throttled_usec"] / 1e3, "CPU s": of["usage_usec"] / 1e6}
    if fitted:
        services = [one for one in report["services"] if one["group"] == SERVER]
        if services:
            busiest = max(services, key=lambda one: one["arrived"])
            latency = busiest["request_latency"]
            found = {f"{key}*": value for key, value in found.items()}
            # The client measures until it reads the answer. The quantile of a sum is that of its parts where one of them decides.
            clients = [one for one in report["services"] if one["group"] == CLIENT and one["arrived"] * 2 > busiest["arrived"]]
            reads = max(clients, key=lambda one: one["arrived"])["queued"] if clients else {}
            if latency["p99_ns"] is not None:
                found["p50 ms*"], found["p99 ms*"] = ((latency[key] + (reads.get(key) or 0)) / 1e6 for key in ("p50_ns", "p99_ns"))
            found["requests/s*"] = busiest["completed_per_second"]
        return found
    if program["kind"] != "open":
        ends = [task["end_ns"] for task in report["tasks"] if re.fullmatch(program["end"], plain(task["name"]))]
        # The work begins a little after the recording.
        began = stat(f"{take}/stat.before")[0] - trace_start(f"{take}/trace.txt")
        found["seconds"] = (max(ends) - began) / 1e9 if ends and None not in ends else None
        if found["seconds"] and (recorded := measured(take)).get("requests/s"):
            found["requests/s"] = recorded["requests/s"] * recorded["seconds"] / found["seconds"]
    return found


def imported(take, to, program, fitted):
    tree = ["--cgroup-tree", f"{take}/cgroup.before", "--cgroup-tree", f"{take}/cgroup.after"]
    # A server is the work if its client has arrivals of its own. A client with a number of requests belongs to the work, which has ended when it has.
    work = "/zl" if program["kind"] == "closed" else SERVER
    form = ["--form", "fitted"] if fitted else ["--work", work]
    return run("import", f"{take}/trace.txt", *tree, *form, "-o", to)


def simulated(scenario, take, program, change, base, fitted, length):
    """A list of figures, one set per seed. A change of workers needs the fitted form, and the name of the service."""
    quota, period, burst, workers = change
    words = []
    # The burst is set last and removed first: it must not exceed the quota.
    if (quota, period) != base[:2]:
        words += ["--set", f"{SERVER}:cpu.max={quota} {period}"]
    if burst != base[2]:
        words += ["--set", f"{SERVER}:cpu.max.burst={burst}"]
    if workers != base[3]:
        found = re.findall(r'^\[service\."([^"]*)"\]\ngroup = "/zl/server"\n(?:.*\n)*?workers = (\d+)', open(scenario).read(), re.M)
        words += ["--set", f"{max(found, key=lambda one: int(one[1]))[0]}:workers={workers}"]
    if program["kind"] != "open" and not fitted:
        words += ["-d", f"{8 * length:.3f}s"]
    return [figures(json.loads(run("run", scenario, "--seed", str(seed), *words, "--json")), take, program, fitted) for seed in SEEDS]


def spread(values):
    values = [value for value in values if value is not None]
    if not values:
        return "-"
    low, high = min(values), max(values)
    return f"{low:.3g}" if f"{low:.3g}" == f"{high:.3g}" else f"{number(low)} to {number(high)}"


def number(value):
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def compare(directory, cpus, name, program, results):
    at = f"{directory}/{cpus}/{name}"
    recordings = [take for take in range(1, 100) if os.path.exists(f"{at}.base.{take}/trace.txt")]
    if not recordings:
        return
    base = program["changes"]["base"]
    scenarios = {}
    print(f"\n### {name}, {cpus} CPU{'s' * (cpus != '1')}, {program['kind']}, {program['half']}\n")
    for take in recordings:
        for fitted in (False, True):
            to = f"{at}.{take}{'.fitted' * fitted}.toml"
            try:
                said = imported(f"{at}.base.{take}", to, program, fitted)
            except RuntimeError as error:
                print(f"recording {take}: {error}")
                continue
            scenarios[take, fitted] = to
            if not fitted:
                print(f"    recording {take}: " + "; ".join(" ".join(line.split()) for line in said.splitlines()[1:4]))
    print("\n| change | figure | predicted, one range per recording | measured | inside | median within |\n|---|---|---|---|--:|--:|")
    for change, value in program["changes"].items():
        takes = [measured(f"{at}.{change}.{take}") for take in range(1, 100) if os.path.exists(f"{at}.{change}.{take}/stat.after")]
        if not takes:
            continue
        # Which takes each list of figures is compared with.
        predicted, loads = [], []
        for (take, fitted), scenario in scenarios.items():
            if value[3] != base[3] and not fitted:
                continue
            try:
                length = measured(f"{at}.base.{take}")["seconds"]
                predicted.append(simulated(scenario, f"{at}.base.{take}", program, value, base, fitted, length))
                loads.append([take - 1] if program["kind"] == "open" else range(len(takes)))
            except RuntimeError as error:
                print(f"| {change} | {error} | | | | |")
        for key in GOALS:
            # Times of requests are the fitted form's, and so is all of a change of workers.
            of = key if value[3] == base[3] and any(key in one for one in sum(predicted, [])) else f"{key}*"
            if key not in takes[0] or key == "seconds" and program["kind"] == "open":
                continue
            ranges = [([one[of] for one in seeds if one.get(of) is not None], load) for seeds, load in zip(predicted, loads)]
            ranges, of_loads = [one for one, _ in ranges if one], [load for one, load in ranges if one]
            values = [take[key] for take in takes]
            pairs = [(one, values[index]) for one, load in zip(ranges, of_loads) for index in load if index < len(values)]
            row = {"cpus": cpus, "program": name, "half": program["half"], "change": change, "figure": of, "predicted": ranges, "measured": values}
            inside = sum(min(one) <= value <= max(one) for one, value in pairs)
            row["inside"], row["of"] = inside, len(pairs)
            text = "-"
            if ranges:
                middle, real = (statistics.fmean(side) for side in zip(*((statistics.median(one), value) for one, value in pairs)))
                share, least = GOALS[key]
                row["met"] = abs(middle - real) <= max(share * real, least)
                text = f"{middle / real - 1:+.0%}" if real else f"{middle - real:+.3g}"
                text += "" if row["met"] else " miss"
            results.append(row)
            print(f"| {change} | {of} | {'; '.join(map(spread, ranges)) or '-'} | {', '.join(map(number, values))} | {inside} of {row['of']} | {text} |")


def main():
    directory, *wanted = sys.argv[1:]
    results = []
    for cpus in ("1", "2"):
        for name, program in plan().items():
            if not wanted or name in wanted:
                compare(directory, cpus, name, program, results)
    json.dump(results, open(f"{directory}/results.json", "w"), indent=1)
    print("\n| CPUs | half | settings | exact: inside | rows within the goals | fitted (*): inside | rows within the goals |\n|--:|---|---|--:|--:|--:|--:|")
    for cpus in ("1", "2"):
        for half in ("fitted", "reported"):
            for what, is_base in (("as recorded", True), ("changed", False)):
                cells = []
                for star in (False, True):
                    rows = [row for row in results if (row["cpus"], row["half"]) == (cpus, half) and (row["change"] == "base") == is_base and row["figure"].endswith("*") == star and row["predicted"]]
                    inside, of = sum(row["inside"] for row in rows), sum(row["of"] for row in rows)
                    cells += [f"{inside} of {of}, {inside / of:.0%}" if of else "-", f"{sum(row['met'] for row in rows)} of {len(rows)}"]
                if any(cell not in ("-", "0 of 0") for cell in cells):
                    print(f"| {cpus} | {half} | {what} | " + " | ".join(cells) + " |")


main()
