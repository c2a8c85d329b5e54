"""Softscope: when a neural network's softmax confidence can be trusted, and, where it can't, why.

The reference implementation of "Understanding Softmax Confidence and Uncertainty" (Pearce, Brintrup, Zhu 2021).
Names are imported when first used, so that `import softscope` stays light.
"""

from importlib import import_module
from typing import TYPE_CHECKING

__version__ = "0.1.0"

if TYPE_CHECKING:
    from .diagnosis import Diagnosis as Diagnosis
    from .diagnosis import diagnose as diagnose
    from .errors import SoftscopeError as SoftscopeError
    from .estimators import Density as Density
    from .features import FeatureSet as FeatureSet
    from .guard import Guard as Guard
    from .head import Head as Head
    from .metrics import Interval as Interval
    from .models import extract as extract
    from .reporting import report as report

_HOMES = {
    "SoftscopeError": "errors",
    "Head": "head",
    "FeatureSet": "features",
    "Density": "estimators",
    "Interval": "metrics",
    "Guard": "guard",
    "diagnose": "diagnosis",
    "extract": "models",
    "Diagnosis": "diagnosis",
    "report": "reporting",
}

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


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'softscope' has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)


def __dir__() -> list[str]:
    return __all__
