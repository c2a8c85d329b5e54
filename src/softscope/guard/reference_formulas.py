"""The references' scores in operations that torch and ONNX share (see `formulas`), and the table of all of them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..estimators import FALL_BELOW, boundary_weights, largest_count, level_range
from .formulas import NEGLIGIBLE, PLANS, Constants, Plan, Planner, Tensor, energy, log_odds, norms, unit_rows
from .guard import Guard

_SMALLEST = float(np.finfo(np.float64).tiny)


def plan_of(guard: Guard) -> Plan:
    """The plan of a guard's estimator, or a SoftscopeError where its score can't run inside a model."""
    plan = _plan(guard.estimator)
    return Plan({key: np.asarray(value, np.float64) for key, value in plan.constants.items()}, plan.formula)


def _plan(estimator: Any) -> Plan:
    name, known = estimator.info.name, PLANS | REFERENCES
    if name not in known:
        raise SoftscopeError(
            f"{name}: this score can't run inside a model", f"Fit a guard with one of {', '.join(known)}"
        )
    return known[name](estimator, estimator.state())


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
        centred = (unit_rows(z) if estimator.normalise else z) - c["origin"]
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
        rows = unit_rows(z) if estimator.normalise else z
        nearness = rows.matmul(c["bank"]) - c["halves"]
        kth = nearness.topk(k)[0].narrow(1, k - 1, 1).sum(1)
        return ((rows * rows).sum(1) - 2.0 * kth).clamp(min=0.0).sqrt()

    return Plan({"bank": bank.T, "halves": 0.5 * (bank**2).sum(axis=1)}, formula)


def _nnguide(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes, k = estimator.head_.n_classes, estimator.k_

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        guidance = unit_rows(z).matmul(c["bank"]).topk(k)[0].sum(1) / float(k)
        return energy(logits, classes) * guidance

    return Plan({"bank": state["bank"].T}, formula)


def _residual(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes, alpha = estimator.head_.n_classes, getattr(estimator, "alpha_", None)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        centred = z - c["origin"]
        if "residual" in c:
            off = norms(centred.matmul(c["residual"]))
        else:
            off = norms(centred - centred.matmul(c["principal"]).matmul(c["transposed"]))
        return off if alpha is None else alpha * off + energy(logits, classes)

    constants = {name: state[name] for name in ("origin", "residual", "principal") if name in state}
    if "principal" in constants:
        constants["transposed"] = constants["principal"].T
    return Plan(constants, formula)


def _gen(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes, gamma = estimator.head_.n_classes, estimator.gamma
    top = min(estimator.top, classes)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        odds = log_odds(logits, classes).reshape(-1, 1)
        log_first = -(odds.clamp(min=0.0) + (-odds.abs()).exp().log1p())
        largest = logits.topk(top)[0]
        winner = gamma * (log_first + odds + log_first)
        if top == 1:
            return winner.sum(1)
        log_s = largest.narrow(1, 1, top - 1) + log_first - largest.narrow(1, 0, 1)
        # s_j of the others is at most 1/2, where log(1 - s_j) is accurate.
        log_rest = (-log_s.clamp(min=NEGLIGIBLE, max=-float(np.log(2.0))).exp()).log1p()
        others = gamma * (log_s + log_rest)
        peak = others.amax(1).reshape(-1, 1)
        peak = peak + (winner - peak).clamp(min=0.0)
        powers = (others - peak).clamp(min=NEGLIGIBLE).exp().sum(1)
        return peak.sum(1) + (powers + (winner - peak).clamp(min=NEGLIGIBLE).exp().sum(1)).log()

    return Plan({}, formula)


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """s, l - l_1 and log sum exp of the latter."""
    below = logits - logits.amax(1).reshape(-1, 1)
    powers = below.clamp(min=NEGLIGIBLE).exp()
    totals = powers.sum(1)
    return powers / totals.reshape(-1, 1), below, totals.log()


def _kl_matching(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        s, below, log_totals = _softmax(logits)
        return (s * below).sum(1) - log_totals - s.matmul(c["log_means"]).amax(1)

    return Plan({"log_means": state["log_means"].T}, formula)


def _gradnorm(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    classes = float(estimator.head_.n_classes)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        return -(z.abs().sum(1) * (_softmax(logits)[0] * classes - 1.0).abs().sum(1))

    return Plan({}, formula)


def _fdbd(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        gaps = logits.amax(1).reshape(-1, 1) - logits
        room = (gaps * c["boundaries"][logits.argmax(1)]).sum(1)
        return -room / norms(z - c["mean"]).clamp(min=_SMALLEST)

    return Plan({"mean": state["mean"], "boundaries": boundary_weights(estimator.head_)}, formula)


def _nci(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    head, a = estimator.head_, estimator.a_

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        inner = logits.amax(1) - c["at_mean"][logits.argmax(1)]
        return -(inner / norms(z - c["mean"]).clamp(min=_SMALLEST)) - a * z.abs().sum(1)

    at_mean = head.weight.astype(np.float64) @ state["mean"] + head.bias
    return Plan({"mean": state["mean"], "at_mean": at_mean}, formula)


def _she(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        return -(z * c["patterns"][logits.argmax(1)]).sum(1)

    return Plan({"patterns": state["patterns"]}, formula)


def _react(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    head, cut = estimator.head_, float(np.float32(estimator.cut_))

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        return energy(z.clamp(max=cut).matmul(c["weight"]) + c["bias"], head.n_classes)

    return Plan({"weight": head.weight.T, "bias": head.bias}, formula)


def _scaled(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    """SCALE and ASH-S: the product with W is scaled by exp(r), of all of z or of its largest entries alone."""
    head, pruned = estimator.head_, estimator.info.name == "ash-s"
    count = largest_count(head.n_features, estimator.percentile)

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        largest = z.topk(count)[0]
        kept = z * (z >= largest.narrow(1, count - 1, 1)).double() if pruned else largest
        product = kept.matmul(c["weight"]) if pruned else logits - c["bias"]
        ratio = z.clamp(min=0.0).sum(1) / kept.clamp(min=0.0).sum(1).clamp(min=1e-300)
        return energy(product * ratio.exp().reshape(-1, 1) + c["bias"], head.n_classes)

    return Plan({"bias": head.bias} | ({"weight": head.weight.T} if pruned else {}), formula)


def _consensus(estimator: Any, state: Mapping[str, NDArray]) -> Plan:
    """The sum of the parts' -log p; a constant of part i is called part<i>_<its name>."""
    plans = [_plan(part) for part in estimator.parts_.values()]
    surprises = [_surprise(*levels) for levels in estimator.levels_.values()]
    constants = {
        f"part{i}_{key}": value
        for i, (plan, surprise) in enumerate(zip(plans, surprises))
        for key, value in (plan.constants | surprise.constants).items()
    }

    def formula(z: Tensor, logits: Tensor, c: Constants) -> Tensor:
        whole = 0.0
        for i, (plan, surprise) in enumerate(zip(plans, surprises)):
            own = {key: c[f"part{i}_{key}"] for key in plan.constants | surprise.constants}
            whole = surprise.formula(plan.formula(z, logits, own), logits, own) + whole
        return whole

    return Plan(constants, formula)


