"""Sweeps: one workload with many values, on this machine or on those of an executor.

The rows of a sweep (a point and a seed) are numbered before anything runs, go out in chunks, and are put back by
number. So the result is the same whatever runs them, in which order, and whichever worker is lost on the way.
"""

from __future__ import annotations

import math
import os
import time
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from typing import Callable, Iterator, Mapping, Optional, Sequence, Union

from . import _zerolag
from ._crew import Crew
from ._errors import InputError, RunError
from ._results import Table
from ._space import Space, points_of
from ._spec import Spec, Value, Workload, spec_of
from ._store import PART_ROWS, Dataset, Found, Log, Row, Store, identity
from ._until import Until

_Path = Union[str, "os.PathLike[str]"]
_RESERVED = ("run", "error")
_CHUNK_PART = 8
_CHUNK_LEAST = 32
"""On an executor a chunk is at most the first part of the rows that are left, so that the last ones are small and workers
end together; but no less than the second part of all, so that there are few. Threads share the rows of a chunk."""
_ROWS_MOST = 10_000_000


def run_chunk(spec: Spec, keys: list[str], figures: list[str], rows: list[Row]) -> list[Found]:
    """Runs rows on one CPU: what an executor gets."""
    return _zerolag.run_rows(spec, keys, figures, rows, False)


