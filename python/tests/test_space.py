"""Spaces that are filled evenly, and means that are known well enough."""

from __future__ import annotations

from typing import Optional

import pytest
import zerolag
from zerolag._space import DIMENSIONS, sequence
from zerolag._until import t_quantile


def test_the_sequence_is_that_of_another_implementation() -> None:
    qmc = pytest.importorskip("scipy.stats").qmc
    other = qmc.Sobol(DIMENSIONS, scramble=False, bits=30).random(256).tolist()
    assert sequence(DIMENSIONS, 256, 0) == other


def test_points_fill_every_interval_and_a_seed_moves_them() -> None:
    for seed in (0, 7):
        points = sequence(4, 64, seed)
        for dimension in range(4):
            assert sorted(int(point[dimension] * 64) for point in points) == list(range(64)), "one in each of 64 intervals"
        # Of the first two dimensions each of 64 boxes of 8 by 8 has one, too.
        assert len({(int(x * 8), int(y * 8)) for x, y, *_ in points}) == 64
    assert sequence(3, 8, 7) != sequence(3, 8, 0) and sequence(3, 8, 7) == sequence(3, 16, 7)[:8]


def test_a_space_of_ranges_and_lists_runs(web: str) -> None:
    space: "dict[str, zerolag.Between | list[int]]" = {
        "cpu_max": zerolag.Between(20_000, 80_000, step=1000, log=True, form="{} 100000"),
        "hz": [100, 250, 1000],
    }
    points = zerolag.sobol(space, 16)
    assert points == zerolag.sobol(space, 16) != zerolag.sobol(space, 16, seed=1)
    quotas = [int(str(point["cpu_max"]).split()[0]) for point in points]
    assert all(20_000 <= quota <= 80_000 and quota % 1000 == 0 for quota in quotas) and len(set(quotas)) == 16
    # By ratio: as many below the geometric mean of the ends as above.
    assert sum(quota < 40_000 for quota in quotas) == 8
    assert {point["hz"] for point in points} == {"100", "250", "1000"}
    table = zerolag.sweep(web, points, runs=1, duration="100ms")
    assert table["error"] == [None] * 16


def test_wrong_ranges_are_refused() -> None:
    for make, reason in [
        (lambda: zerolag.Between(2, 1), "must not be above"),
        (lambda: zerolag.Between(0, 1, log=True), "are above 0"),
        (lambda: zerolag.Between(0, 1, step=-1), "is below 0"),
        (lambda: zerolag.Between(1, 9, step=10), "no multiple"),
        (lambda: zerolag.sobol({}, 4), "1 to 21 keys"),
        (lambda: zerolag.sobol({"hz": []}, 4), "is empty"),
        (lambda: zerolag.sobol({"hz": [1]}, 0), "points"),
        (lambda: zerolag.sweep("a.toml", {"hz": zerolag.Between(1, 2)}), "use `sobol`"),  # type: ignore[dict-item]
        (lambda: zerolag.Until("x", 0), "relative"),
        (lambda: zerolag.Until("x", confidence=1), "confidence"),
        (lambda: zerolag.Until("x", most=1), "most"),
    ]:
        with pytest.raises(zerolag.InputError, match=reason):
            make()


def test_quantiles_of_student() -> None:
    # Table of the distribution: two sided 95 %, 99 %.
    for freedom, of95, of99 in [(1, 12.706, 63.657), (2, 4.303, 9.925), (5, 2.571, 4.032), (30, 2.042, 2.750), (1000, 1.962, 2.581)]:
        assert abs(t_quantile(freedom, 0.95) - of95) < 6e-4 and abs(t_quantile(freedom, 0.99) - of99) < 6e-4


def test_runs_are_added_until_a_mean_is_known() -> None:
    until = zerolag.Until("f", 0.1, most=50)
    assert until.more([100, 100, 100]) == 0, "no spread"
    assert until.more([100]) == 1 and until.more([]) == 2
    assert until.more([100, None, 90]) == 0, "no samples: more runs do not help"
    wide = until.more([50, 150, 100, 80])
    assert wide == 4, "at most as many again"
    assert until.more([0, 100] * 24) == 2, "no more than the most"


def spread(table: zerolag.Table, load: str) -> "list[Optional[int]]":
    rows = zip(table["load"], table["request_latency.p99_ns"])
    return [figure for of, figure in rows if of == load]


def test_a_sweep_adds_seeds_where_the_mean_is_not_known(web: str) -> None:
    until = zerolag.Until("request_latency.p99", 0.1, most=24)
    space = {"load": ["20/s", "130/s"]}
    table = zerolag.sweep(web, space, runs=4, until=until, duration="500ms", seed=3)
    few, many = spread(table, "20/s"), spread(table, "130/s")
    assert 4 <= len(few) and 4 < max(len(few), len(many)) <= 24
    for values in (few, many):
        assert until.more(values) == 0
    # The same first seeds at each point, without a gap.
    for load in space["load"]:
        seeds = [seed for of, seed in zip(table["load"], table["seed"]) if of == load]
        assert seeds == list(range(3, 3 + len(seeds)))
    plain = zerolag.sweep(web, space, runs=4, figures=["request_latency.p99"], duration="500ms", seed=3)
    assert spread(plain, "130/s") == many[:4]


def test_a_failed_point_gets_no_more_seeds(web: str) -> None:
    until = zerolag.Until("request_latency.p99", 0.01, most=6)
    table = zerolag.sweep(web, {"hz": [0, 250]}, runs=2, until=until, duration="200ms")
    assert table["hz"] == ["0"] * 2 + ["250"] * 6 and [error is None for error in table["error"]] == [False] * 2 + [True] * 6
