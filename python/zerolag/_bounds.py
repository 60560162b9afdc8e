"""Bounds on responses, random task sets, and which share of them is schedulable."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Mapping, Optional, Sequence, Union

from . import _zerolag
from ._results import Bounds, Table
from ._spec import Value, Workload, spec_of


@dataclass(frozen=True)
class TaskSets:
    """How random task sets are drawn.

    `utilization` is divided by UUniFast-Discard, or with `shares=(low, high)` by Dirichlet-rescale between these bounds
    of each task. Periods are log-uniform (`uniform=True`: uniform) from `shortest` to `longest`, in multiples of `grain`.
    A deadline lies uniformly between these parts of the time from the cost to the end of the period; (1, 1) is its end.
    """

    tasks: int = 10
    utilization: float = 0.5
    shares: Optional[tuple[float, float]] = None
    uniform: bool = False
    shortest: str = "1ms"
    longest: str = "100ms"
    grain: str = "100us"
    deadlines: tuple[float, float] = (1.0, 1.0)

    def draw(self, seed: int) -> str:
        """Returns the set of a seed as the text of a workload (CSV); the same on every machine."""
        return _zerolag.draw(self, seed)


def analyse(
    workload: Workload,
    *,
    runs: int = 5,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: "Optional[Union[str, os.PathLike[str]]]" = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    **settings: Value,
) -> Bounds:
    """Bounds the responses of a workload's tasks, next to the longest responses of `runs` simulations (0: none).

    Every bound names its publication, and the assumptions that the workload breaks.
    """
    spec = spec_of(
        workload, kernel=kernel, cpus=cpus, machine=machine, costs=costs, seed=seed, duration=duration, set=set, settings=settings
    )
    return Bounds(_zerolag.analyse(spec, runs))


def schedulability(
    utilizations: Union[float, Sequence[float]],
    tests: Union[str, Sequence[str]],
    *,
    of: TaskSets = TaskSets(),
    sets: int = 1000,
    cpus: int = 1,
    seed: int = 0,
    supply: Optional[tuple[str, str]] = None,
    simulated: str = "1s",
) -> Table:
    """Returns which share of random task sets each test accepts: a row per test and utilization.

    Tests: `dm`, `edf` (one CPU, exact); `global_dm`, `global_edf`, `density`, `partitioned_edf`; `reservation_dm`,
    `reservation_edf`, `quota_dm`, `quota_edf` on a `supply` of (budget, period); `simulated_rm`, `simulated_edf`: a
    simulation of this length misses no deadline. Sets of one number have the same seed at every utilization.
    """
    names = [tests] if isinstance(tests, str) else list(tests)
    levels = [float(utilizations)] if isinstance(utilizations, (int, float)) else list(utilizations)
    return Table(_zerolag.schedulability(of, levels, names, sets, cpus, seed, supply, simulated))
