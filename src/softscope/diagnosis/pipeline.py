"""`diagnose`: the modules of this room in their order. It computes nothing itself."""

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import count
from typing import Any

from ..engine import limited_threads
from ..errors import SoftscopeError
from ..estimators import Estimator
from ..features import FeatureSet
from ..head import Head
from ..images import PROBES
from ..progress import Progress, silent
from ..provenance import Stopwatch, cores
from .advice import Facts, advise
from .causes import MeasuredSets, measure
from .details import (
    FALSE_ALARMS,
    by_class,
    curves,
    histogram,
    inputs_of,
    map_layer,
    mistakes_of,
    other_cosines,
    reliability,
    risk_curve,
    threshold_table,
    uncertainties,
)
from .held_out import LEAST_CLASSES, SPLITS, held_out_sets
from .model import Diagnosis, Finding, Structure
from .selfcheck import check_inputs, self_check
from .sets import COMPARED, REQUIRED, Observed, Scored, chosen_estimators, labels_of, observe, score_set
from .structure import find_structure, nearest_means

BOOTSTRAPS = 500
_SETS_AT_ONCE = 4

Step = Callable[[str], None]
"""Is told what comes next."""


def diagnose(
    head: Any,
    train: Any,
    test: Any,
    ood: Mapping[str, Any] | None = None,
    *,
    probes: Mapping[str, Any] | None = None,
    seed: int = 0,
    bootstraps: int = BOOTSTRAPS,
    estimators: Sequence[str | Estimator] = COMPARED,
    progress: Progress = silent,
    keep_scores: bool = False,
    **model_options: Any,
) -> Diagnosis:
    """Whether the head's softmax confidence tells `ood` from `test` inputs, and where it doesn't, why.

    `head` is a Head, and each set whatever `FeatureSet.of` takes: a FeatureSet, an array, a path, or a pair (features,
    labels). Or `head` is a model, and each set data for it, as in `softscope.extract`: a loader, arrays, a folder of
    images; `model_options` go there (weights, classes, processor, size, mean, limit ...). `train` needs labels; with
    labels `test` tells more. `estimators` are names, also with parameters, "density(components=100)", or instances;
    U_max, U_entropy, U_cool and U_density are always among them. The same arguments give the same diagnosis but for
    `provenance`. `keep_scores` keeps the score of every row in `Diagnosis.row_scores`.

    Without `ood`, stand-ins take its place: classes that the head is fitted again without, and `probes`, features of
    images that no classifier should know; of a model with a path to test images these are made here.

    >>> import softscope as sx
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> x, y = load_iris(return_X_y=True)
    >>> train, test = (x[:100:2], y[:100:2]), (x[1:100:2], y[1:100:2])
    >>> diagnosis = sx.diagnose(LogisticRegression().fit(*train), train, test, {"virginica": x[100:]})
    >>> diagnosis.test.rows, diagnosis.ood["virginica"].rows
    (50, 50)
    >>> diagnosis.causes["virginica"].overlap.value <= 1
    True
    """
    if ood is not None and not isinstance(ood, Mapping):
        raise SoftscopeError(f"ood: expected sets by name, found {type(ood).__name__}", "Give ood={'name': data}")
    if ood and probes:
        raise SoftscopeError("probes: they stand in for OOD data, but an OOD set was given", "Give one or the other")
    if not isinstance(head, Head):
        head, train, test, ood, probes = _extracted(head, train, test, ood or {}, probes or {}, model_options)
    elif model_options:
        raise SoftscopeError(
            f"{', '.join(model_options)}: options of a model, but a Head and features were given", "Leave it out"
        )
    # Loaded before threads are limited, which would else last beyond this call.
    import sklearn.ensemble
    import sklearn.linear_model  # noqa: F401

    watch = Stopwatch()
    if bootstraps < 20 or not 0 <= seed < 2**32:
        raise SoftscopeError(
            f"bootstraps {bootstraps}, seed {seed}", "Give at least 20 bootstraps and a seed from 0 to 4294967295"
        )
    # One thread an operation: the same numbers whatever the machine, and no factorisation of a small matrix that takes
    # a hundred times as long because its threads wait for each other on a busy one.
    with limited_threads(1):
        bare, scored = _diagnose(head, train, test, ood or {}, probes or {}, seed, bootstraps, estimators, progress)
    diagnosis = replace(bare, provenance=watch.provenance(seed=seed))
    return diagnosis.with_row_scores({name: own.values for name, own in scored.items()}) if keep_scores else diagnosis


