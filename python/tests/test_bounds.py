"""`zerolag.analyse`, `zerolag.TaskSets` and `zerolag.schedulability`."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess

import pytest
import zerolag


def test_bounds_are_beside_what_was_simulated() -> None:
    found = zerolag.analyse("docs/how-to/control.toml", costs="zero", runs=2)
    table = found.table
    assert table["name"] == ["control", "vision", "log", "batch"]
    assert table["bound_ns"][:2] == [2_000_000, 10_000_000]
    assert table["simulated_max_ns"][0] == 2_000_000
    assert all(seen <= bound for seen, bound in zip(table["simulated_max_ns"], table["bound_ns"]))
    assert table["paper"][0] == "Joseph & Pandya 1986; Lehoczky 1990"
    assert found.schedulable and "kept" in str(found)
    assert not zerolag.analyse("docs/how-to/control.toml", vision="33ms", costs="zero", runs=0).schedulable
    assert zerolag.analyse("docs/how-to/control.toml", runs=0).table["breaks"][0] == "no_costs"


def test_the_json_is_that_of_the_command_line() -> None:
    program = os.environ.get("ZEROLAG_PROGRAM")
    if program is None:
        pytest.skip("the program is not built")
    printed = subprocess.run([program, "analyse", "-q", "docs/how-to/control.toml", "--runs", "2", "--json"], capture_output=True, check=True)
    assert zerolag.analyse("docs/how-to/control.toml", runs=2).to_json() == printed.stdout.decode()


def test_task_sets_are_workloads(tmp_path: pathlib.Path) -> None:
    sets = zerolag.TaskSets(tasks=5, utilization=0.7)
    text = sets.draw(3)
    assert text == sets.draw(3) != sets.draw(4)
    rows = [line.split(",") for line in text.splitlines()[1:]]
    assert abs(sum(int(cost) / int(period) for _, cost, _, period in rows) - 0.7) < 1e-3
    path = tmp_path / "set.csv"
    path.write_text(text)
    assert zerolag.analyse(path, cpus=1, costs="zero", fair_server="off", runs=1).schedulable
    with pytest.raises(zerolag.InputError, match="tasks: 0 is outside"):
        zerolag.TaskSets(tasks=0).draw(1)
    with pytest.raises(zerolag.SettingError, match="longest"):
        zerolag.TaskSets(longest="far").draw(1)


def test_shares_of_schedulable_sets() -> None:
    of = zerolag.TaskSets(tasks=6, longest="20ms")
    table = zerolag.schedulability([0.6, 0.9], ["dm", "simulated_rm", "edf"], of=of, sets=40)
    assert table.columns == ["utilization", "test", "sets", "accepted", "share"]
    accepted = table["accepted"]
    assert accepted[:2] == accepted[2:4] and accepted[4:] == [40, 40]
    assert accepted[0] > accepted[1]
    again = zerolag.schedulability([0.6, 0.9], ["dm", "simulated_rm", "edf"], of=of, sets=40)
    assert json.dumps(again.to_dict()) == json.dumps(table.to_dict())
    with pytest.raises(zerolag.SettingError, match="known are dm, edf"):
        zerolag.schedulability([0.5], ["rm"])
    with pytest.raises(zerolag.SettingError, match="it needs a supply"):
        zerolag.schedulability([0.5], "quota_dm")
    on = zerolag.schedulability([0.2], ["reservation_dm", "quota_dm"], sets=40, supply=("5ms", "10ms"), of=zerolag.TaskSets(shortest="20ms"))
    assert on["accepted"][0] <= on["accepted"][1]
