#!/usr/bin/env python3
"""Imports the recordings of scripts/what-if.sh, simulates the change and compares it with the recording of the change.

    scripts/what-if.py DIRECTORY [NAME ...]

Prints a table for docs/lab: per workload the recorded run, its simulation under the same settings, the simulated change, and the recorded
change. ZEROLAG is the program. SESSIONS are further groups for the import, `NAME=/PATH ...`: sessions of others, which are groups of their own where
`kernel.sched_autogroup_enabled` is 1. Files that are written: NAME.toml, NAME*.sim.txt.
"""
import gzip
import json
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
SESSIONS = [word for group in os.environ.get("SESSIONS", "").split() for word in ("--group", group)]
ZEROLAG = os.environ.get("ZEROLAG", os.path.join(HERE, "../target/quick/zerolag"))
# Base, change, what is set for it, the group whose figures are compared, its threads, the threads whose end is the end of the work. `nice NAME=N`
# edits the nice level of these threads in the imported file; `fitted` imports the model for other loads. `busiest NAME` is only the thread of this
# name with the most switches: the other thread of wrk sleeps until the time is over, also if all recorded requests are done.
CASES = [
    ("bursts", "bursts-60", ["/zl/server:cpu.max=60000 100000"], "server", r"worker|source", None),
    ("bursts", "bursts-burst", ["/zl/server:cpu.max.burst=30000"], "server", r"worker|source", None),
    ("bursts-clock", None, [], "server", r"worker|source", None),
    ("build", "build-100", ["/zl/client:cpu.max=100000 100000"], "client", r"make|gcc|cc1|as|sh|bash", r"make"),
    ("hackbench", "hackbench-nice", ["nice hackbench=-5"], "client", r"hackbench", r"hackbench"),
    ("redis", "redis-30", ["/zl/server:cpu.max=30000 100000"], "server", r"redis-server", r"redis-benchmark"),
    ("web", "web-40", ["/zl/server:cpu.max=40000 100000"], "server", r"nginx", r"busiest wrk"),
    ("workers", "workers-2", ["fitted", "worker:workers=2"], "server", r"worker", None),
]


def run(*words):
    done = subprocess.run([ZEROLAG, *words], capture_output=True, text=True)
    if done.returncode not in (0, 99):
        sys.exit(f"{' '.join(words)}: {done.stderr}")
    return done.stdout


def stat(path):
    """The cpu.stat of a group, v1 or v2: periods, throttled periods, throttled time in ms."""
    found = dict(line.split() for line in open(path))
    time = int(found["throttled_time"]) / 1e6 if "throttled_time" in found else int(found["throttled_usec"]) / 1e3
    return int(found["nr_throttled"]), time, int(found.get("nr_bursts", 0))


def plain(name):
    """The recorded name of a simulated thread: `worker` of `worker:31462-0`."""
    return re.sub(r"(#\d+|(:\d+)+(-\d+)?|-\d+)$", "", name)


def member(task, names):
    return re.fullmatch(names, plain(task["name"]))


def figures(report, names):
    tasks = [task for task in report["tasks"] if member(task, names)]
    total = lambda key: sum(task[key] for task in tasks) / 1e6
    longest = max((task["wait_ns_max"] for task in tasks), default=0) / 1e6
    return {"run ms": total("run_ns"), "preempted": sum(task["preemptions"] for task in tasks), "wait ms": total("wait_ns"), "longest wait ms": longest}


def span(path, names):
    """The first and last switch to threads of these names, in seconds from the start of the trace."""
    start, threads = None, {}
    busiest, names = names.startswith("busiest "), names.removeprefix("busiest ")
    opened = gzip.open(path, "rt", errors="replace") if path.endswith(".gz") else open(path, errors="replace")
    for line in opened:
        if start is None and (found := re.search(r"\] \S+ +([\d.]+): ", line)):
            start = float(found[1])
        found = re.search(r" ([\d.]+): sched_switch: .*next_comm=(\S+) next_pid=(\d+)", line)
        if found and re.fullmatch(names, plain(found[2])):
            threads.setdefault(found[3], []).append(float(found[1]))
    every = list(threads.values())
    times = max(every, key=len, default=[]) if busiest else sorted(time for times in every for time in times)
    return (times[0] - start, times[-1] - start) if times else (0, 0)


def with_nice(source, to, name, nice):
    """Writes the imported file with another nice level of the threads of a name."""
    out, inside = [], False
    for line in open(source):
        if line.startswith("["):
            inside = line.startswith(f'[task."{name}:')
        if inside and line.startswith("nice ="):
            continue
        out.append(line)
        if inside and line.startswith("["):
            out.append(f"nice = {nice}\n")
    open(to, "w").writelines(out)
    return to


