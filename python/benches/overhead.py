"""What a simulation costs from Python, beside the bare Rust call of `cargo run --release -p zerolag --example overhead`,
and what a sweep costs on threads, processes and Dask. Needs an optimised wheel (`./x wheel`), and `distributed` for Dask:

    python python/benches/overhead.py [--dask] [--kill]
"""

from __future__ import annotations

import os
import signal
import sys
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
    quotas = [f"{quota}ms" for quota in range(101, 351)]
    table = zerolag.sweep(WEB, {"quota": quotas}, duration="2s", figures=["request_latency.p99"], **{"runs": 4, **options}).to_dict()
    took = time.perf_counter() - begin
    same = "" if expected is None else f", same rows: {table == expected}"
    print(f"{name}: {len(table['run'])} simulations in {took:.2f} s{same}", flush=True)
    return table


def main() -> None:
    result = zerolag.run(WEB, seed=1, duration="2s")
    timed("a trivial run", 2000, lambda: zerolag.run(TRIVIAL, checks=False))
    timed("one column as a list", 20_000, lambda: result.tasks["run_ns"])
    try:
        import pyarrow

        timed("a table of 16 rows and 24 columns to pyarrow", 2000, lambda: pyarrow.table(result.tasks))
    except ImportError:
        pass
    threads = swept("threads", None)
    with ProcessPoolExecutor(os.cpu_count()) as pool:
        swept("processes", threads, executor=pool)
    if "--dask" in sys.argv or "--kill" in sys.argv:
        import distributed

        cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=None)
        with cluster, distributed.Client(cluster) as client:
            swept("Dask, 2 workers", threads, executor=client.get_executor())
            if "--kill" in sys.argv:
                many = swept("threads", None, runs=40)
                killed: list[int] = []

                def kill_one(done: int, of: int) -> None:
                    if not killed and done > of // 4:
                        killed.append(next(iter(client.run(os.getpid).values())))
                        os.kill(killed[0], signal.SIGKILL)
                        print(f"killed a worker when {done} of {of} were done", flush=True)

                swept("Dask, a worker killed", many, runs=40, executor=client.get_executor(), progress=kill_one, chunk_seconds=1.0)


if __name__ == "__main__":
    main()
