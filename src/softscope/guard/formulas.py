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

from ..errors import SoftscopeError
from ..estimators import Estimator, boundary_weights, largest_count
from .guard import Guard

Tensor = Any
Constants = Mapping[str, Any]
Formula = Callable[[Tensor, Tensor, Constants], Tensor]
_NEGLIGIBLE = -700.0
# Scores made in another order of operations may differ by this from those of the calibration: ties stay ties.
SAME = 1e-6


@dataclass(frozen=True)
class Plan:
    """The uncertainty of one fitted estimator: its `constants` and the `formula` that uses them."""

    constants: dict[str, NDArray]
    formula: Formula


def plan_of(guard: Guard) -> Plan:
    """The plan of a guard's estimator, or a SoftscopeError where its score can't run inside a model."""
    name = guard.estimator.info.name
    if name not in _PLANS:
        raise SoftscopeError(
            f"{name}: this score can't run inside a model", f"Fit a guard with one of {', '.join(_PLANS)}"
        )
    plan = _PLANS[name](guard.estimator, guard.estimator.state())
    return Plan({key: np.asarray(value, np.float64) for key, value in plan.constants.items()}, plan.formula)


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


def _tail(logits: Tensor, classes: int, temperature: float = 1.0) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """l_1, the gap to l_2, sum exp and sum x exp of the others about l_2, as `softmax.Tail`."""
    ordered = logits.topk(classes)[0]
    first, second = ordered.narrow(1, 0, 1), ordered.narrow(1, 1, 1)
    below = ((ordered.narrow(1, 1, classes - 1) - second) / temperature).clamp(min=_NEGLIGIBLE)
    powers = below.exp()
    gap = (first - second) / temperature
    return first.sum(1), gap.sum(1), powers.sum(1), (below * powers).sum(1)


def _mass(gap: Tensor, rest: Tensor) -> Tensor:
    return (-gap).clamp(min=_NEGLIGIBLE).exp() * rest


def _log_entropy(logits: Tensor, classes: int, temperature: float) -> Tensor:
    _, gap, rest, moment = _tail(logits, classes, temperature)
    mass = _mass(gap, rest)
    return (rest * (mass.log1p() / mass) + (gap * rest - moment) / (1.0 + mass)).log() - gap


def _energy(logits: Tensor, classes: int) -> Tensor:
    first, gap, rest, _ = _tail(logits, classes)
    return -(first + _mass(gap, rest).log1p())


def _log_odds(logits: Tensor, classes: int) -> Tensor:
    _, gap, rest, _ = _tail(logits, classes)
    return rest.log() - gap


def _norms(rows: Tensor) -> Tensor:
    return (rows * rows).sum(1).sqrt()


def _unit(rows: Tensor) -> Tensor:
    """row / norm(row), 0 where the row is all zeros."""
    return rows / _norms(rows).reshape(-1, 1).clamp(min=1e-300)


def _familiarity(z: Tensor, c: Constants) -> Tensor:
    norms = _norms(z).reshape(-1, 1)
    return (z / norms.clamp(min=1e-300)).matmul(c["directions"]).amax(1)


