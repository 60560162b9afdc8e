"""Where a sweep keeps finished rows: a log of lines, or a dataset of Parquet files. A sweep that was ended goes on from there.

Whatever ends the writing (a signal, a full disk), a reader finds only whole rows: a line that was cut off is removed, and a
Parquet file gets its name when it is complete.
"""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import re
import stat
from typing import Any, Callable, Iterable, Iterator, Optional, Protocol, Sequence

from . import _zerolag
from ._errors import InputError
from ._spec import Spec

Row = tuple[list[str], int]
"""The values of a point, and the number of the run."""
Found = tuple[Optional[int], Optional[list[Optional[int]]], Optional[str]]
"""The seed, the figures, and why there are none."""

LOST = "the worker was lost whenever it ran this: killed, or without memory"
"""The error of a row that no worker survived. It is tried again by the next sweep that goes on."""


class Store(Protocol):
    """What a sweep writes to."""

    path: str

    def known(self) -> Iterable[tuple[int, Found]]:
        """Returns the rows of an earlier run."""
        ...

    def add(self, numbers: Sequence[int], found: Sequence[Found]) -> None:
        """Adds finished rows. Raises OSError."""
        ...

    def finish(self) -> None:
        """Ends a complete sweep. Raises OSError."""
        ...

    def close(self) -> None:
        """Closes files."""
        ...


def identity(spec: Spec, keys: list[str], names: list[str], points: list[list[str]], runs: object) -> str:
    """Returns a digest of everything that decides the rows of a sweep."""
    described = json.dumps([repr(spec), keys, names, points, runs, _zerolag.__version__])
    return hashlib.sha256(described.encode()).hexdigest()


def _foreign(path: str, what: str) -> InputError:
    return InputError(
        f"`{path}` belongs to another sweep: the workload, its values, or the version of zerolag differ",
        help=f"name another {what}, or remove this one",
    )


class Log:
    """A line of JSON per chunk, below a line that names the sweep."""

    SCHEMA = "zerolag.sweep.rows.v2"

    def __init__(self, path: "str | os.PathLike[str]", sweep: str) -> None:
        self.path = os.fspath(path)
        head = {"schema": self.SCHEMA, "sweep": sweep}
        try:
            self._file = open(self.path, "a+b")  # noqa: SIM115 (closed by `close`)
        except OSError as error:
            raise InputError(f"cannot write `{self.path}`: {error.strerror}") from None
        if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
            self._file.close()
            raise InputError(f"cannot go on from `{self.path}`: it is no file")
        self._lines: list[Any] = []
        self._length = self._read()
        if not self._lines:
            self._file.truncate(0)
            self._length = 0
            self._write(head)
        elif self._lines[0] != head:
            self._file.close()
            raise _foreign(self.path, "file")
        else:
            # The last line is cut off if the process was killed while it wrote it.
            self._file.truncate(self._length)

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

    def known(self) -> Iterator[tuple[int, Found]]:
        """Returns the rows of an earlier run."""
        for line in self._lines[1:]:
            for number, seed, figures, error in line["rows"]:
                if error != LOST:
                    yield number, (seed, figures, error)

    def add(self, numbers: Sequence[int], found: Sequence[Found]) -> None:
        """Adds finished rows."""
        self._write({"rows": [[number, *row] for number, row in zip(numbers, found)]})

    def _write(self, line: object) -> None:
        data = json.dumps(line).encode() + b"\n"
        try:
            self._file.write(data)
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError:
            # Closing would try to write the rest again.
            fd = os.dup(self._file.fileno())
            try:
                self._file.close()
            except OSError:
                pass
            try:
                os.ftruncate(fd, self._length)
            finally:
                os.close(fd)
            raise
        self._length += len(data)

    def finish(self) -> None:
        """Nothing is left to do."""

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


PART_ROWS = 16_384
"""Rows of a part of a dataset. A constant, so that the files depend neither on times nor on the executor."""


