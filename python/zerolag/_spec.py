"""A simulation as plain values: it can be pickled, and sent to other processes."""

from __future__ import annotations

import json
import numbers
import os
from dataclasses import dataclass, replace
from typing import Any, Callable, Mapping, Optional, Sequence, Union

from ._errors import InputError
from ._toml import dumps, is_bool
from ._workload import Scenario
from .policy import Policy

Workload = Union[str, "os.PathLike[str]", Mapping[str, Any], Scenario]
"""A path; the text of a scenario, of an rt-app file or a task set; a dict with the same keys; or a `Scenario`."""

Value = Union[str, int, float, bool]
"""The value of a setting, a limit or a parameter."""

PolicyOf = Union[str, Policy, Callable[[], Policy]]
"""A scheduler for the tasks of `sched_ext`: its name, or one of your own: its class, a function that makes it, or an object."""

# Keyword arguments have no points.
_WITH_POINTS = {
    "cpu_max": "cpu.max",
    "cpu_max_burst": "cpu.max.burst",
    "cpu_weight": "cpu.weight",
    "cpu_cfs_quota_us": "cpu.cfs_quota_us",
    "cpu_cfs_period_us": "cpu.cfs_period_us",
}


@dataclass(frozen=True)
class Spec:
    """What the native part reads."""

    name: str
    text: Optional[bytes]
    kernel: Optional[str] = None
    cpus: Optional[str] = None
    machine: Optional[str] = None
    costs: Optional[str] = None
    seed: Optional[int] = None
    duration: Optional[str] = None
    values: Sequence[tuple[str, str]] = ()
    checks: bool = True
    worst_waits: int = 10
    keep: Sequence[str] = ()
    policy: Optional[Union[Policy, Callable[[], Policy]]] = None
    """A class of policies, a function that makes one, or a policy."""

    def embedded(self) -> "Spec":
        """Returns it with its file's text, so that a worker on another machine needs no file."""
        if self.text is not None:
            return self
        try:
            with open(self.name, "rb") as file:
                return replace(self, text=file.read())
        except OSError:
            # The native part says what is wrong, with advice.
            return self


def written(value: Value) -> str:
    """Returns a value as the command line takes it."""
    if is_bool(value):
        return "on" if value else "off"
    if isinstance(value, (Policy, type)):
        raise InputError("policy: a scheduler of your own is for run, explain, compare and smallest; elsewhere it is a name")
    return str(value)


def key_of(key: str) -> str:
    """Returns a key as the command line takes it."""
    return _WITH_POINTS.get(key, key)


def spec_of(
    workload: Workload,
    *,
    kernel: Optional[str] = None,
    cpus: Optional[int] = None,
    machine: Optional[str] = None,
    costs: "Optional[Union[str, os.PathLike[str]]]" = None,
    seed: Optional[int] = None,
    duration: Optional[str] = None,
    set: Optional[Mapping[str, Value]] = None,
    settings: Optional[Mapping[str, Value]] = None,
    checks: bool = True,
    worst_waits: int = 10,
    keep: Sequence[str] = (),
    policy: Optional[PolicyOf] = None,
) -> Spec:
    """Returns the description of a simulation."""
    name, text = _source(workload)
    values = {key_of(key): written(value) for key, value in {**(set or {}), **(settings or {})}.items()}
    if isinstance(policy, str):
        values["policy"], policy = policy, None
    elif not (policy is None or isinstance(policy, Policy) or callable(policy)):
        kind = type(policy).__name__
        raise InputError(f"policy: expected a name, a zerolag.policy.Policy or a function that makes one, not `{kind}`")
    if isinstance(keep, str):
        keep = (keep,)
    texts = {"kernel": (kernel, "6.12"), "machine": (machine, "2x2x4x2"), "duration": (duration, "10s")}
    for key, (value, example) in texts.items():
        if value is not None and not isinstance(value, str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputError(f"{key}: expected a text, not {value!r}", help=f'write {key}="{example}"')
    if seed is not None and not _is_seed(seed):
        raise InputError(f"seed: expected a whole number from 0 to 2**64 - 1, not {seed!r}")
    return Spec(
        name=name,
        text=text,
        kernel=kernel,
        cpus=None if cpus is None else str(cpus),
        machine=machine,
        costs=None if costs is None else os.fspath(costs),
        seed=None if seed is None else int(seed),
        duration=duration,
        values=tuple(values.items()),
        checks=checks,
        worst_waits=worst_waits,
        keep=tuple(keep),
        policy=policy,
    )


def _is_seed(seed: object) -> bool:
    return isinstance(seed, numbers.Integral) and not is_bool(seed) and 0 <= int(seed) < 1 << 64


def _source(workload: Workload) -> tuple[str, Optional[bytes]]:
    if isinstance(workload, Scenario):
        return "scenario.toml", workload.to_toml().encode()
    if isinstance(workload, Mapping):
        if "tasks" in workload:
            return "workload.json", json.dumps(workload).encode()
        return "scenario.toml", dumps(workload).encode()
    if isinstance(workload, os.PathLike):
        return os.fspath(workload), None
    if isinstance(workload, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        # A path has no line break, and a workload has several lines.
        return ("<text>", workload.encode()) if "\n" in workload else (workload, None)
    kind = type(workload).__name__
    raise InputError(f"a workload is a path, a text, a dict or a Scenario, not a {kind}")


def call_of(function: str, spec: Spec, **more: object) -> str:
    """Returns the call that made a result, as its page shows it."""
    given = {key: getattr(spec, key) for key in ("kernel", "cpus", "machine", "costs", "seed", "duration")}
    options = [f"{key}={value!r}" for key, value in {**more, **given}.items() if value is not None]
    if spec.values:
        options.append(f"set={dict(spec.values)!r}")
    return f"zerolag.{function}({', '.join([repr(spec.name), *options])})"
