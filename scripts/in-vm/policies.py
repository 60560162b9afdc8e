"""Compares what tasks got in the virtual machine with simulations: a row per task.

    python3 scripts/in-vm/policies.py PROGRAM DIRECTORY [COSTS]

PROGRAM is zerolag, DIRECTORY has the files of `run.sh 7.3 policies` (target/vm/policies), COSTS a profile of the machine with
its `policy_call` (else conformance/costs/virtual-7.3.toml, with a call of 16 us: 130 us for the 8 of a switch).
A computation takes some 10 % longer in this machine than it was calibrated for, under any scheduler; how long a task computes between two sleeps is not the
scheduler's decision, so the simulation has the measured length (`work`).
Prints a table in Markdown, and how many shares are within a point, and waits within a quarter or 0.5 ms.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
CALL = "16us"
# The task whose computations have the length `work`.
WORK = {"sleeper": "sleeper", "crowd": "crowd", "bursts": "burst", "pinned": "waker", "rt-above": "rt", "ext-server": "greedy"}


def costs_of(path, room):
    if path:
        return path
    text = (HERE / "../../conformance/costs/virtual-7.3.toml").read_text()
    file = Path(room) / "costs.toml"
    file.write_text(text + f'\npolicy_call = "{CALL}"\n')
    return str(file)


def work_of(workload, run):
    """The measured length of a computation, in nanoseconds."""
    tasks = [task for task in run["tasks"] if workload in WORK and task["name"].startswith(WORK[workload] + "-")]
    wakeups = sum(task["wakeups"] for task in tasks)
    return sum(task["run_ns"] for task in tasks) // wakeups if wakeups else None


def simulate(program, policy, workload, costs, work, room):
    out = Path(room) / "simulated.json"
    command = [program, "run", str(HERE / "policies" / f"{workload}.toml"), "-q", "--policy", policy, "--costs", costs, f"--json={out}"]
    if work:
        command += ["--set", f"work={work}ns"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode not in (0, 99):
        raise SystemExit(f"{' '.join(command)}: exit code {done.returncode}\n{done.stderr}")
    return json.loads(out.read_text())


def tasks_of(run):
    """Share of the CPU in percent, and median wait after a wakeup in milliseconds, by task."""
    found = {}
    for task in run["tasks"]:
        wakeups = task["wakeup_latency"] or {}
        p50 = wakeups.get("p50_ns") if (wakeups.get("count") or 0) >= 20 else None
        found[task["name"]] = (100 * task["run_ns"] / run["elapsed_ns"], None if p50 is None else p50 / 1e6)
    return found


def mean(values):
    values = [value for value in values if value is not None]
    return sum(values) / len(values) if values else None


def main():
    program, directory, *costs = sys.argv[1:]
    shares, waits, rows = [], [], {}
    with tempfile.TemporaryDirectory() as room:
        costs = costs_of(costs[0] if costs else None, room)
        for file in sorted(Path(directory).glob("*.json")):
            policy, workload, _ = file.name.split(".")
            run = json.loads(file.read_text())
            measured, simulated = tasks_of(run), tasks_of(simulate(program, policy, workload, costs, work_of(workload, run), room))
            names = sorted(set(measured) & set(simulated))
            for name in names:
                (share, wait), (share_sim, wait_sim) = measured[name], simulated[name]
                shares.append(abs(share - share_sim) <= 1)
                if wait is not None and wait_sim is not None:
                    waits.append(abs(wait - wait_sim) <= max(0.25 * wait, 0.5))
            # Instances of one task have one entry, with their means.
            of_shares, of_waits = [], []
            for task in dict.fromkeys(name.rsplit("-", 1)[0] for name in names):
                of = [name for name in names if name.rsplit("-", 1)[0] == task]
                share, share_sim = (mean(found[name][0] for name in of) for found in (measured, simulated))
                wait, wait_sim = (mean(found[name][1] for name in of) for found in (measured, simulated))
                of_shares.append(f"{task} {share:.1f} ({share_sim:.1f})")
                if wait is not None and wait_sim is not None:
                    of_waits.append(f"{task} {wait:.2f} ({wait_sim:.2f})")
            rows.setdefault(workload, {})[policy] = (", ".join(of_shares), ", ".join(of_waits) or "-")
    policies = list(dict.fromkeys(policy for of in rows.values() for policy in of))
    print("| workload |" + "".join(f" `{policy}`: share, % | wait p50, ms |" for policy in policies))
    print("|---|" + "---|---|" * len(policies))
    for workload, of in rows.items():
        print(f"| `{workload}` |" + "".join(" {} | {} |".format(*of.get(policy, ("-", "-"))) for policy in policies))
    print(f"\nshares within a point: {sum(shares)} of {len(shares)}; waits within a quarter or 0.5 ms: {sum(waits)} of {len(waits)}")


main()