class Dataset:
    """A directory of Parquet files, `part-00000.parquet` and so on, each for a range of rows.

    Chunks come in any order and of any size. Each is a file in `.chunks` until all rows of its part are there; then they
    become one part, in the order of the rows. Readers of datasets skip names with a point in front.
    """

    SCHEMA = "zerolag.sweep.dataset.v1"
    _HEAD = ".sweep.json"
    _ROWS = b"zerolag.rows"

    def __init__(
        self,
        path: "str | os.PathLike[str]",
        sweep: str,
        table: Callable[[Sequence[int], Sequence[Found]], Any],
        figures: Sequence[str],
        total: Optional[int],
    ) -> None:
        """`table` makes a table of rows; `total` is how many there will be, if that is known."""
        try:
            import pyarrow
            import pyarrow.parquet
        except ImportError:
            raise InputError("a dataset needs pyarrow, which is not installed", help="pip install 'zerolag[parquet]'") from None
        self._arrow, self._parquet = pyarrow, pyarrow.parquet
        self.path = os.fspath(path)
        self._dir = pathlib.Path(path)
        self._chunks = self._dir / ".chunks"
        self._table, self._figures, self._total = table, list(figures), total
        self._rows: dict[int, Found] = {}
        """Rows of parts that are not complete."""
        self._files: dict[int, list[pathlib.Path]] = {}
        """The chunk files of each such part."""
        self._known: dict[int, Found] = {}
        try:
            self._open(sweep)
        except OSError as error:
            raise InputError(f"cannot write `{self.path}`: {error.strerror or error}") from None

    def _open(self, sweep: str) -> None:
        self._dir.mkdir(exist_ok=True)
        head = {"schema": self.SCHEMA, "sweep": sweep}
        place = self._dir / self._HEAD
        if place.exists():
            if json.loads(place.read_text()) != head:
                raise _foreign(self.path, "directory")
        elif any(entry.name != f".{self._HEAD}.tmp" for entry in self._dir.iterdir()):
            raise InputError(f"`{self.path}` is not empty, and no dataset of a sweep", help="name an empty directory, or a new one")
        else:
            self._publish(place, lambda file: file.write(json.dumps(head).encode() + b"\n"))
        self._chunks.mkdir(exist_ok=True)
        for stray in [*self._dir.glob(".*.tmp"), *self._chunks.glob(".*.tmp")]:
            stray.unlink()
        for file in sorted(self._dir.glob("part-*.parquet")):
            rows = self._load(file)
            self._known.update(rows)
            if any(row[2] == LOST for row in rows.values()):
                # Its lost rows are tried again, and it is written anew: until then its rows are a chunk.
                part = min(rows) // PART_ROWS
                kept = {number: row for number, row in rows.items() if row[2] != LOST}
                if kept:
                    self._keep(part, list(kept), list(kept.values()))
                file.unlink()
        for file in sorted(self._chunks.glob("*.parquet")):
            rows = self._load(file)
            if all(number in self._known and number not in self._rows for number in rows):
                # The process ended between the naming of a part and the removal of its chunks.
                file.unlink()
                continue
            self._known.update(rows)
            self._rows.update(rows)
            files = self._files.setdefault(min(rows) // PART_ROWS, [])
            if file not in files:
                files.append(file)

    def _load(self, file: pathlib.Path) -> dict[int, Found]:
        table = self._parquet.read_table(file)
        columns: dict[str, list[Any]] = table.to_pydict()
        numbers = _numbers(table.schema.metadata[self._ROWS].decode())
        seeds = columns.get("seed", [None] * len(numbers))
        # A varied seed is text.
        seeds = [seed if isinstance(seed, int) else None for seed in seeds]
        figures = zip(*(columns[name] for name in self._figures)) if self._figures else iter([()] * len(numbers))
        errors = columns["error"]
        return {
            number: (seed, None if error is not None else list(values), error)
            for number, seed, values, error in zip(numbers, seeds, figures, errors)
        }

    def known(self) -> Iterator[tuple[int, Found]]:
        """Returns the rows of an earlier run."""
        return ((number, row) for number, row in self._known.items() if row[2] != LOST)

    def add(self, numbers: Sequence[int], found: Sequence[Found]) -> None:
        """Adds finished rows."""
        per_part: dict[int, list[int]] = {}
        for at, number in enumerate(numbers):
            per_part.setdefault(number // PART_ROWS, []).append(at)
        for part, places in per_part.items():
            self._keep(part, [numbers[at] for at in places], [found[at] for at in places])
            if self._total is not None:
                begin, end = part * PART_ROWS, min((part + 1) * PART_ROWS, self._total)
                if sum(number // PART_ROWS == part for number in self._rows) == end - begin:
                    self._complete(part)

    def _keep(self, part: int, numbers: list[int], found: list[Found]) -> None:
        self._rows.update(zip(numbers, found))
        # A lost row is part of the result, but is not done: so chunks have no row in common, and differ in the first.
        done = [(number, row) for number, row in zip(numbers, found) if row[2] != LOST]
        files = self._files.setdefault(part, [])
        if done:
            place = self._chunks / f"{done[0][0]:010}.parquet"
            self._write(place, [number for number, _ in done], [row for _, row in done])
            files.append(place)

    def _complete(self, part: int) -> None:
        rows = {number: row for number, row in sorted(self._rows.items()) if number // PART_ROWS == part}
        if rows:
            self._write(self._dir / f"part-{part:05}.parquet", list(rows), list(rows.values()))
        for number in rows:
            del self._rows[number]
        for file in self._files.pop(part, []):
            file.unlink(missing_ok=True)

    def _write(self, place: pathlib.Path, numbers: Sequence[int], found: Sequence[Found]) -> None:
        table = self._arrow.table(self._table(numbers, found))
        table = table.replace_schema_metadata({self._ROWS: _ranges(numbers).encode()})
        # The version of the writer is in the file, its time is not.
        self._publish(place, lambda file: self._parquet.write_table(table, file, compression="zstd"))

    def _publish(self, place: pathlib.Path, write: Callable[[Any], object]) -> None:
        """Writes a file under a hidden name, and names it when it is safe on the disk."""
        hidden = place.with_name(f".{place.name}.tmp")
        try:
            with open(hidden, "wb") as file:
                write(file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(hidden, place)
        except BaseException:
            hidden.unlink(missing_ok=True)
            raise
        if os.name != "nt":
            directory = os.open(place.parent, os.O_RDONLY)
            try:
                os.fsync(directory)
            finally:
                os.close(directory)

    def finish(self) -> None:
        """Makes parts of all chunks."""
        for part in sorted(self._files):
            self._complete(part)
        self._chunks.rmdir()

    def close(self) -> None:
        """No file is open."""


def _ranges(numbers: Sequence[int]) -> str:
    """Writes numbers in order as ranges: `0-99,120-139`."""
    found: list[list[int]] = []
    for number in numbers:
        if found and found[-1][1] == number - 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return ",".join(f"{first}-{last}" for first, last in found)


def _numbers(ranges: str) -> list[int]:
    pairs = (map(int, found) for found in re.findall(r"(\d+)-(\d+)", ranges))
    return [number for first, last in pairs for number in range(first, last + 1)]
