"""Plots with matplotlib, in the style of zerolag's pages: `pip install 'zerolag[plot]'`.

    from zerolag import plot

    plot.lines(table, "burst", "request_latency.p99_ns")
    plot.heat(table, "limit", "period", "request_latency.p99_ns")
    plot.latency(result)
    plot.gantt(result)
    plot.schedulability(curve)

Each draws into `axes`, or a new figure, and returns the axes. Lines have their names at their ends. Times are shown in a unit that fits; the colours can be told
apart with any colour vision (Okabe & Ito 2008).
"""

from __future__ import annotations

import functools
import math
import re
import sys
from typing import TYPE_CHECKING, Any, Callable, Iterable, Optional, Sequence, TypeVar, Union

from ._errors import InputError
from ._results import Result, Table, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000"]
"""The colours of series, in order; those of the plots of `zerolag sweep`."""

STYLE: Any = {
    "axes.axisbelow": True,
    "axes.edgecolor": "#888888",
    "axes.grid": True,
    "axes.labelcolor": "#5f6670",
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.titlelocation": "left",
    "axes.titlesize": "medium",
    "axes.titleweight": "bold",
    "figure.figsize": (7.2, 4.0),
    "figure.facecolor": "#ffffff",
    "font.size": 10.0,
    "grid.color": "#e6e6e6",
    "legend.frameon": False,
    "lines.linewidth": 1.8,
    "lines.markersize": 4.5,
    "text.color": "#1c1e21",
    "xtick.color": "#5f6670",
    "ytick.color": "#5f6670",
}
"""The style, for `matplotlib.rc_context(zerolag.plot.STYLE)`."""

_UNITS = [(1e9, "s"), (1e6, "ms"), (1e3, "us"), (1.0, "ns")]
_Tableish = Union[Table, "dict[str, list[Any]]"]


_F = TypeVar("_F", bound=Callable[..., Any])


def _styled(draw: _F) -> _F:
    """Draws in the style, and leaves that of other plots alone."""

    @functools.wraps(draw)
    def drawn(*args: Any, **options: Any) -> Any:
        try:
            import matplotlib
        except ImportError:
            raise InputError("plots need matplotlib, which is not installed", help="pip install 'zerolag[plot]'") from None
        with matplotlib.rc_context(STYLE):
            return draw(*args, **options)

    return drawn  # type: ignore[return-value]


def _new(axes: "Optional[Axes]", title: str) -> "Axes":
    from matplotlib.figure import Figure

    if axes is None:
        if _is_shown():
            from matplotlib import pyplot

            figure = pyplot.figure(layout="constrained")
        else:
            # A figure of its own has no global state and needs no display.
            figure = Figure(layout="constrained")
        axes = figure.add_subplot()
    axes.set_title(title)
    return axes


def _name(axes: "Axes", ends: "list[tuple[str, str, float, float]]") -> None:
    """Writes names, each with its colour, next to the ends of their lines; names that would touch are moved apart."""
    low, high = axes.get_ylim()
    by_ratio = axes.get_yscale() == "log"

    def height(y: float) -> float:
        return math.log(y / low) / math.log(high / low) if by_ratio else (y - low) / (high - low or 1.0)

    places = sorted((height(y), name, colour, x) for name, colour, x, y in ends)
    at = [place[0] for place in places]
    for index in range(1, len(at)):
        at[index] = max(at[index], at[index - 1] + 0.055)
    # Names above the top push those below them down.
    top = 1.0
    for index in reversed(range(len(at))):
        at[index] = min(at[index], top)
        top = at[index] - 0.055
    for share, (_, name, colour, x) in zip(at, places):
        axes.annotate(
            name, (x, share), xycoords=("data", "axes fraction"), xytext=(8, 0), textcoords="offset points", color=colour, va="center"
        )


