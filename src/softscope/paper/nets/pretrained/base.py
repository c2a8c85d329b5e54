"""What a network trained on ImageNet comes with: where its weights are from, and the names of its classes."""

from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..base import Net

_CLASSES = 1000


@dataclass(frozen=True)
class Weights:
    """Where weights are from: `source` in words, the `file` there, its `bytes` and `sha256`."""

    source: str
    file: str
    bytes: int
    sha256: str


@dataclass(frozen=True)
class Pretrained:
    """A network in evaluation mode, the `size` in pixels it was trained for, names of its classes (None: not here)."""

    name: str
    net: "Net"
    size: int
    classes: tuple[str, ...] | None
    weights: Weights


def imagenet_names() -> tuple[str, ...] | None:
    """The first lemma of each class's synset, in ImageNet's order; None where timm isn't installed."""
    timm = find_spec("timm")
    if timm is None or not timm.submodule_search_locations:
        return None
    folder = Path(timm.submodule_search_locations[0]) / "data" / "_info"
    try:
        synsets = (folder / "imagenet_synsets.txt").read_text(encoding="utf-8").split()
        lines = (folder / "imagenet_synset_to_lemma.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    lemmas = dict(line.split("\t", 1) for line in lines if "\t" in line)
    names = tuple(lemmas[synset].split(",")[0].strip() for synset in synsets if synset in lemmas)
    return names if len(names) == _CLASSES else None
