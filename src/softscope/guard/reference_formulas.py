"""The references' scores in operations that torch and ONNX share (see `formulas`), and the plan of any score."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..estimators import FALL_BELOW, Estimator, boundary_weights, largest_count, level_range
from .formulas import FORMULAS, NEGLIGIBLE, Constants, State, Tensor, energy, formula_of, log_odds, norms, unit_rows

_SMALLEST = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True)
class FormulaPlan:
    """The uncertainty of one fitted estimator: its `constants`, and `formula(z, logits, constants)`."""

    constants: dict[str, NDArray]
    formula: Callable[[Tensor, Tensor, Constants], Tensor]


def plan_of(estimator: Estimator) -> FormulaPlan:
    """The plan of a fitted estimator, or a SoftscopeError where its score can't run inside a model."""
    name = estimator.info.name
    if name not in FORMULAS:
        raise SoftscopeError(
            f"{name}: this score can't run inside a model", f"Fit a guard with one of {', '.join(FORMULAS)}"
        )
    constants, formula = FORMULAS[name]
    arrays = {key: np.asarray(value, np.float64) for key, value in constants(estimator, estimator.state()).items()}
    return FormulaPlan(arrays, partial(formula, estimator))


def _mahalanobis_constants(e: Any, state: State) -> dict[str, NDArray]:
    means = state["means"]
    shared = {"origin": state["origin"], "matrix": state["matrix"], "means": means}
    made = {"turned": means.T, "halves": 0.5 * (means**2).sum(axis=1)}
    return shared | made | ({"background": state["background"]} if "background" in state else {})


