"""Every uncertainty, by name. Classes are imported when first used, so that this package stays light to import."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from ..errors import SoftscopeError
from .base import Estimator, Info

if TYPE_CHECKING:
    from .density import Density as Density
    from .fused import scores as scores
    from .geometric import Familiarity as Familiarity
    from .geometric import Mental as Mental
    from .geometric import Norm as Norm
    from .kernel import KernelDensity as KernelDensity
    from .neighbours import NearestNeighbours as NearestNeighbours
    from .reference import GEN as GEN
    from .reference import Mahalanobis as Mahalanobis
    from .reference import RelativeMahalanobis as RelativeMahalanobis
    from .reference import ViM as ViM
    from .softmax import Cool as Cool
    from .softmax import Energy as Energy
    from .softmax import Entropy as Entropy
    from .softmax import Margin as Margin
    from .softmax import MaxLogit as MaxLogit
    from .softmax import MaxProbability as MaxProbability

#: name -> (module, class), in the order the docs list them.
ESTIMATORS: dict[str, tuple[str, str]] = {
    "max": ("softmax", "MaxProbability"),
    "entropy": ("softmax", "Entropy"),
    "cool": ("softmax", "Cool"),
    "density": ("density", "Density"),
    "mental": ("geometric", "Mental"),
    "norm": ("geometric", "Norm"),
    "familiarity": ("geometric", "Familiarity"),
    "kde": ("kernel", "KernelDensity"),
    "margin": ("softmax", "Margin"),
    "max-logit": ("softmax", "MaxLogit"),
    "energy": ("softmax", "Energy"),
    "mahalanobis": ("reference", "Mahalanobis"),
    "relative-mahalanobis": ("reference", "RelativeMahalanobis"),
    "knn": ("neighbours", "NearestNeighbours"),
    "vim": ("reference", "ViM"),
    "gen": ("reference", "GEN"),
}

_HOMES = {name: module for module, name in ESTIMATORS.values()} | {"scores": "fused"}

__all__ = ["ESTIMATORS", "Estimator", "Info", "estimator", "estimator_class", *_HOMES]


def estimator_class(name: str) -> type[Estimator]:
    """The class registered under `name`."""
    if name not in ESTIMATORS:
        raise SoftscopeError(f"no estimator is called {name!r}", f"Choose one of {', '.join(ESTIMATORS)}")
    module, cls = ESTIMATORS[name]
    found: type[Estimator] = getattr(import_module(f".{module}", __name__), cls)
    return found


def estimator(name: str, **params: Any) -> Estimator:
    """A fresh, unfitted estimator: `estimator("cool", temperature=20.0)`."""
    cls = estimator_class(name)
    try:
        return cls(**params)
    except TypeError as error:
        raise SoftscopeError(f"{name}: {error}", f"Its parameters are {_parameters(cls)}") from error


def __getattr__(name: str) -> object:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)


def __dir__() -> list[str]:
    return __all__


def _parameters(cls: type[Estimator]) -> str:
    from inspect import signature

    return ", ".join(signature(cls).parameters) or "none"
