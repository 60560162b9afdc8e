"""Executors: the same table from each, and from each when it loses workers."""

from __future__ import annotations

import multiprocessing
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import Executor, Future, ProcessPoolExecutor
from typing import Any, Callable

import pytest
import zerolag
from zerolag.executors import Processes, Ray, Submitit, WorkerLost

SPACE = {"cpu_max": ["40000 100000", "80000 100000"], "load": ["100/s", "150/s"]}
OPTIONS: dict[str, Any] = {"runs": 10, "duration": "200ms", "figures": ["request_latency.p99", "nr_throttled"]}
SMALL: dict[str, Any] = {"chunk_seconds": 1e-6, **OPTIONS}

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of other systems")


@pytest.fixture
def whole(web: str) -> dict[str, list[Any]]:
    return zerolag.sweep(web, SPACE, **OPTIONS).to_dict()


def children() -> set[int]:
    """The processes of this session that run zerolag's workers, of whichever parent."""
    found: set[int] = set()
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if f"ZEROLAG_TEST_MARK={os.getpid()}".encode() in environment.split(b"\0"):
            found.add(int(entry.name))
    return found


def test_processes_give_the_same_table_and_end(web: str, whole: dict[str, list[Any]]) -> None:
    with Processes(2) as pool:
        assert zerolag.sweep(web, SPACE, executor=pool, **SMALL).to_dict() == whole
        pids = set(pool._pids)
        # A worker that starts late finds nothing left to do on a busy machine.
        assert 1 <= len(pids) <= 2
    assert not any(pathlib.Path(f"/proc/{pid}").exists() for pid in pids)


def kill_self(*_: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_a_call_that_a_lost_worker_has_not_begun_is_run_by_the_next() -> None:
    with Processes(1) as pool:
        first, *others = [pool.submit(kill_self), *(pool.submit(abs, -number) for number in range(5))]
        with pytest.raises(WorkerLost):
            first.result()
        assert [other.result() for other in others] == list(range(5))


def test_killed_workers_begin_no_call_that_they_had_been_given() -> None:
    with Processes(2) as pool:
        begun = pool.submit(os.getpid)
        assert begun.result() in pool._pids
        calls = [pool.submit(signal.pause) for _ in range(8)]
        while sum(call.running() for call in calls) < 2:
            pass
        pool.kill()
        # They end with an error, or were never begun: each call here lasts for ever.
        assert all(call.cancelled() or isinstance(call.exception(), WorkerLost) for call in calls)


class Deadly(Executor):
    """Replaces some chunks by one that kills its worker."""

    def __init__(self, pool: Executor, is_deadly: Callable[[int, Any], bool]) -> None:
        self.pool, self.is_deadly, self.sent = pool, is_deadly, 0

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        self.sent += 1
        return self.pool.submit(kill_self if self.is_deadly(self.sent, args[-1]) else fn, *args, **kwargs)


def test_a_lost_process_costs_its_chunk_only(web: str, whole: dict[str, list[Any]]) -> None:
    with Processes(2) as pool:
        deadly = Deadly(pool, lambda sent, rows: sent in (2, 5))
        assert zerolag.sweep(web, SPACE, executor=deadly, **OPTIONS).to_dict() == whole
    # 39 rows in 14 chunks, the last the smallest, and the two again.
    assert deadly.sent == 16


def test_a_row_that_no_worker_survives_is_a_row_with_its_error(
    web: str, whole: dict[str, list[Any]], tmp_path: pathlib.Path
) -> None:
    pytest.importorskip("pyarrow")
    bad = (["80000 100000", "100/s"], 4)
    with Processes(2) as pool:
        deadly = Deadly(pool, lambda _, rows: bad in rows)
        table = zerolag.sweep(web, SPACE, executor=deadly, out=tmp_path / "d", **OPTIONS).to_dict()
        assert [at for at, error in enumerate(table["error"]) if error is not None] == [24]
        assert "the worker was lost" in table["error"][24]
        same = {name: [*values[:24], *values[25:]] for name, values in whole.items()}
        assert {name: [*values[:24], *values[25:]] for name, values in table.items()} == same
        # The next call tries it again.
        assert zerolag.sweep(web, SPACE, executor=pool, out=tmp_path / "d", **OPTIONS).to_dict() == whole


def test_a_broken_pool_of_the_standard_library_is_replaced(web: str, whole: dict[str, list[Any]]) -> None:
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, mp_context=context) as pool:
        lost: list[int] = []

        def kill(done: int, of: int) -> None:
            if not lost and done > 5:
                lost.append(next(iter(pool._processes)))
                os.kill(lost[0], signal.SIGKILL)

        assert zerolag.sweep(web, SPACE, executor=pool, progress=kill, **SMALL).to_dict() == whole
        assert lost


def work_without_memory(*args: Any) -> Any:
    """Runs a chunk in a worker that is at its limit of memory, if the chunk has the row that is too large."""
    import resource

    from zerolag._sweep import run_chunk

    _, _, _, rows = args
    if any(values == ["80000 100000", "150/s"] for values, _ in rows):
        used = int(pathlib.Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + (1 << 18), resource.getrlimit(resource.RLIMIT_AS)[1]))
        hoard: list[bytearray] = []
        size = 1 << 18
        while size > 64:
            try:
                hoard.append(bytearray(size))
            except MemoryError:
                size //= 2
    return run_chunk(*args)