def sweep(
    workload: Workload,
    space: Space,
    *,
    figures: Optional[Sequence[str]] = None,
    runs: int = 3,
    until: Optional[Until] = None,
    executor: Optional[Executor] = None,
    resume: Optional[_Path] = None,
    out: Optional[_Path] = None,
    progress: Optional[Callable[[int, int], object]] = None,
    chunk_seconds: float = 2.0,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: Optional[_Path] = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    **settings: Value,
) -> Table:
    """Runs a workload for every point of a space, `runs` times with consecutive seeds.

    Returns a table with a row per run: the values of the point, `run`, `seed`, a column per figure (named as in
    goals, with its unit), and `error`: a run that fails is a row with its reason, and not the end of the sweep.
    `until` adds seeds to the points whose mean is not known well enough after `runs`.

    `executor` runs the rows, in chunks that take about `chunk_seconds`: one of `zerolag.executors` or
    `concurrent.futures`, Dask's `Client.get_executor()`, or any other of that protocol. Without one, all CPUs of this
    machine are used by threads. The rows of a worker that is lost are run again.

    `resume` names a file to which finished chunks are added, `out` a directory that becomes a Parquet dataset (needs
    pyarrow): a sweep that was ended begins where it stopped. `progress` is called with the numbers of finished rows
    and of all rows that are wanted so far.
    """
    keys, points = points_of(space)
    most = runs if until is None else max(runs, until.most)
    if not 1 <= runs <= 10_000:
        raise InputError(f"runs: expected 1 to 10000, not {runs}")
    if len(points) * most > _ROWS_MOST:
        raise InputError(f"these are {len(points) * most} runs; at most {_ROWS_MOST} are possible")
    if executor is not None and (isinstance(executor, type) or not callable(getattr(executor, "submit", None))):
        kind = f"the class {executor.__name__}" if isinstance(executor, type) else f"a {type(executor).__name__}"
        raise InputError(f"executor: expected one with the method `submit`, not {kind}", help="give zerolag.executors.Processes()")
    if not chunk_seconds > 0:
        raise InputError(f"chunk_seconds: expected more than 0, not {chunk_seconds!r}")
    if resume is not None and out is not None:
        raise InputError("give `resume` or `out`: a dataset goes on where it stopped, too")
    spec = spec_of(
        workload, kernel=kernel, cpus=cpus, machine=machine, costs=costs, seed=seed, duration=duration, set=set, settings=settings
    ).embedded()
    names = _distinct(_zerolag.usual_figures(spec) if figures is None else figures)
    if until is not None and until.figure not in names:
        names.append(until.figure)
    columns = _zerolag.figure_keys(names)
    clash = [key for key in keys if key in _RESERVED or key in columns]
    if clash:
        raise InputError(f"`{clash[0]}` is the name of a column of the result, so it cannot be varied")

    def row(number: int) -> Row:
        return points[number // most], number % most

    def table(numbers: Sequence[int], found: Sequence[Found]) -> _zerolag.Table:
        return _zerolag.sweep_table(keys, columns, [row(number) for number in numbers], found)

    store: Optional[Store] = None
    if resume is not None or out is not None:
        sweep_is = identity(spec, keys, names, points, runs if until is None else [runs, repr(until)])
        if resume is not None:
            store = Log(resume, sweep_is)
        elif out is not None:
            store = Dataset(out, sweep_is, table, columns, len(points) * runs if until is None else None)
    found: dict[int, Found] = {}
    work = _Work(spec, keys, names, row, found, executor, chunk_seconds, store, progress)
    is_over = False
    try:
        if store is not None:
            found.update(store.known())
        wanted = [point * most + run for point in range(len(points)) for run in range(runs)]
        while wanted:
            work.run([number for number in wanted if number not in found], len(wanted))
            more = [] if until is None else list(_more(until, names.index(until.figure), found, wanted, most))
            wanted = sorted([*wanted, *more]) if more else []
        if store is not None:
            work.kept(store.finish)
        is_over = True
    finally:
        work.close(is_over)
        if store is not None:
            store.close()
    numbers = sorted(found)
    return Table(table(numbers, [found[number] for number in numbers]))


def _more(until: Until, at: int, found: Mapping[int, Found], wanted: Sequence[int], most: int) -> Iterator[int]:
    """Returns the rows that points need beyond those that they have."""
    per_point: dict[int, list[Optional[int]]] = {}
    for number in wanted:
        figures = found[number][1]
        per_point.setdefault(number // most, []).append(None if figures is None else figures[at])
    for point, values in per_point.items():
        first = point * most + len(values)
        yield from range(first, first + until.more(values))


def _chunks(numbers: list[int], most: int, parts: int) -> Iterator[list[int]]:
    """Divides rows into chunks of at most `most`, large ones first, the last no smaller than one of `parts`."""
    least = math.ceil(len(numbers) / parts)
    at = 0
    while at < len(numbers):
        size = max(1, min(most, max(math.ceil((len(numbers) - at) / _CHUNK_PART), least)))
        yield numbers[at : at + size]
        at += size


def _distinct(names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        names = [names]
    return list(dict.fromkeys(names))


class _Work:
    """Runs rows by number, and keeps their results."""

    def __init__(
        self,
        spec: Spec,
        keys: list[str],
        names: list[str],
        row: Callable[[int], Row],
        found: dict[int, Found],
        executor: Optional[Executor],
        chunk_seconds: float,
        store: Optional[Store],
        progress: Optional[Callable[[int, int], object]],
    ) -> None:
        self._spec, self._keys, self._names, self._row = spec, keys, names, row
        self._found, self._store, self._progress = found, store, progress
        self._seconds = chunk_seconds
        self._each: Optional[float] = None
        self._total = 0
        self._crew: Optional[Crew] = None
        if executor is not None:
            width = getattr(executor, "_max_workers", 0) if isinstance(executor, ProcessPoolExecutor) else 0
            self._crew = Crew(executor, self._send, width)

    def _rows(self, chunk: list[int]) -> list[Row]:
        return [self._row(number) for number in chunk]

    def _send(self, executor: Executor, chunk: list[int]) -> "Future[list[Found]]":
        return executor.submit(run_chunk, self._spec, self._keys, self._names, self._rows(chunk))

    def run(self, numbers: list[int], total: int) -> None:
        """Runs rows; `total` are wanted with those that are known."""
        self._total = total
        if not numbers:
            return
        if self._each is None:
            # One row tells how many make a chunk.
            first, numbers = numbers[:1], numbers[1:]
            began = time.perf_counter()
            self._done(first, run_chunk(self._spec, self._keys, self._names, self._rows(first)))
            self._each = max(time.perf_counter() - began, 1e-5)
        width = 1 if self._crew is not None else os.cpu_count() or 1
        most = min(int(self._seconds * width / self._each), PART_ROWS)
        chunks = list(_chunks(numbers, most, _CHUNK_PART if self._crew is None else _CHUNK_LEAST))
        if self._crew is not None:
            try:
                self._crew.run(chunks, self._done)
            except (BrokenExecutor, CancelledError) as error:
                left = total - len(self._found)
                kept = "they are run again" if self._store is None else f"run it again: {self._store.path} has the others"
                why = str(error) or type(error).__name__
                raise RunError(f"the executor is broken, and {left} of {total} runs are missing ({kept}): {why}") from error
            return
        for chunk in chunks:
            self._done(chunk, _zerolag.run_rows(self._spec, self._keys, self._names, self._rows(chunk), True))

    def _done(self, chunk: list[int], results: list[Found]) -> None:
        store = self._store
        if store is not None:
            self.kept(lambda: store.add(chunk, results))
        self._found.update(zip(chunk, results))
        if self._progress is not None:
            self._progress(len(self._found), self._total)

    def kept(self, write: Callable[[], object]) -> None:
        """Writes to the store, and says what a failure leaves."""
        try:
            write()
        except OSError as error:
            path = "" if self._store is None else self._store.path
            raise RunError(
                f"cannot write `{path}`: {error.strerror or error}; {len(self._found)} of {self._total} runs are kept there",
                help="the same call goes on from there",
            ) from error

    def close(self, is_over: bool) -> None:
        """Ends what is running."""
        if self._crew is not None:
            self._crew.close(is_over)
