"""The results of the native part, with what data frames and notebooks want."""

from __future__ import annotations

import html
import json
from typing import TYPE_CHECKING, Any, Callable, Iterator, Mapping, Optional, Sequence, TypeVar

from . import _zerolag
from ._errors import Diagnostic, InputError, RunError

if TYPE_CHECKING:
    import pandas
    import polars
    import pyarrow

_SHOWN = 20
"""How many rows a notebook shows."""


class Table:
    """A table of named columns.

    Libraries for data frames read it: `pandas.DataFrame(t)`, and through the Arrow PyCapsule
    interface `pyarrow.table(t)`, `polars.DataFrame(t)`, `pandas.DataFrame.from_arrow(t)`, and
    DuckDB by its variable's name. Without any of them it is a mapping from names to lists, and
    its rows are dicts: `for row in t`. What it shows leaves out columns without any value.
    """

    def __init__(self, native: _zerolag.Table) -> None:
        self._native = native

    @property
    def name(self) -> str:
        """The name of the table."""
        return self._native.name

    @property
    def columns(self) -> list[str]:
        """The names of the columns; units are in the names."""
        return self._native.columns

    def __len__(self) -> int:
        return len(self._native)

    def __getitem__(self, column: str) -> list[Any]:
        """Returns a column as a list. A value that does not exist is None."""
        return self._native[column]

    def to_dict(self) -> dict[str, list[Any]]:
        """Returns all columns as lists."""
        return {name: self._native[name] for name in self.columns}

    def rows(self) -> list[dict[str, Any]]:
        """Returns the rows, as dicts."""
        columns = self.to_dict()
        return [dict(zip(columns, row)) for row in zip(*columns.values())]

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """Returns the rows one by one, as dicts."""
        return iter(self.rows())

    def __arrow_c_schema__(self) -> object:
        return self._native.__arrow_c_schema__()

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        return self._native.__arrow_c_stream__(requested_schema)

    def to_arrow(self) -> "pyarrow.Table":
        """Returns a table of pyarrow, which must be installed."""
        import pyarrow

        return pyarrow.table(self)

    def to_pandas(self) -> "pandas.DataFrame":
        """Returns a data frame of pandas, which must be installed. Columns in which values are missing become
        floating-point numbers, as is usual there; `pandas.DataFrame.from_arrow` is an alternative."""
        import pandas

        return pandas.DataFrame(self.to_dict(), columns=self.columns)

    def to_polars(self) -> "polars.DataFrame":
        """Returns a data frame of polars, which must be installed."""
        import polars

        return polars.DataFrame(self)

    def __repr__(self) -> str:
        shown = self._native.shown
        empty = len(self.columns) - len(shown)
        more = f"; {empty} without a value" if empty else ""
        return f"<zerolag.Table {self.name}: {len(self)} rows, columns {', '.join(shown)}{more}>"

    def _repr_html_(self) -> str:
        names = self._native.shown
        head = "".join(f"<th>{html.escape(name)}</th>" for name in names)
        shown = [self._native[name][:_SHOWN] for name in names]

        def cell(value: object) -> str:
            return f"<td>{'' if value is None else html.escape(str(value))}</td>"

        body = "".join(f"<tr>{''.join(map(cell, row))}</tr>" for row in zip(*shown))
        more = f"<p>{len(self)} rows, of which {_SHOWN} are shown</p>" if len(self) > _SHOWN else ""
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{more}"


class _Printed:
    """A result that is read as text: in a notebook, too."""

    def _text(self) -> str:
        raise NotImplementedError

    def __str__(self) -> str:
        return self._text()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self._text())}</pre>"


_PAGE_MOST = 8 << 20
"""A longer page is not put into a notebook, which would contain it twice."""
_SWITCHES_MOST = 2_000_000
"""A run with more switches is not run again for its page without being asked to: that takes seconds."""


_Self = TypeVar("_Self", bound="_Paged")


