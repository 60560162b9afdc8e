"""The Arrow PyCapsule interface: every library reads the same values."""

from __future__ import annotations

import pytest
import zerolag


@pytest.fixture
def result(web: str) -> zerolag.Result:
    return zerolag.run(web, keep=["requests"])


def test_pyarrow_reads_types_and_missing_values(result: zerolag.Result) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    for name in ["tasks", "cpus", "groups", "services", "worst_waits", "histograms", "goals", "requests"]:
        table = result.table(name)
        read = pyarrow.table(table)
        assert read.to_pydict() == table.to_dict(), name
        assert pyarrow.schema(table) == read.schema
    requests = pyarrow.table(result.requests).schema
    assert requests.field("latency_ns").type == pyarrow.uint64() and requests.field("dropped").type == pyarrow.bool_()
    assert result.tasks.to_arrow().num_rows == 4


def test_the_type_of_a_column_does_not_depend_on_the_run(web: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    empty = zerolag.run("[task.a]\nloop = 1\nsteps = [{ run = '1ms' }]\n", keep=["requests"])
    full = zerolag.run(web, keep=["requests"])
    for name in ["tasks", "groups", "services", "requests"]:
        assert pyarrow.table(empty.table(name)).schema == pyarrow.table(full.table(name)).schema
    assert len(empty.requests) == 0


def test_polars_reads_it(result: zerolag.Result) -> None:
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame(result.requests)
    assert frame.to_dict(as_series=False) == result.requests.to_dict()
    assert result.requests.to_polars().equals(frame)


def test_pandas_reads_it(result: zerolag.Result) -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame.from_arrow(result.requests)
    assert list(frame.columns) == result.requests.columns and len(frame) == len(result.requests)
    assert frame["due_ns"].tolist() == result.requests["due_ns"]
    assert result.groups.to_pandas()["cpu.stat.nr_throttled"].tolist() == result.groups["cpu.stat.nr_throttled"]


def test_duckdb_reads_it(result: zerolag.Result) -> None:
    duckdb = pytest.importorskip("duckdb")
    requests = result.requests
    count, longest = duckdb.sql("select count(*), max(latency_ns) from requests").fetchall()[0]
    assert count == len(requests)
    assert longest == max(latency for latency in requests["latency_ns"] if latency is not None)


def test_a_table_is_a_list_of_rows_and_a_data_frame(web: str) -> None:
    pandas = pytest.importorskip("pandas")
    tasks = zerolag.run(web).tasks
    assert list(tasks) == tasks.rows() and isinstance(tasks.rows(), list)
    frame = pandas.DataFrame(tasks)
    assert list(frame.columns) == tasks.columns and len(frame) == len(tasks)
    assert list(frame["run_ns"]) == tasks["run_ns"]


def test_what_is_shown_has_a_value(web: str) -> None:
    tasks = zerolag.run(web).tasks
    assert "recorded.tid" in tasks.columns and set(tasks["recorded.tid"]) == {None}
    assert "recorded" not in tasks._repr_html_() and "recorded" not in repr(tasks)
    assert "without a value" in repr(tasks) and tasks.columns[-1].startswith("recorded.")


def test_a_missed_goal_is_named() -> None:
    text = 'duration = "100ms"\ngoals = ["a.run <= 1ms", "a.run >= 1ms"]\n[task.a]\nsteps = [{ run = "1s" }]\n'
    result = zerolag.run(text)
    assert not result.ok and "; missed: a.run <= 1ms>" in repr(result)
    with pytest.raises(zerolag.SettingError, match="did you mean `duration`"):
        zerolag.run(text, durration="1s")
