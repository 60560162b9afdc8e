"""Sweeps: one workload with many values, on this machine or on those of an executor.

The rows of a sweep (a point and a seed) are numbered before anything runs, go out in chunks, and are put back by
number. So the result is the same whatever runs them, in which order, and whichever worker is lost on the way.
"""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import os
import time
from concurrent.futures import Executor, Future, as_completed
from typing import Any, Callable, Iterable, Mapping, Optional, Sequence, Union

from . import _zerolag
from ._errors import InputError, RunError
from ._results import Table
from ._spec import Spec, Value, Workload, key_of, spec_of, written

Row = tuple[list[str], int]
"""The values of a point, and the number of the run."""
Found = tuple[Optional[int], Optional[list[Optional[int]]], Optional[str]]
"""The seed, the figures, and why there are none."""
Space = Union[Mapping[str, Iterable[Value]], Sequence[Mapping[str, Value]]]
"""Values per key, of which every combination is run; or a list of points."""

_RESERVED = ("run", "error")
_CHUNKS_LEAST = 8
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
    executor: Optional[Executor] = None,
    resume: "Optional[Union[str, os.PathLike[str]]]" = None,
    progress: Optional[Callable[[int, int], object]] = None,
    chunk_seconds: float = 2.0,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: "Optional[Union[str, os.PathLike[str]]]" = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    **settings: Value,
) -> Table:
    """Runs a workload for every point of a space, `runs` times with consecutive seeds.

    Returns a table with a row per run: the values of the point, `run`, `seed`, a column per figure (named as in
    goals, with its unit), and `error`: a run that fails is a row with its reason, and not the end of the sweep.

    `executor` runs the rows, in chunks that take about `chunk_seconds`: one of `concurrent.futures`, Dask's
    `Client.get_executor()`, or any other of that protocol. Without one, all CPUs of this machine are used by threads.

    `resume` names a file to which finished chunks are added: a sweep that was ended begins where it stopped.
    `progress` is called with the numbers of finished rows and of all rows.
    """
    keys, points = _points(space)
    if not 1 <= runs <= 10_000:
        raise InputError(f"runs: expected 1 to 10000, not {runs}")
    if len(points) * runs > _ROWS_MOST:
        raise InputError(f"these are {len(points) * runs} runs; at most {_ROWS_MOST} are possible")
    spec = spec_of(
        workload, kernel=kernel, cpus=cpus, machine=machine, costs=costs, seed=seed, duration=duration, set=set, settings=settings
    ).embedded()
    names = _distinct(_zerolag.usual_figures(spec) if figures is None else figures)
    columns = _zerolag.figure_keys(names)
    clash = [key for key in keys if key in _RESERVED or key in columns]
    if clash:
        raise InputError(f"`{clash[0]}` is the name of a column of the result, so it cannot be varied")
    rows: list[Row] = [(values, run) for values in points for run in range(runs)]
    found: list[Optional[Found]] = [None] * len(rows)
    log = None if resume is None else _Log(resume, spec, keys, names, rows)
    try:
        if log is not None:
            for at, row in log.known():
                found[at] = row
        _run(spec, keys, names, rows, found, executor, chunk_seconds, log, progress)
    finally:
        if log is not None:
            log.close()
    return Table(_zerolag.sweep_table(keys, columns, rows, [row for row in found if row is not None]))


def _points(space: Space) -> tuple[list[str], list[list[str]]]:
    if isinstance(space, Mapping):
        axes = {key_of(key): _values(key, values) for key, values in space.items()}
        if not axes:
            raise InputError("nothing to vary: give values for at least one key")
        return list(axes), [list(point) for point in itertools.product(*axes.values())]
    points = [{key_of(key): written(value) for key, value in point.items()} for point in space]
    if not points:
        raise InputError("nothing to vary: give at least one point")
    keys = list(points[0])
    for at, point in enumerate(points):
        if list(point) != keys:
            raise InputError(f"point {at} has the keys {', '.join(point) or 'none'}; point 0 has {', '.join(keys)}")
    return keys, [list(point.values()) for point in points]


def _values(key: str, values: object) -> list[str]:
    if isinstance(values, (str, bytes, int, float)) or not isinstance(values, Iterable):
        raise InputError(f"`{key}`: expected a list of values, as in [{values!r}]")
    listed: list[str] = [written(value) for value in values]
    if not listed:
        raise InputError(f"`{key}`: the list of values is empty")
    return listed


