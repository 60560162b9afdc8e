"""The interpreter is free during a run, and Ctrl-C ends it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading

import pytest
import zerolag

HOGS = "[machine]\ncpus = 8\n[task.a]\ninstances = 20\nsteps = [{ run = '100us' }, { sleep = '20us' }]\n"


def test_other_threads_run_meanwhile() -> None:
    stop = threading.Event()
    begun = threading.Event()

    def progress(at: int, end: object) -> bool:
        begun.set()
        return not stop.is_set()

    results: list[zerolag.Result] = []
    runs = [
        threading.Thread(target=lambda: results.append(zerolag.run(HOGS, duration="100h", force="on", progress=progress))) for _ in range(2)
    ]
    for run in runs:
        run.start()
    # Neither wait would end if a run held the interpreter.
    assert begun.wait(60)
    stop.set()
    for run in runs:
        run.join(60)
    assert [result.interrupted for result in results] == [True, True]


@pytest.mark.skipif(os.name == "nt", reason="signals of other systems")
@pytest.mark.parametrize(
    "call",
    [
        "zerolag.run(hogs, duration='100h', force='on', progress=lambda *_: begun() or True)",
        "zerolag.compare(hogs, kernels=['5.15', '6.12'], runs=10000, duration='20ms')",
        "zerolag.sweep(hogs, {'hz': range(100, 1000)}, runs=10000, duration='20ms', progress=lambda *_: begun())",
    ],
)
def test_ctrl_c_ends_it(call: str) -> None:
    program = (
        f"import zerolag, sys\nhogs = {HOGS!r}\n"
        "def begun():\n    print('begun', flush=True)\n"
        f"begun()\n{call}\n"
    )
    child = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout is not None and child.stdout.readline() == "begun\n"
    child.send_signal(signal.SIGINT)
    _, said = child.communicate(timeout=60)
    assert child.returncode != 0 and "KeyboardInterrupt" in said
