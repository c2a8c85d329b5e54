"""T28 and T29, past the paper: what training keeps, and what a frozen layer forbids.

Both are theorems, checked on small networks trained in the check: one hidden ReLU layer on scikit-learn's 8 x 8 digits,
in numpy and float64, a second or two each.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import log_odds
from ...geometry import auroc_cap, confidence_caps, loss_floor, optimal_structure, sandwich, stack
from ...head import Head
from ...metrics import auroc
from .evidence import EvidenceRows, rows_of
from .register import Measured, checks

Cosine = Callable[[float, Floats], float]
KeptShare = Callable[["Recipe", int], float]
Caps = Callable[[Head], Floats]
DigitImages = tuple[Floats, NDArray[np.int64]]


@dataclass(frozen=True)
class Recipe:
    """Gradient descent with `momentum` and an L2 penalty whose slope is `decay` times the weights; or Adam."""

    rate: float = 0.05
    momentum: float = 0.9
    decay: float = 0.0
    adam: bool = False
    steps: int = 300
    batch: int = 64
    hidden: int = 32


@dataclass
class Network:
    """One hidden ReLU layer and a head; `path` holds the head's weights at the start and after every 25 steps."""

    first: Floats
    shift: Floats
    weight: Floats
    bias: Floats
    path: list[Floats] = field(default_factory=list)

    def features(self, x: Floats) -> Floats:
        """z = max(0, A x + a)."""
        return np.maximum(x @ self.first.T + self.shift, 0.0)

    @property
    def head(self) -> Head:
        """The last layer."""
        return Head(self.weight, self.bias)


def predicted_cosine(mean_norm: float, norms: Floats) -> float:
    """T28: the mean cosine between weights, each weighted by its norms, from norm(mean w) and the norms alone.

    sum_{i != j} w_i'w_j = K^2 norm(mean w)^2 - sum_i norm(w_i)^2, over sum_{i != j} norm(w_i) norm(w_j). For K = 2 it
    is cos(w_1, w_2) itself; with no mean and equal norms it is -1/(K-1), the optimal structure.
    """
    squares = float((norms**2).sum())
    return float((len(norms) ** 2 * mean_norm**2 - squares) / (norms.sum() ** 2 - squares))


def kept_share(recipe: Recipe, steps: int) -> float:
    """T28: mean w after `steps` over mean w at the start: 1 without decay, else momentum's own recursion."""
    mean, speed = 1.0, 0.0
    for _ in range(steps):
        speed = recipe.momentum * speed + recipe.decay * mean
        mean -= recipe.rate * speed
    return mean


@checks("T28")
def check_conserved(*, cosine: Cosine = predicted_cosine, kept: KeptShare = kept_share, seed: int = 28) -> Measured:
    """T28: the slopes add up to zero; mean w and cosines of trained networks are the predicted ones; Adam's drift."""
    recipes = {"without decay": Recipe(), "with decay": Recipe(decay=0.01)}
    mean_error, cosine_error, moved = {}, {}, []
    for name, recipe in recipes.items():
        runs = [train(classes, recipe, seed=seed + classes) for classes in (2, 5, 10)]
        mean_error[name], cosine_error[name] = (
            max(pair) for pair in zip(*(_departures(r, recipe, cosine, kept) for r in runs))
        )
        if name == "without decay":
            moved = [(measured_cosine(run.path[0]), measured_cosine(run.path[-1])) for run in runs]
    slope = max(_sum_of_slopes(classes, seed) for classes in (2, 5, 10))
    adam = Recipe(rate=0.01, adam=True)
    (two, grown), (drift, growth) = (_drift(train(classes, adam, seed=seed)) for classes in (2, 10))
    x3 = rows_of("T28")
    worst_cosine = max(cosine_error.values())
    return Measured(
        {
            "seed": seed,
            "sum_of_slopes": slope,
            "mean_error": mean_error,
            "cosine_error": cosine_error,
            "cosines_start_and_end": moved,
            "adam_drift": {"K=2": two, "K=10": drift},
            "adam_growth": {"K=2": grown, "K=10": growth},
            "x3": x3,
        },
        {
            "the slopes by the weights add up to zero": slope < 1e-12,
            "without decay mean w never moves": mean_error["without decay"] < 1e-10,
            "with decay it shrinks as predicted": mean_error["with decay"] < 1e-10,
            "the cosines are the predicted ones": worst_cosine < 1e-10,
            "and they have moved": abs(moved[0][1] - moved[0][0]) > 0.3,
            "Adam conserves it for two classes": two < 1e-6 and grown > 2.0,
            "but not for ten": drift > 0.1,
        },
        {"worst_cosine": worst_cosine, "halves": ", ".join(f"{row['half_sum']:.2f}" for row in x3)},
    )


