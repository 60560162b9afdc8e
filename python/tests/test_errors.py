"""Mistakes: the place, the reason, a valid alternative; nothing half done."""

from __future__ import annotations

import pathlib
import pickle

import pytest
import zerolag


def test_every_mistake_of_a_text_has_line_column_and_advice() -> None:
    with pytest.raises(zerolag.WorkloadError) as caught:
        zerolag.run('[task.a]\nnice = 77\nsteps = [{ rum = "1ms" }]\n')
    first, second = caught.value.diagnostics
    assert (first.file, first.line, first.column, first.severity) == ("<text>", 2, 8, "error")
    assert "77 is outside -20..=19" in first.message
    assert (second.line, second.help) == (3, "did you mean `run`?")
    assert str(caught.value).count("error:") == 2 and "<text>:2:8: error:" in str(caught.value)
    assert str(first).startswith("<text>:2:8: error:")


def test_a_mistake_in_a_file_names_the_file(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "wrong.toml"
    path.write_text("[tusk.a]\n")
    with pytest.raises(zerolag.WorkloadError) as caught:
        zerolag.run(path)
    assert caught.value.diagnostics[0].file == str(path) and caught.value.diagnostics[0].line == 1


def test_a_mistake_in_a_dict_names_the_key() -> None:
    with pytest.raises(zerolag.WorkloadError, match="99 is outside"):
        zerolag.run({"task": {"a": {"nice": 99, "steps": [{"run": "1ms"}]}}})
    with pytest.raises(TypeError, match=r"`task.a.nice`: a object has no form"):
        zerolag.run({"task": {"a": {"nice": object()}}})


def test_every_wrong_value_is_said_at_once() -> None:
    with pytest.raises(zerolag.SettingError) as caught:
        zerolag.run("examples/audio.json", kernel="6.20", cpus=0, hzz=1, hz=0)
    wrong = {found.key: found for found in caught.value.diagnostics}
    assert list(wrong) == ["kernel", "cpus", "hzz", "hz"]
    assert "did you mean `hz`?" in wrong["hzz"].message and wrong["hz"].value == "0"


def test_options_are_checked_with_the_same_words() -> None:
    for options, reason in [
        ({"duration": "10"}, "needs a unit"),
        ({"duration": "-1s"}, "not negative"),
        ({"machine": "2x2"}, "expected four numbers"),
        ({"costs": "defualt"}, "did you mean `default`"),
        ({"seed": -1}, "whole number"),
        ({"seed": "1"}, "whole number"),
        ({"kernel": 6.12}, 'kernel: expected a text, not 6.12\n  help: write kernel="6.12"'),
        ({"duration": 2}, 'duration: expected a text, not 2\n  help: write duration="10s"'),
        ({"keep": "switch"}, "known are switches, waits, requests"),
    ]:
        with pytest.raises(zerolag.InputError, match=reason):
            zerolag.run("examples/audio.json", **options)  # type: ignore[arg-type]


def test_other_inputs_are_refused_with_advice() -> None:
    with pytest.raises(zerolag.InputError, match="cannot read `no.toml`: no such file") as caught:
        zerolag.run("no.toml")
    assert caught.value.help == "give the path of a file"
    with pytest.raises(zerolag.InputError, match="not a int"):
        zerolag.run(3)  # type: ignore[arg-type]
    with pytest.raises(zerolag.InputError, match="is no trace"):
        zerolag.read_trace("README.md")
    with pytest.raises(zerolag.InputError, match="two values or more"):
        zerolag.compare("examples/audio.json", kernels=["6.12"])
    with pytest.raises(zerolag.InputError, match="two values or more"):
        zerolag.compare("examples/audio.json", kernels="6.12")
    for executor in (3, zerolag.executors.Processes):
        with pytest.raises(zerolag.InputError, match="expected one with the method `submit`"):
            zerolag.sweep("examples/audio.json", {"hz": [100]}, executor=executor)  # type: ignore[arg-type]
    with pytest.raises(zerolag.InputError, match="chunk_seconds: expected more than 0"):
        zerolag.sweep("examples/audio.json", {"hz": [100]}, chunk_seconds=0)
    with pytest.raises(zerolag.InputError, match="and not both"):
        zerolag.compare("examples/audio.json")
    with pytest.raises(zerolag.InputError, match="cannot search for `hz`"):
        zerolag.smallest("examples/audio.json", "hz", "nr_throttled <= 1")


def test_exceptions_are_what_python_programs_expect() -> None:
    assert issubclass(zerolag.WorkloadError, ValueError) and issubclass(zerolag.SettingError, zerolag.ZerolagError)
    with pytest.raises(zerolag.WorkloadError) as caught:
        zerolag.run("[task.a]\nnice = 77\n")
    copied = pickle.loads(pickle.dumps(caught.value))
    assert type(copied) is zerolag.WorkloadError and copied.diagnostics == caught.value.diagnostics