def _extracted(
    model: Any, train: Any, test: Any, ood: Mapping[str, Any], probes: Mapping[str, Any], options: Mapping[str, Any]
) -> tuple[Head, FeatureSet, FeatureSet, dict[str, FeatureSet], dict[str, FeatureSet]]:
    """Head and features of a model; where neither OOD data nor probes are given, probes are made of test images."""
    from ..images import ImageSource, open_images, probe_images
    from ..models import extract_sets

    if not ood and not probes and isinstance(test, str | os.PathLike | ImageSource):
        test = test if isinstance(test, ImageSource) else open_images(test, "test")
        probes = probe_images(test)
    others = {"ood": ood, "probe": probes}
    named = {f"{role}/{name}": data for role, sets in others.items() for name, data in sets.items()}
    head, features = extract_sets(model, {"train": train, "test": test, **named}, **options)
    given, made = ({name: features[f"{role}/{name}"] for name in sets} for role, sets in others.items())
    return head, features["train"], features["test"], given, made


def _diagnose(
    head: Head,
    train: Any,
    test: Any,
    ood: Mapping[str, Any],
    probes: Mapping[str, Any],
    seed: int,
    bootstraps: int,
    estimators: Sequence[str | Estimator],
    progress: Progress,
) -> tuple[Diagnosis, dict[str, Scored]]:
    sets = {"train": train, "test": test, **ood, **probes}
    given = {name: FeatureSet.of(features, name) for name, features in sets.items()}
    others = {name: given[name] for name in (*ood, *probes)}
    check_inputs(head, given["train"], given["test"], others)
    chosen = chosen_estimators(estimators, head.n_features)
    splits = 0 if ood else SPLITS
    total, begun = len(given) + len(chosen) + 2 * (len(others) + splits) + 5, count()

    def steps(what: str) -> None:
        progress(what, min(next(begun), total), total)

    seen = _observed(head, given, chosen, steps)
    steps("self-check")
    trained, moments = seen["train"], seen["train"].moments
    assert moments is not None
    nearest = nearest_means(trained.features, moments)
    findings = self_check(head, trained, seen["test"], {name: seen[name] for name in others}, moments, nearest)
    findings += _fit(head, trained, chosen, steps)
    scored = _scored(seen, chosen, steps)
    others_scored = {name: scored[name] for name in others}
    stand_ins = {name: PROBES.get(name, (name,))[0] for name in probes}
    if not ood:
        for name, left_out, held_out in held_out_sets(head, trained, scored["test"], chosen, seed, steps):
            others_scored[name], stand_ins[name] = held_out, f"test inputs of the classes {left_out}"
    if not others_scored:
        raise SoftscopeError(
            "no OOD set was given, and nothing can stand in for it",
            f"Give ood={{'name': features}}, or test labels of at least {LEAST_CLASSES} classes",
        )
    # All rows are scored; of what was fitted only the density is asked again.
    chosen = {name: item if name == "density" else item.clone() for name, item in chosen.items()}
    measured = measure(scored["test"], others_scored, seed, bootstraps, steps)
    settings = {
        "head": head.name,
        "seed": seed,
        "bootstraps": bootstraps,
        "false_alarms": FALSE_ALARMS,
        "estimators": {name: repr(item) for name, item in chosen.items()},
    }
    steps("structure")
    structure = find_structure(head, trained, moments, nearest, chosen["density"], seed)
    steps("pictures")
    diagnosis = _assemble(head, trained, chosen, measured, findings, structure, settings, stand_ins)
    steps("done")
    return diagnosis, scored


def _observed(
    head: Head, given: Mapping[str, FeatureSet], chosen: Mapping[str, Estimator], steps: Step
) -> dict[str, Observed]:
    """Every set as the head sees it, training with its moments."""
    seen = {}
    for name, features in given.items():
        steps(f"reading {name}")
        seen[name] = observe(
            head,
            features,
            labelled=name in ("train", "test"),
            estimators={"entropy": chosen["entropy"]} if name == "train" else chosen,
            moments=name == "train",
            sharing=1 if name == "train" else len(given) - 1,
        )
    return seen


