"""The cheapest values of many keys at once with which every run meets its goals, by Optuna."""

from __future__ import annotations

import os
import warnings
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from . import _zerolag
from ._errors import InputError
from ._space import Axis, Between
from ._spec import Value, Workload
from ._sweep import sweep

Numbers = dict[str, Any]
"""The values of a point: numbers for ranges, else the listed values."""


@dataclass(frozen=True)
class Trial:
    """A tried point."""

    values: Numbers
    cost: float
    excess: float
    """How far the worst run is beyond the worst goal, as a share of the goal's value; 0 or less if all are met."""

    @property
    def met(self) -> bool:
        """Whether every run met every goal."""
        return self.excess <= 0


@dataclass(frozen=True)
class Tuned:
    """What was tried, and the cheapest point that meets the goals."""

    trials: list[Trial]
    study: Any = field(repr=False)
    """Optuna's study: its plots and importances work on it."""

    @property
    def best(self) -> Optional[Trial]:
        """The cheapest point that meets the goals in every run; None if none does."""
        return min((trial for trial in self.trials if trial.met), key=lambda trial: trial.cost, default=None)


def cheapest(
    workload: Workload,
    space: Mapping[str, Axis],
    goals: Union[str, Sequence[str]],
    *,
    cost: Optional[Callable[[Numbers], float]] = None,
    trials: int = 256,
    batch: int = 16,
    runs: int = 3,
    start: Sequence[Numbers] = (),
    sampler: Any = None,
    sampler_seed: int = 0,
    executor: Optional[Executor] = None,
    progress: Optional[Callable[[int, int], object]] = None,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: "Optional[Union[str, os.PathLike[str]]]" = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    **settings: Value,
) -> Tuned:
    """Searches for the cheapest point of a space with which all `runs` of a workload meet all goals.

    `cost` is what to make small: by default the sum of the values. Optuna asks for `batch` points at a time, which run as
    one sweep, all with the same seeds (common random numbers): on threads, or on an `executor`. `start` are points to try
    first; the sampler is Optuna's TPE, with the goals as its constraints. One key that is monotone is found faster, and
    exactly, by `smallest`. Needs Optuna 5: `pip install 'zerolag[optuna]'`.

    The same call gives the same trials with the same version of Optuna, whatever runs them.
    """
    try:
        with warnings.catch_warnings():
            # In a notebook its progress bars want packages that nothing here needs.
            warnings.simplefilter("ignore")
            import optuna
    except ImportError:
        raise InputError("`cheapest` needs Optuna, which is not installed", help="pip install 'zerolag[optuna]'") from None
    if trials < 1 or batch < 1:
        raise InputError(f"expected at least one trial and a batch of one, not {trials} and {batch}")
    read = _zerolag.read_goals([goals] if isinstance(goals, str) else list(goals))
    if not read:
        raise InputError("no goals: without them the cheapest values are the lowest")
    figures = [name for name, *_ in read]
    measure = cost or _sum
    options: dict[str, Any] = {
        "kernel": kernel, "cpus": cpus, "machine": machine, "costs": costs, "seed": seed, "duration": duration, "set": set, **settings,
    }  # fmt: skip
    verbosity = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        sampler = sampler or _sampler(optuna, sampler_seed, len(start))
        study = optuna.create_study(direction="minimize", sampler=sampler)
        for point in start:
            study.enqueue_trial({key: _inner(space[key], value) for key, value in point.items()})
        tried: list[Trial] = []
        while len(tried) < trials:
            asked = [study.ask() for _ in range(min(batch, trials - len(tried)))]
            points = [{key: _suggest(trial, key, axis) for key, axis in space.items()} for trial in asked]
            found = _excesses(workload, space, points, read, figures, runs, executor, options)
            for trial, point, excess in zip(asked, points, found):
                spent = measure(point)
                for goal, (name, *_), beyond in zip(range(len(read)), read, excess):
                    trial.set_constraint(f"{goal}: {name}", beyond)
                study.tell(trial, spent)
                tried.append(Trial(point, spent, max(excess)))
            if progress is not None:
                progress(len(tried), trials)
    finally:
        optuna.logging.set_verbosity(verbosity)
    return Tuned(tried, study)


def _sampler(optuna: Any, seed: int, started: int) -> Any:
    with warnings.catch_warnings():
        # Whole batches are marked as experimental there.
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=max(16, started), multivariate=True, constant_liar=True)


def _sum(values: Numbers) -> float:
    wrong = [key for key, value in values.items() if isinstance(value, (str, bool))]
    if wrong:
        raise InputError(f"`{wrong[0]}` is no number: give `cost`, what the values of a point cost")
    return float(sum(values.values()))


def _suggest(trial: Any, key: str, axis: Axis) -> Any:
    if not isinstance(axis, Between):
        return trial.suggest_categorical(key, list(axis))
    if not axis.step:
        return trial.suggest_float(key, axis.low, axis.high, log=axis.log)
    # Optuna gets the number of steps: its own steps begin at the lowest value, and cannot be by ratio.
    value = trial.suggest_int(key, *axis.steps(), log=axis.log) * axis.step
    return int(value) if value == int(value) else value


def _inner(axis: Axis, value: Any) -> Any:
    """Returns what `_suggest` asks Optuna for, of a value."""
    return round(axis.near(value) / axis.step) if isinstance(axis, Between) and axis.step else value


def _excesses(
    workload: Workload,
    space: Mapping[str, Axis],
    points: list[Numbers],
    goals: Sequence[tuple[str, str, Optional[int], Optional[int]]],
    figures: list[str],
    runs: int,
    executor: Optional[Executor],
    options: dict[str, Any],
) -> list[list[float]]:
    """Runs points, and returns how far the worst run of each is beyond each goal."""

    def written(key: str, value: Any) -> Value:
        axis = space[key]
        return axis.written(value) if isinstance(axis, Between) else value

    listed = [{key: written(key, value) for key, value in point.items()} for point in points]
    table = sweep(workload, listed, figures=figures, runs=runs, executor=executor, **options)
    columns = {column: table[column] for _, column, *_ in goals}
    rows = [range(at * runs, (at + 1) * runs) for at in range(len(points))]
    return [[max(_excess(columns[goal[1]][row], goal) for row in of) for goal in goals] for of in rows]


_NO_FIGURE = 10.0
"""The excess of a run that failed, or had no sample of a figure: farther than what sampling should go on from."""


def _excess(value: Optional[int], goal: tuple[str, str, Optional[int], Optional[int]]) -> float:
    _, _, least, most = goal
    if value is None:
        return _NO_FIGURE
    if most is not None:
        return min(_NO_FIGURE, (value - most) / max(most, 1))
    return 0.0 if least is None else (least - value) / max(least, 1)