def _surprise(levels: NDArray, logs: NDArray) -> Plan:
    """-log p of scores [N] by linear interpolation between the calibration scores, as `estimators.consensus`."""
    steps = np.diff(logs) / np.diff(levels)
    constants = {
        "levels": levels[None],
        "left": np.concatenate([levels[:1], levels[:-1]]),
        "left_logs": np.concatenate([logs[:1], logs[:-1]]),
        "slopes": np.concatenate([[0.0], steps]),
    }
    lowest, highest, unit = float(levels[0]), float(levels[-1]), level_range(levels)

    def formula(scores: Tensor, logits: Tensor, c: Constants) -> Tensor:
        inside = scores.clamp(min=lowest, max=highest)
        at = (c["levels"] >= inside.reshape(-1, 1)).double().argmax(1)  # the first level that is not below
        between = c["left_logs"][at] + c["slopes"][at] * (inside - c["left"][at])
        return between + ((scores - highest).clamp(min=0.0) - FALL_BELOW * (lowest - scores).clamp(min=0.0)) / unit

    return Plan(constants, formula)


REFERENCES: dict[str, Planner] = {
    "mahalanobis": _mahalanobis,
    "relative-mahalanobis": _mahalanobis,
    "mahalanobis++": _mahalanobis,
    "relative-mahalanobis++": _mahalanobis,
    "knn": _knn,
    "nnguide": _nnguide,
    "vim": _residual,
    "residual": _residual,
    "gen": _gen,
    "kl-matching": _kl_matching,
    "gradnorm": _gradnorm,
    "fdbd": _fdbd,
    "nci": _nci,
    "she": _she,
    "react": _react,
    "scale": _scaled,
    "ash-s": _scaled,
    "consensus": _consensus,
}
