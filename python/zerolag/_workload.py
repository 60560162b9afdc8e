"""A workload built in Python: dataclasses with the keys of a scenario.

They only collect: what a key may hold is checked where a file is, with the same messages (`Scenario.validate`, `run`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Any, Mapping, Optional, Sequence, Union

Time = str
"""A time with its unit: "2ms"."""

Step = Mapping[str, Any]
"""One action: {"run": "2ms"}, {"sleep": {"exponential": {"mean": "5ms"}}}, {"lock": "m"}."""

# Names of fields that are keys with a point.
_WITH_POINTS = {"cpu_max": "cpu.max", "cpu_max_burst": "cpu.max.burst", "cpu_weight": "cpu.weight", "cpu_idle": "cpu.idle"}


class _Table:
    """A table of a scenario."""

    def to_dict(self) -> dict[str, Any]:
        """Returns its keys and values; those that were not set are left out."""
        found: dict[str, Any] = {}
        for one in fields(self):  # type: ignore[arg-type]  # every subclass is a dataclass
            value = getattr(self, one.name)
            if value is not None and one.name != "more":
                found[_WITH_POINTS.get(one.name, one.name)] = value
        return {**found, **getattr(self, "more", {})}


@dataclass(frozen=True)
class Machine(_Table):
    """The machine: `cpus` under one cache, or its shape."""

    cpus: Optional[int] = None
    sockets: Optional[int] = None
    llcs_per_socket: Optional[int] = None
    cores_per_llc: Optional[int] = None
    smt: Optional[int] = None
    capacities: Optional[Sequence[int]] = None


@dataclass(frozen=True)
class _Scheduled(_Table):
    steps: Optional[Sequence[Step]] = None
    phase: Optional[Sequence[Mapping[str, Any]]] = None
    group: Optional[str] = None
    cpus: Optional[Union[str, Sequence[int]]] = None
    cpuset: Optional[str] = None
    process: Optional[str] = None
    policy: Optional[str] = None
    nice: Optional[int] = None
    priority: Optional[int] = None
    slice: Optional[Time] = None
    runtime: Optional[Time] = None
    deadline: Optional[Time] = None
    period: Optional[Time] = None
    flags: Optional[Sequence[str]] = None
    delay: Optional[Time] = None
    until: Optional[Time] = None


@dataclass(frozen=True)
class Task(_Scheduled):
    """A task: `instances` threads that repeat the same steps."""

    instances: Optional[Union[int, str, Mapping[str, Any]]] = None
    created_on: Optional[int] = None
    uclamp_min: Optional[int] = None
    uclamp_max: Optional[int] = None
    loop: Optional[Union[int, str]] = None


@dataclass(frozen=True)
class Service(_Scheduled):
    """A service: requests arrive, and `workers` take them from a queue. The steps are those of one request."""

    arrivals: Optional[Mapping[str, Any]] = None
    load: Optional[float] = None
    workers: Optional[Union[int, str, Mapping[str, Any]]] = None
    requests: Optional[int] = None
    queue: Optional[int] = None
    irq_cpus: Optional[Union[str, Sequence[int]]] = None


@dataclass(frozen=True)
class Group(_Table):
    """A task group. `more` holds further notations of limits: {"limits.cpu": "750m"}."""

    cpu_max: Optional[str] = None
    cpu_max_burst: Optional[int] = None
    cpu_weight: Optional[int] = None
    cpu_idle: Optional[int] = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])


@dataclass(frozen=True)
class Scenario:
    """A workload: what `run`, `sweep`, `advise` and the others take.

        web = Scenario(
            machine=Machine(cpus=8),
            groups={"/web": Group(cpu_max="200000 100000")},
            services={"web": Service(group="/web", workers=16, arrivals={"poisson": "300/s"}, steps=[{"run": "4ms"}])},
        )

    `more` holds tables that have no field: locks, pipes, cpusets, changes ({"mutex": {"m": {}}}).
    """

    tasks: Mapping[str, Task] = field(default_factory=dict[str, Task])
    services: Mapping[str, Service] = field(default_factory=dict[str, Service])
    groups: Mapping[str, Group] = field(default_factory=dict[str, Group])
    machine: Optional[Machine] = None
    kernel: Optional[str] = None
    duration: Optional[Time] = None
    seed: Optional[int] = None
    costs: Optional[str] = None
    goals: Optional[Sequence[str]] = None
    settings: Optional[Mapping[str, Any]] = None
    more: Mapping[str, Any] = field(default_factory=dict[str, Any])

    def to_dict(self) -> dict[str, Any]:
        """Returns the scenario as a dict with the keys of its file."""
        found: dict[str, Any] = {}
        for key in ("kernel", "duration", "seed", "costs", "goals"):
            value = getattr(self, key)
            if value is not None:
                found[key] = value
        if self.machine is not None:
            found["machine"] = self.machine.to_dict()
        if self.settings is not None:
            found["settings"] = dict(self.settings)
        for key, tables in (("group", self.groups), ("task", self.tasks), ("service", self.services)):
            if tables:
                found[key] = {name: table.to_dict() for name, table in tables.items()}
        return {**found, **self.more}

    def to_toml(self) -> str:
        """Returns the text of the scenario's file. Messages about mistakes name its lines."""
        from ._toml import dumps

        return dumps(self.to_dict())

    def validate(self) -> "Scenario":
        """Reads the scenario as a run does, without a run.

        Raises WorkloadError with every mistake: the message of the command line, and the place in `to_toml()`.
        """
        from . import _zerolag
        from ._spec import spec_of

        _zerolag.validate(spec_of(self))
        return self
