"""Executors for `sweep`, of the protocol of `concurrent.futures`.

| executor | runs chunks on |
|---|---|
| none | the threads of this process: the fastest on one machine, nothing is copied |
| `Processes` | processes of this machine; a lost one is replaced, and costs the chunk that it ran |
| `Submitit` | jobs of Slurm, or local processes, through submitit |
| `Ray` | tasks of a Ray cluster |
| `Client.get_executor()` of Dask, `MPIPoolExecutor` of mpi4py, any other | as they are |
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import threading
from collections import deque
from concurrent.futures import BrokenExecutor, Executor, Future, ProcessPoolExecutor
from typing import Any, Callable, Optional

from ._errors import RunError

__all__ = ["Processes", "Ray", "Submitit", "WorkerLost"]


class WorkerLost(RunError):
    """The worker of a chunk ended before the chunk: it was killed, or had no memory."""


_Call = tuple["Future[Any]", Callable[..., Any], Any, Any]
_NONE: _Call = (Future(), int, (), {})
"""No call for now."""


def _in_worker() -> None:
    # Ctrl-C in a terminal reaches every process; the one that began the sweep ends the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    # A parent that was killed ends no process: without this its workers would finish their chunks, and wait for more.
    parent.join()
    os._exit(1)


class Processes(Executor):
    """Runs calls in processes of this machine. A lost process is replaced, and only its call fails.

    A `ProcessPoolExecutor` ends with the first process that it loses, and cannot say which call was at fault. So each of
    these workers is a pool of its own, with a thread that feeds it. While calls wait for every worker, each gets its next
    one before it has finished: else it would idle while its result passes through four threads, on a busy machine longer
    than a short call takes. Processes start from a clean server (`forkserver`), where there is one, so a script needs its
    `if __name__ == "__main__":`.
    """

    def __init__(self, workers: Optional[int] = None, *, start: Optional[str] = None) -> None:
        self._count = workers or os.cpu_count() or 1
        methods = multiprocessing.get_all_start_methods()
        method = start or ("forkserver" if "forkserver" in methods else "spawn")
        self._context = multiprocessing.get_context(method)
        if method == "forkserver":
            from multiprocessing import forkserver

            self._context.set_forkserver_preload(["zerolag"])
            # It reads Python and zerolag while the caller goes on.
            forkserver.ensure_running()
        self._calls: "queue.SimpleQueue[Optional[_Call]]" = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._lock = threading.Lock()
        self._is_over = False
        self._pids: set[int] = set()
        self._kills = 0

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Runs a call when a worker is free."""
        with self._lock:
            if self._is_over:
                raise RuntimeError("cannot submit to an executor after its shutdown")
            if not self._threads:
                # All at once: the others start while the first one works.
                self._threads = [threading.Thread(target=self._serve, daemon=True) for _ in range(self._count)]
                for thread in self._threads:
                    thread.start()
        future: "Future[Any]" = Future()
        self._calls.put((future, fn, args, kwargs))
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the workers after the calls that they run, and after the queued ones unless these are cancelled."""
        with self._lock:
            self._is_over = True
            threads, self._threads = self._threads, []
        if cancel_futures:
            self._cancel()
        for _ in threads:
            self._calls.put(None)
        if wait:
            for thread in threads:
                thread.join()

    def kill(self) -> None:
        """Ends the workers in the midst of their calls, and cancels the queued ones. Later calls get new workers."""
        with self._lock:
            self._kills += 1
            pids = list(self._pids)
        self._cancel()
        for pid in pids:
            try:
                os.kill(pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            except OSError:
                pass

    def __exit__(self, kind: Any, value: Any, trace: Any) -> Optional[bool]:
        if kind is not None:
            # A cell that was cancelled, or an error: the calls that still run are for nothing.
            self.kill()
        self.shutdown()
        return None

    def _cancel(self) -> None:
        while True:
            try:
                call = self._calls.get_nowait()
            except queue.Empty:
                return
            if call is not None:
                call[0].cancel()

    def _serve(self) -> None:
        worker: "Optional[tuple[ProcessPoolExecutor, int]]" = None
        try:
            worker = self._start()
        except Exception:
            pass  # The first call says why.
        sent: "deque[tuple[_Call, Future[Any], int]]" = deque()
        again: "deque[tuple[_Call, int]]" = deque()
        is_over = False
        while sent or again or not is_over:
            call, kills = self._next(sent, again, is_over)
            if call is None:
                is_over = True
            elif call is not _NONE:
                future, fn, args, kwargs = call
                if worker is None and kills != self._kills:
                    future.set_exception(WorkerLost(_LOST))
                    continue
                try:
                    worker = worker or self._start()
                except Exception as error:
                    future.set_exception(RunError(f"a process that can run chunks does not start: {error}", help=_GUARD))
                    continue
                try:
                    sent.append((call, worker[0].submit(fn, *args, **kwargs), kills))
                except BrokenExecutor as error:
                    lost: "Future[Any]" = Future()
                    lost.set_exception(error)
                    sent.append((call, lost, kills))
                continue
            if not sent:
                continue
            (future, *_), result, _ = sent.popleft()
            try:
                found = result.result()
            except BrokenExecutor:
                if worker is not None:
                    self._forget(worker[1])
                worker = None
                future.set_exception(WorkerLost(_LOST))
                # The calls that it had not begun are not at fault.
                again.extend((call, kills) for call, _, kills in sent)
                sent.clear()
            except BaseException as error:
                future.set_exception(error)
            else:
                future.set_result(found)
        if worker is not None:
            worker[0].shutdown()
            self._forget(worker[1])

    def _next(
        self, sent: "deque[Any]", again: "deque[tuple[_Call, int]]", is_over: bool
    ) -> "tuple[Optional[_Call], int]":
        """Returns the next call of a worker, or `_NONE` if it has enough, and at the end None."""
        while again:
            call, kills = again.popleft()
            if kills == self._kills:
                return call, kills
            call[0].set_exception(WorkerLost(_LOST))
        if is_over or len(sent) == _AHEAD or (sent and self._calls.qsize() < self._count):
            return _NONE, 0
        kills = self._kills
        try:
            next_call = self._calls.get(block=not sent)
        except queue.Empty:
            return _NONE, 0
        if next_call is not None and not next_call[0].set_running_or_notify_cancel():
            return _NONE, 0
        return next_call, kills

    def _forget(self, pid: int) -> None:
        with self._lock:
            self._pids.discard(pid)

    def _start(self) -> tuple[ProcessPoolExecutor, int]:
        pool = ProcessPoolExecutor(1, mp_context=self._context, initializer=_in_worker)
        # The first call shows that the process can start at all.
        pid = pool.submit(os.getpid).result()
        with self._lock:
            self._pids.add(pid)
        return pool, pid


_AHEAD = 2
"""Calls that a worker has: the one that it runs, and the next."""
_LOST = "the worker ended before its chunk: it was killed, or had no memory"
_GUARD = 'a script that starts processes keeps its own statements below `if __name__ == "__main__":`'


class _Polled(Executor):
    """An executor of jobs that can only be asked whether they are done."""

    def __init__(self, every: float) -> None:
        self._every = every
        self._jobs: dict["Future[Any]", Any] = {}
        self._changed = threading.Condition()
        self._is_over = False
        self._thread: Optional[threading.Thread] = None

    def _follow(self, future: "Future[Any]", job: Any) -> None:
        with self._changed:
            self._jobs[future] = job
            if self._thread is None:
                self._thread = threading.Thread(target=self._poll, daemon=True)
                self._thread.start()
            self._changed.notify()

    def _poll(self) -> None:
        while True:
            with self._changed:
                while not self._jobs:
                    if self._is_over:
                        return
                    self._changed.wait()
                jobs = dict(self._jobs)
            ended = [future for future, job in jobs.items() if self._settle(future, job)]
            with self._changed:
                for future in ended:
                    del self._jobs[future]
                if not ended:
                    self._changed.wait(self._every)

    def _settle(self, future: "Future[Any]", job: Any) -> bool:
        if future.cancelled():
            job.cancel()
            return True
        if not job.done():
            return False
        # From here on it cannot be cancelled.
        if not future.set_running_or_notify_cancel():
            return True
        error = job.exception()
        if error is None:
            future.set_result(job.result())
        else:
            future.set_exception(error)
        return True

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Ends the executor after its jobs, or cancels them."""
        with self._changed:
            self._is_over = True
            if cancel_futures:
                for future in self._jobs:
                    future.cancel()
            self._changed.notify()
        if wait and self._thread is not None:
            self._thread.join()

    def __exit__(self, kind: Any, value: Any, trace: Any) -> Optional[bool]:
        self.shutdown(cancel_futures=kind is not None)
        return None


