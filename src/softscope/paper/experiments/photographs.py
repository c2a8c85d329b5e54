"""The data sets of X10 (table_transferdatasets): photographs brought to one size, in colour or grey."""

from dataclasses import dataclass, replace

from ...images import ImageSet, greyscale
from ..datasets import load
from .networks import Images


@dataclass(frozen=True)
class Photographs(Images):
    """Images whose centre square is resized to `size` pixels a side (None: as they are); `grey` removes the colour."""

    size: int | None = None
    grey: bool = False

    def load(self, split: str) -> ImageSet:
        """The rows of `split`, decoded by worker threads with a bounded number of blocks under way.

        An image that can't be decoded is named in `ImageSet.skipped` and left out, with a warning that has the count.
        """
        limit = self.train if split == "train" else self.test
        found = load(self.dataset, split, classes=self.classes, limit=limit, size=self.size)
        return replace(found, images=greyscale(found.images)) if self.grey else found


@dataclass(frozen=True)
class Topic:
    """A line of the table: its `title` in the paper, our data, and for how many epochs all layers are tuned."""

    title: str
    images: Photographs
    epochs: int

    @property
    def name(self) -> str:
        """The data set."""
        return self.images.name