@formula_of(
    "mahalanobis",
    "relative-mahalanobis",
    "mahalanobis++",
    "relative-mahalanobis++",
    constants=_mahalanobis_constants,
)
def _mahalanobis(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    centred = (unit_rows(z) if e.normalise else z) - c["origin"]
    white = centred.matmul(c["matrix"])
    step = white - c["means"][(white.matmul(c["turned"]) - c["halves"]).argmax(1)]
    nearest = (step * step).sum(1)
    if "background" not in c:
        return nearest
    whole = centred.matmul(c["background"])
    return nearest - (whole * whole).sum(1)


def _bank(e: Any, state: State) -> dict[str, NDArray]:
    bank = state["train"].astype(np.float64)
    return {"bank": bank.T, "halves": 0.5 * (bank**2).sum(axis=1)}


@formula_of("knn", constants=_bank)
def _knn(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    rows = unit_rows(z) if e.normalise else z
    nearness = rows.matmul(c["bank"]) - c["halves"]
    kth = nearness.topk(e.k_)[0].narrow(1, e.k_ - 1, 1).sum(1)
    return ((rows * rows).sum(1) - 2.0 * kth).clamp(min=0.0).sqrt()


@formula_of("nnguide", constants=lambda e, state: {"bank": state["bank"].T})
def _nnguide(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    guidance = unit_rows(z).matmul(c["bank"]).topk(e.k_)[0].sum(1) / float(e.k_)
    return energy(logits, e.head_.n_classes) * guidance


def _subspace(e: Any, state: State) -> dict[str, NDArray]:
    constants = {name: state[name] for name in ("origin", "residual", "principal") if name in state}
    return constants | ({"transposed": state["principal"].T} if "principal" in state else {})


@formula_of("vim", "residual", constants=_subspace)
def _residual(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    centred = (unit_rows(z) if e.normalise else z) - c["origin"]
    if "residual" in c:
        off = norms(centred.matmul(c["residual"]))
    else:
        off = norms(centred - centred.matmul(c["principal"]).matmul(c["transposed"]))
    alpha = getattr(e, "alpha_", None)
    return off if alpha is None else alpha * off + energy(logits, e.head_.n_classes)


@formula_of("gen")
def _gen(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    classes, top = e.head_.n_classes, min(e.top, e.head_.n_classes)
    odds = log_odds(logits, classes).reshape(-1, 1)
    log_first = -(odds.clamp(min=0.0) + (-odds.abs()).exp().log1p())
    largest = logits.topk(top)[0]
    winner = e.gamma * (log_first + odds + log_first)
    if top == 1:
        return winner.sum(1)
    log_s = largest.narrow(1, 1, top - 1) + log_first - largest.narrow(1, 0, 1)
    # s_j of the others is at most 1/2, where log(1 - s_j) is accurate.
    log_rest = (-log_s.clamp(min=NEGLIGIBLE, max=-float(np.log(2.0))).exp()).log1p()
    others = e.gamma * (log_s + log_rest)
    peak = others.amax(1).reshape(-1, 1)
    peak = peak + (winner - peak).clamp(min=0.0)
    powers = (others - peak).clamp(min=NEGLIGIBLE).exp().sum(1)
    return peak.sum(1) + (powers + (winner - peak).clamp(min=NEGLIGIBLE).exp().sum(1)).log()


def _softmax(logits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """s, l - l_1 and log sum exp of the latter."""
    below = logits - logits.amax(1).reshape(-1, 1)
    powers = below.clamp(min=NEGLIGIBLE).exp()
    totals = powers.sum(1)
    return powers / totals.reshape(-1, 1), below, totals.log()


@formula_of("kl-matching", constants=lambda e, state: {"log_means": state["log_means"].T})
def _kl_matching(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    s, below, log_totals = _softmax(logits)
    return (s * below).sum(1) - log_totals - s.matmul(c["log_means"]).amax(1)


@formula_of("gradnorm")
def _gradnorm(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    return -(z.abs().sum(1) * (_softmax(logits)[0] * float(e.head_.n_classes) - 1.0).abs().sum(1))


@formula_of("fdbd", constants=lambda e, state: {"mean": state["mean"], "boundaries": boundary_weights(e.head_)})
def _fdbd(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    gaps = logits.amax(1).reshape(-1, 1) - logits
    room = (gaps * c["boundaries"][logits.argmax(1)]).sum(1)
    return -room / norms(z - c["mean"]).clamp(min=_SMALLEST)


def _at_mean(e: Any, state: State) -> dict[str, NDArray]:
    return {"mean": state["mean"], "at_mean": e.head_.weight.astype(np.float64) @ state["mean"] + e.head_.bias}


@formula_of("nci", constants=_at_mean)
def _nci(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    inner = logits.amax(1) - c["at_mean"][logits.argmax(1)]
    return -(inner / norms(z - c["mean"]).clamp(min=_SMALLEST)) - e.a_ * z.abs().sum(1)


@formula_of("she", constants=lambda e, state: {"patterns": state["patterns"]})
def _she(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    return -(z * c["patterns"][logits.argmax(1)]).sum(1)


@formula_of("react", constants=lambda e, state: {"weight": e.head_.weight.T, "bias": e.head_.bias})
def _react(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    cut = float(np.float32(e.cut_))
    return energy(z.clamp(max=cut).matmul(c["weight"]) + c["bias"], e.head_.n_classes)


@formula_of("scale", constants=lambda e, state: {"bias": e.head_.bias})
def _scale(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    largest = z.topk(largest_count(e.head_.n_features, e.percentile))[0]
    return _scaled_energy(e, z, largest, logits - c["bias"], c)


@formula_of("ash-s", constants=lambda e, state: {"bias": e.head_.bias, "weight": e.head_.weight.T})
def _ash_s(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    count = largest_count(e.head_.n_features, e.percentile)
    kept = z * (z >= z.topk(count)[0].narrow(1, count - 1, 1)).double()
    return _scaled_energy(e, z, kept, kept.matmul(c["weight"]), c)


def _scaled_energy(e: Any, z: Tensor, kept: Tensor, product: Tensor, c: Constants) -> Tensor:
    """The energy where the product with W is scaled by exp(r), r the sum of z over that of what is kept of it."""
    ratio = z.clamp(min=0.0).sum(1) / kept.clamp(min=0.0).sum(1).clamp(min=1e-300)
    return energy(product * ratio.exp().reshape(-1, 1) + c["bias"], e.head_.n_classes)


def _part_constants(e: Any, state: State) -> dict[str, NDArray]:
    """A constant of part i is called part<i>_<its name>."""
    return {
        f"part{i}_{key}": value
        for i, (name, part) in enumerate(e.parts_.items())
        for key, value in (plan_of(part).constants | _steps(*e.levels_[name])).items()
    }


@formula_of("consensus", constants=_part_constants)
def _consensus(e: Any, z: Tensor, logits: Tensor, c: Constants) -> Tensor:
    """The sum of the parts' -log p."""
    whole = 0.0
    for i, part in enumerate(e.parts_.values()):
        own = {key.removeprefix(f"part{i}_"): value for key, value in c.items() if key.startswith(f"part{i}_")}
        scores = FORMULAS[part.info.name][1](part, z, logits, own)
        whole = _surprise(scores, own) + whole
    return whole


def _steps(levels: NDArray, logs: NDArray) -> dict[str, NDArray]:
    return {
        "levels": levels[None],
        "left": np.concatenate([levels[:1], levels[:-1]]),
        "left_logs": np.concatenate([logs[:1], logs[:-1]]),
        "slopes": np.concatenate([[0.0], np.diff(logs) / np.diff(levels)]),
        "lowest": levels[0],
        "highest": levels[-1],
        "unit": np.float64(level_range(levels)),
    }


def _surprise(scores: Tensor, c: Constants) -> Tensor:
    """-log p of scores [N] by linear interpolation between the calibration scores, as `estimators.consensus`."""
    inside = scores.clamp(min=c["lowest"], max=c["highest"])
    at = (c["levels"] >= inside.reshape(-1, 1)).double().argmax(1)  # the first level that is not below
    between = c["left_logs"][at] + c["slopes"][at] * (inside - c["left"][at])
    above, below = (scores - c["highest"]).clamp(min=0.0), (c["lowest"] - scores).clamp(min=0.0)
    return between + (above - FALL_BELOW * below) / c["unit"]