class _Paged(_Printed):
    """A result with a page of HTML, which is what a notebook shows."""

    _title: str = ""
    _written: Callable[[], str] = str
    _page: Optional[str] = None

    def _named(self: _Self, title: str, call: Callable[[], str]) -> _Self:
        # A call is written when a page asks for it: most results have none.
        self._title, self._written = title, call
        return self

    @property
    def _call(self) -> str:
        return self._written()

    def _made(self) -> str:
        raise NotImplementedError

    def _is_quick(self) -> bool:
        return True

    def to_html(self) -> str:
        """Returns the page that `--html` writes: one file that needs no network. It is made once."""
        if self._page is None:
            self._page = self._made()
        return self._page

    def _repr_html_(self) -> str:
        if not self._is_quick():
            return f"{super()._repr_html_()}<p>{_LONG}</p>"
        page = self.to_html()
        if len(page) > _PAGE_MOST:
            return f"{super()._repr_html_()}<p>{_LONG}</p>"
        # A document of its own: neither its style nor its scripts reach the notebook.
        return (
            f'<iframe srcdoc="{html.escape(page)}" sandbox="allow-scripts" title="{html.escape(self._title)}" '
            'style="width:100%;height:640px;border:1px solid #e1e4e8"></iframe>'
        )


_LONG = "The report with its timeline is large: <code>to_html()</code> returns it."


class _Tables(_Paged):
    """A result with the tables of a run or a trace."""

    def _of(self) -> Callable[[str], _zerolag.Table]:
        raise NotImplementedError

    def table(self, name: str) -> Table:
        """Returns a table by its name: that of the properties."""
        try:
            return Table(self._of()(name))
        except ValueError as error:
            raise InputError(str(error)) from None

    @property
    def tasks(self) -> Table:
        """Figures per task."""
        return self.table("tasks")

    @property
    def cpus(self) -> Table:
        """Figures per CPU."""
        return self.table("cpus")

    @property
    def groups(self) -> Table:
        """Figures per task group, under the kernel's names."""
        return self.table("groups")

    @property
    def services(self) -> Table:
        """Figures per service."""
        return self.table("services")

    @property
    def worst_waits(self) -> Table:
        """The longest waits, with the task that ran longest meanwhile."""
        return self.table("worst_waits")

    @property
    def histograms(self) -> Table:
        """The distributions behind quantiles, bucket by bucket: they can be added."""
        return self.table("histograms")

    @property
    def switches(self) -> Table:
        """A row per switch of a CPU. A run has them with `keep=["switches"]`."""
        return self.table("switches")

    @property
    def waits(self) -> Table:
        """A row per wait of a task. A run has them with `keep=["waits"]`."""
        return self.table("waits")

    @property
    def requests(self) -> Table:
        """A row per request of a service. A run has them with `keep=["requests"]`."""
        return self.table("requests")


