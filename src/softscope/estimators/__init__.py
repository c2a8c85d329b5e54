"""Every uncertainty, by name. A score is named once, in its class: `@register` makes it known everywhere."""

from inspect import signature
from typing import Any

from ..errors import SoftscopeError
from .base import ESTIMATORS, Estimator, Info, each_chunk, register
from .collapse import FDBD, NCI, SHE, boundary_weights
from .consensus import FALL_BELOW, Consensus, level_range
from .density import LOG_OFFSET, Density, Transform, drawn_columns, log_features
from .distances import Mahalanobis, MahalanobisPlus, RelativeMahalanobis, RelativeMahalanobisPlus, class_moments
from .geometric import Familiarity, Mental, Norm, mental_log_odds
from .kernel import KernelDensity
from .logits import Cool, Energy, Entropy, LogitEstimator, Margin, MaxLogit, MaxProbability, logit_score, scores
from .neighbours import NearestNeighbours, NNGuide
from .probabilities import GEN, GradNorm, KLMatching, log_generalised_entropy
from .shaping import AshS, ReAct, Scale, largest_count
from .softmax import entropy, log_entropy, log_odds, margin
from .subspace import Residual, ViM
from .together import uncertainties

__all__ = [
    "DEFAULT", "ESTIMATORS", "FALL_BELOW", "FDBD", "GEN", "LOG_OFFSET", "NCI", "SHE", "AshS", "Consensus", "Cool",
    "Density", "Energy", "Entropy", "Estimator", "Familiarity", "GradNorm", "Info", "KLMatching", "KernelDensity",
    "LogitEstimator", "Mahalanobis", "MahalanobisPlus", "Margin", "MaxLogit", "MaxProbability", "Mental", "NNGuide",
    "NearestNeighbours", "Norm", "ReAct", "RelativeMahalanobis", "RelativeMahalanobisPlus", "Residual", "Scale",
    "Transform", "ViM", "boundary_weights", "class_moments", "drawn_columns", "each_chunk", "entropy", "estimator",
    "estimator_class", "largest_count", "level_range", "log_entropy", "log_features", "log_generalised_entropy",
    "log_odds", "logit_score", "margin", "mental_log_odds", "register", "scores", "uncertainties",
]  # fmt: skip

#: The score that is used where nobody chooses one; docs/consensus.md says how it is chosen.
DEFAULT = "density"


def estimator_class(name: str) -> type[Estimator]:
    """The class registered under `name`.

    >>> estimator_class("density").info.symbol
    'U_density'
    """
    if name not in ESTIMATORS:
        raise SoftscopeError(f"no estimator is called {name!r}", f"Choose one of {', '.join(ESTIMATORS)}")
    return ESTIMATORS[name]


def estimator(name: str, **params: Any) -> Estimator:
    """A fresh, unfitted estimator: `estimator("cool", temperature=20.0)` or `estimator("cool(temperature=20.0)")`.

    >>> import softscope as sx
    >>> energy = estimator("energy").fit(sx.Head([[1.0, 0.0], [0.0, 1.0]]), None)
    >>> energy.uncertainty([[3.0, 0.0], [0.2, 0.1]]).round(2)
    array([-3.05, -0.84])
    """
    if "(" in name:
        name, written = _written(name)
        params = written | params
    cls = estimator_class(name)
    try:
        return cls(**params)
    except TypeError as error:
        known = ", ".join(signature(cls).parameters) or "none"
        raise SoftscopeError(f"{name}: {error}", f"Its parameters are {known}") from error


def _written(words: str) -> tuple[str, dict[str, Any]]:
    """Name and parameters from "density(components=100, covariance='diagonal')": literals, never evaluated."""
    import ast

    name = words.partition("(")[0].strip()
    try:
        call = ast.parse(f"f{words[len(name) :].strip()}", mode="eval").body
        if not isinstance(call, ast.Call) or call.args or any(item.arg is None for item in call.keywords):
            raise ValueError("expected a name and keyword arguments")
        return name, {str(item.arg): ast.literal_eval(item.value) for item in call.keywords}
    except (ValueError, SyntaxError) as error:
        raise SoftscopeError(
            f"{words}: is not an estimator with its parameters ({error})",
            "Write it as \"density(components=100, covariance='diagonal')\", with plain numbers and texts",
        ) from error
