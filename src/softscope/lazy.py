"""Names of a room that are imported when first used, so that importing the room stays light."""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any


def lazily(room: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """A room's `__getattr__`: every name comes from the module of the room that `homes` lists it under."""
    home_of = {name: home for home, names in homes.items() for name in names}

    def load(name: str) -> Any:
        if name not in home_of:
            raise AttributeError(f"module {room!r} has no attribute {name!r}")
        return getattr(import_module(f".{home_of[name]}", room), name)

    return load