class Scarce(Executor):
    """Runs chunks in workers that have no memory for some points."""

    def __init__(self, pool: Executor) -> None:
        self.pool = pool

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        return self.pool.submit(work_without_memory, *args, **kwargs)


def test_a_worker_without_memory_costs_its_rows_only(web: str, whole: dict[str, list[Any]]) -> None:
    with Processes(2) as pool:
        table = zerolag.sweep(web, SPACE, executor=Scarce(pool), **{**OPTIONS, "chunk_seconds": 10.0}).to_dict()
    bad = [at for at, error in enumerate(table["error"]) if error is not None]
    assert bad and set(bad) <= set(range(30, 40)), "only rows of the point that is too large"
    good = [at for at in range(40) if at not in bad]
    assert all([table[name][at] for at in good] == [whole[name][at] for at in good] for name in whole)


SCRIPT = """
import os, sys, zerolag
from zerolag.executors import Processes
def begun(done, of):
    print("begun", flush=True)
if __name__ == "__main__":
    with Processes(2) as pool:
        zerolag.sweep({web!r}, {{"hz": list(range(100, 1000))}}, runs=100, duration="10s", executor=pool,
                      {keep}, progress=begun, chunk_seconds=0.05)
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self/environ").exists(), reason="no /proc to look for processes")
@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL], ids=["cancelled", "killed"])
def test_a_cancelled_sweep_leaves_no_process_and_no_half_file(how: signal.Signals, web: str, tmp_path: pathlib.Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    script = tmp_path / "study.py"
    script.write_text(SCRIPT.format(web=web, keep=f"out={str(tmp_path / 'd')!r}"))
    mark = {**os.environ, "ZEROLAG_TEST_MARK": str(os.getpid())}
    child = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=mark)
    assert child.stdout is not None
    for _ in range(4):
        assert child.stdout.readline() == "begun\n"
    assert len(children()) >= 3
    child.send_signal(how)
    # Its output ends when the last process ends that has inherited it: no worker, no server of workers is left.
    child.communicate(timeout=60)
    assert child.returncode != 0 and not children()
    chunks = [file for file in (tmp_path / "d").rglob("*.parquet") if not file.name.startswith(".")]
    assert chunks and all(parquet.read_table(file).num_rows for file in chunks)
    strays = [file.name for file in (tmp_path / "d").rglob("*.tmp")]
    assert not strays or how == signal.SIGKILL


def test_workers_that_cannot_start_are_said(web: str) -> None:
    program = f"import zerolag\nwith zerolag.executors.Processes(1) as pool:\n    zerolag.sweep({web!r}, {SPACE!r}, executor=pool)\n"
    path = pathlib.Path(os.environ.get("TMPDIR", "/tmp")) / f"zerolag-unguarded-{os.getpid()}.py"
    path.write_text(program)
    try:
        ended = subprocess.run([sys.executable, path], capture_output=True, text=True, check=False, timeout=120)
    finally:
        path.unlink()
    assert ended.returncode == 1 and "does not start" in ended.stderr and 'if __name__ == "__main__":' in ended.stderr


def test_submitit_runs_chunks_as_jobs(web: str, whole: dict[str, list[Any]], tmp_path: pathlib.Path) -> None:
    submitit = pytest.importorskip("submitit")
    jobs = submitit.LocalExecutor(folder=tmp_path)
    with Submitit(jobs, every=0.02) as executor:
        assert zerolag.sweep(web, SPACE, executor=executor, **OPTIONS).to_dict() == whole
    assert len(list(tmp_path.glob("*_result.pkl"))) == 14
    with Submitit(submitit.DebugExecutor(folder=tmp_path), every=0.02) as executor:
        assert zerolag.sweep(web, SPACE, executor=executor, **OPTIONS).to_dict() == whole


def test_ray_runs_chunks_as_tasks(web: str, whole: dict[str, list[Any]]) -> None:
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR", configure_logging=False)
    try:
        with Ray(max_retries=0) as executor:
            assert zerolag.sweep(web, SPACE, executor=executor, **OPTIONS).to_dict() == whole
            lost: list[int] = []

            class Killing(Executor):
                def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
                    lost.append(len(lost))
                    return executor.submit(kill_self if len(lost) == 3 else fn, *args, **kwargs)

            assert zerolag.sweep(web, SPACE, executor=Killing(), **OPTIONS).to_dict() == whole
            assert len(lost) == 15
    finally:
        ray.shutdown()


def test_mpi_runs_chunks(web: str, whole: dict[str, list[Any]], tmp_path: pathlib.Path) -> None:
    pytest.importorskip("mpi4py")
    launcher = pathlib.Path(sys.executable).with_name("mpiexec")
    command = str(launcher) if launcher.exists() else shutil.which("mpiexec")
    if command is None:
        pytest.skip("there is no mpiexec")
    script = tmp_path / "study.py"
    script.write_text(
        textwrap.dedent(f"""
        import json, zerolag
        from mpi4py.futures import MPIPoolExecutor
        if __name__ == "__main__":
            with MPIPoolExecutor() as pool:
                print(json.dumps(zerolag.sweep({web!r}, {SPACE!r}, executor=pool, **{OPTIONS!r}).to_dict()))
        """)
    )
    call = [command, "-n", "3", sys.executable, "-m", "mpi4py.futures", str(script)]
    ended = subprocess.run(call, capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr
    import json

    assert json.loads(ended.stdout) == whole
