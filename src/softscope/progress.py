"""How long work tells how far it is: one callback for all of it, and one bar on the terminal.

    with bar(show=not quiet) as progress:
        diagnose(..., progress=progress)

Work that takes a while has a parameter `progress: Progress = silent` and calls `progress(what, done, total)`.
"""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

Progress = Callable[[str, int, int], None]
"""What is being done, how many of its rows (or steps) are done, and how many there are: 0 where that is not known."""


def silent(what: str, done: int, total: int) -> None:
    """The callback of work that nobody watches."""


def adding(progress: Progress, what: str, total: int, done: int = 0) -> Callable[[int], None]:
    """A call that tells `progress` of so many more that are done; where the work stands now is told at once."""

    def add(more: int) -> None:
        nonlocal done
        done += more
        progress(what, done, total)

    add(0)
    return add


@contextmanager
def bar(*, show: bool = True) -> Iterator[Progress]:
    """A bar on stderr with speed and time left, gone when the work ends; `silent` unless stderr is a terminal."""
    if not show or not sys.stderr.isatty():
        yield silent
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    what, speed = TextColumn("{task.description}", markup=False), TextColumn("{task.fields[speed]}")
    times = TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn()
    with RichProgress(
        what, BarColumn(), MofNCompleteColumn(), speed, *times, console=Console(stderr=True), transient=True
    ) as shown:
        task = shown.add_task("", total=None, speed="")

        def progress(what: str, done: int, total: int) -> None:
            rate = shown.tasks[0].speed
            shown.update(
                task, description=what, completed=done, total=total or None, speed="" if rate is None else _speed(rate)
            )

        yield progress


def _speed(rate: float) -> str:
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if rate >= size:
            return f"{rate / size:.1f} {letter}/s"
    return f"{rate:.1f} /s"