class Result(_Tables):
    """The result of a run: tables, goals, checks. `str(result)` is what `zerolag run` prints."""

    def __init__(self, native: _zerolag.Result) -> None:
        self._native = native

    def _of(self) -> Callable[[str], _zerolag.Table]:
        return self._native.table

    def _made(self) -> str:
        if self.interrupted:
            raise RunError("the run was interrupted: a page shows a whole run")
        return self._native.to_html(self._title, self._call)

    def _is_quick(self) -> bool:
        return not self.interrupted and sum(self.cpus["switches"]) <= _SWITCHES_MOST

    def _text(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        word = "ok" if self.ok else "not ok"
        missed = [row["goal"] for row in self.goals if row["met"] is False]
        of_goals = f"; missed: {', '.join(missed)}" if missed else ""
        return f"<zerolag.Result: kernel {self.kernel}, seed {self.seed}, {self.elapsed_ns / 1e9:g} s, {word}: {self.ended}{of_goals}>"

    @property
    def goals(self) -> Table:
        """The workload's goals: whether each was met, and its figure."""
        return self.table("goals")

    @property
    def checks(self) -> Table:
        """The verdicts of the monitors, a row each; none of a run with `checks=False`."""
        return self.table("checks")

    @property
    def ok(self) -> bool:
        """Whether the run ended by itself, met every goal and broke no rule of scheduling."""
        return self._native.ok

    @property
    def interrupted(self) -> bool:
        """Whether `progress` ended the run."""
        return self._native.interrupted

    @property
    def ended(self) -> str:
        """How the run ended."""
        return self._native.ended

    @property
    def elapsed_ns(self) -> int:
        """The simulated time."""
        return self._native.elapsed_ns

    @property
    def kernel(self) -> str:
        """The simulated kernel."""
        return self._native.kernel

    @property
    def seed(self) -> int:
        """The seed of all random streams."""
        return self._native.seed

    @property
    def notes(self) -> list[str]:
        """What you should know about values and defaults."""
        return self._native.notes

    @property
    def warnings(self) -> list[Diagnostic]:
        """Warnings and notes about the workload's text."""
        return self._native.warnings

    def to_json(self) -> str:
        """Returns the JSON of `zerolag run --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag run --json`, read."""
        return json.loads(self.to_json())


class Trace(_Tables):
    """A recorded trace. `str(trace)` is what `zerolag report` prints; `len(trace)` counts records."""

    def __init__(self, native: _zerolag.Trace) -> None:
        self._native = native
        self._named(native.name, lambda: f"zerolag.read_trace({native.name!r})")

    def _of(self) -> Callable[[str], _zerolag.Table]:
        return self._native.table

    def _made(self) -> str:
        return self._native.to_html(self._title, self._call)

    def _is_quick(self) -> bool:
        return len(self) <= _SWITCHES_MOST

    def _text(self) -> str:
        return str(self._native)

    def __len__(self) -> int:
        return len(self._native)

    def __repr__(self) -> str:
        return f"<zerolag.Trace {self.name}: {len(self)} records, {self.elapsed_ns / 1e9:g} s>"

    @property
    def name(self) -> str:
        """The file."""
        return self._native.name

    @property
    def elapsed_ns(self) -> int:
        """The length of the trace."""
        return self._native.elapsed_ns

    @property
    def lost_events(self) -> int:
        """How many events the recorder lost."""
        return self._native.lost_events

    def check(self) -> "Checks":
        """Checks the trace against the rules of scheduling."""
        return Checks(self._native.check())

    def imported(
        self,
        groups: Sequence[tuple[str, str]] = (),
        limits: Sequence[tuple[str, str]] = (),
        kernel: Optional[str] = None,
    ) -> tuple[str, float]:
        """Returns a scenario that does what the trace shows (`zerolag import`), and the base error of its waits."""
        return self._native.imported(groups, limits, kernel)

    def explain(self, *, worst: int = 3, task: Optional[str] = None) -> "Explanation":
        """Explains the longest waits of tasks whose name begins with `task`."""
        found = Explanation(self._native.explain(worst, task))
        return found._named(self.name, lambda: f"zerolag.read_trace({self.name!r}).explain(worst={worst}, task={task!r})")

    def to_json(self) -> str:
        """Returns the JSON of `zerolag report --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag report --json`, read."""
        return json.loads(self.to_json())


class Checks(_Printed):
    """The verdicts of the monitors. `str(checks)` is what `zerolag check` prints."""

    def __init__(self, native: _zerolag.Checks) -> None:
        self._native = native

    def _text(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return f"<zerolag.Checks: {'clean' if self.clean else 'broken rules'}>"

    @property
    def clean(self) -> bool:
        """Whether no rule is broken."""
        return self._native.clean

    @property
    def table(self) -> Table:
        """A row per monitor."""
        return Table(self._native.table)

    def to_json(self) -> str:
        """Returns the JSON of `zerolag check --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag check --json`, read."""
        return json.loads(self.to_json())


class Explanation(_Paged):
    """Why the longest waits were long. `str(explanation)` is what `zerolag explain` prints."""

    def __init__(self, native: _zerolag.Explanation) -> None:
        self._native = native

    def _made(self) -> str:
        return self._native.to_html(self._title, self._call)

    def _text(self) -> str:
        return str(self._native)

    def to_json(self) -> str:
        """Returns the JSON of `zerolag explain --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag explain --json`, read."""
        return json.loads(self.to_json())


class Comparison(_Paged):
    """A workload under several values. `str(comparison)` is what `zerolag compare` prints."""

    def __init__(self, native: _zerolag.Comparison) -> None:
        self._native = native

    def _made(self) -> str:
        return self._native.to_html(self._title, self._call)

    def _text(self) -> str:
        return str(self._native)

    @property
    def table(self) -> Table:
        """A row per figure and variant."""
        return Table(self._native.table)

    def to_json(self) -> str:
        """Returns the JSON of `zerolag compare --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag compare --json`, read."""
        return json.loads(self.to_json())


class Search(_Printed):
    """The smallest value that meets goals. `str(search)` is what `zerolag sweep --smallest` prints."""

    def __init__(self, native: _zerolag.Search) -> None:
        self._native = native

    def _text(self) -> str:
        return str(self._native)

    @property
    def least(self) -> Optional[str]:
        """The smallest value, as it is written; None if no value meets the goals."""
        return self._native.least

    def to_json(self) -> str:
        """Returns the JSON of `zerolag sweep --smallest --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag sweep --smallest --json`, read."""
        return json.loads(self.to_json())


class Advice(_Paged):
    """What to set for a goal. `str(advice)` is what `zerolag advise` prints."""

    def __init__(self, native: _zerolag.Advice) -> None:
        self._native = native

    def _made(self) -> str:
        return self._native.to_html(self._title, self._call)

    def _text(self) -> str:
        return str(self._native)

    @property
    def ticket(self) -> str:
        """The sentence for a ticket."""
        return self._native.ticket

    @property
    def alternatives(self) -> list[dict[str, Any]]:
        """The present state first, then what was searched for, as in the JSON."""
        return self.to_dict()["alternatives"]

    @property
    def choice(self) -> Optional[dict[str, Any]]:
        """The chosen alternative; None if none meets the goals."""
        found = self.to_dict()
        return None if found["choice"] is None else found["alternatives"][found["choice"]]

    def to_json(self) -> str:
        """Returns the JSON of `zerolag advise --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag advise --json`, read."""
        return json.loads(self.to_json())


class Settings(_Printed, Mapping[str, str]):
    """The settings of a kernel: a mapping from names to values. `str(settings)` is what `zerolag settings` prints."""

    def __init__(self, native: _zerolag.Settings) -> None:
        self._native = native
        self._values = dict(native.values())

    def __getitem__(self, key: str) -> str:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def _text(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return f"<zerolag.Settings: {len(self)}, {', '.join(f'{key}={value}' for key, value in list(self.items())[:3])}, ...>"

    @property
    def table(self) -> Table:
        """A row per setting: `key`, `value`, `meaning`, possible `values`."""
        return Table(self._native.table)

    def to_json(self) -> str:
        """Returns the JSON of `zerolag settings --json`, with the known bugs of kernels."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag settings --json`, read."""
        return json.loads(self.to_json())


class Demand(_Printed):
    """What the counters of a limit say. `str(demand)` is what `zerolag advise` prints for counters."""

    def __init__(self, native: _zerolag.Demand) -> None:
        self._native = native

    def _text(self) -> str:
        return str(self._native)

    @property
    def ticket(self) -> str:
        """The sentence for a ticket."""
        return self._native.ticket

    def to_json(self) -> str:
        """Returns the JSON of `zerolag advise --json` for counters."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag advise --json` for counters, read."""
        return json.loads(self.to_json())


class Bounds(_Printed):
    """Bounds on responses beside simulated ones. `str(bounds)` is what `zerolag analyse` prints."""

    def __init__(self, native: _zerolag.Bounds) -> None:
        self._native = native

    def _text(self) -> str:
        return str(self._native)

    def __repr__(self) -> str:
        return f"<zerolag.Bounds: {'schedulable' if self.schedulable else 'not seen to be schedulable'}>"

    @property
    def table(self) -> Table:
        """A row per task."""
        return Table(self._native.table)

    @property
    def schedulable(self) -> bool:
        """Whether every deadline is kept by a bound of which no assumption is broken."""
        return self._native.schedulable

    def to_json(self) -> str:
        """Returns the JSON of `zerolag analyse --json`."""
        return self._native.to_json()

    def to_dict(self) -> dict[str, Any]:
        """Returns the JSON of `zerolag analyse --json`, read."""
        return json.loads(self.to_json())
