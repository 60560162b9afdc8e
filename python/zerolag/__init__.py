"""The Linux CPU scheduler as a simulator: which task ran, which waited, and why.

    import zerolag

    result = zerolag.run("web.toml", kernel="6.12", seed=1, cpu_max="200000 100000")
    print(result.services["request_latency.p99_ns"])

Workloads are files, texts, dicts, or built of dataclasses; results are tables that pandas, polars, pyarrow and DuckDB read without copies of
their own. The interpreter is free during a simulation, and Ctrl-C ends it. The same input and seed give the same bytes.
"""

from __future__ import annotations

import os
from typing import Callable, Mapping, Optional, Sequence, Union

from . import _zerolag, executors, policy
from ._advice import advise, advise_counters
from ._bounds import TaskSets, analyse, schedulability
from ._errors import Diagnostic, InputError, RunError, SettingError, WorkloadError, ZerolagError
from ._results import Advice, Bounds, Checks, Comparison, Demand, Explanation, Result, Search, Settings, Table, Trace
from ._spec import PolicyOf, Value, Workload, call_of, key_of, spec_of, written
from ._space import Between, sobol
from ._sweep import sweep
from ._tune import Trial, Tuned, cheapest
from ._until import Until
from ._workload import Group, Machine, Scenario, Service, Task
from ._zerolag import __version__

__all__ = [
    "Advice",
    "Between",
    "Bounds",
    "Checks",
    "Comparison",
    "Demand",
    "Diagnostic",
    "Explanation",
    "Group",
    "InputError",
    "Machine",
    "Result",
    "RunError",
    "Scenario",
    "Search",
    "Service",
    "SettingError",
    "Settings",
    "Table",
    "Task",
    "TaskSets",
    "Trace",
    "Trial",
    "Tuned",
    "Until",
    "Value",
    "Workload",
    "WorkloadError",
    "ZerolagError",
    "__version__",
    "advise",
    "advise_counters",
    "analyse",
    "cheapest",
    "check",
    "compare",
    "executors",
    "explain",
    "kernels",
    "policy",
    "read_trace",
    "run",
    "schedulability",
    "settings",
    "smallest",
    "sobol",
    "sweep",
]

_Path = Union[str, "os.PathLike[str]"]


def run(
    workload: Workload,
    *,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: Optional[_Path] = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    checks: bool = True,
    worst_waits: int = 10,
    keep: Sequence[str] = (),
    progress: Optional[Callable[[int, Optional[int]], object]] = None,
    policy: Optional[PolicyOf] = None,
    **settings: Value,
) -> Result:
    """Simulates a workload.

    `settings`, and `set` for names that are no Python names, are what `--set` takes: parameters of the scenario,
    limits (`cpu_max`, `set={"/web:cpu.max": ...}`), workers, and settings of the scheduler. `keep` names tables with a
    row per event: `switches`, `waits`, `requests`. `progress` is called now and then with the simulated time and its end
    in nanoseconds; if it returns False, the run ends and returns what it has. `policy` schedules fair tasks in place of the
    kernel: the name of one, or your own (`zerolag.policy`).

    Raises WorkloadError or SettingError with every mistake. A run that ends badly is a result that is not `ok`.
    """
    spec = spec_of(
        workload,
        kernel=kernel,
        cpus=cpus,
        machine=machine,
        costs=costs,
        seed=seed,
        duration=duration,
        set=set,
        settings=settings,
        policy=policy,
        checks=checks,
        worst_waits=worst_waits,
        keep=keep,
    )
    return Result(_zerolag.run(spec, progress))._named(spec.name, lambda: call_of("run", spec))


def read_trace(path: _Path) -> Trace:
    """Reads a trace: `perf.data`, Perfetto, the text of tracefs, `perf script` or `trace-cmd report`, or zerolag's own;
    archives of xz, gzip and zstd, too."""
    return Trace(_zerolag.read_trace(os.fspath(path)))


def check(trace: Union[Trace, _Path]) -> Checks:
    """Checks a trace against the rules of scheduling."""
    return (trace if isinstance(trace, Trace) else read_trace(trace)).check()


