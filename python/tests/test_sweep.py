"""Sweeps: the same rows whatever runs them, and whatever dies on the way."""

from __future__ import annotations

import os
import pathlib
import signal
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import pytest
import zerolag

SPACE = {"cpu_max": ["40000 100000", "80000 100000"], "load": ["100/s", "150/s"]}
OPTIONS: dict[str, Any] = {"runs": 2, "duration": "500ms", "figures": ["request_latency.p99", "nr_throttled", "web.share"]}


def test_a_sweep_has_a_row_per_run(web: str) -> None:
    table = zerolag.sweep(web, SPACE, seed=5, **OPTIONS)
    columns = ["cpu.max", "load", "run", "seed", "request_latency.p99_ns", "nr_throttled", "web.share_millionths", "error"]
    assert table.columns == columns and len(table) == 8
    assert table["seed"] == [5, 6] * 4 and table["error"] == [None] * 8
    assert table["cpu.max"][:4] == ["40000 100000"] * 4 and table["load"][:4] == ["100/s", "100/s", "150/s", "150/s"]
    alone = zerolag.run(web, seed=6, duration="500ms", cpu_max="40000 100000", load="150/s")
    assert table["request_latency.p99_ns"][3] == alone.services["request_latency.p99_ns"][0]


def test_points_can_be_listed(web: str) -> None:
    points = [{"load": "100/s", "hz": 100}, {"load": "150/s", "hz": 1000}]
    table = zerolag.sweep(web, points, runs=1, duration="100ms")
    assert table["hz"] == ["100", "1000"] and table["load"] == ["100/s", "150/s"]


def test_a_wrong_value_is_a_row_with_its_reason(web: str) -> None:
    table = zerolag.sweep(web, {"hz": [100, 0, 250]}, **OPTIONS)
    assert [error is None for error in table["error"]] == [True, True, False, False, True, True]
    assert "0 is outside" in table["error"][2] and table["request_latency.p99_ns"][2] is None


def test_wrong_spaces_are_refused(web: str) -> None:
    for space, reason in [
        ({}, "nothing to vary"),
        ([], "nothing to vary"),
        ({"hz": 100}, "expected a list of values"),
        ({"hz": "100"}, "expected a list of values"),
        ({"hz": []}, "is empty"),
        ({"error": [1]}, "name of a column"),
        ([{"hz": 1}, {"cpus": 1}], "point 1 has the keys cpus"),
    ]:
        with pytest.raises(zerolag.InputError, match=reason):
            zerolag.sweep(web, space)  # type: ignore[arg-type]
    with pytest.raises(zerolag.SettingError) as wrong:
        zerolag.sweep(web, {"hz": [100]}, figures=["p98", "*.run", "p97"])
    assert [(found.value, found.message) for found in wrong.value.diagnostics] == [
        ("p98", "there is no figure `p98`"),
        ("p97", "there is no figure `p97`"),
    ]
    assert all(found.help for found in wrong.value.diagnostics)
    with pytest.raises(zerolag.WorkloadError):
        zerolag.sweep("[tusk.a]\n", {"hz": [100]})


def processes(count: int = 2) -> ProcessPoolExecutor:
    # The workers of a test start afresh, as those of a cluster do.
    return ProcessPoolExecutor(count, mp_context=get_context("spawn"))


def test_every_executor_gives_the_same_table(web: str) -> None:
    native = zerolag.sweep(web, SPACE, **OPTIONS).to_dict()
    with ThreadPoolExecutor(3) as threads:
        assert zerolag.sweep(web, SPACE, executor=threads, **OPTIONS).to_dict() == native
    with processes() as pool:
        assert zerolag.sweep(web, SPACE, executor=pool, **OPTIONS).to_dict() == native


class Ended(Exception):
    pass


def test_a_sweep_goes_on_where_it_stopped(web: str, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "rows.jsonl"
    whole = zerolag.sweep(web, SPACE, **OPTIONS).to_dict()

    def stop(done: int, of: int) -> None:
        if done >= 3:
            raise Ended

    with pytest.raises(Ended):
        zerolag.sweep(web, SPACE, resume=log, progress=stop, **OPTIONS)
    # As a process leaves it that was killed while it wrote.
    with log.open("ab") as file:
        file.write(b'{"rows": [[7, 1')
    seen: list[int] = []
    again = zerolag.sweep(web, SPACE, resume=log, progress=lambda done, of: seen.append(done), **OPTIONS)
    assert again.to_dict() == whole and seen[0] == 4 and seen[-1] == 8
    seen.clear()
    assert zerolag.sweep(web, SPACE, resume=log, progress=lambda done, of: seen.append(done), **OPTIONS).to_dict() == whole
    assert seen == [], "nothing is left to run"
    with pytest.raises(zerolag.InputError, match="belongs to another sweep"):
        zerolag.sweep(web, SPACE, resume=log, seed=9, **OPTIONS)
    assert zerolag.sweep(web, SPACE, resume=log, **OPTIONS).to_dict() == whole, "the refusal has changed nothing"
    with pytest.raises(zerolag.InputError, match="cannot write"):
        zerolag.sweep(web, SPACE, resume=tmp_path / "no" / "such", **OPTIONS)


class Killer(Executor):
    """A pool that loses its worker to `kill -9` before its third chunk."""

    def __init__(self) -> None:
        self.pool = processes(1)
        self.chunks = 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.chunks += 1
        if self.chunks == 3:
            self.pool.submit(kill_self)
        return self.pool.submit(fn, *args, **kwargs)


def kill_self() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.skipif(os.name == "nt", reason="signals of other systems")
def test_an_executor_that_cannot_be_replaced_is_an_error_and_what_was_done_is_kept(web: str, tmp_path: pathlib.Path) -> None:
    log = tmp_path / "rows.jsonl"
    whole = zerolag.sweep(web, SPACE, **OPTIONS).to_dict()
    with pytest.raises(zerolag.RunError, match="the executor is broken, and 5 of 8 runs are missing"):
        zerolag.sweep(web, SPACE, executor=Killer(), resume=log, **OPTIONS)
    with processes() as pool:
        assert zerolag.sweep(web, SPACE, executor=pool, resume=log, **OPTIONS).to_dict() == whole


@pytest.mark.skipif(os.name == "nt", reason="signals of other systems")
@pytest.mark.parametrize("failures", [3, 0], ids=["dask-tries-again", "dask-gives-up"])
def test_a_lost_worker_of_dask_is_replaced(web: str, failures: int) -> None:
    distributed = pytest.importorskip("distributed")
    dask = pytest.importorskip("dask")
    # Some 70 chunks, so that most of them are not done when the worker dies.
    options = {**OPTIONS, "runs": 40, "chunk_seconds": 0.01}
    whole = zerolag.sweep(web, SPACE, **options).to_dict()
    # How many workers Dask lets a call end before it calls the call lost.
    with dask.config.set({"distributed.scheduler.allowed-failures": failures}):
        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    killed: list[int] = []
    with cluster, distributed.Client(cluster) as client:

        def kill_one(done: int, of: int) -> None:
            if not killed and done > 1:
                killed.append(next(iter(client.run(os.getpid).values())))
                os.kill(killed[0], signal.SIGKILL)

        table = zerolag.sweep(web, SPACE, executor=client.get_executor(), progress=kill_one, **options)
    assert killed and table.to_dict() == whole
