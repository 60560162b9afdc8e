"""SimSo and zerolag on the same task sets, in one run: responses compared, and simulations per second side by side.

SimSo (CeCILL) is run and not copied: install it into an environment of its own, and name its interpreter.

    python -m venv simso && simso/bin/pip install simso
    python python/benches/beside_simso.py simso/bin/python [SETS]
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
import time
from typing import Any

import zerolag

# What the other interpreter runs: reads task sets, simulates each, writes the longest responses and the time it took.
SIMSO = r"""
import json, sys, time
from simso.configuration import Configuration
from simso.core import Model
study = json.load(sys.stdin)
# Some of its schedulers print.
out, sys.stdout = sys.stdout, sys.stderr
found = []
for tasks in study["sets"]:
    begin = time.perf_counter()
    c = Configuration()
    c.cycles_per_ms = 1_000_000
    c.duration = study["duration_ms"] * c.cycles_per_ms
    for at, (period, cost) in enumerate(tasks, 1):
        c.add_task(name=f"t{at}", identifier=at, period=period / 1e6, activation_date=0, wcet=cost / 1e6, deadline=period / 1e6, abort_on_miss=False)
    for cpu in range(1, study["cpus"] + 1):
        c.add_processor(name=f"cpu{cpu}", identifier=cpu)
    c.scheduler_info.clas = "simso.schedulers." + study["scheduler"]
    c.check_all()
    model = Model(c)
    model.run_model()
    took = time.perf_counter() - begin
    by_name = {task.task.name: task for task in (model.results.tasks.values() if hasattr(model.results.tasks, "values") else model.results.tasks)}
    responses, jobs = [], 0
    for at in range(1, len(tasks) + 1):
        of = [job.response_time for job in by_name[f"t{at}"].jobs if job.response_time is not None]
        jobs += len(of)
        responses.append(round(max(of)) if of else None)
    found.append([took, jobs, responses])
json.dump(found, out)
"""

FIXED = {"sched_rt_runtime_us": 1_000_000, "enforce.dl": "exact", "fair_server": "off"}
# Periods in microseconds: with rounder ones jobs have equal deadlines, which the two decide differently.
FINE = "1us"
STUDIES = [
    ("RM, one CPU", "RM", 1, zerolag.TaskSets(tasks=10, utilization=0.85, grain=FINE)),
    ("EDF, one CPU", "EDF", 1, zerolag.TaskSets(tasks=10, utilization=0.95, grain=FINE)),
    ("global EDF, 4 CPUs", "EDF", 4, zerolag.TaskSets(tasks=16, utilization=2.8, grain=FINE)),
]
DURATION_MS = 1000
NEAR = 100
"""SimSo computes in floating-point milliseconds: sums of many costs differ by some nanoseconds."""


def tasks_of(text: str) -> list[tuple[int, int]]:
    """Returns periods and costs of a drawn set, in nanoseconds."""
    head, *rows = [line.split(",") for line in text.splitlines() if line and not line.startswith("#")]
    period, cost = (next(at for at, name in enumerate(head) if name.startswith(word)) for word in ("period", "runtime"))
    scale = {"_ns": 1, "_us": 1000, "_ms": 1_000_000}
    return [(int(float(row[period]) * scale[head[period][-3:]]), int(float(row[cost]) * scale[head[cost][-3:]])) for row in rows]


def scenario(tasks: list[tuple[int, int]], scheduler: str, cpus: int) -> dict[str, Any]:
    """Returns the workload of a set: periodic tasks that begin together."""
    order = sorted(range(len(tasks)), key=lambda at: (tasks[at][0], at))
    made: dict[str, Any] = {}
    for at, (period, cost) in enumerate(tasks):
        policy: dict[str, Any] = {"policy": "SCHED_FIFO", "priority": 90 - order.index(at)}
        if scheduler == "EDF":
            policy = {"policy": "SCHED_DEADLINE", "runtime": f"{cost}ns", "deadline": f"{period}ns", "period": f"{period}ns"}
        steps = [{"run": f"{cost}ns"}, {"timer": {"period": f"{period}ns", "mode": "absolute"}}]
        made[f"t{at + 1}"] = {**policy, "steps": steps}
    return {"machine": {"cpus": cpus}, "duration": f"{DURATION_MS}ms", "task": made}


def main() -> None:
    python, count = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 50
    print(f"{count} sets each, {DURATION_MS} ms simulated, costs zero, one process each")
    for name, scheduler, cpus, sets in STUDIES:
        drawn = [tasks_of(sets.draw(seed)) for seed in range(count)]
        study = json.dumps({"sets": drawn, "scheduler": scheduler, "cpus": cpus, "duration_ms": DURATION_MS})
        other = json.loads(subprocess.run([python, "-c", SIMSO], input=study, capture_output=True, text=True, check=True).stdout)
        ours, same, compared, apart = 0.0, 0, 0, 0
        for tasks, (_, _, responses) in zip(drawn, other):
            workload = scenario(tasks, scheduler, cpus)
            begin = time.perf_counter()
            zerolag.run(workload, costs="zero", checks=False, set=FIXED)
            ours += time.perf_counter() - begin
            table = zerolag.analyse(workload, runs=1, costs="zero", set=FIXED).table
            for theirs, own in zip(responses, table["simulated_max_ns"]):
                if theirs is not None and own is not None:
                    compared += 1
                    same += abs(theirs - own) <= NEAR
                    apart = max(apart, abs(theirs - own))
        seconds, jobs = sum(took for took, *_ in other), sum(jobs for _, jobs, _ in other)
        print(
            f"{name}: SimSo {count / seconds:.1f} simulations/s ({jobs / seconds:,.0f} jobs/s), "
            f"zerolag {count / ours:.1f} ({jobs / ours:,.0f} jobs/s), {seconds / ours:.0f} times; "
            f"{same} of {compared} longest responses equal within {NEAR} ns, the others at most {apart:,} ns apart"
        )


if __name__ == "__main__":
    assert pathlib.Path("Cargo.toml").exists(), "run it in the root of the repository"
    main()
