"""Softscope: when a neural network's softmax confidence can be trusted, and, where it can't, why.

The reference implementation of "Understanding Softmax Confidence and Uncertainty" (Pearce, Brintrup, Zhu 2021).
Names are imported when first used, so that `import softscope` stays light.
"""

from typing import TYPE_CHECKING

from .lazy import lazily

__version__ = "0.2.0"

if TYPE_CHECKING:
    from .diagnosis import Diagnosis, diagnose
    from .errors import SoftscopeError
    from .estimators import Density
    from .features import FeatureSet
    from .guard import Guard
    from .head import Head
    from .metrics import Interval
    from .models import extract
    from .reporting import report

_HOMES = {
    "errors": ("SoftscopeError",),
    "head": ("Head",),
    "features": ("FeatureSet",),
    "estimators": ("Density",),
    "metrics": ("Interval",),
    "guard": ("Guard",),
    "diagnosis": ("Diagnosis", "diagnose"),
    "models": ("extract",),
    "reporting": ("report",),
}
__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "Density",
    "Diagnosis",
    "FeatureSet",
    "Guard",
    "Head",
    "Interval",
    "SoftscopeError",
    "__version__",
    "diagnose",
    "extract",
    "report",
]


def __dir__() -> list[str]:
    return __all__
