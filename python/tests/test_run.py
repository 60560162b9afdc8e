"""`zerolag.run`: workloads, values, results."""

from __future__ import annotations

import json
import os
import pathlib
import pickle
import subprocess

import pytest
import zerolag


def test_a_workload_is_a_text_a_path_or_a_dict(tmp_path: pathlib.Path) -> None:
    text = '[machine]\ncpus = 2\n[group."/a"]\ncpu.max = "50000 100000"\n[task.hog]\ngroup = "/a"\ninstances = 2\nsteps = [{ run = "1ms" }]\n[[change]]\nat = "300ms"\ngroup = "/a"\ncpu.max = "80000 100000"\n'
    path = tmp_path / "hogs.toml"
    path.write_text(text)
    document = {
        "machine": {"cpus": 2},
        "group": {"/a": {"cpu.max": "50000 100000"}},
        "task": {"hog": {"group": "/a", "instances": 2, "nice": None, "steps": [{"run": "1ms"}]}},
        "change": [{"at": "300ms", "group": "/a", "cpu.max": "80000 100000"}],
    }
    results = [zerolag.run(workload, duration="1s", seed=3) for workload in (text, path, str(path), document)]
    assert len({result.to_json() for result in results}) == 1
    assert results[0].groups["cpu.max"] == ["80000 100000"]
    assert results[0].seed == 3 and results[0].elapsed_ns == 1_000_000_000


def test_a_dict_with_tasks_is_an_rt_app_file() -> None:
    document = {"global": {"duration": 1, "calibration": 100}, "tasks": {"a": {"loop": 10, "run": 1000, "sleep": 1000}}}
    result = zerolag.run(document)
    assert result.tasks["name"] == ["a-0"]
    assert result.to_json() == zerolag.run(json.dumps(document, indent=1)).to_json()


def test_values_are_looked_up_as_on_the_command_line(web: str) -> None:
    as_it_is = zerolag.run(web, kernel="5.15", hz=1000)
    changed = zerolag.run(web, kernel="5.15", hz=1000, cpu_max="90000 100000", set={"web:workers": 2}, load="100/s", nohz=False)
    assert as_it_is.kernel == "5.15"
    assert as_it_is.groups["cpu.stat.nr_throttled"][0] > 5 > changed.groups["cpu.stat.nr_throttled"][0]
    assert len(as_it_is.tasks) == 4 and len(changed.tasks) == 2
    assert changed.services["arrived"][0] < as_it_is.services["arrived"][0]
    settings = {entry["key"]: entry["value"] for entry in changed.to_dict()["meta"]["settings"]}
    assert settings["hz"] == "1000" and settings["nohz"] == "off"


def test_the_json_is_that_of_the_command_line(web: str, tmp_path: pathlib.Path) -> None:
    program = os.environ.get("ZEROLAG_PROGRAM")
    if program is None:
        pytest.skip("ZEROLAG_PROGRAM names no program to compare with")
    path = tmp_path / "web.toml"
    path.write_text(web)
    for workload in [path, pathlib.Path("examples/audio.json"), pathlib.Path("examples/deadline.toml")]:
        if not workload.exists():
            continue
        command = [program, "run", "--json", "-q", "--seed", "5", "-d", "1s", "--set", "hz=100", str(workload)]
        printed = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        assert printed == zerolag.run(workload, seed=5, duration="1s", hz=100).to_json()


def test_a_run_that_misses_a_goal_is_a_result(web: str) -> None:
    result = zerolag.run(web.replace("<= 10s", "<= 1us"))
    assert not result.ok and not result.interrupted
    assert result.goals["met"] == [False] and result.goals["unit"] == ["ns"]
    assert zerolag.run(web).ok
    assert "not ok" in repr(result) and "web" in str(result) and "missed" in result._repr_html_()


def test_rows_are_kept_on_request(web: str) -> None:
    result = zerolag.run(web, keep=["requests", "switches", "waits"])
    assert len(result.requests) == result.services["arrived"][0]
    done = [latency for latency in result.requests["latency_ns"] if latency is not None]
    assert len(done) == result.services["completed"][0]
    waited = sum(result.waits["wait_ns"])
    assert waited == sum(result.tasks["wait_ns"])
    assert len(result.switches) > 100
    with pytest.raises(zerolag.InputError, match=r'keep=\["waits"\]'):
        zerolag.run(web).waits


def test_histograms_can_be_added(web: str) -> None:
    buckets = zerolag.run(web).histograms
    rows = [row for row in buckets.rows() if row["figure"] == "request_latency"]
    assert sum(row["count"] for row in rows) == zerolag.run(web).services["request_latency.count"][0]
    assert all(row["from_ns"] <= row["to_ns"] for row in rows)


