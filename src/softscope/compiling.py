"""One way to compile a function, and an exponential for compiled loops.

Modules that use it are imported only where needed: numba takes half a second.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numba import njit

F = TypeVar("F", bound=Callable[..., Any])

_LOG2_E = 1.4426950408889634
# Adding it rounds a float64 to a whole number and leaves that number in the lowest bits.
_ROUNDER = 1.5 * 2.0**52
# 2^f for f in [-1/2, 1/2] to 2e-16: the polynomial through the 11 Chebyshev points.
_P = (
    1.0, 0.69314718055995, 0.24022650695910097, 0.05550410866444772, 0.009618129107606888, 0.0013333558230164974,
    0.0001540353044173605, 1.5252657260200837e-05, 1.321544258792169e-06, 1.0208690299958306e-07, 7.072585949269223e-09,
)  # fmt: skip
_P0, _P1, _P2, _P3, _P4, _P5, _P6, _P7, _P8, _P9, _P10 = _P


def compiled(*fastmath: str) -> Callable[[F], F]:
    """numba.njit without the GIL, with these fast-math flags, cached on disk where there is a place to write."""
    options: dict[str, Any] = {"nogil": True, "fastmath": set(fastmath), "error_model": "numpy"}

    def decorate(function: F) -> F:
        made: F
        try:
            made = njit(cache=True, **options)(function)
        except RuntimeError:
            made = njit(**options)(function)
        return made

    return decorate


# Only fused multiply-adds: flags that let sums be reordered would undo the rounding trick.
@compiled("contract", "nsz")
def exp(x: float) -> float:
    """exp(x) for -700 <= x <= 0 to 1e-15, without a branch or a call, so that loops over it become vector code."""
    power = x * _LOG2_E
    whole = power + _ROUNDER
    f = power - (whole - _ROUNDER)
    square = f * f  # even and odd powers apart: two short chains of dependent steps instead of a long one
    even = ((((_P10 * square + _P8) * square + _P6) * square + _P4) * square + _P2) * square + _P0
    odd = (((_P9 * square + _P7) * square + _P5) * square + _P3) * square + _P1
    p = odd * f + even
    exponent = np.float64(whole).view(np.int64) << np.int64(52)
    return np.int64(np.float64(p).view(np.int64) + exponent).view(np.float64)
