#!/usr/bin/env python3
"""Turns a workload (a scenario of a small part of the grammar) into what play.c and the shell of the virtual machine do.

Phase `start` of a task is its own start: it runs for a moment and sleeps until the workload begins, at 200 ms, or a little later. play.c does that by
itself, so that only the rest is planned. A later phase may change the task's policy; it then names the nice value or the priority too.

    plan.py WORKLOAD.toml[:PARAMETER=VALUE,...] OUT    writes OUT.play (for play.c), OUT.make and OUT.remove (shell: groups and cpusets)
    plan.py --name WORKLOAD.toml[:...]                 prints the name of its recordings: that of the workload, with the values of its parameters

A `[[change]]` sets the policy of a task. The task `changer` makes them, one in the middle of each of its computations, in their order: in a simulation a change
takes effect at its time, which is to lie in that computation. A workload without phases begins as it is. `count=/GROUP FROM TO` beside the parameters is a window in which the counters of that group are read.
"""

import pathlib
import re
import sys
import tomllib

ROOT = "/sys/fs/cgroup"
BEGIN = 200_000_000  # of the workload, in ns: the tasks are created before
POLICIES = {"OTHER": 0, "FIFO": 1, "RR": 2, "BATCH": 3, "IDLE": 5, "DEADLINE": 6}
CHANGER = "changer"  # the task that makes the changes
SERVER = "/sys/kernel/debug/sched/fair_server"
UNITS = {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000}


def time(text):
    number, unit = re.fullmatch(r"([0-9.]+)(ns|us|ms|s)", text).groups()
    return round(float(number) * UNITS[unit])


def cpus(text):
    mask = 0
    for part in str(text).split(","):
        first, _, last = part.partition("-")
        for cpu in range(int(first), int(last or first) + 1):
            mask |= 1 << cpu
    return mask


def steps(steps, changes=False):
    for step in steps:
        if step == "yield":
            yield "yield"
            continue
        ((verb, value),) = step.items()
        if changes and verb == "run":
            yield from (f"run {time(value) // 2}", "change", f"run {time(value) // 2}")
        elif verb in ("run", "spin", "sleep"):
            yield f"{verb} {time(value)}"
        elif verb == "timer":
            assert set(value) == {"period"}, value
            yield f"timer {time(value['period'])}"
        elif verb in ("lock", "unlock", "barrier"):
            yield f"{verb} {value}"
        elif verb in ("pipe_read", "pipe_write"):
            name, size = (value, 4096) if isinstance(value, str) else (value["pipe"], value.get("bytes", 4096))
            yield f"{verb.removeprefix('pipe_')} {name} {size}"
        else:
            raise SystemExit(f"step `{verb}` is not known to play.c")


def attributes(of):
    """The policy of a task or phase."""
    yield f"policy {POLICIES[of.get('policy', 'OTHER').upper().removeprefix('SCHED_')]}"
    yield from (f"{key} {of[key]}" for key in ("nice", "priority") if key in of)


def settings(settings):
    """Shell lines for the settings of a workload, and those that put the kernel's own back."""
    for key, value in settings.items():
        if key.startswith("fair_server."):
            file = key.removeprefix("fair_server.")
            yield (
                f"for cpu in {SERVER}/cpu*; do cat $cpu/{file} > /tmp/{file}; echo {time(value)} > $cpu/{file}; done",
                f"for cpu in {SERVER}/cpu*; do cat /tmp/{file} > $cpu/{file}; done",
            )
        elif (key, value) == ("rt_throttling", "off"):
            file = "/proc/sys/kernel/sched_rt_runtime_us"
            yield f"cat {file} > /tmp/rt; echo -1 > {file}", f"cat /tmp/rt > {file}"
        else:
            raise SystemExit(f"setting `{key}` is not known to plan.py")


def parameters(workload):
    path, _, values = workload.partition(":")
    return pathlib.Path(path), dict(value.split("=") for value in values.split(",") if value)


def name(workload):
    path, values = parameters(workload)
    return re.sub(r"[^A-Za-z0-9]+", "-", " ".join([path.stem, *(value for key, value in values.items() if key != "count")]))