def _logit_plan(formula: Callable[[Tensor, int, float], Tensor]) -> Callable[[Any, Any], Plan]:
    def plan(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
        classes, temperature = estimator.head_.n_classes, getattr(estimator, "temperature", 1.0)
        return Plan({}, lambda z, logits, c: formula(logits, classes, temperature))

    return plan


def _geometric_plan(formula: Callable[[Tensor, int, Constants], Tensor]) -> Callable[[Any, Any], Plan]:
    def plan(estimator: Estimator, state: Mapping[str, NDArray]) -> Plan:
        head = estimator.head_
        weight = head.weight.astype(np.float64)
        lengths = np.linalg.norm(weight, axis=1, keepdims=True)
        directions = (weight / np.where(lengths > 0, lengths, 1.0)).T
        return Plan({"directions": directions}, lambda z, logits, c: formula(z, head.n_classes, c))

    return plan


def _mental(z: Tensor, classes: int, c: Constants) -> Tensor:
    return float(np.log(classes - 1)) - _norms(z) * (1.0 / (classes - 1) + _familiarity(z, c))


def _density(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    columns, offset = estimator.columns_, estimator.offset_
    mixture = estimator.mixture_
    constants, joint = _JOINTS[mixture.covariance](state)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        z = _unit(z) if estimator.normalise else z
        x = z if columns is None else z.matmul(c["columns"])
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


def _mahalanobis(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    means = state["means"]
    constants = {
        "origin": state["origin"],
        "matrix": state["matrix"],
        "means": means,
        "turned": means.T,
        "halves": 0.5 * (means**2).sum(axis=1),
    }
    background = state.get("background")
    if background is not None:
        constants["background"] = background

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        centred = (_unit(z) if estimator.normalise else z) - c["origin"]
        white = centred.matmul(c["matrix"])
        step = white - c["means"][(white.matmul(c["turned"]) - c["halves"]).argmax(1)]
        nearest = (step * step).sum(1)
        if background is None:
            return nearest
        whole = centred.matmul(c["background"])
        return nearest - (whole * whole).sum(1)

    return Plan(constants, formula)


def _knn(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    bank, k = state["train"].astype(np.float64), estimator.k_

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        unit = _unit(z) if estimator.normalise else z
        nearness = unit.matmul(c["bank"]) - c["halves"]
        kth = nearness.topk(k)[0].narrow(1, k - 1, 1).sum(1)
        return ((unit * unit).sum(1) - 2.0 * kth).clamp(min=0.0).sqrt()

    return Plan({"bank": bank.T, "halves": 0.5 * (bank**2).sum(axis=1)}, formula)


def _residual(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        return _norms((z - c["origin"]).matmul(c["residual"]))

    return Plan({"origin": state["origin"], "residual": state["residual"]}, formula)


def _vim(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes, alpha = estimator.head_.n_classes, estimator.alpha_

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        return alpha * _norms((z - c["origin"]).matmul(c["residual"])) + _energy(logits, classes)

    return Plan({"origin": state["origin"], "residual": state["residual"]}, formula)


def _neighbour_guide(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes, k = estimator.head_.n_classes, estimator.k_

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        return _energy(logits, classes) * _unit(z).matmul(c["bank"]).topk(k)[0].sum(1) / k

    return Plan({"bank": state["bank"].T}, formula)


def _react(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    head, cut = estimator.head_, estimator.cut_

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        return _energy(z.clamp(max=cut).matmul(c["weight"]) + c["bias"], head.n_classes)

    return Plan({"weight": head.weight.T, "bias": head.bias}, formula)


def _scaled(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    """SCALE and ASH-S: the energy of features scaled by how much of them the largest entries hold."""
    head, prune = estimator.head_, estimator.info.name == "ash-s"
    count = largest_count(head.n_features, estimator.percentile)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        largest = z.topk(count)[0]
        top, product = largest, logits - c["bias"]
        if prune:
            top = z * (z >= largest.narrow(1, count - 1, 1)).double()
            product = top.matmul(c["weight"])
        ratio = z.clamp(min=0.0).sum(1) / top.clamp(min=0.0).sum(1).clamp(min=1e-300)
        return _energy(product * ratio.exp().reshape(-1, 1) + c["bias"], head.n_classes)

    return Plan({"bias": head.bias} | ({"weight": head.weight.T} if prune else {}), formula)


def _hopfield(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    return Plan({**state}, lambda z, logits, c: -(z * c["patterns"][logits.argmax(1)]).sum(1))


def _boundaries(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        gaps = logits.amax(1).reshape(-1, 1) - logits
        room = (gaps * c["weights"][logits.argmax(1)]).sum(1)
        return -room / _norms(z - c["mean"]).clamp(min=1e-300)

    return Plan({"mean": state["mean"], "weights": boundary_weights(estimator.head_)}, formula)


def _alignment(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    head, a = estimator.head_, estimator.a_

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        inner = logits.amax(1) - c["shift"][logits.argmax(1)]
        return -inner / _norms(z - c["mean"]).clamp(min=1e-300) - a * z.abs().sum(1)

    shift = head.weight.astype(np.float64) @ state["mean"] + head.bias
    return Plan({"mean": state["mean"], "shift": shift}, formula)


def _gradient(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes = estimator.head_.n_classes

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        powers = (logits - logits.amax(1).reshape(-1, 1)).exp()
        s = powers / powers.sum(1).reshape(-1, 1)
        return -z.abs().sum(1) * (s * classes - 1.0).abs().sum(1)

    return Plan({}, formula)


def _kl_matching(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        below = logits - logits.amax(1).reshape(-1, 1)
        powers = below.clamp(min=_NEGLIGIBLE).exp()
        totals = powers.sum(1)
        s = powers / totals.reshape(-1, 1)
        return (s * below).sum(1) - totals.log() - s.matmul(c["log_means"]).amax(1)

    return Plan({"log_means": state["log_means"].T}, formula)


def _gen(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes, gamma = estimator.head_.n_classes, estimator.gamma
    top = min(estimator.top, classes)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        odds = _log_odds(logits, classes).reshape(-1, 1)
        log_first = -(odds.clamp(min=0.0) + (-odds.abs()).exp().log1p())
        largest = logits.topk(top)[0]
        winner = gamma * (log_first + odds + log_first)
        if top == 1:
            return winner.sum(1)
        log_s = largest.narrow(1, 1, top - 1) + log_first - largest.narrow(1, 0, 1)
        # s_j of the others is at most 1/2, where log(1 - s_j) is accurate.
        log_rest = (-log_s.clamp(min=_NEGLIGIBLE, max=-float(np.log(2.0))).exp()).log1p()
        others = gamma * (log_s + log_rest)
        peak = others.amax(1).reshape(-1, 1)
        peak = peak + (winner - peak).clamp(min=0.0)
        powers = (others - peak).clamp(min=_NEGLIGIBLE).exp().sum(1)
        return peak.sum(1) + (powers + (winner - peak).clamp(min=_NEGLIGIBLE).exp().sum(1)).log()

    return Plan({}, formula)


_PLANS: dict[str, Callable[[Any, Mapping[str, NDArray]], Plan]] = {
    "max": _logit_plan(lambda logits, classes, _: _log_odds(logits, classes)),
    "entropy": _logit_plan(lambda logits, classes, _: _log_entropy(logits, classes, 1.0)),
    "cool": _logit_plan(_log_entropy),
    "margin": _logit_plan(lambda logits, classes, _: -_tail(logits, classes)[1]),
    "max-logit": _logit_plan(lambda logits, classes, _: -logits.amax(1)),
    "energy": _logit_plan(lambda logits, classes, _: _energy(logits, classes)),
    "mental": _geometric_plan(_mental),
    "norm": _geometric_plan(lambda z, classes, c: -_norms(z)),
    "familiarity": _geometric_plan(lambda z, classes, c: -_familiarity(z, c)),
    "density": _density,
    "mahalanobis": _mahalanobis,
    "relative-mahalanobis": _mahalanobis,
    "mahalanobis++": _mahalanobis,
    "relative-mahalanobis++": _mahalanobis,
    "nnguide": _neighbour_guide,
    "nci": _alignment,
    "fdbd": _boundaries,
    "react": _react,
    "scale": _scaled,
    "ash-s": _scaled,
    "she": _hopfield,
    "gradnorm": _gradient,
    "kl-matching": _kl_matching,
    "residual": _residual,
    "knn": _knn,
    "vim": _vim,
    "gen": _gen,
}