def _is_shown() -> bool:
    """Returns whether pyplot is in use, or this is a notebook, which shows the figures of pyplot below their cell."""
    if "matplotlib.pyplot" in sys.modules:
        return True
    ipython = sys.modules.get("IPython")
    return ipython is not None and ipython.get_ipython() is not None


def _columns(table: _Tableish, names: Sequence[str]) -> list[list[Any]]:
    found: list[list[Any]] = []
    known = table.columns if isinstance(table, Table) else list(table)
    for name in names:
        if name not in known:
            raise InputError(f"there is no column `{name}`; known are {', '.join(known)}")
        found.append(list(table[name]))
    return found


def _number(value: object) -> Optional[float]:
    """Returns the number of a value of a sweep: `150ms`, `200000 100000` (its quota), `7`."""
    if isinstance(value, (int, float)):
        return float(value)
    match = re.match(r"\s*([0-9.]+)\s*([a-z%]*)", str(value))
    if match is None or not match[1].strip("."):
        return None
    scale = {"s": 1e3, "ms": 1.0, "us": 1e-3, "ns": 1e-6, "m": 60e3, "h": 3600e3}
    return float(match[1]) * scale.get(match[2], 1.0)


def _order(values: Iterable[Any]) -> list[Any]:
    """Returns distinct values: by number if all have one, else as they come."""
    distinct = list(dict.fromkeys(values))
    numbers = [_number(value) for value in distinct]
    # Versions are no numbers: 5.4 comes before 5.15.
    if any(number is None for number in numbers) or all(re.fullmatch(r"\d+\.\d+", str(value)) for value in distinct):
        return distinct
    return [value for _, value in sorted(zip(numbers, distinct), key=lambda pair: pair[0] or 0.0)]


def _unit(column: str, values: Iterable[Optional[float]]) -> tuple[float, str]:
    """Returns the divisor of a column's values, and its name with the unit."""
    most = max((abs(value) for value in values if value is not None), default=0.0)
    if column.endswith("_ns"):
        divisor, unit = next((pair for pair in _UNITS if most >= pair[0]), _UNITS[-1])
        return divisor, f"{column[:-3]} ({unit})"
    if column.endswith("_millionths"):
        return 1e4, f"{column[:-11]} (%)"
    return 1.0, column


@_styled
def lines(
    table: _Tableish, x: str, y: str, *, by: Optional[str] = None, axes: "Optional[Axes]" = None, title: str = ""
) -> "Axes":
    """Draws a column of a sweep over a varied key: the mean over its runs, and the range as a band; a line per value of `by`."""
    axes = _new(axes, title or f"{y.removesuffix('_ns')} over {x}")
    xs, ys, series = _columns(table, [x, y, by or x])
    divisor, label = _unit(y, ys)
    places = _order(xs)
    numbers = [_number(place) for place in places]
    are_numbers = all(number is not None for number in numbers) and places != list(dict.fromkeys(xs)) or all(
        isinstance(place, (int, float)) for place in places
    )
    positions = [number or 0.0 for number in numbers] if are_numbers else [float(at) for at in range(len(places))]
    ends: list[tuple[str, str, float, float]] = []
    for at, name in enumerate(_order(series) if by else [None]):
        cells: dict[Any, list[float]] = {}
        for place, value, of in zip(xs, ys, series):
            if value is not None and (by is None or of == name):
                cells.setdefault(place, []).append(value / divisor)
        known = [(position, cells[place]) for position, place in zip(positions, places) if place in cells]
        colour = COLOURS[at % len(COLOURS)]
        at_x = [position for position, _ in known]
        if any(len(values) > 1 for _, values in known):
            axes.fill_between(
                at_x, [min(values) for _, values in known], [max(values) for _, values in known], color=colour, alpha=0.15, lw=0
            )
        means = [sum(values) / len(values) for _, values in known]
        axes.plot(at_x, means, marker="o", color=colour, label=None if name is None else str(name))
        if name is not None and at_x:
            ends.append((str(name), colour, at_x[-1], means[-1]))
    if not are_numbers:
        axes.set_xticks(positions, [str(place) for place in places])
    axes.set_xlabel(x)
    axes.set_ylabel(label)
    axes.set_ylim(bottom=0)
    _name(axes, ends)
    return axes