def main(workload, out):
    path, values = parameters(workload)
    scenario = tomllib.loads(re.sub(r"\$\{(\w+)\}", lambda found: values[found.group(1)], path.read_text()))
    if "count" in values:
        group, begin, end = values["count"].split()
        play = [f"duration {time(end)}", f"count {ROOT}{group}/cpu.stat {time(begin)}"]
    else:
        play = [f"duration {time(scenario['duration']) - BEGIN}"]
    make, remove = [], []
    paths = []
    # Only the controllers that the workload names: with `cpu` a cpuset would be a group of one task's weight too.
    controllers = [name for name, key in (("cpu", "group"), ("cpuset", "cpuset")) if scenario.get(key)]
    make += [f"echo +{name} > {ROOT}/cgroup.subtree_control" for name in controllers]
    for path in scenario.get("group", {}):
        parts = path.strip("/").split("/")
        for depth in range(len(parts)):
            name = "/".join(parts[: depth + 1])
            if name not in paths:
                paths.append(name)
                make.append(f"mkdir {ROOT}/{name}")
            if depth + 1 < len(parts):
                make.append(f"echo +cpu > {ROOT}/{name}/cgroup.subtree_control")
        for key, value in scenario["group"][path].items():
            if key in ("cpu.max.burst",):
                make.append(f"echo {value} > {ROOT}/{'/'.join(parts)}/{key}")
            else:
                make.append(f"echo '{value}' > {ROOT}/{'/'.join(parts)}/{key}")
    for name, cpuset in scenario.get("cpuset", {}).items():
        paths.append(name)
        make.append(f"mkdir {ROOT}/{name}")
        make.append(f"echo {cpuset['cpus']} > {ROOT}/{name}/cpuset.cpus")
        if cpuset.get("partition"):
            make.append(f"echo {cpuset['partition']} > {ROOT}/{name}/cpuset.cpus.partition")
            make.append(f"cat {ROOT}/{name}/cpuset.cpus.partition")
    pairs = list(settings(scenario.get("settings", {})))
    make += [line for line, _ in pairs]
    remove += [line for _, line in reversed(pairs)]
    remove += [f"rmdir {ROOT}/{path}" for path in reversed(paths)]
    remove += [f"echo -{name} > {ROOT}/cgroup.subtree_control" for name in controllers]
    for name, mutex in scenario.get("mutex", {}).items():
        play.append(f"mutex {name}" + (" inherit" if mutex.get("protocol") == "inherit" else ""))
    for name, barrier in scenario.get("barrier", {}).items():
        play.append(f"parties {name} {barrier['parties']}")
    tasks = {}
    for name, task in scenario["task"].items():
        instances = int(task.pop("instances", 1))
        tasks |= {f"{name}-{i}" if instances > 1 else name: task for i in range(instances)}
    known = {"steps", "policy", "nice", "priority", "runtime", "deadline", "period", "slice", "cpus", "group", "cpuset", "delay", "phase"}
    for name, task in tasks.items():
        unknown = set(task) - known
        assert not unknown, f"{name}: {unknown}"
        policy = POLICIES[task.get("policy", "OTHER").upper().removeprefix("SCHED_")]
        play += [f"task {name}", *attributes(task)]
        if "slice" in task:
            play.append(f"runtime {time(task['slice'])}")
        start, *phases = task.get("phase", [None, task])
        if start:
            assert start["name"] == "start" and phases[0]["name"] == "work", name
            delay = time(task["delay"]) + time(start["steps"][-1]["timer"]["period"]) - BEGIN
            play.append(f"delay {delay}")
        for key in ("runtime", "deadline", "period"):
            if key in task:
                play.append(f"{key} {time(task[key])}")
        if policy == 6 and "deadline" not in task:
            play.append(f"deadline {time(task['period'])}")
        if "cpus" in task:
            play.append(f"cpus {cpus(task['cpus'])}")
        place = task.get("group") or task.get("cpuset")
        if place:
            play.append(f"group {ROOT}/{place.strip('/')}/cgroup.procs")
        for phase in phases:
            loops = 0 if phase is phases[-1] else phase["loop"]
            play += [f"phase {loops}", *(attributes(phase) if "policy" in phase and phase is not task else []), *steps(phase["steps"], name == CHANGER)]
    for change in scenario.get("change", []):
        assert CHANGER in tasks and "policy" in change, "a change is one of a task's policy, and a task of that name makes it"
        play += [f"changes {change['task']}", *attributes(change)]
        play += [f"{key} {time(change[key])}" for key in ("runtime", "deadline", "period") if key in change]
    for end, lines in (("play", play), ("make", make), ("remove", remove)):
        with open(f"{out}.{end}", "w") as file:
            file.write("".join(line + "\n" for line in lines))


if __name__ == "__main__":
    if sys.argv[1] == "--name":
        print(name(sys.argv[2]))
    else:
        main(*sys.argv[1:])
