"""How well the uncertainties of a trained network tell test inputs from OOD inputs: trained, extracted, judged once.

Two depths. `detection` gives the AUROCs of one OOD set on all rows, for the many small networks. `judged` keeps a whole
diagnosis against every OOD set, on balanced pairs: all rows of the smaller side and as many of the larger one, drawn by
the run's seed. Both read what the claims need from the very scores that gave the AUROCs. AUROCs are in percent, OOD is
the positive class. Causes as in the paper, with B, C, D the AUROC of U_entropy as float32 prints it, of U_cool and of
U_density: 1 = C - B, 2 = D - C, 3 = 100 - D.
"""

import hashlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...diagnosis import Diagnosis, cause_sizes, diagnose
from ...estimators import Density, Estimator, estimator, scores
from ...estimators.softmax import entropy, log_entropy
from ...features import FeatureSet
from ...geometry import structure_report, valid_threshold
from ...head import Head
from ...metrics import auroc, auroc_difference, balanced
from ...runs import Draft, StepResult, Store
from .judgement import Detected, Judged
from .networks import NetworkPlan, TrainedNetwork, trained, wall_time

OF_LOGITS = ("max", "entropy", "cool")
FITTED = ("density", "mental", "norm", "familiarity")
PLAIN = {"plain-max": "max", "plain-entropy": "entropy"}
EPSILON = 0.05
#: The scores of a judged network: fixed, as what the store and results/X9/networks keep was judged with these.
DEFAULT = (
    *("max", "entropy", "cool", "density", "mental", "norm", "familiarity", "margin", "max-logit", "energy"),
    *("mahalanobis", "relative-mahalanobis", "knn", "vim", "gen"),
)

Scores = Mapping[str, NDArray[np.float64]]


def source(*parts: Callable[..., Any]) -> str:
    """sha256 of the source of the functions behind a step, for its inputs: other code, another step."""
    return hashlib.sha256("".join(inspect.getsource(part) for part in parts).encode()).hexdigest()[:16]


def detected(store: Store, plan: NetworkPlan, **further: Callable[[TrainedNetwork, Draft], None]) -> Detected:
    """The network that `plan` describes, measured against its only OOD set; `further` steps measure more of it."""
    network = trained(store, plan)
    steps = [detection(network, plan.ood[0].name)]
    for name, measure in further.items():
        known = {"features": network.made, "source": source(measure)}
        steps.append(network.run.step(name, partial(measure, network), inputs=known))
    return as_detected(network, {name: value for step in steps for name, value in step.json().items()}, steps)


def as_detected(network: TrainedNetwork, numbers: dict[str, Any], steps: Sequence[StepResult]) -> Detected:
    """The network with the `numbers` that `steps` measured of it."""
    seconds = network.seconds + sum(map(wall_time, steps))
    return Detected(network.plan, {"numbers": numbers, "seconds": seconds, "subsets": network.subsets}, network)


def detection(network: TrainedNetwork, ood: str) -> StepResult:
    """The step whose `json()` has `accuracy`, `cross_entropy`, `auroc` by estimator, `causes`, and the claims' rows."""
    known = {"features": network.made, "ood": ood, "source": source(detect, evidence, flagged, cause_sizes)}
    return network.run.step("detect", partial(_detect, network, ood), inputs=known)


def _detect(network: TrainedNetwork, ood: str, draft: Draft) -> None:
    measured = detect(network.head, network.train, network.test, network.ood[ood])
    known = {name: network.numbers[name] for name in ("accuracy", "cross_entropy")}
    draft.json({"ood": ood, **known, **measured})


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

    low, high = score(test), score(ood)
    area = {name: 100 * auroc(low[name], high[name]).value for name in low}
    middle = np.median(scores(head, train, ("entropy",))["entropy"])
    return {
        "auroc": area,
        "causes": cause_sizes(area["plain-entropy"], area["cool"], area["density"], 100),
        "more_confident": 100 * float(np.mean(high["entropy"] < middle)),
        "norm_ratio": float(np.median(head.norms(ood.array())) / np.median(head.norms(train.array()))),
        "claims": {**evidence(low, high), "T21": flagged(low, high)},
    }


