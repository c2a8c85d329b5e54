"""One way to compile a kernel. Modules that use it are imported only where needed: numba takes half a second."""

from collections.abc import Callable
from typing import Any, TypeVar

from numba import njit

F = TypeVar("F", bound=Callable[..., Any])


def kernel(*fastmath: str) -> Callable[[F], F]:
    """numba.njit without the GIL, with these fast-math flags, cached on disk where there is a place to write."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy"}

    def compiled(function: F) -> F:
        made: F
        try:
            made = njit(cache=True, **options)(function)
        except RuntimeError:
            made = njit(**options)(function)
        return made

    return compiled