def measured(directory, name, group, names, client):
    out = figures(json.loads(run("report", "--json", f"{directory}/{name}.txt.gz")), names)
    (a, at, ab), (b, bt, bb) = (stat(f"{directory}/{name}.{when}/zl/{group}/cpu.stat") for when in ("before", "after"))
    out.update({"throttled periods": b - a, "throttled ms": bt - at, "bursts": bb - ab})
    if client:
        first, last = span(f"{directory}/{name}.txt.gz", client)
        out["seconds"] = last - first
    return out


def simulated(directory, name, what, sets, group, names, client):
    trace = f"{directory}/{what}.sim.txt"
    source = f"{directory}/{name}.fitted.toml" if "fitted" in sets else f"{directory}/{name}.toml"
    for one in sets:
        if one.startswith("nice "):
            source = with_nice(source, f"{directory}/{what}.toml", *one.removeprefix("nice ").split("="))
    words = [word for one in sets if one != "fitted" and not one.startswith("nice ") for word in ("--set", one)]
    duration = ["-d", "20s"] if client else []
    report = json.loads(run("run", source, *duration, *words, "--trace", trace, "--json"))
    out = figures(report, names)
    groups = {one["path"]: one for one in report["groups"]}
    found = groups[f"/zl/{group}"]["cpu.stat"]
    out.update({"throttled periods": found["nr_throttled"], "throttled ms": found["throttled_usec"] / 1e3, "bursts": found.get("nr_bursts", 0)})
    if client:
        # A simulated thread has its last name from the start, also before it becomes the program.
        out["seconds"] = span(trace, client)[1] - span(f"{directory}/{name}.txt.gz", client)[0]
    return out


def requests(directory, name):
    """The requests that wrk counts; None of other clients."""
    found = re.search(r"(\d+) requests in", open(f"{directory}/{name}.out", errors="replace").read())
    return int(found[1]) if found else None


def timehist(directory, name, names):
    """The run time of threads by perf sched timehist, by ours, and what the kernel charged."""
    text = subprocess.run(["perf", "sched", "timehist", "-s", "-i", f"{directory}/{name}.data"], capture_output=True, text=True).stdout
    theirs = {}
    for line in text.splitlines():
        found = re.match(r"\s*(.+?)\[(\d+)(?:/\d+)?\]\s+-?\d+\s+(\d+)\s+([\d.]+)", line)
        if found:
            theirs[int(found[2])] = float(found[4])
    report = json.loads(run("report", "--json", f"{directory}/{name}.data"))
    rows = [(task["run_ns"] / 1e6, (task["recorded"]["charged_ns"] or 0) / 1e6, theirs.get(task["recorded"]["tid"], 0)) for task in report["tasks"] if member(task, names)]
    every = [(task["run_ns"] / 1e6, (task["recorded"]["charged_ns"] or 0) / 1e6, theirs.get(task["recorded"]["tid"], 0)) for task in report["tasks"]]
    add = lambda rows: tuple(sum(row[at] for row in rows) for at in range(3))
    return add(rows), add(every), len(report["gaps"])


directory, *wanted = sys.argv[1:]
base_errors = {}
seen = set()
for base, change, sets, group, names, client in CASES:
    if wanted and base not in wanted or not os.path.exists(f"{directory}/{base}.txt.gz"):
        continue
    if base not in seen:
        seen.add(base)
        of = ("import", f"{directory}/{base}.txt.gz", "--cgroup-tree", f"{directory}/{base}.before", *SESSIONS)
        if "fitted" in sets:
            said = run(*of, "--form", "fitted", "-o", f"{directory}/{base}.fitted.toml")
        else:
            said = run(*of, "--work", "/zl", "-o", f"{directory}/{base}.toml")
        print(f"\n## {base}\n" + "\n".join(said.splitlines()[:4]))
        own, every, gaps = timehist(directory, base, names)
        print("CPU time ms of its threads: report {:.1f}, charged {:.1f}, timehist {:.1f}; of all: {:.1f}, {:.1f}, {:.1f}; perf gaps {}".format(*own, *every, gaps))
    form = [one for one in sets if one == "fitted"]
    columns = {"recorded": measured(directory, base, group, names, client), "simulated": simulated(directory, base, base, form, group, names, client)}
    if change:
        columns["**predicted**"] = simulated(directory, base, change, sets, group, names, client)
        columns["**measured**"] = measured(directory, change, group, names, client)
    print(f"\n{base} -> {change}: {' '.join(sets)}\n| figure | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    # A simulation repeats the recorded requests, and ends with them.
    for name, column in columns.items():
        done = requests(directory, change if name == "**measured**" else base)
        if done and "seconds" in column:
            column["requests/s"] = done / column["seconds"]
    for key in columns["recorded"]:
        print(f"| {key} | " + " | ".join(f"{column[key]:.4g}" for column in columns.values()) + " |")
