"""Workloads built of dataclasses, and advice: the same as from files and from the command line."""

from __future__ import annotations

import json
import pathlib
import subprocess
from dataclasses import fields

import pytest
import zerolag
from zerolag import Group, Machine, Scenario, Service, Task
from zerolag._workload import _WITH_POINTS  # pyright: ignore[reportPrivateUsage]

BUILT = Scenario(
    machine=Machine(cpus=2),
    groups={"/web": Group(cpu_max="50000 100000", cpu_max_burst=10000)},
    tasks={"hog": Task(instances=2, nice=5, steps=[{"run": "5ms"}, {"sleep": {"exponential": {"mean": "5ms"}}}])},
    services={"web": Service(group="/web", workers=2, arrivals={"poisson": "100/s"}, steps=[{"run": "4ms"}])},
    kernel="6.12",
    duration="2s",
    seed=3,
    goals=["request_latency.p99 <= 500ms"],
    more={"mutex": {"m": {}}},
)


def test_a_built_workload_is_that_of_its_text(tmp_path: pathlib.Path) -> None:
    text = BUILT.to_toml()
    file = tmp_path / "built.toml"
    file.write_text(text)
    first = zerolag.run(BUILT).to_json()
    assert first == zerolag.run(file).to_json() == zerolag.run(BUILT.to_dict()).to_json() == zerolag.run(text).to_json()
    assert json.loads(first)["meta"]["seed"] == 3
    assert BUILT.validate() is BUILT
    table = zerolag.sweep(BUILT, {"cpu_max": ["50000 100000", "100000 100000"]}, runs=1)
    assert len(table) == 2 and table["error"] == [None, None]


def test_mistakes_have_the_messages_and_places_of_the_text(tmp_path: pathlib.Path) -> None:
    wrong = Scenario(
        tasks={"a": Task(nice=77, steps=[{"rum": "1ms"}]), "b": Task(group="/none", steps=[{"run": "1"}])},
        more={"tusk": {}},
    )
    with pytest.raises(zerolag.WorkloadError) as caught:
        wrong.validate()
    file = tmp_path / "wrong.toml"
    file.write_text(wrong.to_toml())
    with pytest.raises(zerolag.WorkloadError) as of_file:
        zerolag.run(file)
    said = [(found.line, found.column, found.message, found.help) for found in caught.value.diagnostics]
    assert said == [(found.line, found.column, found.message, found.help) for found in of_file.value.diagnostics]
    messages = " ".join(found.message for found in caught.value.diagnostics)
    assert len(said) >= 4 and "77 is outside" in messages and "unknown step `rum`" in messages


def test_the_fields_are_the_keys_of_a_scenario() -> None:
    schema = json.loads(pathlib.Path("docs/reference/scenario.schema.json").read_text())["properties"]
    for kind, keys in (
        (Machine, schema["machine"]["properties"]),
        (Task, schema["task"]["additionalProperties"]["properties"]),
        (Service, schema["service"]["additionalProperties"]["properties"]),
    ):
        assert {one.name for one in fields(kind)} == set(keys), kind
    known = zerolag.run({"group": {"/a": {key: 1 for key in ()}}, "task": {"t": {"group": "/a", "steps": [{"run": "1ms"}], "loop": 1}}})
    assert known.ok
    for name, key in _WITH_POINTS.items():
        assert name in {one.name for one in fields(Group)} and key.replace(".", "_") == name
    group = Group(cpu_max="50000 100000", cpu_max_burst=10000, cpu_weight=200, more={})
    Scenario(groups={"/a": group}, tasks={"t": Task(group="/a", steps=[{"run": "1ms"}])}).validate()
    idle = Group(cpu_idle=1, more={"limits.cpu": "500m"})
    Scenario(groups={"/a": idle}, tasks={"t": Task(group="/a", steps=[{"run": "1ms"}])}).validate()


def test_advice_is_that_of_the_command_line(cli: str) -> None:
    options = ["-q", "-d", "2s", "--seeds", "2", "--risk", "50%", "--goal", "p99 <= 40ms", "--json"]
    printed = subprocess.run([cli, "advise", "examples/web-service-limit.toml", *options], capture_output=True, text=True)
    advice = zerolag.advise("examples/web-service-limit.toml", "p99 <= 40ms", seeds=2, risk=0.5, duration="2s")
    assert advice.to_json() == printed.stdout
    assert advice.ticket in str(advice) and advice.alternatives[0]["change"] == "as it is"
    assert (advice.choice is None) == (printed.returncode == 99)
    with pytest.raises(zerolag.InputError, match="outside 1..=1000"):
        zerolag.advise("examples/web-service-limit.toml", seeds=0)
    with pytest.raises(zerolag.InputError, match="for traces"):
        zerolag.advise("examples/web-service-limit.toml", groups={"a": "/b"})


def test_counters_give_the_advice_of_the_command_line(cli: str, tmp_path: pathlib.Path) -> None:
    file = tmp_path / "cpu.stat.log"
    head = "usage_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n"
    file.write_text(f"100.0\n{head}110.0\nusage_usec 5000000\nnr_periods 100\nnr_throttled 20\nthrottled_usec 1000000\n")
    printed = subprocess.run([cli, "advise", str(file), "--now", "1", "--json"], capture_output=True, text=True)
    demand = zerolag.advise_counters(file, "1")
    assert demand.to_json() == printed.stdout
    assert demand.ticket.startswith('Set cpu.max to "150000 100000"') and demand.ticket in str(demand)
    with pytest.raises(zerolag.InputError, match="now"):
        zerolag.advise_counters(file, "none")
    with pytest.raises(zerolag.InputError, match="no such file"):
        zerolag.advise_counters(tmp_path / "none", "1")


def test_a_trace_is_imported_for_advice(cli: str) -> None:
    path = "crates/trace/tests/data/mixed-2cpu.perf.txt.gz"
    options = ["-q", "-d", "500ms", "--seeds", "1", "--risk", "50%", "--goal", "*.wakeup_latency.p99 <= 1s", "--json"]
    printed = subprocess.run([cli, "advise", path, *options], capture_output=True, text=True)
    trace = zerolag.read_trace(path)
    advice = zerolag.advise(trace, "*.wakeup_latency.p99 <= 1s", seeds=1, risk=0.5, duration="500ms")
    assert advice.to_json() == printed.stdout, printed.stderr
    assert advice.to_dict()["base_error"] >= 0


def test_numbers_of_numpy_are_numbers(web: str) -> None:
    numpy = pytest.importorskip("numpy")
    task = {"loop": numpy.int64(3), "nice": numpy.int8(-5), "steps": [{"run": "1ms"}]}
    result = zerolag.run({"machine": {"cpus": numpy.uint16(2)}, "task": {"a": task}}, hz=numpy.int32(100), nohz=numpy.False_)
    settings = {entry["key"]: entry["value"] for entry in result.to_dict()["meta"]["settings"]}
    assert settings["hz"] == "100" and settings["nohz"] == "off" and len(result.cpus) == 2
    scenario = zerolag.Scenario(services={"a": zerolag.Service(load=numpy.float64(1.5))})
    assert "load = 1.5\n" in scenario.to_toml()
    table = zerolag.sweep(web, {"hz": numpy.arange(100, 400, 100)}, runs=1, duration="100ms")
    assert table["hz"] == ["100", "200", "300"] and not any(table["error"])
