"""Names of ImageNet's 1000 classes, from a package that carries them: timm, which needn't be importable for it."""

from importlib.util import find_spec
from pathlib import Path

_CLASSES = 1000


def imagenet_names() -> tuple[str, ...] | None:
    """The first lemma of each class's synset, in ImageNet's order; None where timm isn't installed."""
    found = find_spec("timm")
    if found is None or not found.submodule_search_locations:
        return None
    folder = Path(found.submodule_search_locations[0]) / "data" / "_info"
    try:
        synsets = (folder / "imagenet_synsets.txt").read_text(encoding="utf-8").split()
        lines = (folder / "imagenet_synset_to_lemma.txt").read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    lemmas = dict(line.split("\t", 1) for line in lines if "\t" in line)
    names = tuple(lemmas[synset].split(",")[0].strip() for synset in synsets if synset in lemmas)
    return names if len(names) == _CLASSES else None
