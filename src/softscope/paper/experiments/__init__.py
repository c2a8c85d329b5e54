"""The register of experiments: the paper's ids and figure labels, and the module behind each, imported when asked for.

A module of this room holds `SCALES` (the settings of "smoke", "laptop", for some "overnight", and "paper") and
`run(settings, store, engine)`. A new experiment is a paragraph in `experiments.toml`, which also has the texts beside
its numbers.
"""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from ...errors import SoftscopeError
from ...lazy import lazily

if TYPE_CHECKING:
    from .base import Experiment
    from .base import reproduce as reproduce
    from .verdict import Row as Row

__getattr__ = lazily(__name__, {"base": ("reproduce",), "verdict": ("Row",)})


@cache
def register() -> dict[str, Any]:
    """Every experiment by its id."""
    return tomllib.loads((files(__package__) / "experiments.toml").read_text(encoding="utf-8"))


def texts(experiment: str, **values: Any) -> dict[str, Any]:
    """Its captions, notes and words above tables, as `Result` takes them, with `values` in the braces."""

    def filled(kept: Any) -> Any:
        if isinstance(kept, dict):
            return {name: filled(text) for name, text in kept.items()}
        return [filled(text) for text in kept] if isinstance(kept, list) else kept.format(**values)

    own = register()[experiment]
    return {name: filled(own[name]) for name in ("captions", "shown", "notes") if name in own}


@dataclass(frozen=True)
class Entry:
    """One line of the register: `figures` are the labels in the paper's source that the experiment stands for."""

    id: str
    figures: tuple[str, ...]
    title: str
    module: str


REGISTER = tuple(
    Entry(name, tuple(kept["figures"]), kept["title"], kept["module"]) for name, kept in register().items()
)


def find(name: str) -> list[Entry]:
    """The experiments that `name` means: 'all', an id (X1a), the start of ids (X1: X1a and X1b), or a figure label."""
    wanted = name.strip().casefold()
    if wanted == "all":
        return list(REGISTER)
    exact = [entry for entry in REGISTER if wanted == entry.id.casefold()]
    named = exact or [entry for entry in REGISTER if wanted in _other_names(entry)]
    if not named:
        known = ", ".join(f"{entry.id} ({', '.join(entry.figures)})" for entry in REGISTER)
        raise SoftscopeError(f"no experiment is called {name!r}", f"Known: all, {known}")
    return named


def load(entry: Entry) -> "Experiment":
    """The experiment itself."""
    from .base import Experiment

    module = import_module(f".{entry.module}", __name__)
    return Experiment(entry.id, entry.figures, entry.title, module.SCALES, module.run)


def _other_names(entry: Entry) -> set[str]:
    return {entry.id.rstrip("abcdefgh").casefold(), *(figure.casefold() for figure in entry.figures)}