@checks("T29")
def check_bounded(*, caps: Caps = confidence_caps, rows: EvidenceRows, seed: int = 29) -> Measured:
    """T29: floor of the loss and cap of the AUROC against networks trained with frozen heads, capped and not."""
    cases = [_frozen(name, norm, seed + run, caps) for name in FROZEN for norm in (1.0, 3.0) for run in range(2)]
    above = min(case["loss"] - case["floor"] for case in cases)
    below = min(case["auroc_cap"] - case["auroc"] for case in cases)
    bounded = [case for case in cases if case["structure"] in BOUNDED]
    excess = float(np.mean([case["loss"] / max(case["floor"], 1e-9) for case in bounded]))
    means = [
        {key: float(np.mean([case[key] for case in cases if case["structure"] == name])) for key in _SHOWN}
        for name in FROZEN
    ]
    out, reached, best = means[:3]
    x4 = _x4(rows)
    return Measured(
        {"seed": seed, "networks": cases, "smallest_excess_loss": above, "smallest_room_auroc": below, "x4": x4},
        {
            "no loss is below its floor": above > -1e-9,
            "no AUROC is above its cap": below > -1e-9,
            "the caps bind: a bounded class is seen as one": all(case["cap"] < 0.95 for case in bounded),
            "a bounded class brings the loss near its floor": excess < 1.5,
            "the sandwich with all classes in reach loses nothing": reached["loss"] < 0.1
            and abs(reached["auroc"] - best["auroc"]) < 0.02,
            "with one class out of reach it does": best["auroc"] - out["auroc"] > 0.1,
            "no network of X4 lies beyond its bounds": x4["below"] == 0,
        },
        {
            "count": len(cases),
            "excess": excess,
            "auroc": [100 * own["auroc"] for own in means],
            "cap": [100 * own["auroc_cap"] for own in means],
        },
    )


def spread(shape: Floats, norm: float, *, reach: bool, bias: Floats | None = None) -> Head:
    """A structure given by its coordinates [K, d], each coordinate spread evenly over neurons, 16 in all.

    With `reach` half of a coordinate's neurons pull the other way, so that features >= 0 reach every direction of the
    shape; without, only its positive orthant.
    """
    groups = shape.shape[1] * (2 if reach else 1)
    each = 16 // groups
    signed = np.column_stack([shape, -shape]) if reach else shape
    weight = np.repeat(signed, each, axis=1) / np.sqrt(each * (2 if reach else 1))
    return Head(norm * weight, np.zeros(len(shape)) if bias is None else bias)


FROZEN: dict[str, Callable[[float], Head]] = {
    "sandwich, one class out of reach": lambda norm: spread(sandwich(3, 2).weight, norm, reach=False),
    "sandwich, all in reach": lambda norm: spread(sandwich(3, 2).weight, norm, reach=True),
    "optimal, all in reach": lambda norm: spread(optimal_structure(3, 2).weight, norm, reach=True),
    "stack": lambda norm: spread(stack(3, 1).weight, norm, reach=True, bias=stack(3, 1, norm=norm).bias),
    # The middle class can be as sure as 0.999, by its bias alone.
    "stack, middle class lifted": lambda norm: spread(
        stack(3, 1).weight, norm, reach=True, bias=np.array([0.0, 8.0, 0.0])
    ),
}
BOUNDED = ("sandwich, one class out of reach", "stack")
_SHOWN = ("loss", "auroc", "auroc_cap")


