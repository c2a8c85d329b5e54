"""The progress bar of a training: epoch, loss, accuracy, images/s, time left."""

from typing import Any

from ...progress import Bar


class TrainingBar(Bar):
    """Counts batches."""

    def __init__(self, steps: int, epochs: int, *, show: bool) -> None:
        self._epochs = epochs
        self._images = 0
        fields = {"epoch": f"1/{epochs}", "loss": 0.0, "accuracy": 0.0, "rate": 0.0, "test": ""}
        super().__init__("train", steps, _columns, show=show, **fields)

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


def _columns() -> tuple[Any, ...]:
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    text = TextColumn("epoch {task.fields[epoch]}  loss {task.fields[loss]:.3f}  acc {task.fields[accuracy]:.2%}")
    rate, test = TextColumn("{task.fields[rate]:.0f} images/s"), TextColumn("{task.fields[test]}")
    return text, BarColumn(), rate, TimeElapsedColumn(), TextColumn("left"), TimeRemainingColumn(), test
