"""What a program that is type-checked writes; pyright reads it, nothing runs it."""

import pathlib
from typing import Any, Optional

import zerolag
from zerolag import plot


def study(path: pathlib.Path) -> list[int]:
    result: zerolag.Result = zerolag.run(path, kernel="6.12", seed=1, cpu_max="200000 100000", set={"web:workers": 4})
    rows: list[dict[str, Any]] = result.tasks.rows()
    table: zerolag.Table = zerolag.sweep({"task": {"a": {"steps": [{"run": "1ms"}]}}}, {"hz": [100, 250]}, runs=1)
    text: str = str(zerolag.explain(path, what_if=("hz", 1000)))
    if not result.ok or not text:
        raise zerolag.InputError("no", help=None)
    return [len(rows), len(table), *(found.line or 0 for found in result.warnings)]


def sweeps(path: pathlib.Path) -> float:
    space = {"cpu_max": zerolag.Between(10_000, 90_000, step=1000, form="{} 100000"), "hz": [100, 250]}
    points = zerolag.sobol(space, 8)
    until = zerolag.Until("request_latency.p99", 0.1)
    with zerolag.executors.Processes(2) as pool:
        table: zerolag.Table = zerolag.sweep(path, points, until=until, executor=pool, out=path / "rows")
        tuned: zerolag.Tuned = zerolag.cheapest(path, space, "request_latency.p99 <= 40ms", executor=pool, cost=lambda point: point["hz"])
    best: Optional[zerolag.Trial] = tuned.best
    axes = plot.lines(table, "hz", "request_latency.p99_ns", by="cpu.max")
    return (0.0 if best is None else best.cost) + axes.get_ylim()[1]