def _frozen(name: str, norm: float, seed: int, caps: Caps) -> dict[str, Any]:
    """Three digits learned with this head frozen, seven as OOD: loss and AUROC with their predicted bounds."""
    frozen = FROZEN[name](norm)
    net = train(3, Recipe(rate=0.02, steps=400), seed=seed, frozen=frozen)
    x, labels = digits(range(3), test=True)
    ood = net.features(digits(range(3, 10), test=True)[0])
    logits, other = net.head.logits(net.features(x)), net.head.logits(ood)
    own = logits[np.arange(len(labels)), labels]
    limits = caps(net.head)
    floor, cap = predicted_bounds(limits, logits, labels, other)
    return {
        "structure": name,
        "norm": norm,
        "seed": seed,
        "cap": float(limits.min()),
        "loss": float((np.logaddexp.reduce(logits, axis=1) - own).mean()),
        "floor": floor,
        "auroc": auroc(log_odds(logits), log_odds(other)).value,
        "auroc_cap": cap,
    }


def predicted_bounds(
    caps: Floats, logits: NDArray, labels: NDArray[np.int64], ood_logits: NDArray
) -> tuple[float, float]:
    """T29: the floor of the loss and the cap of U_max's AUROC, from the caps of the classes and what was predicted."""
    # Of classes that tie, as all do at z = 0, an input counts for the one with the lowest cap: any would be right.
    lowest = np.argsort(caps)
    predicted = lowest[logits[:, lowest].argmax(axis=1)]
    of_predicted, of_labels = (np.bincount(of, minlength=len(caps)) / len(labels) for of in (predicted, labels))
    surer = 1.0 / (1.0 + np.exp(log_odds(ood_logits)))
    return loss_floor(caps, of_labels), auroc_cap(caps, of_predicted, surer)


def _x4(rows: EvidenceRows) -> dict[str, Any]:
    """X4's networks (MNIST 0, 1, 2 with a frozen head): loss and AUROC against the bounds that their heads predict."""
    below = sum(row["loss"] < row["floor"] - 1e-6 or row["auroc"] > row["auroc_cap"] + 1e-6 for row in rows)
    bounded = [row for row in rows if row["cap"] < 0.95 and row["accuracy"] > 95]
    said = f"of {len(rows)} networks of X4 {below} have a loss below the floor or an AUROC above the cap of their head"
    if bounded:
        shares = [row["loss"] / row["floor"] for row in bounded]
        area, other = (
            float(np.mean([row["auroc"] for row in some]))
            for some in (bounded, [row for row in rows if row["cap"] >= 0.95])
        )
        said += (
            f"; the {len(bounded)} with a class whose confidence is below 0.95 have {min(shares):.2f} to "
            f"{max(shares):.2f} times the floor and a mean AUROC of {area:.1f} %, the others {other:.1f} %"
        )
    return {"said": said, "networks": len(rows), "below": below, "bounded": len(bounded)}


@cache
def digits(classes: range, *, test: bool) -> DigitImages:
    """Pixels 0..1 and labels of scikit-learn's digits of these classes: every fourth is for testing."""
    from sklearn.datasets import load_digits

    x, labels = load_digits(return_X_y=True)
    chosen = np.isin(labels, list(classes)) & ((np.arange(len(labels)) % 4 == 0) == test)
    return x[chosen] / 16.0, labels[chosen].astype(np.int64)


