"""What a notebook shows, and plots."""

from __future__ import annotations

import html
import pathlib
import re
from typing import Any

import pytest
import zerolag


def page_of(shown: str) -> str:
    """Returns the document in a frame."""
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox="allow-scripts" title="[^"]*" style="[^"]*"></iframe>', shown)
    assert found is not None, shown[:300]
    return html.unescape(found[1])


def test_a_result_is_shown_as_its_page(web: str) -> None:
    result = zerolag.run(web, seed=1)
    page = page_of(result._repr_html_())
    assert page == result.to_html() and page.startswith("<!doctype html>") and page.rstrip().endswith("</html>")
    assert "zerolag.run(&#39;&lt;text&gt;&#39;, seed=1)" in page or "zerolag.run('&lt;text&gt;', seed=1)" in page
    assert "request_latency.p99" in page
    # The page of the command line has the same figures.
    assert str(result).splitlines()[0].split()[0]


def test_explanations_comparisons_advice_and_traces_have_pages(web: str) -> None:
    shown: list[Any] = [
        zerolag.explain(web, worst=1, what_if=("hz", 1000)),
        zerolag.compare(web, kernels=["5.15", "6.12"], runs=2),
        zerolag.advise(web, "p99 <= 100ms", seeds=2, risk=0.5, duration="500ms"),
    ]
    trace = zerolag.read_trace("crates/trace/tests/data/mixed-2cpu.perf.txt.gz")
    for result in [*shown, trace, trace.explain(worst=1)]:
        assert page_of(result._repr_html_()) == result.to_html()
        assert "Content-Security-Policy" in result.to_html()


def test_what_is_large_or_incomplete_is_shown_as_text(web: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from zerolag import _results

    half = zerolag.run(web, duration="10000s", progress=lambda at, end: False)
    assert half.interrupted and half._repr_html_().startswith("<pre>")
    with pytest.raises(zerolag.RunError, match="was interrupted"):
        half.to_html()
    monkeypatch.setattr(_results, "_PAGE_MOST", 1000)
    assert zerolag.run(web)._repr_html_().startswith("<pre>")


def test_plots_draw_what_tables_have(web: str, tmp_path: pathlib.Path) -> None:
    pytest.importorskip("matplotlib")
    from zerolag import plot

    table = zerolag.sweep(web, {"load": ["50/s", "100/s", "150/s"], "hz": [100, 1000]}, runs=2, duration="500ms")
    axes = plot.lines(table, "load", "request_latency.p99_ns", by="hz")
    assert [line.get_label() for line in axes.get_lines()] == ["100", "1000"]
    rows = [row for row in table.rows() if row["hz"] == "100" and row["load"] == "100/s"]
    mean = sum(row["request_latency.p99_ns"] for row in rows) / len(rows)
    unit = {"(ms)": 1e6, "(s)": 1e9}[axes.get_ylabel().split()[-1]]
    assert abs(list(axes.get_lines()[0].get_ydata())[1] - mean / unit) < 1e-6
    axes.figure.savefig(tmp_path / "lines.svg")
    heat = plot.heat(table, "load", "hz", "request_latency.p99_ns")
    assert len(heat.texts) == 6
    result = zerolag.run(web, keep=["switches"])
    bars = plot.gantt(result, begin_ns=10_000_000, end_ns=50_000_000)
    drawn = [path.get_extents() for row in bars.collections for path in row.get_paths()]
    switches = [at for at in result.switches["at_ns"] if 10_000_000 <= at < 50_000_000]
    assert len(drawn) > 2 and len(drawn) <= len(switches) + len(result.cpus)
    assert min(bar.x0 for bar in drawn) >= 10 and max(bar.x1 for bar in drawn) <= 50
    with pytest.raises(zerolag.InputError, match="there is no task `nobody`"):
        plot.gantt(result, tasks=["nobody"])
    with pytest.raises(zerolag.InputError, match="is no part of"):
        plot.gantt(result, begin_ns=-1)
    tail = plot.latency(zerolag.run(web))
    assert list(tail.get_lines()[0].get_ydata())[0] == 1.0
    curve = zerolag.schedulability([0.7, 0.95], ["dm", "edf"], sets=20)
    assert len(plot.schedulability(curve).get_lines()) == 2
    with pytest.raises(zerolag.InputError, match="there is no column `lod`"):
        plot.lines(table, "lod", "request_latency.p99_ns")