def explain(
    workload: Union[Workload, Trace],
    *,
    worst: int = 3,
    task: Optional[str] = None,
    what_if: Optional[tuple[str, Value]] = None,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: Optional[_Path] = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    policy: Optional[PolicyOf] = None,
    **settings: Value,
) -> Explanation:
    """Explains the longest waits of a workload, or of a trace, as chains of causes that add up to them.

    `what_if=("hz", 1000)` runs the workload again with a value changed, and adds the difference per cause.
    """
    if isinstance(workload, Trace):
        if what_if is not None:
            raise InputError("what_if needs a workload: a trace cannot be run again")
        return workload.explain(worst=worst, task=task)
    spec = spec_of(
        workload, kernel=kernel, cpus=cpus, machine=machine, costs=costs, seed=seed, duration=duration, set=set, settings=settings, policy=policy
    )
    changed = None if what_if is None else (key_of(what_if[0]), written(what_if[1]))
    explanation = Explanation(_zerolag.explain(spec, worst, task, changed))
    return explanation._named(spec.name, lambda: call_of("explain", spec, worst=worst, task=task, what_if=what_if))


def compare(
    workload: Workload,
    *,
    kernels: Optional[Sequence[str]] = None,
    vary: Optional[Mapping[str, Sequence[Value]]] = None,
    runs: int = 5,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: Optional[_Path] = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    policy: Optional[PolicyOf] = None,
    **settings: Value,
) -> Comparison:
    """Compares a workload under several kernels, or under several values of one key (`vary={"hz": [100, 1000]}`)."""
    if (kernels is None) == (vary is None):
        raise InputError("nothing to compare: give kernels=[...] or vary={key: [...]}, and not both")
    key, values = _one_key(vary or {}) if kernels is None else ("kernel", [kernels] if isinstance(kernels, str) else list(kernels))
    if len(values) < 2:
        raise InputError(f"`{key}`: two values or more are wanted")
    spec = spec_of(workload, cpus=cpus, machine=machine, costs=costs, seed=seed, duration=duration, set=set, settings=settings, policy=policy)
    comparison = Comparison(_zerolag.compare(spec, key, [written(value) for value in values], runs))
    return comparison._named(spec.name, lambda: call_of("compare", spec, kernels=kernels, vary=vary, runs=runs))


def _one_key(vary: Mapping[str, Sequence[Value]]) -> tuple[str, list[Value]]:
    if len(vary) != 1:
        raise InputError("vary: give one key; `sweep` varies several")
    ((key, values),) = vary.items()
    return key_of(key), [values] if isinstance(values, str) else list(values)


def smallest(
    workload: Workload,
    key: str,
    such_that: Union[str, Sequence[str]],
    *,
    risk: float = 0.05,
    runs: Optional[int] = None,
    most: Optional[int] = None,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: Optional[_Path] = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    policy: Optional[PolicyOf] = None,
    **settings: Value,
) -> Search:
    """Searches for the smallest value of a limit or of workers with which fewer than the share `risk` of all seeds miss a goal,
    with a confidence of 95 %: `smallest("web.toml", "cpu.max", "request_latency.p99 <= 40ms")`. `runs` are the seeds of the
    search; what it finds is judged by at most `most` others."""
    goals = [such_that] if isinstance(such_that, str) else list(such_that)
    spec = spec_of(
        workload, kernel=kernel, cpus=cpus, machine=machine, costs=costs, seed=seed, duration=duration, set=set, settings=settings, policy=policy
    )
    return Search(_zerolag.smallest(spec, key_of(key), goals, risk, runs, most))


def kernels() -> list[str]:
    """Returns the presets, the oldest first. Any other release can be simulated too: "6.16", "6.12.85", "rhel-9.4"."""
    return _zerolag.kernels()


def settings(kernel: str = "7.3") -> Settings:
    """Returns every setting of a kernel: a mapping from its name to its value, with a table of meanings and possible values."""
    try:
        return Settings(_zerolag.settings(kernel))
    except ValueError as error:
        raise InputError(f"kernel {kernel}: {error}") from None