@_styled
def heat(
    table: _Tableish, x: str, y: str, value: str, *, axes: "Optional[Axes]" = None, title: str = "", log: bool = True
) -> "Axes":
    """Draws the mean of a column over two varied keys as a map, with the numbers in it; `log` colours by ratio."""
    axes = _new(axes, title or value.removesuffix("_ns"))
    xs, ys, values = _columns(table, [x, y, value])
    divisor, label = _unit(value, values)
    across, down = _order(xs), _order(ys)
    cells: dict[tuple[Any, Any], list[float]] = {}
    for place, row, figure in zip(xs, ys, values):
        if figure is not None:
            cells.setdefault((place, row), []).append(figure / divisor)
    missing = float("nan")
    means = [[sum(cells[c, r]) / len(cells[c, r]) if (c, r) in cells else missing for c in across] for r in down]
    known = [mean for row in means for mean in row if mean == mean]
    by_ratio = log and bool(known) and min(known) > 0
    shown = [[math.log10(mean) if by_ratio else mean for mean in row] for row in means]
    axes.imshow(shown, aspect="auto", cmap="Blues", origin="lower")
    low, high = (math.log10(min(known)), math.log10(max(known))) if by_ratio else (min(known, default=0.0), max(known, default=0.0))
    for r, row in enumerate(means):
        for c, mean in enumerate(row):
            if mean == mean:
                share = (shown[r][c] - low) / (high - low or 1.0)
                axes.text(c, r, f"{mean:.3g}", ha="center", va="center", size=9, color="white" if share > 0.6 else "#1c1e21")
    axes.set_xticks(range(len(across)), [str(place) for place in across])
    axes.set_yticks(range(len(down)), [str(place) for place in down])
    axes.grid(visible=False)
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.set_title(label if not title else f"{title}: {label}")
    return axes


@_styled
def latency(
    result: Union[Result, Trace], figure: Optional[str] = None, *, axes: "Optional[Axes]" = None, title: str = ""
) -> "Axes":
    """Draws which share of times is longer, from the histograms of a run or a trace: the tail, by ratio on both axes."""
    table = result.histograms
    names, owners, highs, counts = _columns(table, ["figure", "owner", "to_ns", "count"])
    kinds = list(dict.fromkeys(names))
    chosen = figure or next((kind for kind in kinds if "request" in kind), kinds[0] if kinds else "")
    axes = _new(axes, title or chosen)
    totals: dict[Any, list[tuple[float, int]]] = {}
    for name, owner, high, count in zip(names, owners, highs, counts):
        if name == chosen and count:
            totals.setdefault(owner, []).append((high, count))
    if not totals:
        raise InputError(f"there is no histogram of `{figure}`; known are {', '.join(kinds) or 'none'}")
    busiest = sorted(totals, key=lambda owner: -sum(count for _, count in totals[owner]))[: len(COLOURS)]
    divisor, label = _unit("time_ns", [high for owner in busiest for high, _ in totals[owner]])
    ends: list[tuple[str, str, float, float]] = []
    for at, owner in enumerate(busiest):
        buckets = sorted(totals[owner])
        left = total = sum(count for _, count in buckets)
        tail: list[float] = []
        for _, count in buckets:
            tail.append(left / total)
            left -= count
        axes.step([high / divisor for high, _ in buckets], tail, where="pre", color=COLOURS[at], label=str(owner))
        ends.append((str(owner), COLOURS[at], buckets[-1][0] / divisor, tail[-1]))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel(label)
    axes.set_ylabel("share of longer times")
    if len(busiest) > 1:
        _name(axes, ends)
    return axes


