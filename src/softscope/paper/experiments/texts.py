"""`experiments.toml`: every experiment's title, figures and module, and the texts beside its numbers."""

import tomllib
from functools import cache
from importlib.resources import files
from typing import Any


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
