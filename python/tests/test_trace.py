"""Recorded traces."""

from __future__ import annotations

import pytest
import zerolag

RECORDED = "crates/trace/tests/data/mixed-2cpu.perf.txt.gz"


def test_a_recording_has_the_tables_of_a_run() -> None:
    trace = zerolag.read_trace(RECORDED)
    assert len(trace) > 500 and trace.elapsed_ns > 0
    assert sum(trace.waits["wait_ns"]) == sum(trace.tasks["wait_ns"])
    assert len(trace.switches) == trace.to_dict()["switches"]
    assert any(tid is not None for tid in trace.tasks["recorded.tid"])
    assert len(trace.requests) == 0 and len(trace.cpus) == 2
    assert str(trace).startswith("trace") or "cpu" in str(trace)
    with pytest.raises(zerolag.InputError, match="known are tasks"):
        trace.table("task")


def test_a_recording_is_checked_and_explained() -> None:
    trace = zerolag.read_trace(RECORDED)
    checks = zerolag.check(trace)
    assert checks.clean == ("broken" not in checks.table["verdict"])
    assert {"held", "not_applicable"} >= set(checks.table["verdict"]) - {"broken"}
    assert str(zerolag.check(RECORDED)) == str(checks)
    found = checks.to_dict()
    assert found["schema"] == "zerolag.check.v1" and found["clean"] == checks.clean
    assert [one["monitor"] for one in found["checks"]] == checks.table["monitor"]
    assert [one["verdict"] for one in found["checks"]] == checks.table["verdict"]
    assert [one.get("violations", 0) for one in found["checks"]] == checks.table["violations"]
    reasons = [one.get("reason", one.get("first", [None])[0]) for one in found["checks"]]
    assert reasons == checks.table["detail"] and any(reasons)
    explained = zerolag.explain(trace, worst=2)
    assert len(explained.to_dict()["variants"][0]["explanation"]["waits"]) == 2
    assert str(explained) == str(trace.explain(worst=2))
    with pytest.raises(zerolag.InputError, match="cannot be run again"):
        zerolag.explain(trace, what_if=("hz", 100))
