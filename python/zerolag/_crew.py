"""Chunks of a sweep on an executor: sent, collected in any order, and sent again if their worker is lost."""

from __future__ import annotations

import queue
from collections import deque
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future, ProcessPoolExecutor
from typing import Any, Callable

from ._errors import ZerolagError
from ._store import LOST, Found
from .executors import Processes, WorkerLost

WINDOW = 1000
"""Chunks that an executor has at a time: what waits there is in its memory, and in its scheduler's."""
_TRIES = 2
"""How often a chunk is sent before it is divided, and a row before it is called lost."""

Chunk = list[int]


class Crew:
    """Sends chunks to an executor.

    A chunk can fail as a whole: its worker was killed, or one of its rows needs more memory than there is. It is sent
    again, as the first is not its fault; then in halves, so that the row at fault is found and the others get done.
    """

    def __init__(self, executor: Executor, send: "Callable[[Executor, Chunk], Future[list[Found]]]", width: int = 0) -> None:
        self._dask = _of_dask(executor)
        self._executor = executor if self._dask is None else self._dask
        self._send = send
        self._width = width
        self._own: "list[Processes]" = []
        self._pending: "dict[Future[list[Found]], tuple[Chunk, int, Executor]]" = {}
        self._ended: "queue.SimpleQueue[Future[list[Found]]]" = queue.SimpleQueue()

    def run(self, chunks: list[Chunk], done: Callable[[Chunk, list[Found]], None]) -> None:
        """Runs chunks, and calls `done` for each, in the order in which they end.

        Raises BrokenExecutor or CancelledError if the executor takes no more, and cannot be replaced.
        """
        waiting: "deque[tuple[Chunk, int]]" = deque((chunk, 0) for chunk in chunks)
        while waiting or self._pending:
            while waiting and len(self._pending) < WINDOW:
                self._submit(*waiting.popleft(), waiting)
            if not self._pending:
                continue
            future = self._ended.get()
            chunk, lost, executor = self._pending.pop(future)
            try:
                found = future.result()
            except (BrokenExecutor, CancelledError) as error:
                if executor is self._executor:
                    self._replace(error)
                # Else the others of a pool that broke: it is replaced already.
                waiting.append((chunk, lost))
            except WorkerLost:
                self._again(chunk, lost + 1, LOST, waiting, done)
            except ZerolagError:
                raise
            except Exception as error:
                # Executors have their own exceptions for a lost worker (Dask's KilledWorker); or the worker had no memory
                # for the objects of Python.
                self._again(chunk, lost + 1, _reason(error), waiting, done)
            else:
                done(chunk, found)

    def _submit(self, chunk: Chunk, lost: int, waiting: "deque[tuple[Chunk, int]]") -> None:
        try:
            future = self._send(self._executor, chunk)
        except BrokenExecutor as error:
            self._replace(error)
            waiting.append((chunk, lost))
            return
        self._pending[future] = (chunk, lost, self._executor)
        future.add_done_callback(self._ended.put)

    def _again(
        self,
        chunk: Chunk,
        lost: int,
        reason: str,
        waiting: "deque[tuple[Chunk, int]]",
        done: Callable[[Chunk, list[Found]], None],
    ) -> None:
        if lost < _TRIES:
            waiting.append((chunk, lost))
        elif len(chunk) > 1:
            half = len(chunk) // 2
            # Each half has one try less than a new chunk: what ends workers is found in few losses.
            waiting.extend([(chunk[:half], _TRIES - 1), (chunk[half:], _TRIES - 1)])
        elif lost == _TRIES:
            waiting.append((chunk, lost))
        else:
            done(chunk, [(None, None, reason)])

    def _replace(self, error: BaseException) -> None:
        """Goes on without an executor that is of no more use."""
        if not isinstance(self._executor, ProcessPoolExecutor):
            raise error
        # It cannot say which of its chunks was at fault; these workers can.
        self._executor = Processes(self._width or None)
        self._own.append(self._executor)

    def close(self, is_over: bool) -> None:
        """Cancels what has not been run, after an error or Ctrl-C at once."""
        if self._dask is not None and self._pending:
            self._dask.shutdown(wait=False)
        else:
            # The last first: workers take the first ones meanwhile.
            for future in reversed(self._pending):
                future.cancel()
        if not is_over and isinstance(self._executor, Processes):
            self._executor.kill()
        for own in self._own:
            own.shutdown()


def _of_dask(executor: Any) -> Any:
    """Returns a new executor of the same Dask client, or None for another executor.

    A call to Dask that is cancelled by itself costs a round trip, in which the workers finish the next one. All calls of
    an executor are cancelled by one message, so a sweep gets an executor with no other calls.
    """
    new = getattr(getattr(executor, "_client", None), "get_executor", None)
    return new(**getattr(executor, "_kwargs", {})) if callable(new) else None


def _reason(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")
