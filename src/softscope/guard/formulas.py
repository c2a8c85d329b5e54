"""The scores once more, in operations that torch and ONNX share: what runs inside a guarded model.

A formula takes features z [N, H] and logits [N, K] as float64 tensors and its constants by name, and uses methods of
torch tensors alone; `onnx_tensor.Node` has the same methods and writes a graph. Scores are the rank forms of
`softscope.estimators`, which don't saturate; the tests hold the two equal.
"""

from collections.abc import Callable, Mapping
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .guard import Guard

Tensor = Any
Constants = Mapping[str, Any]
State = Mapping[str, NDArray]
Formula = Callable[[Any, Tensor, Tensor, Constants], Tensor]
Arrays = Callable[[Any, State], dict[str, NDArray]]
NEGLIGIBLE = -700.0
# Scores made in another order of operations may differ by this from those of the calibration: ties stay ties.
SAME = 1e-6
#: Scores that can run inside a model: what makes their constants of estimator e and its state, and the formula of
#: e, z, logits and the constants.
FORMULAS: dict[str, tuple[Arrays, Formula]] = {}


def formula_of(*names: str, constants: Arrays = lambda e, state: {}) -> Callable[[Formula], Formula]:
    """Decorator of the formula of the scores `names`."""

    def register(formula: Formula) -> Formula:
        FORMULAS.update(dict.fromkeys(names, (constants, formula)))
        return formula

    return register


def decision_constants(guard: Guard) -> dict[str, NDArray]:
    """What `p_values` and `alarms` read: calibration scores with the group of each, sizes and levels of the groups."""
    counts = guard.calibration.counts
    return {
        "calibration": guard.calibration.scores[None],
        "group": np.repeat(np.arange(len(counts), dtype=np.float64), counts)[None],
        "size": counts.astype(np.float64) + 1.0,
        "level": guard.calibration.levels(guard.promise),
    }


def p_values(scores: Tensor, groups: Tensor, c: Constants) -> Tensor:
    """(1 + #{calibration of the group >= s}) / (n + 1), [N]; `groups` are whole numbers [N].

    Scores that differ by 1e-6 of their size count as equal, on the side of fewer alarms.
    """
    asked = (scores - SAME * scores.abs()).reshape(-1, 1)
    above = (c["calibration"] >= asked) & (c["group"] == groups.reshape(-1, 1).double())
    return (above.double().sum(1) + 1.0) / c["size"][groups]


def alarms(p: Tensor, groups: Tensor, c: Constants) -> Tensor:
    """p <= l / (n + 1) of the row's group."""
    return p <= c["level"][groups] * (1 + 1e-12)


