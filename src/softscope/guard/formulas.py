"""The scores once more, in operations that torch and ONNX share: what runs inside a guarded model.

A formula takes features z [N, H] and logits [N, K] as float64 tensors and its constants by name, and uses methods of
torch tensors alone; `onnx_tensor.Node` has the same methods and writes a graph. Scores are the rank forms of
`softscope.estimators`, which don't saturate; the tests hold the two equal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..estimators import Estimator
from .guard import Guard

Tensor = Any
Constants = Mapping[str, Any]
Formula = Callable[[Tensor, Tensor, Constants], Tensor]
NEGLIGIBLE = -700.0
# Scores made in another order of operations may differ by this from those of the calibration: ties stay ties.
SAME = 1e-6


@dataclass(frozen=True)
class Plan:
    """The uncertainty of one fitted estimator: its `constants` and the `formula` that uses them."""

    constants: dict[str, NDArray]
    formula: Formula


Planner = Callable[[Any, Mapping[str, NDArray]], Plan]


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


def _log_entropy(logits: Tensor, classes: int, temperature: float) -> Tensor:
    _, gap, rest, moment = tail(logits, classes, temperature)
    off = mass(gap, rest)
    return (rest * (off.log1p() / off) + (gap * rest - moment) / (1.0 + off)).log() - gap


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


def _familiarity(z: Tensor, c: Constants) -> Tensor:
    return unit_rows(z).matmul(c["directions"]).amax(1)


def _logit_plan(formula: Callable[[Tensor, int, float], Tensor]) -> Planner:
    def plan(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
        classes, temperature = estimator.head_.n_classes, getattr(estimator, "temperature", 1.0)
        return Plan({}, lambda z, logits, c: formula(logits, classes, temperature))

    return plan


def _geometric_plan(formula: Callable[[Tensor, int, Constants], Tensor]) -> Planner:
    def plan(estimator: Estimator, state: Mapping[str, NDArray]) -> Plan:
        head = estimator.head_
        weight = head.weight.astype(np.float64)
        lengths = np.linalg.norm(weight, axis=1, keepdims=True)
        directions = (weight / np.where(lengths > 0, lengths, 1.0)).T
        return Plan({"directions": directions}, lambda z, logits, c: formula(z, head.n_classes, c))

    return plan


def _mental(z: Tensor, classes: int, c: Constants) -> Tensor:
    return float(np.log(classes - 1)) - norms(z) * (1.0 / (classes - 1) + _familiarity(z, c))


def _density(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    columns, offset = estimator.columns_, estimator.offset_
    mixture = estimator.mixture_
    constants, joint = _JOINTS[mixture.covariance](state)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        x = unit_rows(z) if estimator.normalise else z
        x = x if columns is None else x.matmul(c["columns"])
        x = x if offset is None else (x.clamp(min=0.0) + offset).log()
        values = joint(x, c)
        best = values.amax(1).reshape(-1, 1)
        return -(best.sum(1) + (values - best).exp().sum(1).log())

    if columns is not None:  # a selection as a product, which every backend has
        constants["columns"] = np.eye(estimator.n_features_)[:, columns]
    return Plan(constants, formula)


def _full(state: Mapping[str, NDArray]) -> tuple[dict[str, NDArray], Callable[[Tensor, Constants], Tensor]]:
    factors = np.tril(state["factors"].astype(np.float64))
    width = factors.shape[1]
    constants = {
        "factors": factors.transpose(0, 2, 1),
        "shifts": np.einsum("khj,kj->kh", factors, state["means"])[:, None],
        "constants": _log_weights(state) - 0.5 * width * np.log(2 * np.pi),
    }

    def joint(x: Tensor, c: Constants) -> Tensor:
        white = x.reshape(1, -1, width).matmul(c["factors"]) - c["shifts"]  # [K, N, H]
        return c["constants"] - 0.5 * (white * white).sum(2).transpose(0, 1)

    return constants, joint


def _tied(state: Mapping[str, NDArray]) -> tuple[dict[str, NDArray], Callable[[Tensor, Constants], Tensor]]:
    factor = np.tril(state["factors"][0].astype(np.float64))
    centre = state["weights"] @ state["means"]
    white_means = (state["means"] - centre) @ factor.T
    constants = {
        "centre": centre,
        "factor": factor.T,
        "white_means": white_means.T,
        "squares": (white_means**2).sum(axis=1),
        "constants": _log_weights(state) - 0.5 * len(factor) * np.log(2 * np.pi),
    }

    def joint(x: Tensor, c: Constants) -> Tensor:
        white = (x - c["centre"]).matmul(c["factor"])
        squares = (white * white).sum(1).reshape(-1, 1)
        distances = squares + c["squares"] - 2.0 * white.matmul(c["white_means"])
        return c["constants"] - 0.5 * distances.clamp(min=0.0)

    return constants, joint


def _diagonal(state: Mapping[str, NDArray]) -> tuple[dict[str, NDArray], Callable[[Tensor, Constants], Tensor]]:
    means, variances = state["means"], np.broadcast_to(state["variances"], state["means"].shape)
    centre = state["weights"] @ means
    offsets = means - centre
    with np.errstate(divide="ignore"):
        logs = np.log(state["weights"])
    constants = {
        "centre": centre,
        "linear": (2.0 * offsets / variances).T,
        "inverses": (1.0 / variances).T,
        "constants": logs - 0.5 * ((offsets**2 / variances).sum(axis=1) + np.log(2 * np.pi * variances).sum(axis=1)),
    }

    def joint(x: Tensor, c: Constants) -> Tensor:
        rows = x - c["centre"]
        return c["constants"] + 0.5 * (rows.matmul(c["linear"]) - (rows * rows).matmul(c["inverses"]))

    return constants, joint


def _log_weights(state: Mapping[str, NDArray]) -> NDArray:
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(state["weights"]) - state["half_log_dets"])


_JOINTS = {"full": _full, "tied": _tied, "diagonal": _diagonal, "spherical": _diagonal}


#: Scores of the paper and of the logits alone: name -> plan of a fitted estimator and its state.
PLANS: dict[str, Planner] = {
    "max": _logit_plan(lambda logits, classes, _: log_odds(logits, classes)),
    "entropy": _logit_plan(lambda logits, classes, _: _log_entropy(logits, classes, 1.0)),
    "cool": _logit_plan(_log_entropy),
    "margin": _logit_plan(lambda logits, classes, _: -tail(logits, classes)[1]),
    "max-logit": _logit_plan(lambda logits, classes, _: -logits.amax(1)),
    "energy": _logit_plan(lambda logits, classes, _: energy(logits, classes)),
    "mental": _geometric_plan(_mental),
    "norm": _geometric_plan(lambda z, classes, c: -norms(z)),
    "familiarity": _geometric_plan(lambda z, classes, c: -_familiarity(z, c)),
    "density": _density,
}
