"""Every uncertainty, by name. A score is named once, in its class: `@register` makes it known everywhere."""

import warnings
from inspect import signature
from typing import Any

from ..errors import SoftscopeError
from ..features import FeatureSet
from .base import ESTIMATORS, Estimator, Info, each_chunk, register
from .consensus import FALL_BELOW, Consensus, level_range
from .density import LOG_OFFSET, Density, KernelDensity, Transform, drawn_columns, log_features
from .distances import (
    FEWEST_PER_CLASS,
    Mahalanobis,
    MahalanobisPlus,
    RelativeMahalanobis,
    RelativeMahalanobisPlus,
)
from .geometric import Familiarity, Mental, Norm, mental_log_odds
from .logits import (
    Cool,
    Energy,
    Entropy,
    LogitEstimator,
    Margin,
    MaxLogit,
    MaxProbability,
    logit_score,
    scores,
    uncertainties,
)
from .neighbours import NearestNeighbours, NNGuide
from .readers import FDBD, GEN, NCI, SHE, GradNorm, KLMatching, boundary_weights
from .shaping import AshS, ReAct, Scale, largest_count
from .softmax import entropy, log_entropy, log_generalised_entropy, log_odds, margin
from .subspace import Residual, ViM

__all__ = [
    "DEFAULT", "ESTIMATORS", "FALL_BELOW", "FDBD", "FEWEST_PER_CLASS", "GEN", "LOG_OFFSET", "NCI", "SHE",
    "UNLABELLED_DEFAULT", "AshS", "Consensus", "Cool", "Density", "Energy", "Entropy", "Estimator", "Familiarity",
    "GradNorm", "Info", "KLMatching", "KernelDensity", "LogitEstimator", "Mahalanobis", "MahalanobisPlus", "Margin",
    "MaxLogit", "MaxProbability", "Mental", "NNGuide", "NearestNeighbours", "Norm", "ReAct", "RelativeMahalanobis",
    "RelativeMahalanobisPlus", "Residual", "Scale", "Transform", "ViM", "boundary_weights",
    "default_estimator", "drawn_columns", "each_chunk", "entropy", "estimator", "estimator_class", "largest_count",
    "level_range", "log_entropy", "log_features", "log_generalised_entropy", "log_odds", "logit_score", "margin",
    "mental_log_odds", "register", "scores", "uncertainties",
]  # fmt: skip

#: The score that is used where nobody chooses one, by guards and by the advice of `diagnose`: docs/consensus.md has the
#: rule that names it, written before the numbers (X13).
DEFAULT = "mahalanobis++"
#: What the same rule names among the scores that need no labels.
UNLABELLED_DEFAULT = "fdbd"


def default_estimator(train: Any = None) -> Estimator:
    """A fresh DEFAULT for these training features: whatever `FeatureSet.of` takes, or None.

    Without labels, or with fewer than 2 rows per class, there is no spread within classes to measure, and a single
    feature has no direction: then it is UNLABELLED_DEFAULT, and a warning says so.

    >>> default_estimator(([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 0.9]], [0, 0, 1, 1]))
    MahalanobisPlus(normalise=True)
    """
    if train is None:
        return estimator(DEFAULT)
    train = FeatureSet.of(train, "train")
    if train.labels is None:
        reason = "have no labels"
    elif train.n_features == 1:
        reason = "have a single feature"
    elif len(train) < FEWEST_PER_CLASS * (classes := len(set(train.labels.tolist()))):
        reason = f"are fewer than {FEWEST_PER_CLASS} for each of {classes} classes"
    else:
        return estimator(DEFAULT)
    warnings.warn(
        f"{DEFAULT}: the training rows {reason}; {UNLABELLED_DEFAULT} is used instead", UserWarning, stacklevel=3
    )
    return estimator(UNLABELLED_DEFAULT)


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
