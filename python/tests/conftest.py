"""Tests of the package as it is installed. They run in the root of the repository."""

from __future__ import annotations

import os
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]

WEB = """duration = "2s"
goals = ["request_latency.p99 <= 10s"]
[machine]
cpus = 2
[parameters]
load = "150/s"
[group."/web"]
cpu.max = "40000 100000"
[service.web]
workers = 4
group = "/web"
arrivals = { poisson = "${load}" }
steps = [{ run = { exponential = { mean = "3ms" } } }]
"""


@pytest.fixture(autouse=True)
def in_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)


@pytest.fixture
def web() -> str:
    """A service below a limit: 0.45 CPUs of work, 0.4 allowed."""
    return WEB


@pytest.fixture
def cli() -> str:
    """The program to compare with."""
    program = os.environ.get("ZEROLAG_PROGRAM")
    if program is None:
        pytest.skip("ZEROLAG_PROGRAM names no program to compare with")
    return program