def _distinct(names: Sequence[str]) -> list[str]:
    if isinstance(names, str):
        names = [names]
    return list(dict.fromkeys(names))


def _run(
    spec: Spec,
    keys: list[str],
    names: list[str],
    rows: list[Row],
    found: list[Optional[Found]],
    executor: Optional[Executor],
    chunk_seconds: float,
    log: "Optional[_Log]",
    progress: Optional[Callable[[int, int], object]],
) -> None:
    pending = [at for at, row in enumerate(found) if row is None]

    def done(chunk: list[int], results: list[Found]) -> None:
        for at, result in zip(chunk, results):
            found[at] = result
        if log is not None:
            log.add(chunk, results)
        if progress is not None:
            progress(sum(row is not None for row in found), len(rows))

    if not pending:
        return
    # One row tells how many make a chunk.
    first, rest = pending[:1], pending[1:]
    began = time.perf_counter()
    done(first, run_chunk(spec, keys, names, [rows[at] for at in first]))
    each = max(time.perf_counter() - began, 1e-5)
    width = 1 if executor is not None else os.cpu_count() or 1
    size = max(1, min(int(chunk_seconds * width / each), math.ceil(len(rest) / _CHUNKS_LEAST)))
    chunks = [rest[at : at + size] for at in range(0, len(rest), size)]
    if executor is None:
        for chunk in chunks:
            done(chunk, _zerolag.run_rows(spec, keys, names, [rows[at] for at in chunk], True))
        return
    futures: dict[Future[list[Found]], list[int]] = {}
    try:
        for chunk in chunks:
            futures[executor.submit(run_chunk, spec, keys, names, [rows[at] for at in chunk])] = chunk
        for future in as_completed(futures):
            done(futures[future], future.result())
    except (OSError, RuntimeError) as error:
        # BrokenProcessPool and its relatives: a worker died, and the executor does not replace it.
        left = sum(row is None for row in found)
        kept = "they are run again" if log is None else f"run it again: {log.path} has the others"
        raise RunError(f"a worker was lost, and {left} of {len(rows)} runs are missing ({kept}): {error}") from error
    finally:
        for future in futures:
            future.cancel()


class _Log:
    """Finished rows, a line of JSON per chunk, below a line that names the sweep."""

    SCHEMA = "zerolag.sweep.rows.v1"

    def __init__(
        self, path: "Union[str, os.PathLike[str]]", spec: Spec, keys: list[str], names: list[str], rows: list[Row]
    ) -> None:
        self.path = os.fspath(path)
        described = json.dumps([repr(spec), keys, names, rows, _zerolag.__version__])
        head = {"schema": self.SCHEMA, "sweep": hashlib.sha256(described.encode()).hexdigest()}
        try:
            self._file = open(self.path, "a+b")  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise InputError(f"cannot write `{self.path}`: {error.strerror}") from None
        self._lines: list[Any] = []
        whole = self._read()
        if not self._lines:
            self._file.truncate(0)
            self._write(head)
        elif self._lines[0] != head:
            self._file.close()
            raise InputError(
                f"`{self.path}` belongs to another sweep: the workload, its values, or the version of zerolag differ",
                help="name another file, or remove this one",
            )
        else:
            # The last line is cut off if the process was killed while it wrote it.
            self._file.truncate(whole)

    def _read(self) -> int:
        self._file.seek(0)
        whole = 0
        for line in self._file:
            if not line.endswith(b"\n"):
                break
            try:
                self._lines.append(json.loads(line))
            except ValueError:
                self._lines = self._lines or [None]
                break
            whole += len(line)
        return whole

    def known(self) -> Iterable[tuple[int, Found]]:
        """Returns the rows of an earlier run."""
        return ((at, (seed, figures, error)) for line in self._lines[1:] for at, seed, figures, error in line["rows"])

    def add(self, chunk: list[int], results: list[Found]) -> None:
        """Adds finished rows."""
        self._write({"rows": [[at, *result] for at, result in zip(chunk, results)]})

    def _write(self, line: object) -> None:
        self._file.write(json.dumps(line).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Closes the file."""
        self._file.close()
