"""The progress bar of a training: epoch, loss, accuracy, images/s, time left; on stderr, and only on a terminal."""

import sys
from types import TracebackType
from typing import Self


class TrainingBar:
    """Does nothing unless `show` and stderr is a terminal."""

    def __init__(self, steps: int, epochs: int, *, show: bool) -> None:
        self._epochs = epochs
        self._images = 0
        self._bar = None
        if show and sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

            text = TextColumn(
                "epoch {task.fields[epoch]}  loss {task.fields[loss]:.3f}  acc {task.fields[accuracy]:.2%}"
            )
            rate, test = TextColumn("{task.fields[rate]:.0f} images/s"), TextColumn("{task.fields[test]}")
            columns = (text, BarColumn(), rate, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), test)
            self._bar = Progress(*columns, console=Console(stderr=True))
            self._task = self._bar.add_task(
                "train", total=steps, epoch=f"1/{epochs}", loss=0.0, accuracy=0.0, rate=0.0, test=""
            )

    def __enter__(self) -> Self:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def skip(self, steps: int) -> None:
        """Count `steps` as done before this process began."""
        if self._bar is not None:
            self._bar.advance(self._task, steps)

    def step(self, loss: float, accuracy: float, images: int) -> None:
        """One batch done."""
        if self._bar is not None:
            self._images += images
            elapsed = self._bar.tasks[0].elapsed or 1e-9
            self._bar.update(self._task, advance=1, loss=loss, accuracy=accuracy, rate=self._images / elapsed)

    def epoch_done(self, epoch: int, test_accuracy: float | None) -> None:
        """One epoch done and tested."""
        if self._bar is not None:
            test = "" if test_accuracy is None else f"test {test_accuracy:.2%}"
            self._bar.update(self._task, epoch=f"{min(epoch + 1, self._epochs)}/{self._epochs}", test=test)
