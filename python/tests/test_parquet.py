"""Parquet files of the command line are read by others."""

from __future__ import annotations

import pathlib

import pytest

parquet = pytest.importorskip("pyarrow.parquet")

FILE = pathlib.Path(__file__).parents[2] / "crates" / "report" / "tests" / "data" / "every-type.parquet"


def test_every_type_of_a_frame_is_read() -> None:
    table = parquet.read_table(FILE)
    assert table.to_pydict() == {
        "run_ns": [1, 2**64 - 1, 3],
        "prio": [-1, None, 7],
        "mean": [0.5, -1.0, 1e300],
        "is_met": [True, False, True],
        "name": ["a", "é", None],
    }
    assert [str(kind) for kind in table.schema.types] == ["uint64", "int64", "double", "bool", "string"]
