"""A bar for work that goes through rows: on stderr, and only on a terminal."""

import sys
from types import TracebackType
from typing import Self


class RowBar:
    """Does nothing unless `show` and stderr is a terminal."""

    def __init__(self, rows: int, what: str, *, show: bool) -> None:
        self._bar = None
        if show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

            columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = Progress(*columns, console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(what, total=rows)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def advance(self, rows: int) -> None:
        """So many rows done."""
        if self._bar is not None:
            self._bar.advance(self._task, rows)
