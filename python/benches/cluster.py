"""A sweep on a cluster that is not at hand, on paper: a thousand workers, one scheduler, workers that are lost.

    python python/benches/cluster.py

A discrete-event model, seeded: the same numbers on every machine. `Cluster` says what is measured (by `overhead.py`, see
docs/lab/clusters.md) and what is assumed.
"""

from __future__ import annotations

import heapq
import math
import random
import sys
from collections import deque
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Cluster:
    """A cluster and a sweep on it. Times in seconds."""

    workers: int = 1000
    rows: int = 1_000_000
    row_seconds: float = 0.2
    """A simulation. Assumed: 200 times the 2 s of `examples/web-service-limit.toml`."""
    chunk_seconds: float = 2.0
    chunk_overhead: float = 0.003
    """What a worker spends on a chunk beside its rows: unpickling, reading the workload. Measured with Dask."""
    dispatch_seconds: float = 0.0019
    """What the scheduler and the driver spend on a chunk, one after the other: sending it, taking its result. Measured with
    Dask, both in one process."""
    mean_life: float = 24 * 3600.0
    """Of a worker, until it is lost. Lives are exponential."""
    notice: float = 30.0
    """From the loss of a worker until its chunk is sent again."""
    restart: float = 120.0
    """From the loss of a worker until another is there."""
    ramp: float = 120.0
    """Workers arrive evenly over this time."""
    spread: float = 0.3
    """Standard deviation of the logarithm of a chunk's time."""
    slow_share: float = 0.01
    slow_by: float = 3.0
    """This share of the workers is slower by this factor."""
    seed: int = 1


@dataclass(frozen=True)
class Outcome:
    """How a sweep went."""

    makespan: float
    ideal: float
    """The time of the same rows on as many workers without any overhead, loss, slowness or ramp."""
    chunks: int
    lost_chunks: int
    lost_workers: int
    wasted: float
    """Worker seconds of chunks that were lost."""
    dispatching: float
    """The share of the makespan in which the scheduler was busy."""
    tail: float
    """From when the first worker found nothing to do until the end."""

    @property
    def efficiency(self) -> float:
        """The ideal time as a share of the makespan."""
        return self.ideal / self.makespan


ARRIVES, SENT, ENDS, LOST, NOTICED = range(5)


def simulate(cluster: Cluster) -> Outcome:
    """Runs a sweep on a cluster."""
    rng = random.Random(cluster.seed)

    def exponential(mean: float) -> float:
        return -mean * math.log(1.0 - rng.random()) if math.isfinite(mean) else math.inf

    def normal() -> float:
        return math.sqrt(-2.0 * math.log(1.0 - rng.random())) * math.cos(2.0 * math.pi * rng.random())

    per_chunk = max(1, round(cluster.chunk_seconds / cluster.row_seconds))
    full, rest = divmod(cluster.rows, per_chunk)
    sizes = [per_chunk] * full + ([rest] if rest else [])
    waiting = deque(range(len(sizes)))
    done = [False] * len(sizes)
    left = len(sizes)
    events: list[tuple[float, int, int, int, int]] = []
    order = 0

    def after(at: float, what: int, worker: int, chunk: int = -1) -> None:
        nonlocal order
        order += 1
        heapq.heappush(events, (at, order, what, worker, chunk))

    slow = [rng.random() < cluster.slow_share for _ in range(cluster.workers)]
    works_on = [-1] * cluster.workers
    began = [0.0] * cluster.workers
    # Of a worker that was lost the events that are still queued are void.
    life = [0] * cluster.workers
    idle: deque[int] = deque()
    scheduler_free = busy = wasted = 0.0
    lost_chunks = lost_workers = 0
    first_idle = math.inf
    for worker in range(cluster.workers):
        after(cluster.ramp * worker / cluster.workers, ARRIVES, worker)

    def hand_out(now: float) -> None:
        nonlocal scheduler_free, busy
        while idle and waiting:
            worker, chunk = idle.popleft(), waiting.popleft()
            scheduler_free = max(scheduler_free, now) + cluster.dispatch_seconds
            busy += cluster.dispatch_seconds
            works_on[worker], began[worker] = chunk, scheduler_free
            factor = math.exp(cluster.spread * normal() - cluster.spread**2 / 2) * (cluster.slow_by if slow[worker] else 1.0)
            takes = cluster.chunk_overhead + sizes[chunk] * cluster.row_seconds * factor
            after(scheduler_free + takes, ENDS, worker, life[worker])

    now = 0.0
    while left:
        now, _, what, worker, tag = heapq.heappop(events)
        if what == ARRIVES:
            life[worker] += 1
            works_on[worker] = -1
            idle.append(worker)
            after(now + exponential(cluster.mean_life), LOST, worker, life[worker])
        elif what == ENDS and tag == life[worker]:
            chunk = works_on[worker]
            works_on[worker] = -1
            if not done[chunk]:
                done[chunk] = True
                left -= 1
            idle.append(worker)
        elif what == LOST and tag == life[worker]:
            lost_workers += 1
            life[worker] += 1
            chunk = works_on[worker]
            if chunk >= 0:
                lost_chunks += 1
                wasted += max(0.0, now - began[worker])
                after(now + cluster.notice, NOTICED, worker, chunk)
            elif worker in idle:
                idle.remove(worker)
            after(now + cluster.restart, ARRIVES, worker)
        elif what == NOTICED:
            waiting.append(tag)
        hand_out(now)
        if idle and not waiting:
            first_idle = min(first_idle, now)
        elif waiting:
            first_idle = math.inf
    ideal = cluster.rows * cluster.row_seconds / cluster.workers
    tail = max(0.0, now - first_idle)
    return Outcome(now, ideal, len(sizes), lost_chunks, lost_workers, wasted, min(1.0, busy / now), tail)


