"""Map a task over items: on the cores of this machine, or on many machines with Ray.

    Engine().map(task, items, threads=1)              # or Engine("ray", address="auto").map(...)

Results come back in the order of the items. `threads` is what one task may use; it belongs to the settings of an
experiment, because the number of threads can change the last bits of a sum. Tasks keep what is large in the run store,
so whatever dies here, nothing that was whole is computed twice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from queue import SimpleQueue
from threading import Event, Thread
from typing import Any

from ..errors import SoftscopeError
from ..progress import adding, bar
from ..provenance import cores
from .cluster import joined as joined
from .cluster import map_on_cluster
from .threads import limited_threads as limited_threads

ENGINES = ("local", "ray")


@dataclass(frozen=True)
class Engine:
    """Where tasks run: `name` is local or ray, `workers` at once (what the machines carry unless given).

    `address` is that of a running Ray cluster ("auto": the one this machine is part of); without it Ray starts here.
    """

    name: str = "local"
    workers: int | None = None
    address: str | None = None
    progress: bool = True

    def __post_init__(self) -> None:
        if self.name not in ENGINES:
            raise SoftscopeError(f"engine {self.name!r} is not known", f"Use one of: {', '.join(ENGINES)}")
        if self.workers is not None and self.workers < 1:
            raise SoftscopeError(f"workers {self.workers}: too small", "Use at least 1 worker")
        if self.address is not None and self.name != "ray":
            raise SoftscopeError("an address needs engine 'ray'", "Use --engine ray --address ...")

    def map(
        self,
        task: Callable[[Any], Any],
        items: Sequence[Any],
        *,
        threads: int = 1,
        gpus: float = 0,
        label: str = "tasks",
        told: Callable[[Any], None] | None = None,
    ) -> list[Any]:
        """`[task(item) for item in items]`, each with `threads` threads and, on a cluster that has any, `gpus` devices.

        `told` gets each result as soon as it is there, in any order, instead of a bar that counts tasks.

        Local: in this process if one worker is all there is to do or to have, else in processes of their own, where a
        crash is retried once.
        """
        return self._map(task, list(items), threads, gpus, label, told)

    def _map(
        self,
        task: Callable[[Any], Any],
        todo: list[Any],
        threads: int,
        gpus: float,
        label: str,
        told: Callable[[Any], None] | None,
        stopping: Event | None = None,
    ) -> list[Any]:
        """`map`; worker processes end early when `stopping` is set."""
        if threads < 1:
            raise SoftscopeError(f"a task can't run on {threads} threads", "Use at least 1 thread per task")
        with bar(show=self.progress and told is None and len(todo) > 1) as progress:
            add = adding(progress, label, len(todo))
            tick = told or (lambda result: add(1))
            if self.name == "ray":
                return map_on_cluster(
                    task, todo, address=self.address, workers=self.workers, threads=threads, gpus=gpus, tick=tick
                )
            workers = self._processes(len(todo), threads)
            if workers <= 1:
                return _map_here(task, todo, threads, tick)
            from .processes import Pool

            return Pool(task, todo, workers=workers, threads=threads, tick=tick, stopping=stopping).run()

    def _processes(self, tasks: int, threads: int) -> int:
        return min(tasks, self.workers or max(1, cores() // threads)) if self.name == "local" else 0

    def as_done(
        self, task: Callable[[Any], Any], items: Sequence[Any], *, threads: int = 1, gpus: float = 0
    ) -> Iterator[Any]:
        """The results of `map`, each as soon as it is there, in any order."""
        results: SimpleQueue[Any] = SimpleQueue()
        todo, stopping = list(items), Event()

        def work() -> None:
            try:
                self._map(task, todo, threads, gpus, "", lambda result: results.put((result, None)), stopping)
            except BaseException as error:  # raised again where the results are read
                results.put((None, error))

        thread = Thread(target=work, daemon=True)
        thread.start()
        try:
            for _ in todo:
                result, error = results.get()
                if error is not None:
                    raise error
                yield result
        finally:
            stopping.set()
            if self._processes(len(todo), threads) > 1:  # Ctrl-C, say: what runs in this process can't be waited for
                thread.join()


def _map_here(task: Callable[[Any], Any], items: list[Any], threads: int, tick: Callable[[Any], None]) -> list[Any]:
    results = []
    with limited_threads(threads):
        for item in items:
            results.append(task(item))
            tick(results[-1])
    return results