def evidence(low: Scores, high: Scores) -> dict[str, dict[str, float]]:
    """The rows that claims about trained networks read (T19, T23, T24, T26), from scores of test and OOD inputs."""
    from scipy.stats import spearmanr

    difference = auroc_difference(low["entropy"], high["entropy"], low["max"], high["max"]).difference
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


def flagged(low: Scores, high: Scores) -> dict[str, Any]:
    """Shares of OOD inputs that U_entropy and U_density flag (T21), each above T4's threshold.

    The threshold is that of test inputs, which no density was fitted on: of training inputs, a density that follows
    them closely would flag fewer than epsilon of fresh ones would be.
    """
    softmax, density = (high[name] > valid_threshold(low[name], EPSILON) for name in ("entropy", "density"))
    return {
        "both": float(np.mean(softmax & density)),
        "softmax_only": float(np.mean(softmax & ~density)),
        "density_only": float(np.mean(~softmax & density)),
        "neither": float(np.mean(~softmax & ~density)),
        "thresholds": "held out",
    }


def claim_tables(named: list[tuple[str, dict[str, Any]]], claims: tuple[str, ...]) -> dict[str, list[dict[str, Any]]]:
    """`Result.tables` for `claims`, from the (network, detection) pairs: one row each, named by its network."""
    return {claim: [{"network": name, "ood": d["ood"], **d["claims"][claim]} for name, d in named] for claim in claims}


def judged(
    store: Store,
    plan: NetworkPlan,
    network_of: Callable[[Store, Any], TrainedNetwork] = trained,
    densities: "Callable[[TrainedNetwork], Mapping[str, Density]] | None" = None,
    **options: Any,
) -> Judged:
    """The network that `plan` describes, trained and judged, or read where the store has it.

    `densities` names mixtures to fit: "density" is that of the diagnosis, the others are scored beside it. `options`
    go to `diagnose`.
    """
    network = network_of(store, plan)
    parts = (_judge, evidence, flagged, assumptions, *((densities,) if densities else ()))
    known = {"features": network.made, "source": source(*parts), "options": options}
    step = network.run.step("judge", partial(_judge, network, densities, options), inputs=known)
    diagnosis = Diagnosis.load(step.path("diagnosis.json")).slim().to_dict()
    facts = {
        "classes": network.head.n_classes,
        "images": len(network.train),
        "subsets": network.subsets,
        "training": wall_time(network.fit),
        "seconds": network.seconds + wall_time(step),
    }
    record = {"facts": facts, "numbers": step.json(), "course": [], "diagnosis": diagnosis}
    return Judged(network.plan, record, network)


def _judge(
    network: TrainedNetwork,
    densities: "Callable[[TrainedNetwork], Mapping[str, Density]] | None",
    options: dict[str, Any],
    draft: Draft,
) -> None:
    seed, head = network.plan.training.seed, network.head
    asked = dict(densities(network)) if densities else {}
    wanted: tuple[str | Estimator, ...] = (*DEFAULT, *([asked.pop("density")] if "density" in asked else []))
    diagnosis = diagnose(
        head, network.train, network.test, network.ood, seed=seed, estimators=wanted, keep_scores=True, **options
    )
    diagnosis.save(draft.path("diagnosis.json"))
    kept = diagnosis.row_scores
    fitted = {name: density.fit(head, network.train) for name, density in asked.items()}
    beside = {name: density.uncertainty(network.test) for name, density in fitted.items()}
    claims, areas = {}, {name: dict[str, float]() for name in fitted}
    for name, features in network.ood.items():
        rows = balanced(len(network.test), len(features), seed)
        low, high = ({key: own[part] for key, own in kept[at].items()} for at, part in zip(("test", name), rows))
        claims[name] = {**evidence(low, high), "T21": flagged(kept["test"], kept[name])}
        for key, density in fitted.items():
            areas[key][name] = 100 * auroc(beside[key][rows[0]], density.uncertainty(features)[rows[1]]).value
    sets = {"train": network.train, "test": network.test, **network.ood}
    known = {"accuracy": network.numbers["accuracy"], "skipped": network.numbers.get("skipped", [])}
    draft.json({**known, "claims": claims, "mental": assumptions(head, sets), "densities": areas})