def tail(logits: Tensor, classes: int, temperature: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """l_1, the gap to l_2, sum exp and sum x exp of the others about l_2, as `softmax.Tail`."""
    ordered = logits.topk(classes)[0]
    first, second = ordered.narrow(1, 0, 1), ordered.narrow(1, 1, 1)
    below = ((ordered.narrow(1, 1, classes - 1) - second) / temperature).clamp(min=NEGLIGIBLE)
    powers = below.exp()
    gap = (first - second) / temperature
    return first.sum(1), gap.sum(1), powers.sum(1), (below * powers).sum(1)


def mass(gap: Tensor, rest: Tensor) -> Tensor:
    """The softmax's mass off the winner over that of the winner, exp(-gap) rest."""
    return (-gap).clamp(min=NEGLIGIBLE).exp() * rest


def energy(logits: Tensor, classes: int) -> Tensor:
    """-log sum_i exp(l_i)."""
    first, gap, rest, _ = tail(logits, classes)
    return -(first + mass(gap, rest).log1p())


def log_odds(logits: Tensor, classes: int) -> Tensor:
    """log((1 - s_1) / s_1)."""
    _, gap, rest, _ = tail(logits, classes)
    return rest.log() - gap


def norms(rows: Tensor) -> Tensor:
    """norm(z) of each row."""
    return (rows * rows).sum(1).sqrt()


def unit_rows(z: Tensor) -> Tensor:
    """z / norm(z); rows of zeros stay zeros."""
    return z / norms(z).reshape(-1, 1).clamp(min=1e-300)


def _directions(e: Any, state: State) -> dict[str, NDArray]:
    weight = e.head_.weight.astype(np.float64)
    lengths = np.linalg.norm(weight, axis=1, keepdims=True)
    return {"directions": (weight / np.where(lengths > 0, lengths, 1.0)).T}


def _familiarity(z: Tensor, c: Constants) -> Tensor:
    return unit_rows(z).matmul(c["directions"]).amax(1)


formula_of("max")(lambda e, z, logits, c: log_odds(logits, e.head_.n_classes))


@formula_of("entropy", "cool")
def _entropy(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    """log H of the softmax, which cool takes at its temperature."""
    temperature = e.temperature if e.info.name == "cool" else 1.0
    _, gap, rest, moment = tail(logits, e.head_.n_classes, temperature)
    off = mass(gap, rest)
    return (rest * (off.log1p() / off) + (gap * rest - moment) / (1.0 + off)).log() - gap


formula_of("margin")(lambda e, z, logits, c: -tail(logits, e.head_.n_classes)[1])
formula_of("max-logit")(lambda e, z, logits, c: -logits.amax(1))
formula_of("energy")(lambda e, z, logits, c: energy(logits, e.head_.n_classes))


@formula_of("mental", constants=_directions)
def _mental(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    others = e.head_.n_classes - 1
    return log(others) - norms(z) * (1.0 / others + _familiarity(z, c))


formula_of("norm", constants=_directions)(lambda e, z, logits, c: -norms(z))
formula_of("familiarity", constants=_directions)(lambda e, z, logits, c: -_familiarity(z, c))


def _density_constants(e: Any, state: State) -> dict[str, NDArray]:
    constants = _JOINTS[e.mixture_.covariance][0](state)
    if e.columns_ is not None:  # a selection as a product, which every backend has
        constants["columns"] = np.eye(e.n_features_)[:, e.columns_]
    return constants


@formula_of("density", constants=_density_constants)
def _density(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    x = unit_rows(z) if e.normalise else z
    x = x if e.columns_ is None else x.matmul(c["columns"])
    x = x if e.offset_ is None else (x.clamp(min=0.0) + e.offset_).log()
    values = _JOINTS[e.mixture_.covariance][1](x, c, e.mixture_.means.shape[1])
    best = values.amax(1).reshape(-1, 1)
    return -(best.sum(1) + (values - best).exp().sum(1).log())


def _full_constants(state: State) -> dict[str, NDArray]:
    factors = np.tril(state["factors"].astype(np.float64))
    return {
        "factors": factors.transpose(0, 2, 1),
        "shifts": np.einsum("khj,kj->kh", factors, state["means"])[:, None],
        "constants": _log_weights(state) - 0.5 * factors.shape[1] * np.log(2 * np.pi),
    }


def _full(x: Tensor, c: Constants, width: int) -> Tensor:
    white = x.reshape(1, -1, width).matmul(c["factors"]) - c["shifts"]  # [K, N, H]
    return c["constants"] - 0.5 * (white * white).sum(2).transpose(0, 1)


def _tied_constants(state: State) -> dict[str, NDArray]:
    factor = np.tril(state["factors"][0].astype(np.float64))
    centre = state["weights"] @ state["means"]
    white_means = (state["means"] - centre) @ factor.T
    return {
        "centre": centre,
        "factor": factor.T,
        "white_means": white_means.T,
        "squares": (white_means**2).sum(axis=1),
        "constants": _log_weights(state) - 0.5 * len(factor) * np.log(2 * np.pi),
    }


def _tied(x: Tensor, c: Constants, width: int) -> Tensor:
    white = (x - c["centre"]).matmul(c["factor"])
    squares = (white * white).sum(1).reshape(-1, 1)
    distances = squares + c["squares"] - 2.0 * white.matmul(c["white_means"])
    return c["constants"] - 0.5 * distances.clamp(min=0.0)


def _diagonal_constants(state: State) -> dict[str, NDArray]:
    means, variances = state["means"], np.broadcast_to(state["variances"], state["means"].shape)
    centre = state["weights"] @ means
    offsets = means - centre
    with np.errstate(divide="ignore"):
        logs = np.log(state["weights"])
    return {
        "centre": centre,
        "linear": (2.0 * offsets / variances).T,
        "inverses": (1.0 / variances).T,
        "constants": logs - 0.5 * ((offsets**2 / variances).sum(axis=1) + np.log(2 * np.pi * variances).sum(axis=1)),
    }


def _diagonal(x: Tensor, c: Constants, width: int) -> Tensor:
    rows = x - c["centre"]
    return c["constants"] + 0.5 * (rows.matmul(c["linear"]) - (rows * rows).matmul(c["inverses"]))


def _log_weights(state: State) -> NDArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(state["weights"]) - state["half_log_dets"])


_JOINTS: dict[str, tuple[Callable[[State], dict[str, NDArray]], Callable[[Tensor, Constants, int], Tensor]]] = {
    "full": (_full_constants, _full),
    "tied": (_tied_constants, _tied),
    "diagonal": (_diagonal_constants, _diagonal),
    "spherical": (_diagonal_constants, _diagonal),
}