def test_the_same_seed_gives_the_same_bytes(web: str) -> None:
    assert zerolag.run(web, seed=1).to_json() == zerolag.run(web, seed=1).to_json()
    assert zerolag.run(web, seed=1).to_json() != zerolag.run(web, seed=2).to_json()


def test_progress_can_end_a_run() -> None:
    seen: list[tuple[int, object]] = []

    def progress(at: int, end: object) -> bool:
        seen.append((at, end))
        return len(seen) < 3

    hog = "[task.a]\ninstances = 9\nsteps = [{ run = '100us' }, { sleep = '10us' }]\n"
    result = zerolag.run(hog, duration="10h", progress=progress)
    assert result.interrupted and not result.ok and len(seen) == 3
    assert seen[0][0] < seen[1][0] and seen[0][1] == 36_000_000_000_000
    assert 0 < result.elapsed_ns < 36_000_000_000_000


def test_what_progress_raises_comes_out() -> None:
    def progress(at: int, end: object) -> None:
        raise LookupError("mine")

    with pytest.raises(LookupError, match="mine"):
        zerolag.run("[task.a]\nsteps = [{ run = '100us' }]\n", duration="10h", cpus=8, progress=progress)


def test_notes_and_warnings_are_returned() -> None:
    result = zerolag.run("[task.a]\nsteps = [{ run = '1ms' }]\n")
    assert any("no duration" in note for note in result.notes)
    assert result.warnings == []


def test_kernels_and_settings() -> None:
    assert "6.12" in zerolag.kernels()
    assert zerolag.settings("6.12")["fair"] == "eevdf" and zerolag.settings("5.15")["fair"] == "cfs"
    of = zerolag.settings("6.6")
    table = of.table
    assert dict(of) == dict(zip(table["key"], table["value"])) and len(of) > 50
    assert of["hz"] in str(of) and all(table["meaning"]) and all(table["values"])
    assert [one["key"] for one in of.to_dict()["settings"]] == list(of)
    with pytest.raises(zerolag.InputError, match=r"presets are 2\.6\.23"):
        zerolag.settings("7")
    with pytest.raises(zerolag.InputError, match=r"did you mean `6\.12`"):
        zerolag.settings("v6.12")
    between = zerolag.run("[task.a]\nsteps = [{ run = '1ms' }]\n", kernel="5.18", duration="10ms")
    assert between.kernel == "5.18"
    assert any("between the presets 5.15 and 6.1" in note for note in between.notes)


def test_explain_compare_and_smallest(web: str) -> None:
    explained = zerolag.explain(web, worst=1, what_if=("cpu_max", "80000 100000"))
    assert "is throttled in /web" in str(explained)
    variants = explained.to_dict()["variants"]
    assert [variant["values"] for variant in variants] == [{}, {"cpu.max": "80000 100000"}]
    compared = zerolag.compare(web, kernels=["5.15", "6.12"], runs=2)
    assert "5.15 against 6.12" in str(compared)
    assert set(compared.table["variant"]) == {"5.15", "6.12"}
    by_limit = zerolag.compare(web, vary={"cpu_max": ["40000 100000", "80000 100000"]}, runs=2)
    assert any(row["changed"] for row in by_limit.table.rows() if row["figure"] == "wait.max")
    found = zerolag.smallest(web, "cpu_max", "request_latency.p99 <= 100ms", risk=0.5, runs=2)
    assert found.least is not None and 40000 < int(found.least.split()[0]) < 200000
    assert found.to_dict()["key"] == "cpu.max"
    assert zerolag.smallest(web, "workers", ["request_latency.p99 <= 1ns"], risk=0.5, runs=1).least is None


def test_a_table_is_a_mapping_without_any_library(web: str) -> None:
    tasks = zerolag.run(web).tasks
    assert list(tasks.to_dict()) == tasks.columns and len(tasks) == 4
    assert [row["name"] for row in tasks.rows()] == tasks["name"]
    assert tasks["recorded.tid"] == [None] * 4
    with pytest.raises(KeyError, match="known are id, name"):
        tasks["nam"]
    assert "<th>run_ns</th>" in tasks._repr_html_()


def test_hostile_names_reach_no_markup() -> None:
    result = zerolag.run({"task": {"<script>": {"loop": 1, "steps": [{"run": "1ms"}]}}})
    assert "<script>" not in result.tasks._repr_html_() and "&lt;script&gt;" in result.tasks._repr_html_()
    assert "<script>" not in result._repr_html_()


def test_specs_can_be_sent_to_other_processes(web: str) -> None:
    from zerolag._spec import spec_of

    spec = spec_of(pathlib.Path("examples/audio.json"), seed=1).embedded()
    assert pickle.loads(pickle.dumps(spec)) == spec and spec.text is not None