STUDIES = [
    ("chunks of 0.2 s", {"chunk_seconds": 0.2}),
    ("chunks of 2 s", {}),
    ("chunks of 5 s", {"chunk_seconds": 5.0}),
    ("chunks of 20 s", {"chunk_seconds": 20.0}),
    ("chunks of 100 s", {"chunk_seconds": 100.0}),
    ("chunks of 5 s, a worker lives an hour", {"chunk_seconds": 5.0, "mean_life": 3600.0}),
    ("chunks of 5 s, a worker lives ten minutes", {"chunk_seconds": 5.0, "mean_life": 600.0}),
    ("chunks of 100 s, a worker lives ten minutes", {"chunk_seconds": 100.0, "mean_life": 600.0}),
    ("chunks of 5 s, nothing is lost or slow, all there", {"chunk_seconds": 5.0, "mean_life": math.inf, "slow_share": 0.0, "ramp": 0.0}),
    ("ten million rows of 20 ms, chunks of 5 s", {"chunk_seconds": 5.0, "rows": 10_000_000, "row_seconds": 0.02}),
    ("100,000 rows of 20 s, a chunk is one", {"chunk_seconds": 20.0, "rows": 100_000, "row_seconds": 20.0}),
    ("100 workers, chunks of 5 s", {"chunk_seconds": 5.0, "workers": 100}),
    ("10,000 workers, chunks of 5 s", {"chunk_seconds": 5.0, "workers": 10_000}),
    ("10,000 workers, chunks of 20 s, ten million rows", {"chunk_seconds": 20.0, "workers": 10_000, "rows": 10_000_000}),
    ("ten million rows, chunks of 5 s", {"chunk_seconds": 5.0, "rows": 10_000_000}),
    ("ten million rows, chunks of 5 s, a worker lives an hour", {"chunk_seconds": 5.0, "rows": 10_000_000, "mean_life": 3600.0}),
]  # fmt: skip


def main() -> None:
    """Prints the studies."""
    print("| sweep | chunks | time (s) | ideal (s) | efficiency | scheduler busy | workers lost | chunks run again | wasted | tail (s) |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for name, changed in STUDIES:
        cluster = replace(Cluster(), **changed)
        found = simulate(cluster)
        wasted = found.wasted / (cluster.rows * cluster.row_seconds)
        print(
            f"| {name} | {found.chunks:,} | {found.makespan:,.0f} | {found.ideal:,.0f} | {found.efficiency:.0%} "
            f"| {found.dispatching:.0%} | {found.lost_workers:,} | {found.lost_chunks:,} | {wasted:.2%} | {found.tail:,.0f} |"
        )


if __name__ == "__main__":
    sys.exit(main())
