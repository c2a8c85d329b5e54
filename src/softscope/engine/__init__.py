"""Map a task over items: on the cores of this machine, or on many machines with Ray.

    Engine().map(task, items, threads=1)              # or Engine("ray", address="auto").map(...)

Results come back in the order of the items. `threads` is what one task may use; it belongs to the settings of an
experiment, because the number of threads can change the last bits of a sum. Tasks keep what is large in the run store,
so whatever dies here, nothing that was whole is computed twice.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count
from queue import SimpleQueue
from threading import Thread
from typing import Any

from ..errors import SoftscopeError
from ..progress import Progress, bar
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
        if threads < 1:
            raise SoftscopeError(f"a task can't run on {threads} threads", "Use at least 1 thread per task")
        todo = list(items)
        with bar(show=self.progress and told is None and len(todo) > 1) as progress:
            tick = told or _counting(progress, label, len(todo))
            if self.name == "ray":
                return map_on_cluster(
                    task, todo, address=self.address, workers=self.workers, threads=threads, gpus=gpus, tick=tick
                )
            workers = min(len(todo), self.workers or max(1, cores() // threads))
            if workers <= 1:
                return _map_here(task, todo, threads, tick)
            from .processes import Pool

            return Pool(task, todo, workers=workers, threads=threads, tick=tick).run()

    def as_done(
        self, task: Callable[[Any], Any], items: Sequence[Any], *, threads: int = 1, gpus: float = 0
    ) -> Iterator[Any]:
        """The results of `map`, each as soon as it is there, in any order."""
        results: SimpleQueue[Any] = SimpleQueue()

        def work() -> None:
            try:
                self.map(task, items, threads=threads, gpus=gpus, told=lambda result: results.put((result, None)))
            except BaseException as error:  # raised again where the results are read
                results.put((None, error))

        # A daemon: Ctrl-C while waiting ends the process, and with it the workers.
        Thread(target=work, daemon=True).start()
        for _ in items:
            result, error = results.get()
            if error is not None:
                raise error
            yield result


def _map_here(task: Callable[[Any], Any], items: list[Any], threads: int, tick: Callable[[Any], None]) -> list[Any]:
    results = []
    with limited_threads(threads):
        for item in items:
            results.append(task(item))
            tick(results[-1])
    return results


def _counting(progress: Progress, label: str, total: int) -> Callable[[Any], None]:
    """A call for each task that is done."""
    done = count(1)
    progress(label, 0, total)
    return lambda result: progress(label, next(done), total)
