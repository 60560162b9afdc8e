"""What a program that is type-checked writes; pyright reads it, nothing runs it."""

import pathlib
from typing import Any

import zerolag


def study(path: pathlib.Path) -> list[int]:
    result: zerolag.Result = zerolag.run(path, kernel="6.12", seed=1, cpu_max="200000 100000", set={"web:workers": 4})
    rows: list[dict[str, Any]] = list(result.tasks.rows())
    table: zerolag.Table = zerolag.sweep({"task": {"a": {"steps": [{"run": "1ms"}]}}}, {"hz": [100, 250]}, runs=1)
    text: str = str(zerolag.explain(path, what_if=("hz", 1000)))
    if not result.ok or not text:
        raise zerolag.InputError("no", help=None)
    return [len(rows), len(table), *(found.line or 0 for found in result.warnings)]
