"""The local engine: worker processes that do one item at a time, so that a crash is known to be that item's."""

import os
import pickle
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from multiprocessing import connection, get_context, parent_process
from typing import Any

from ..errors import SoftscopeError
from ..files import first_line
from .threads import environment, limited_threads

_ATTEMPTS = 2
_CLEANING_SECONDS = 10.0
_LOOKING_SECONDS = 0.2


class Pool:
    """Runs `task` over `items` in `workers` spawned processes; a crashed one is replaced and its item tried again."""

    def __init__(
        self,
        task: Callable[[Any], Any],
        items: list[Any],
        *,
        workers: int,
        threads: int,
        tick: Callable[[Any], None],
        stopping: threading.Event | None = None,
    ) -> None:
        _require_sendable(task)
        self._task = task
        self._items = items
        self._size = workers
        self._threads = threads
        self._tick = tick
        self._stopping = stopping or threading.Event()
        self._todo = deque(range(len(items)))
        self._attempts = [0] * len(items)
        self._results: dict[int, Any] = {}
        self._workers: list[_Worker] = []

    def run(self) -> list[Any]:
        """The results in the order of the items; the first error of a task ends all workers and is raised.

        Those that are there by then, once somebody else has set `stopping`.
        """
        try:
            for _ in range(self._size):
                self._employ()
            while len(self._results) < len(self._items) and not self._stopping.is_set():
                busy: dict[Any, _Worker] = {w.pipe: w for w in self._workers if w.index is not None}
                for pipe in connection.wait(list(busy), _LOOKING_SECONDS):
                    self._collect(busy[pipe])
        finally:
            for worker in self._workers:
                worker.end()
            for worker in self._workers:
                worker.stop()
        return [self._results[index] for index in sorted(self._results)]

    def _employ(self) -> None:
        worker = _Worker(self._task, self._threads)
        self._workers.append(worker)
        self._assign(worker)

    def _assign(self, worker: "_Worker") -> None:
        worker.index = None
        if self._todo:
            index = self._todo.popleft()
            self._attempts[index] += 1
            worker.give(index, self._items[index])

    def _collect(self, worker: "_Worker") -> None:
        index = worker.index
        assert index is not None
        outcome = worker.take()
        if outcome is None:
            self._replace(worker, index)
            return
        good, value = outcome
        if not good:
            raise value
        self._results[index] = value
        self._tick(value)
        self._assign(worker)

    def _replace(self, worker: "_Worker", index: int) -> None:
        death = _death(worker.process.exitcode)
        self._workers.remove(worker)
        worker.stop()
        if self._attempts[index] >= _ATTEMPTS:
            raise SoftscopeError(
                f"task {index} ({short(self._items[index])}) ended its process {_ATTEMPTS} times ({death})",
                "Check the memory it needs; a script that maps needs `if __name__ == '__main__':`",
            )
        self._todo.appendleft(index)
        self._employ()


class _Worker:
    def __init__(self, task: Callable[[Any], Any], threads: int) -> None:
        context = get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs, threads), daemon=True)
        self.index: int | None = None
        with environment(threads, child=True):
            self.process.start()
        theirs.close()
        with suppress(OSError):  # a worker that died is noticed by `take`
            self.pipe.send(task)

    def give(self, index: int, item: Any) -> None:
        self.index = index
        with suppress(OSError):
            self.pipe.send(item)

    def take(self) -> tuple[bool, Any] | None:
        """(True, result) or (False, error), or None if the process died."""
        try:
            good, value = self.pipe.recv()
        except (EOFError, OSError):
            self.process.join(5)
            return None
        return good, value

    def end(self) -> None:
        """Ask the process to end, without waiting for it."""
        self.pipe.close()
        self.process.terminate()

    def stop(self) -> None:
        """End the process; a task has some seconds to clean up behind it."""
        self.end()
        self.process.join(_CLEANING_SECONDS)
        if self.process.is_alive():
            self.process.kill()
            self.process.join()
        self.process.close()


def _serve(pipe: connection.Connection, threads: int) -> None:
    """A worker's life: the task and then items in, results out, until the pipe closes or the parent is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's business: it ends its workers
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # an exception, so that the task cleans up behind it
    threading.Thread(target=_die_with_parent, daemon=True).start()
    function = pipe.recv()
    with limited_threads(threads):
        while True:
            try:
                item = pipe.recv()
            except (EOFError, OSError):
                signal.signal(signal.SIGTERM, signal.SIG_DFL)  # no task is left to clean up; the end is silent
                return
            _answer(pipe, _outcome(function, item))


def _outcome(function: Callable[[Any], Any], item: Any) -> tuple[bool, Any]:
    try:
        return True, function(item)
    except Exception as error:
        if not isinstance(error, SoftscopeError):
            error.add_note("In the worker:\n" + "".join(traceback.format_exception(error)))
        return False, error


def _answer(pipe: connection.Connection, outcome: tuple[bool, Any]) -> None:
    try:
        pipe.send(outcome)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        what = "result" if outcome[0] else f"error {short(outcome[1])}"
        pipe.send((False, SoftscopeError(f"a task's {what} can't be sent back ({first_line(error)})")))


def _die_with_parent() -> None:
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


def _require_sendable(task: Callable[[Any], Any]) -> None:
    try:
        pickle.dumps(task)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        raise SoftscopeError(
            f"the task can't be sent to another process ({first_line(error)})",
            "Use a function at the top level of a module, or functools.partial of one",
        ) from error


def short(item: Any) -> str:
    """`repr` on one line of at most 80 characters, for messages."""
    text = " ".join(repr(item).split())
    return text if len(text) <= 80 else text[:77] + "..."


def _death(code: int | None) -> str:
    if code is not None and code < 0:
        return f"killed by {signal.Signals(-code).name}"
    return f"exit code {code}"
