"""How well the uncertainties of a trained network tell test inputs from an OOD set: the numbers of every experiment.

Percentages are of AUROC with OOD as the positive class. Causes as in the paper: with B, C, D the AUROC of U_entropy as
float32 prints it, of U_cool and of U_density, cause 1 = C - B, cause 2 = D - C, cause 3 = 100 - D.
"""

from functools import partial
from typing import Any

import numpy as np

from ...estimators import estimator, scores
from ...features import FeatureSet
from ...head import Head
from ...metrics import auroc, auroc_difference
from ...runs import Draft, StepResult
from .networks import TrainedNetwork

OF_LOGITS = ("max", "entropy", "cool")
FITTED = ("density", "mental", "norm", "familiarity")
EPSILON = 0.05
VERSION = 2  # of what `detect` gives: raised when it gives more, so that stores compute it again
PLAIN = {"plain-max": "max", "plain-entropy": "entropy"}

Scores = dict[str, Any]


def detection(network: TrainedNetwork, ood: str) -> StepResult:
    """The step whose `json()` has `accuracy`, `cross_entropy`, `auroc` by estimator, `causes`, and the claims' rows."""
    known = {"features": network.made, "ood": ood, "version": VERSION}
    return network.run.step("detect", partial(_detect, network, ood), inputs=known)


def _detect(network: TrainedNetwork, ood: str, draft: Draft) -> None:
    found = detect(network.head, network.train, network.test, network.ood[ood])
    known = {name: network.numbers[name] for name in ("accuracy", "cross_entropy")}
    draft.json({"ood": ood, **known, **found})


def detect(head: Head, train: FeatureSet, test: FeatureSet, ood: FeatureSet) -> dict[str, Any]:
    """AUROCs in percent and what else the experiments and claims read, from features alone."""
    fitted = {name: estimator(name).fit(head, train) for name in FITTED}

    def score(features: FeatureSet) -> Scores:
        printed = scores(head, features, tuple(PLAIN.values()), plain=True)
        return {
            **{name: printed[of].astype(np.float64) for name, of in PLAIN.items()},
            **scores(head, features, OF_LOGITS),
            **{name: item.uncertainty(features) for name, item in fitted.items()},
        }

    low, high, known = score(test), score(ood), score(train)
    area = {name: 100 * auroc(low[name], high[name]).value for name in low}
    b, c, d = (area[name] for name in ("plain-entropy", "cool", "density"))
    return {
        "auroc": area,
        "causes": {"saturation": c - b, "extrapolation": d - c, "overlap": 100 - d},
        "more_confident": 100 * float(np.mean(high["entropy"] < np.median(known["entropy"]))),
        "norm_ratio": float(np.median(head.norms(ood.array())) / np.median(head.norms(train.array()))),
        "claims": {**evidence(low, high), "T21": flagged(known, high)},
    }


def evidence(low: Scores, high: Scores) -> dict[str, dict[str, float]]:
    """The rows that claims about trained networks read (T19, T23, T24, T26)."""
    from scipy.stats import spearmanr

    pair = [low["entropy"], high["entropy"], low["max"], high["max"]]
    difference = auroc_difference(*pair).difference
    both = {name: np.concatenate([low[name], high[name]]) for name in ("mental", "max", "plain-max")}
    return {
        "T19": {"spearman": float(spearmanr(both["mental"], both["max"]).statistic)},
        "T23": {"difference": difference.value, "low": difference.low, "high": difference.high},
        "T24": {"equal_share": 1 - len(np.unique(both["plain-max"])) / len(both["plain-max"])},
        "T26": {
            "entropy_in": float(np.mean(low["plain-entropy"])),
            "entropy_out": float(np.mean(high["plain-entropy"])),
        },
    }


def flagged(known: Scores, high: Scores) -> dict[str, float]:
    """Shares of OOD inputs that U_entropy and U_density flag, each above its 95 % quantile on training data (T4)."""
    softmax, density = (high[name] > np.quantile(known[name], 1 - EPSILON) for name in ("entropy", "density"))
    return {
        "both": float(np.mean(softmax & density)),
        "softmax_only": float(np.mean(softmax & ~density)),
        "density_only": float(np.mean(~softmax & density)),
        "neither": float(np.mean(~softmax & ~density)),
    }


def claim_tables(found: list[tuple[str, dict[str, Any]]], claims: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """`Result.tables` for `claims`, from the (network, detection) pairs: one row each, named by its network."""
    return {claim: [{"network": name, "ood": d["ood"], **d["claims"][claim]} for name, d in found] for claim in claims}