@_styled
def schedulability(table: _Tableish, *, axes: "Optional[Axes]" = None, title: str = "") -> "Axes":
    """Draws schedulability curves: the share of accepted sets over utilization, a line per test."""
    axes = _new(axes, title or "Share of schedulable task sets")
    tests, utilizations, shares = _columns(table, ["test", "utilization", "share"])
    ends: list[tuple[str, str, float, float]] = []
    for at, test in enumerate(dict.fromkeys(tests)):
        points = sorted((u, share * 100) for name, u, share in zip(tests, utilizations, shares) if name == test)
        style = "--" if str(test).startswith("simulated") else "-"
        colour = COLOURS[at % len(COLOURS)]
        axes.plot([u for u, _ in points], [share for _, share in points], style, marker="o", color=colour, label=str(test))
        ends.append((str(test), colour, *points[-1]))
    axes.set_xlabel("utilization")
    axes.set_ylabel("schedulable (%)")
    axes.set_ylim(-2, 102)
    _name(axes, ends)
    return axes


@_styled
def gantt(
    result: Union[Result, Trace],
    *,
    begin_ns: int = 0,
    end_ns: Optional[int] = None,
    tasks: Optional[Sequence[str]] = None,
    axes: "Optional[Axes]" = None,
    title: str = "",
) -> "Axes":
    """Draws which CPU ran which task when: a row per CPU, a colour per task. A run needs `keep=["switches"]`. `tasks` are those with
    a colour, by default those that ran longest; the others are grey."""
    end = result.elapsed_ns if end_ns is None else min(end_ns, result.elapsed_ns)
    if not 0 <= begin_ns < end:
        raise InputError(f"begin_ns, end_ns: {begin_ns} to {end} is no part of 0 to {result.elapsed_ns}")
    bars: dict[int, list[tuple[int, int, str]]] = {}
    running: dict[int, tuple[int, str]] = {}

    def close(cpu: int, at: int) -> None:
        since, name = running.pop(cpu, (at, ""))
        first, last = max(since, begin_ns), min(at, end)
        if first < last:
            bars.setdefault(cpu, []).append((first, last - first, name))

    switches = result.switches
    for at, cpu, name in zip(*_columns(switches, ["at_ns", "cpu", "next_name"])):
        close(cpu, at)
        if name is not None:
            running[cpu] = (at, name)
    for cpu in list(running):
        close(cpu, end)
    totals: dict[str, int] = {}
    for row in bars.values():
        for _, length, name in row:
            totals[name] = totals.get(name, 0) + length
    known = set(result.tasks["name"])
    unknown = [name for name in tasks or () if name not in known]
    if unknown:
        raise InputError(f"tasks: there is no task `{unknown[0]}`")
    chosen = list(tasks) if tasks is not None else sorted(totals, key=lambda name: (-totals[name], name))
    colours = dict(zip(chosen, COLOURS[:-1]))
    axes = _new(axes, title or "What ran where")
    divisor, label = _unit("time_ns", [float(end)])
    cpus = sorted(set(result.cpus["id"]))
    for at, cpu in enumerate(cpus):
        row = bars.get(cpu, [])
        spans = [(first / divisor, length / divisor) for first, length, _ in row]
        axes.broken_barh(spans, (at - 0.4, 0.8), facecolors=[colours.get(name, "#bbbbbb") for *_, name in row])
    from matplotlib.patches import Patch

    names = [Patch(color=colour, label=name) for name, colour in colours.items() if name in totals]
    if any(name not in colours for name in totals):
        names.append(Patch(color="#bbbbbb", label="others"))
    axes.legend(handles=names, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    axes.set_xlim(begin_ns / divisor, end / divisor)
    axes.set_ylim(len(cpus) - 0.4, -0.6)
    axes.set_yticks(range(len(cpus)), [f"CPU {cpu}" for cpu in cpus])
    axes.set_xlabel(label)
    axes.grid(False, axis="y")
    return axes
