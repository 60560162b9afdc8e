"""Datasets of sweeps: whole files whatever happens, the same bytes whatever runs the rows."""

from __future__ import annotations

import hashlib
import os
import pathlib
import resource
import signal
import subprocess
import sys
from typing import Any, Callable

import pytest
import zerolag
from zerolag import _store

pytest.importorskip("pyarrow")

SPACE = {"cpu_max": ["40000 100000", "80000 100000"], "load": ["100/s", "150/s"]}
OPTIONS: dict[str, Any] = {"runs": 10, "duration": "200ms", "figures": ["request_latency.p99", "nr_throttled"]}


@pytest.fixture(autouse=True)
def small_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_store, "PART_ROWS", 16)


def files(out: pathlib.Path) -> dict[str, str]:
    return {
        os.path.relpath(file, out): hashlib.sha256(file.read_bytes()).hexdigest() for file in out.rglob("*") if file.is_file()
    }


def test_a_dataset_has_the_rows_of_the_table(web: str, tmp_path: pathlib.Path) -> None:
    import pyarrow.dataset

    table = zerolag.sweep(web, SPACE, out=tmp_path / "d", **OPTIONS)
    assert sorted(files(tmp_path / "d")) == [".sweep.json", "part-00000.parquet", "part-00001.parquet", "part-00002.parquet"]
    read = pyarrow.dataset.dataset(tmp_path / "d", format="parquet").to_table()
    assert read.to_pydict() == table.to_dict() and len(table) == 40
    polars = pytest.importorskip("polars")
    assert polars.read_parquet(tmp_path / "d" / "*.parquet").to_dict(as_series=False) == table.to_dict()


def test_the_bytes_do_not_depend_on_the_executor_or_the_chunks(web: str, tmp_path: pathlib.Path) -> None:
    zerolag.sweep(web, SPACE, out=tmp_path / "threads", **OPTIONS)
    with zerolag.executors.Processes(2) as pool:
        zerolag.sweep(web, SPACE, out=tmp_path / "small", executor=pool, chunk_seconds=1e-6, **OPTIONS)
    assert files(tmp_path / "threads") == files(tmp_path / "small")


def test_the_bytes_do_not_depend_on_workers_that_are_killed(web: str, tmp_path: pathlib.Path) -> None:
    distributed = pytest.importorskip("distributed")
    # 160 rows in 10 parts, and some 70 chunks: most of them are not done when the worker dies.
    options: dict[str, Any] = {**OPTIONS, "runs": 40, "chunk_seconds": 0.01}
    zerolag.sweep(web, SPACE, out=tmp_path / "threads", **options)
    killed: list[int] = []

    def killing(victim: Callable[[], int], after: int) -> Callable[[int, int], None]:
        """Returns a progress that kills a worker when a quarter is done."""

        def progress(done: int, of: int) -> None:
            if len(killed) == after and done > of // 4:
                killed.append(victim())
                os.kill(killed[-1], signal.SIGKILL)

        return progress

    with zerolag.executors.Processes(2) as pool:
        progress = killing(lambda: next(iter(pool._pids)), after=0)
        zerolag.sweep(web, SPACE, out=tmp_path / "processes", executor=pool, progress=progress, **options)
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
    with cluster, distributed.Client(cluster) as client:
        progress = killing(lambda: next(iter(client.run(os.getpid).values())), after=1)
        zerolag.sweep(web, SPACE, out=tmp_path / "dask", executor=client.get_executor(), progress=progress, **options)
    assert len(set(killed)) == 2
    whole = files(tmp_path / "threads")
    assert sorted(whole) == [".sweep.json", *(f"part-{part:05}.parquet" for part in range(10))]
    assert files(tmp_path / "processes") == whole and files(tmp_path / "dask") == whole


class Ended(Exception):
    pass


def test_a_cancelled_sweep_leaves_no_work_on_dask(web: str, tmp_path: pathlib.Path) -> None:
    distributed = pytest.importorskip("distributed")
    options: dict[str, Any] = {**OPTIONS, "runs": 400, "chunk_seconds": 1e-6}
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)

    def tasks(dask_scheduler: Any) -> list[str]:
        return [str(key) for key in dask_scheduler.tasks]

    with cluster, distributed.Client(cluster) as client:

        def stop(done: int, of: int) -> None:
            # 1000 chunks of one row have been sent.
            if done > 4:
                raise Ended

        with pytest.raises(Ended):
            zerolag.sweep(web, SPACE, out=tmp_path / "d", executor=client.get_executor(), progress=stop, **options)
        # Each worker gets to this when it has nothing else left, and the scheduler knows no other task then.
        last = [client.submit(os.getpid, workers=[at], pure=False, priority=-1) for at in client.scheduler_info()["workers"]]
        assert len(set(client.gather(last))) == 2
        assert sorted(client.run_on_scheduler(tasks)) == sorted(future.key for future in last)
    assert not list((tmp_path / "d").rglob("*.tmp"))


def test_it_goes_on_where_it_stopped(web: str, tmp_path: pathlib.Path) -> None:
    whole = tmp_path / "whole"
    table = zerolag.sweep(web, SPACE, out=whole, **OPTIONS).to_dict()
    for stop_at in (1, 7, 22, 35):
        out = tmp_path / str(stop_at)

        def stop(done: int, of: int, at: int = stop_at) -> None:
            if done >= at:
                raise Ended

        with pytest.raises(Ended):
            zerolag.sweep(web, SPACE, out=out, progress=stop, **OPTIONS)
        # As a process leaves it that was killed while it wrote.
        (out / ".chunks").mkdir(exist_ok=True)
        (out / ".chunks" / ".0000000039.parquet.tmp").write_bytes(b"PAR1")
        seen: list[int] = []
        again = zerolag.sweep(web, SPACE, out=out, progress=lambda done, of: seen.append(done), **OPTIONS).to_dict()
        assert again == table and seen[0] > stop_at and files(out) == files(whole)
    seen = []
    assert zerolag.sweep(web, SPACE, out=whole, progress=lambda done, of: seen.append(done), **OPTIONS).to_dict() == table
    assert not seen, "nothing is left to run"