def assumptions(head: Head, sets: Mapping[str, FeatureSet]) -> dict[str, Any]:
    """How far the two assumptions of the mental model (E5, T19) hold.

    1: the head has the optimal structure (equal norms, no bias, cosines -1/(K-1) between weights).
    2: z has the cosine -1/(K-1) to every weight but the nearest. With 1 it implies a largest cosine of 1.

    head  norm_spread      std of norm(w) / mean
          bias_share       mean abs(b) / mean norm(w)
          cosine_deviation root mean square of cos(w_i, w_j) + 1/(K-1)
          distance, centred_distance   to the optimal structure; None where there is none (K > H + 1)
    sets  largest          mean of max_i cos(w_i, z)
          others_deviation root mean square of the other cosines + 1/(K-1)
    """
    report = structure_report(head)
    optimum = report.optimal_cosine
    return {
        "head": {
            "norm_spread": report.norms.std / report.norms.mean,
            "bias_share": report.bias_to_norm,
            "cosine_deviation": float(np.hypot(report.cosines.std, report.cosines.mean - optimum)),
            "distance": report.distance,
            "centred_distance": report.centred_distance,
        },
        "sets": {name: _cosines(head, features, optimum) for name, features in sets.items()},
    }


def _cosines(head: Head, features: FeatureSet, optimum: float) -> dict[str, float]:
    rows, largest, others = 0, 0.0, 0.0
    for z in features.chunks():
        cosines = head.cosines(z)
        top = cosines.max(axis=1)
        rows += len(z)
        largest += float(top.sum())
        others += float(((cosines - optimum) ** 2).sum() - ((top - optimum) ** 2).sum())
    count = rows * (head.n_classes - 1)
    return {"largest": largest / rows, "others_deviation": float(np.sqrt(max(others, 0.0) / count))}


def together(networks: Sequence[TrainedNetwork], ood: str) -> dict[str, Any]:
    """What T26 reads of networks that differ in nothing but their seed, in nats, and AUROCs in percent.

    entropy_*   mean over networks and inputs of the entropy of a single network's softmax
    ensemble_*  mean over inputs of the entropy of the average softmax; the rest of it is disagreement
    rises       of each network, mean entropy on OOD less that on test inputs
    auroc_*     of U_entropy: mean over single networks, and of the average softmax
    """
    low = [network.head.logits(network.test.array()) for network in networks]
    high = [network.head.logits(network.ood[ood].array()) for network in networks]
    single = [auroc(log_entropy(a), log_entropy(b)).value for a, b in zip(low, high)]
    means = average(low), average(high)
    inside, outside = ([float(entropy(logits).mean()) for logits in side] for side in (low, high))
    return {
        "networks": len(networks),
        "entropy_in": float(np.mean(inside)),
        "entropy_out": float(np.mean(outside)),
        "rises": [b - a for a, b in zip(inside, outside)],
        "ensemble_in": float(entropy(means[0]).mean()),
        "ensemble_out": float(entropy(means[1]).mean()),
        "auroc_single": 100 * float(np.mean(single)),
        "auroc_ensemble": 100 * auroc(*(log_entropy(mean) for mean in means)).value,
    }


def average(logits: Sequence[NDArray]) -> Floats:
    """log of the mean softmax of several networks, from their logits [N, K]: again logits, of the ensemble."""
    total: Floats | None = None
    for own in logits:
        exact = own.astype(np.float64)
        exact -= np.logaddexp.reduce(exact, axis=1, keepdims=True)
        total = exact if total is None else np.logaddexp(total, exact)
    assert total is not None
    mean: Floats = total - np.log(len(logits))
    return mean