def train(classes: int, recipe: Recipe, *, seed: int, frozen: Head | None = None) -> Network:
    """A network that learns the first `classes` digits; a `frozen` head stays, and says how many features there are."""
    x, labels = digits(range(classes), test=False)
    rng = np.random.default_rng(seed)
    net = _start(x.shape[1], recipe.hidden if frozen is None else frozen.n_features, classes, rng)
    if frozen is not None:
        net.weight, net.bias = frozen.weight.copy(), frozen.bias.copy()
    free = [net.first, net.shift] + ([net.weight, net.bias] if frozen is None else [])
    speed, squares = [np.zeros_like(part) for part in free], [np.zeros_like(part) for part in free]
    net.path.append(net.weight.copy())
    for step in range(1, recipe.steps + 1):
        rows = rng.choice(len(x), recipe.batch)
        for k, slope in enumerate(_slopes(net, x[rows], labels[rows])[: len(free)]):
            if recipe.adam:
                speed[k], squares[k] = 0.9 * speed[k] + 0.1 * slope, 0.999 * squares[k] + 0.001 * slope**2
                scale = np.sqrt(squares[k] / (1 - 0.999**step)) + 1e-8
                free[k] -= recipe.rate * speed[k] / (1 - 0.9**step) / scale
            else:
                speed[k] = recipe.momentum * speed[k] + slope + recipe.decay * free[k]
                free[k] -= recipe.rate * speed[k]
        if step % 25 == 0:
            net.path.append(net.weight.copy())
    return net


def _start(inputs: int, hidden: int, classes: int, rng: np.random.Generator) -> Network:
    """Weights and biases as torch starts them: uniform within 1 / sqrt(fan in)."""
    shapes = (((hidden, inputs), inputs), ((hidden,), inputs), ((classes, hidden), hidden), ((classes,), hidden))
    return Network(*(rng.uniform(-1.0, 1.0, shape) / np.sqrt(fan_in) for shape, fan_in in shapes))


def _slopes(net: Network, x: Floats, labels: NDArray[np.int64]) -> tuple[Floats, Floats, Floats, Floats]:
    """Slopes of the mean cross-entropy by first, shift, weight and bias."""
    z = net.features(x)
    logits = z @ net.weight.T + net.bias
    pull = np.exp(logits - np.logaddexp.reduce(logits, axis=1)[:, None])
    pull[np.arange(len(x)), labels] -= 1.0
    pull /= len(x)
    back = (pull @ net.weight) * (z > 0)
    return back.T @ x, back.sum(axis=0), pull.T @ z, pull.sum(axis=0)


def measured_cosine(weight: Floats) -> float:
    """The mean of cos(w_i, w_j) over pairs, each weighted by its norms."""
    norms = np.linalg.norm(weight, axis=1)
    products = weight @ weight.T
    off = ~np.eye(len(weight), dtype=bool)
    return float(products[off].sum() / np.outer(norms, norms)[off].sum())


def _departures(net: Network, recipe: Recipe, cosine: Cosine, kept: KeptShare) -> tuple[float, float]:
    """Largest error along the path: of mean w, relative to its start, and of the predicted cosine."""
    start = net.path[0].mean(axis=0)
    mean_error, cosine_error = 0.0, 0.0
    for k, weight in enumerate(net.path):
        share = kept(recipe, 25 * k)
        mean_error = max(mean_error, float(np.linalg.norm(weight.mean(axis=0) - share * start) / np.linalg.norm(start)))
        predicted = cosine(share * float(np.linalg.norm(start)), np.linalg.norm(weight, axis=1))
        cosine_error = max(cosine_error, abs(predicted - measured_cosine(weight)))
    return mean_error, cosine_error


def _sum_of_slopes(classes: int, seed: int) -> float:
    """norm(sum_k dL/dw_k) over the norm of all of them, at a random network."""
    x, labels = digits(range(classes), test=False)
    net = _start(x.shape[1], 32, classes, np.random.default_rng(seed))
    slope = _slopes(net, x, labels)[2]
    return float(np.linalg.norm(slope.sum(axis=0)) / np.linalg.norm(slope))


def _drift(net: Network) -> tuple[float, float]:
    """How far mean w moved, over its norm at the start; how many times the weights' distance to their mean grew."""
    first, last = net.path[0], net.path[-1]
    moved = np.linalg.norm((last - first).mean(axis=0)) / np.linalg.norm(first.mean(axis=0))
    apart = [np.linalg.norm(weight - weight.mean(axis=0)) for weight in (first, last)]
    return float(moved), float(apart[1] / apart[0])