def test_a_process_that_is_killed_anywhere_leaves_whole_files(web: str, tmp_path: pathlib.Path) -> None:
    import pyarrow.parquet

    whole, out = tmp_path / "whole", tmp_path / "killed"
    zerolag.sweep(web, SPACE, out=whole, **OPTIONS)
    program = (
        "import os, signal, sys, zerolag\nfrom zerolag import _store\n_store.PART_ROWS = 16\n"
        "left = [int(sys.argv[1])]\n"
        "def killing(old):\n"
        "    def new(*a, **k):\n"
        "        left[0] -= 1\n"
        "        if left[0] == 0:\n            os.kill(os.getpid(), signal.SIGKILL)\n"
        "        return old(*a, **k)\n"
        "    return new\n"
        "os.replace = killing(os.replace); os.fsync = killing(os.fsync)\n"
        f"zerolag.sweep({web!r}, {SPACE!r}, out={str(out)!r}, **{OPTIONS!r})\n"
    )
    ended: list[int] = []
    for step in (2, 5, 9, 11, 4, 1000):
        ended.append(subprocess.run([sys.executable, "-c", program, str(step)], check=False).returncode)
        for file in [*out.glob("part-*.parquet"), *out.glob(".chunks/*.parquet")]:
            if not file.name.startswith("."):
                pyarrow.parquet.read_table(file)
    assert ended[:3] == [-signal.SIGKILL] * 3 and ended[-1] == 0 and files(out) == files(whole)


def test_other_directories_are_refused(web: str, tmp_path: pathlib.Path) -> None:
    out = tmp_path / "d"
    zerolag.sweep(web, SPACE, out=out, **OPTIONS)
    before = files(out)
    with pytest.raises(zerolag.InputError, match="belongs to another sweep"):
        zerolag.sweep(web, SPACE, out=out, seed=9, **OPTIONS)
    assert files(out) == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    with pytest.raises(zerolag.InputError, match="is not empty"):
        zerolag.sweep(web, SPACE, out=tmp_path / "mine", **OPTIONS)
    with pytest.raises(zerolag.InputError, match="cannot write"):
        zerolag.sweep(web, SPACE, out=tmp_path / "no" / "such", **OPTIONS)
    with pytest.raises(zerolag.InputError, match="`resume` or `out`"):
        zerolag.sweep(web, SPACE, out=out, resume=tmp_path / "x", **OPTIONS)


def limited(program: str, size: int) -> subprocess.CompletedProcess[str]:
    """Runs a program whose files cannot grow beyond a size, as on a full disk."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return subprocess.run([sys.executable, "-c", program], preexec_fn=limit, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("kind", ["out", "resume"])
def test_a_full_disk_is_said_and_leaves_nothing_half_written(kind: str, web: str, tmp_path: pathlib.Path) -> None:
    place = tmp_path / "rows"
    call = f"zerolag.sweep({web!r}, {SPACE!r}, {kind}={str(place)!r}, **{OPTIONS!r})"
    # A chunk of the dataset is larger than this; the log gets some lines.
    ended = limited(f"import zerolag\n{call}\n", 1200 if kind == "out" else 700)
    assert ended.returncode == 1 and "RunError: cannot write" in ended.stderr and "File too large" in ended.stderr, ended.stderr
    assert "runs are kept there" in ended.stderr and "goes on from there" in ended.stderr
    if kind == "out":
        assert sorted(files(place)) == [".sweep.json"]
    else:
        assert place.read_bytes().endswith(b"\n") and place.stat().st_size <= 700
    whole = zerolag.sweep(web, SPACE, **OPTIONS).to_dict()
    options: dict[str, Any] = {kind: place}
    assert zerolag.sweep(web, SPACE, **options, **OPTIONS).to_dict() == whole


def test_a_full_file_system_is_said(web: str, tmp_path: pathlib.Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=32k", "tmpfs", disk], capture_output=True, text=True, check=False)
    if made.returncode != 0:
        pytest.skip(f"no file system can be mounted here: {made.stderr.strip()}")
    try:
        (disk / "ballast").write_bytes(b"x" * 16384)
        with pytest.raises(zerolag.RunError, match="No space left on device; [0-9]+ of 40 runs are kept there"):
            zerolag.sweep(web, SPACE, out=disk / "d", **OPTIONS)
        assert not list((disk / "d").rglob("*.tmp"))
        (disk / "ballast").unlink()
        table = zerolag.sweep(web, SPACE, out=disk / "d", **OPTIONS)
        assert table.to_dict() == zerolag.sweep(web, SPACE, **OPTIONS).to_dict()
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_resume_file_must_be_a_file(web: str) -> None:
    with pytest.raises(zerolag.InputError, match="it is no file"):
        zerolag.sweep(web, SPACE, resume="/dev/full", **OPTIONS)


def test_until_fills_a_dataset_too(web: str, tmp_path: pathlib.Path) -> None:
    options = {**OPTIONS, "runs": 3, "until": zerolag.Until("request_latency.p99", 0.1, most=12)}
    plain = zerolag.sweep(web, SPACE, **options).to_dict()
    assert zerolag.sweep(web, SPACE, out=tmp_path / "d", **options).to_dict() == plain
    assert zerolag.sweep(web, SPACE, out=tmp_path / "d", **options).to_dict() == plain
