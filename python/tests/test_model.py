"""The model of a cluster (`benches/cluster.py`): its bookkeeping, and that it is the same everywhere."""

from __future__ import annotations

import importlib.util
import math
import pathlib
import sys
from dataclasses import replace
from typing import Any


def model() -> Any:
    path = pathlib.Path("python/benches/cluster.py")
    spec = importlib.util.spec_from_file_location("zerolag_cluster", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def test_without_overhead_and_loss_it_takes_the_ideal_time() -> None:
    m = model()
    calm = m.Cluster(
        workers=10, rows=1000, row_seconds=0.1, chunk_seconds=1.0, chunk_overhead=0.0, dispatch_seconds=0.0,
        mean_life=math.inf, ramp=0.0, spread=0.0, slow_share=0.0,
    )  # fmt: skip
    found = m.simulate(calm)
    assert found.chunks == 100 and abs(found.makespan - 10.0) < 1e-9 and found.efficiency > 0.999999
    # One dispatcher that needs a tenth of a chunk's time feeds ten workers; half the rate feeds five.
    slow = m.simulate(replace(calm, dispatch_seconds=0.2))
    assert abs(slow.makespan - (100 * 0.2 + 1.0)) < 1e-9 and slow.dispatching > 0.95


def test_lost_workers_cost_their_chunks_and_nothing_is_lost() -> None:
    m = model()
    harsh = m.Cluster(workers=50, rows=20_000, row_seconds=0.1, chunk_seconds=2.0, mean_life=60.0, notice=5.0, restart=10.0)
    found = m.simulate(harsh)
    assert found == m.simulate(harsh) != m.simulate(replace(harsh, seed=2))
    assert found.chunks == 1000 and 0 < found.lost_chunks <= found.lost_workers
    assert 0 < found.wasted < found.lost_chunks * 20 and found.makespan > found.ideal
