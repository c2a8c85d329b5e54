"""What the progress bars of long work share: on stderr, only on a terminal, gone when the work ends."""

import sys
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Columns = Callable[[], tuple[Any, ...]]


class Bar:
    """A rich progress bar with one task, or nothing at all unless `show` and stderr is a terminal.

    `columns` is called only where there is a bar, so that rich is imported only then.
    """

    def __init__(self, what: str, total: int, columns: Columns, *, show: bool, **fields: Any) -> None:
        self._bar: Progress | None = None
        self._task: TaskID
        if show and sys.stderr.isatty():
            from rich import progress
            from rich.console import Console

            self._bar = progress.Progress(*columns(), console=Console(stderr=True), transient=True)
            self._task = self._bar.add_task(what, total=total, **fields)

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
