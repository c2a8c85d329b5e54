"""The register of experiments, from `experiments.toml`: ids, the paper's figure labels, and texts beside numbers."""

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from ...errors import SoftscopeError


@cache
def _data(file: str) -> dict[str, Any]:
    return tomllib.loads((files(__package__) / file).read_text(encoding="utf-8"))


def register() -> dict[str, Any]:
    """Every experiment by its id."""
    return _data("experiments.toml")


def page_text(page: str, part: str, **values: Any) -> str:
    """A text of a page of the docs, from `pages.toml`, with `values` in the braces."""
    text: str = _data("pages.toml")[page][part]
    return text.format(**values)


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


def _other_names(entry: Entry) -> set[str]:
    return {entry.id.rstrip("abcdefgh").casefold(), *(figure.casefold() for figure in entry.figures)}