class Submitit(_Polled):
    """Runs calls as jobs of submitit: `Submitit(submitit.AutoExecutor(folder))`, with its parameters set.

    A job of Slurm starts in seconds to minutes, so chunks are to be long: `sweep(..., chunk_seconds=600)`.
    """

    def __init__(self, executor: Any, *, every: float = 0.2) -> None:
        super().__init__(every)
        self._executor = executor

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Submits a job."""
        future: "Future[Any]" = Future()
        self._follow(future, self._executor.submit(fn, *args, **kwargs))
        return future


class Ray(Executor):
    """Runs calls as tasks of Ray, which must be initialised (`ray.init()`); `options` are those of a task.

    Ray itself retries a task whose worker was lost (`max_retries`, 3 times by default).
    """

    def __init__(self, **options: Any) -> None:
        import ray

        self._ray = ray
        self._options = {"num_cpus": 1, **options}
        self._remote: dict[Callable[..., Any], Any] = {}

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> "Future[Any]":
        """Submits a task."""
        remote = self._remote.get(fn)
        if remote is None:
            remote = self._remote[fn] = self._ray.remote(fn).options(**self._options)
        reference = remote.remote(*args, **kwargs)
        future: "Future[Any]" = reference.future()
        future.add_done_callback(lambda done: self._ray.cancel(reference) if done.cancelled() else None)
        return future