def _fit(head: Head, train: Observed, chosen: Mapping[str, Estimator], steps: Step) -> tuple[Finding, ...]:
    """Fit every estimator; where one had to be fitted in another way than asked for, a note says so."""
    notes = []
    for name, item in chosen.items():
        steps(f"fitting {name}")
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always", UserWarning)
            item.fit(head, train.features, moments=train.moments)
        for warning in caught:
            what, _, instead = str(warning.message).partition("; ")
            if what.startswith(f"{name}: "):
                notes.append(Finding("note", what, instead[:1].upper() + instead[1:]))
            else:
                warnings.warn_explicit(warning.message, warning.category, warning.filename, warning.lineno)
    return tuple(notes)


def _scored(seen: Mapping[str, Observed], chosen: Mapping[str, Estimator], steps: Step) -> dict[str, Scored]:
    """Every set but training, a few at a time: each on a single thread, and with its own temporaries."""
    with ThreadPoolExecutor(min(cores(), _SETS_AT_ONCE)) as pool:
        tasks = {name: pool.submit(score_set, own, chosen) for name, own in seen.items() if name != "train"}
        scored = {}
        try:
            for name, task in tasks.items():
                steps(f"scoring {name}")
                scored[name] = task.result()
        finally:  # after an error or Ctrl-C nobody waits for sets that have not begun
            for task in tasks.values():
                task.cancel()
    return scored


def _assemble(
    head: Head,
    train: Observed,
    chosen: Mapping[str, Estimator],
    measured: MeasuredSets,
    findings: tuple[Finding, ...],
    structure: Structure,
    settings: dict[str, Any],
    stand_ins: Mapping[str, str],
) -> Diagnosis:
    test, ood = measured.test, {name: pair.ood for name, pair in measured.pairs.items()}
    seen = {"train": train, "test": test.seen} | {name: scored.seen for name, scored in ood.items()}
    labels, seed = labels_of(chosen), int(settings["seed"])
    test_summary = test.seen.summary("test", "test")
    summaries = {name: scored.seen.summary(name, "ood", stand_ins.get(name, "")) for name, scored in ood.items()}
    facts = Facts(
        labels, test_summary, summaries, measured.scores, measured.mean_scores, measured.causes, measured.mean_causes,
        measured.mistakes, findings,
    )  # fmt: skip
    advice = advise(facts)
    shown = list(dict.fromkeys([*REQUIRED, advice.recommended or "max"]))
    offered = list(dict.fromkeys([*shown, *chosen]))
    return Diagnosis(
        classes=tuple(head.class_name(number) for number in range(head.n_classes)),
        estimators=labels,
        train=train.summary("train", "train"),
        test=test_summary,
        ood=summaries,
        scores=measured.scores,
        mean_scores=measured.mean_scores,
        causes=measured.causes,
        mean_causes=measured.mean_causes,
        ambiguity_missing=measured.ambiguity_missing,
        ceilings=measured.ceilings,
        mistakes=measured.mistakes,
        inputs={
            name: inputs_of(test, scored, measured.ceiling_scores[name], head.n_classes, offered)
            for name, scored in ood.items()
        },
        test_mistakes=mistakes_of(test, offered),
        strength=histogram({name: one.norms for name, one in seen.items()}),
        familiarity=histogram({name: one.familiarity for name, one in seen.items()}),
        other_cosines=other_cosines(seen),
        uncertainty=uncertainties(test, ood),
        curves={name: curves(pair, ("plain-max", *shown)) for name, pair in measured.pairs.items()},
        thresholds={name: threshold_table(name, test, ood) for name in offered},
        map=map_layer(head, {name: one.features for name, one in seen.items()}, seed),
        structure=structure,
        self_check=findings,
        advice=advice,
        settings=settings,
        provenance={},
        reliability=reliability(test, seed),
        risk=risk_curve(test),
        by_class=by_class(test, ood, head.n_classes, advice.recommended),
    )
