"""What a simulation costs from Python, beside the bare Rust call of `cargo run --release -p zerolag --example overhead`,
and what a sweep costs on threads, processes and Dask. Needs an optimised wheel (`./x wheel`), and `distributed` for Dask:

    python python/benches/overhead.py [--dask] [--alone] [--sweeps] [--rounds N] [--native PROGRAM] [--chunks] [--sizes] [--kill]

With `--native target/release/zerolag`, sweeps are compared with `zerolag sweep`.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import pathlib
import signal
import statistics
import subprocess
import time
from concurrent.futures import ProcessPoolExecutor
from typing import Any, Callable

import zerolag

TRIVIAL = "[machine]\ncpus = 1\n[task.a]\nloop = 1\nsteps = [{ run = \"1ms\" }]\n"
WEB = "examples/web-service-limit.toml"


def timed(name: str, times: int, what: Callable[[], object]) -> None:
    rounds: list[float] = []
    for _ in range(5):
        begin = time.perf_counter()
        for _ in range(times):
            what()
        rounds.append((time.perf_counter() - begin) / times)
    print(f"{name}: {min(rounds) * 1e6:.1f} us (best of 5 rounds; worst {max(rounds) * 1e6:.1f})", flush=True)


def swept(name: str, expected: "dict[str, list[Any]] | None", **options: Any) -> dict[str, list[Any]]:
    begin = time.perf_counter()
    quotas = [f"{quota}000 100000" for quota in range(101, 351)]
    options = {"runs": 4, "duration": "2s", "figures": ["request_latency.p99"], **options}
    table = zerolag.sweep(WEB, {"cpu_max": quotas}, **options).to_dict()
    took = time.perf_counter() - begin
    assert not any(table["error"]), table["error"]
    same = "" if expected is None else f", same rows: {table == expected}"
    print(f"{name}: {len(table['run'])} simulations in {took:.2f} s{same}", flush=True)
    return table


def alone() -> None:
    """What a simulation costs by itself, from Python."""
    result = zerolag.run(WEB, seed=1, duration="2s")
    timed("a trivial run", 2000, lambda: zerolag.run(TRIVIAL, checks=False))
    timed("one column as a list", 20_000, lambda: result.tasks["run_ns"])
    try:
        import pyarrow

        timed("a table of 16 rows and 24 columns to pyarrow", 2000, lambda: pyarrow.table(result.tasks))
    except ImportError:
        pass


def native(program: str) -> Callable[[], object]:
    """Returns the sweep of `swept` as a call of the program."""
    quotas = ",".join(f"{quota}000 100000" for quota in range(101, 351))
    options = ["--runs", "4", "-d", "2s", "--show", "request_latency.p99", "--json", "-q"]
    call = [program, "sweep", WEB, "--set", f"cpu.max={quotas}", *options]
    return lambda: subprocess.run(call, check=True, stdout=subprocess.DEVNULL)


def cpu_seconds() -> float:
    """Returns the CPU time of this process, of its descendants, and of those that have ended: what other programs on the
    host do not change."""
    ticks: dict[int, tuple[int, int]] = {}
    for entry in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks[int(entry.name)] = (int(fields[1]), sum(map(int, fields[11:15])))
    ours = {os.getpid()}
    while more := {pid for pid, (parent, _) in ticks.items() if parent in ours} - ours:
        ours |= more
    return sum(ticks[pid][1] for pid in ours) / os.sysconf("SC_CLK_TCK")


def side_by_side(executor: Any, program: "str | None", rounds: int) -> None:
    """Sweeps of 1000 simulations in turn, each round in another order, so that what else the host does meets all alike."""
    expected = swept("threads", None)
    ways: dict[str, Callable[[], object]] = {"threads": lambda: swept("threads", expected)}
    if program is not None:
        ways["zerolag sweep"] = native(program)

    def new() -> None:
        with zerolag.executors.Processes(2) as pool:
            swept("Processes, new", expected, executor=pool)

    ways["Processes, new"] = new
    with contextlib.ExitStack() as stack:
        there = stack.enter_context(zerolag.executors.Processes(2))
        swept("Processes, first", expected, executor=there)
        ways["Processes, there"] = lambda: swept("Processes, there", expected, executor=there)
        standard = stack.enter_context(ProcessPoolExecutor(2))
        swept("ProcessPoolExecutor, first", expected, executor=standard)
        ways["ProcessPoolExecutor, there"] = lambda: swept("ProcessPoolExecutor, there", expected, executor=standard)
        if executor is not None:
            swept("Dask, first", expected, executor=executor)
            ways["Dask, 2 workers that are there"] = lambda: swept("Dask", expected, executor=executor)
        took: dict[str, list[float]] = {name: [] for name in ways}
        used: dict[str, list[float]] = {name: [] for name in ways}
        for number in range(rounds):
            names = list(ways)
            for name in names[number % len(names) :] + names[: number % len(names)]:
                begin, before = time.perf_counter(), cpu_seconds()
                ways[name]()
                took[name].append(time.perf_counter() - begin)
                used[name].append(cpu_seconds() - before)
    base = "threads" if program is None else "zerolag sweep"
    load = ", ".join(f"{average:.1f}" for average in os.getloadavg())
    print(f"medians of {rounds} rounds (load averages {load}):")
    for name in ways:
        times, cpu = (sorted(this / that for this, that in zip(of[name], of[base])) for of in (took, used))
        print(
            f"{name}: {statistics.median(took[name]):.2f} s, {statistics.median(times):.2f} times {base}"
            f" ({times[0]:.2f} to {times[-1]:.2f}); CPU time {statistics.median(used[name]):.2f} s,"
            f" {statistics.median(cpu):.2f} times ({cpu[0]:.2f} to {cpu[-1]:.2f})",
            flush=True,
        )


def smallest_chunks(executor: Any) -> None:
    """How many chunks an executor takes: each is one trivial simulation."""
    rows = 3000
    for name, one in [("Dask", executor), ("Processes", zerolag.executors.Processes(2))]:
        if one is None:
            continue
        begin, used = time.perf_counter(), time.process_time()
        zerolag.sweep(TRIVIAL, {"hz": [100]}, runs=rows, figures=["a.run"], executor=one, chunk_seconds=1e-9)
        took, used = time.perf_counter() - begin, time.process_time() - used
        # The scheduler of a local Dask cluster is in this process, so its CPU time is counted.
        print(f"{name}: {rows / took:.0f} chunks of one trivial row per second, {used / rows * 1e3:.2f} ms of CPU here for each", flush=True)


def sizes() -> None:
    """Bytes of a row in a log, and in a dataset."""
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        for kind in ("resume", "out"):
            place = pathlib.Path(scratch) / kind
            options: dict[str, Any] = {kind: place}
            swept(kind, None, runs=66, duration="500ms", figures=["request_latency.p99", "nr_throttled", "throttled"], **options)
            files = [place] if place.is_file() else list(place.glob("*.parquet"))
            size = sum(file.stat().st_size for file in files)
            print(f"{kind}: {size / (250 * 66):.1f} bytes per row of 3 figures", flush=True)


def one_killed(executor: Any, client: Any) -> None:
    """10,000 simulations, and a worker that is killed after a quarter of them."""
    many = swept("threads", None, runs=40)
    killed: list[int] = []

    def kill_one(done: int, of: int) -> None:
        if not killed and done > of // 4:
            killed.append(next(iter(client.run(os.getpid).values())))
            os.kill(killed[0], signal.SIGKILL)
            print(f"killed a worker when {done} of {of} were done", flush=True)

    swept("Dask, a worker killed", many, runs=40, executor=executor, progress=kill_one, chunk_seconds=1.0)
    with zerolag.executors.Processes(2) as pool:
        gone: list[int] = []

        def kill_process(done: int, of: int) -> None:
            if not gone and done > of // 4:
                gone.append(next(iter(pool._pids)))
                os.kill(gone[0], signal.SIGKILL)
                print(f"killed a process when {done} of {of} were done", flush=True)

        swept("Processes, one killed", many, runs=40, executor=pool, progress=kill_process, chunk_seconds=1.0)


def main() -> None:
    parser = argparse.ArgumentParser()
    for part in ("dask", "alone", "sweeps", "chunks", "sizes", "kill"):
        parser.add_argument(f"--{part}", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--native", metavar="PROGRAM")
    asked = parser.parse_args()
    if not (asked.alone or asked.sweeps or asked.chunks or asked.sizes or asked.kill):
        asked.alone = asked.sweeps = True
    with contextlib.ExitStack() as stack:
        client = executor = None
        if asked.dask:
            import distributed

            cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
            client = stack.enter_context(distributed.Client(stack.enter_context(cluster)))
            executor = client.get_executor()
        if asked.alone:
            alone()
        if asked.sweeps:
            side_by_side(executor, asked.native, asked.rounds)
        if asked.chunks:
            smallest_chunks(executor)
        if asked.sizes:
            sizes()
        if asked.kill:
            one_killed(executor, client)


if __name__ == "__main__":
    main()
