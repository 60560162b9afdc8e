"""What to set for a stated goal."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Mapping, Optional, Sequence, Union

from . import _zerolag
from ._errors import InputError
from ._results import Advice, Demand, Trace
from ._spec import Value, Workload, call_of, spec_of

_Path = Union[str, "os.PathLike[str]"]


def advise(
    workload: Union[Workload, Trace],
    goals: Union[str, Sequence[str]] = (),
    *,
    seeds: Optional[int] = None,
    risk: float = 0.05,
    most: Optional[int] = None,
    group: Optional[str] = None,
    groups: Optional[Mapping[str, str]] = None,
    limits: Optional[Mapping[str, str]] = None,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: Optional[_Path] = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    **settings: Value,
) -> Advice:
    """Finds the smallest limit, burst and number of workers with which a workload meets its goals.

    Fewer than the share `risk` of all seeds miss, with a confidence of 95 %. `seeds` are those of a search; what it finds is
    judged by at most `most` others. `group` is the group whose limit is chosen, if there are several. Of a trace,
    `groups` ({"redis-server": "/db"}) and `limits` ({"/db": "50000 100000"}) say what it was recorded under.
    """
    wanted = [goals] if isinstance(goals, str) else list(goals)
    name: Optional[str] = None
    if isinstance(workload, Trace):
        pairs = (tuple((groups or {}).items()), tuple((limits or {}).items()))
        workload, _ = workload.imported(*pairs, kernel)
        name = "import.toml"
    elif groups or limits:
        raise InputError("groups and limits are for traces: a workload has its groups in it; `set` changes their limits")
    spec = spec_of(
        workload, kernel=kernel, cpus=cpus, machine=machine, costs=costs, seed=seed, duration=duration, set=set, settings=settings
    )
    if name is not None:
        spec = replace(spec, name=name)
    advice = Advice(_zerolag.advise(spec, wanted, risk, seeds, most, group))
    return advice._named(spec.name, lambda: call_of("advise", spec, goals=wanted, seeds=seeds, risk=risk))


def advise_counters(
    files: Union[_Path, Sequence[_Path]], now: str, *, throttled: float = 0.01, cpus: Optional[int] = None
) -> Demand:
    """Bounds the demand behind a limit from counters alone: samples of `cpu.stat`, or CSV or JSON from Prometheus.

    `now` is the present limit (`"200000 100000"`, `"2"`, `"750m"`), `throttled` the share of periods that may be throttled.
    """
    paths = [files] if isinstance(files, (str, os.PathLike)) else list(files)
    return Demand(_zerolag.advise_counters([os.fspath(path) for path in paths], str(now), throttled, cpus))
