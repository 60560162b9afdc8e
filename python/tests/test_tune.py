"""The cheapest values of many keys at once, by Optuna."""

from __future__ import annotations

from typing import Any

import pytest
import zerolag

optuna = pytest.importorskip("optuna")

SPACE = {"cpu_max": zerolag.Between(20_000, 200_000, step=1000, form="{} 100000")}
OPTIONS: dict[str, Any] = {"runs": 2, "duration": "1s", "trials": 24, "batch": 8}


def test_it_comes_close_to_the_bisection(web: str) -> None:
    goal = "request_latency.p99 <= 60ms"
    found = zerolag.cheapest(web, SPACE, goal, seed=1, **OPTIONS)
    # `smallest` judges by other seeds than those that it searched with; `cheapest` has its two.
    least = zerolag.smallest(web, "cpu.max", goal, risk=0.5, runs=2, seed=1, duration="1s").least
    assert least is not None and found.best is not None
    best, exact = found.best.values["cpu_max"], int(least.split()[0])
    assert exact * 0.8 <= best <= exact * 1.2, "sampling comes near to what bisection finds"
    assert len(found.trials) == 24 and found.best.met and found.best.cost == best
    assert any(not trial.met for trial in found.trials)


def test_the_trials_do_not_depend_on_the_executor(web: str) -> None:
    first = zerolag.cheapest(web, SPACE, "request_latency.p99 <= 60ms", **OPTIONS)
    with zerolag.executors.Processes(2) as pool:
        second = zerolag.cheapest(web, SPACE, "request_latency.p99 <= 60ms", executor=pool, **OPTIONS)
    assert first.trials == second.trials


def test_lists_costs_and_starts(web: str) -> None:
    space: dict[str, Any] = {"hz": [100, 250, 1000], "cpu_max": ["40000 100000", "400000 100000"]}

    def cost(values: dict[str, Any]) -> float:
        return int(values["cpu_max"].split()[0]) + values["hz"]

    start = [{"hz": 1000, "cpu_max": "400000 100000"}]
    found = zerolag.cheapest(web, space, ["request_latency.p99 <= 1s"], cost=cost, start=start, duration="200ms", trials=12, batch=6)
    assert found.trials[0].values == start[0] and found.best is not None and found.best.cost <= 40_100 + 900
    nothing = zerolag.cheapest(web, space, ["request_latency.p99 <= 1us"], cost=cost, duration="200ms", trials=4, batch=4)
    assert nothing.best is None


def test_mistakes(web: str) -> None:
    for goals, more, reason in [
        (["p98 <= 1ms"], {}, "there is no figure"),
        (["request_latency.p99 40ms"], {}, "no comparison"),
        ([], {}, "no goals"),
        (["request_latency.p99 <= 1s"], {"trials": 0}, "at least one trial"),
    ]:
        with pytest.raises(zerolag.InputError, match=reason):
            zerolag.cheapest(web, SPACE, goals, **{**OPTIONS, **more})
    with pytest.raises(zerolag.InputError, match="is no number: give `cost`"):
        zerolag.cheapest(web, {"kernel": ["5.15", "6.12"]}, "request_latency.p99 <= 1s", **OPTIONS)
