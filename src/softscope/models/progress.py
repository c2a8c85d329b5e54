"""A bar for work that goes through rows."""

from typing import Any

from ..progress import Bar


class RowBar(Bar):
    """Counts rows."""

    def __init__(self, rows: int, what: str, *, show: bool) -> None:
        super().__init__(what, rows, _columns, show=show)

    def advance(self, rows: int) -> None:
        """So many rows done."""
        if self._bar is not None:
            self._bar.advance(self._task, rows)


def _columns() -> tuple[Any, ...]:
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn

    return TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()
