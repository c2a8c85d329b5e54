"""A guard or a monitor's state as one safetensors file: arrays and JSON, nothing to execute, under one sha256.

Any changed byte is noticed (`files.read_signed`).
"""

import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..arrays import Floats
from ..canonical import content_digest, parse_json, plain
from ..errors import SoftscopeError
from ..estimators import ESTIMATORS, estimator, estimator_class
from ..files import first_line, safetensors_header
from ..files import read_signed as read_unchanged
from ..files import write_signed as write_digested
from ..head import Head
from .conformal import Calibration, Promise
from .guard import Guard
from .judging import finite_scores

# Version 2 added confidence, the predicted classes of the calibration rows and the parent of a recalibrated guard.
FORMAT, VERSION, READABLE = "softscope.guard", "2", ("1", "2")
# Far above what another machine's rounding does to a score, far below what a changed formula does.
_PROBE_TOLERANCE = 1e-4
# The probes are calibration rows, evenly spaced. So far from the calibration scores lie 16 of them by chance once in
# 600,000 guards (Kolmogorov).
_PROBE_DISTANCE = 0.6
_STATE = "state."
_MADE_BY = {
    FORMAT: "Make one with Guard.fit(...).save(path) or `softscope guard fit`",
    "softscope.monitor": "Make one with Monitor.save(path) or `softscope watch --state`",
}


def save_guard(guard: Guard, path: str | os.PathLike[str]) -> None:
    """Write `guard` to `path`, atomically."""
    write_signed(path, FORMAT, VERSION, *contents(guard))


def load_guard(path: str | os.PathLike[str]) -> Guard:
    """Read the guard in `path`, whole and unchanged, or raise a SoftscopeError."""
    tensors, words = read_signed(path, FORMAT, READABLE, "a guard")
    try:
        with np.errstate(all="ignore"):
            guard = _rebuild(tensors, words)
            scores = finite_scores(guard.estimator, guard.probes[0])
    except Exception as error:  # hostile contents under a right digest meet errors of many types
        reason = error.what if isinstance(error, SoftscopeError) else first_line(error)
        raise SoftscopeError(f"{path}: a guard that can't work ({reason})", "Fit it again") from error
    _check_probes(scores, guard, path)
    return guard


def guard_sha256(guard: Guard) -> str:
    """The digest that is also in the guard's file."""
    tensors, words = contents(guard)
    return content_digest(tensors, _metadata(FORMAT, VERSION, words))


def write_signed(
    path: str | os.PathLike[str], kind: str, version: str, tensors: Mapping[str, NDArray], words: Mapping[str, Any]
) -> None:
    """Write tensors and plain values under one sha256, as a safetensors file, atomically."""
    write_digested(path, tensors, _metadata(kind, version, words))


def read_signed(
    path: str | os.PathLike[str], kind: str, versions: tuple[str, ...], called: str
) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """What `write_signed` wrote, unchanged; `called` says in errors what was expected."""
    _, metadata = safetensors_header(path)
    if metadata.get("format") != kind:
        raise SoftscopeError(f"{path}: is not {called}", _MADE_BY[kind])
    if metadata.get("version") not in versions:
        raise SoftscopeError(
            f"{path}: {called} of format {metadata.get('version')!r}, expected {versions[-1]!r}",
            "Install a newer softscope",
        )
    tensors, metadata = read_unchanged(path)
    try:
        words = parse_json(metadata[kind.rpartition(".")[2]])
        if not isinstance(words, dict):
            raise ValueError("settings without names")
    except (KeyError, ValueError) as error:
        raise SoftscopeError(f"{path}: {called} without its settings", "Make it again") from error
    return tensors, words


def _metadata(kind: str, version: str, words: Mapping[str, Any]) -> dict[str, str]:
    name = kind.rpartition(".")[2]
    return {"format": kind, "version": version, name: json.dumps(plain(words, name))}


def contents(guard: Guard) -> tuple[dict[str, NDArray], dict[str, Any]]:
    """All that makes up a guard: its tensors and its settings."""
    fitted, head = guard.estimator, guard.head
    name = fitted.info.name
    if name not in ESTIMATORS or estimator_class(name) is not type(fitted):
        raise SoftscopeError(
            f"{fitted!r} is not an estimator of softscope, so no other machine could load it",
            f"Use one of {', '.join(ESTIMATORS)}",
        )
    tensors = {"head.weight": head.weight, "head.bias": head.bias}
    tensors |= {f"{_STATE}{key}": np.asarray(value, order="C") for key, value in fitted.state().items()}
    tensors |= {"calibration.scores": guard.calibration.scores, "calibration.counts": guard.calibration.counts}
    if guard.calibration.classes is not None:
        tensors["calibration.classes"] = guard.calibration.classes
    tensors |= {"probe.z": np.ascontiguousarray(guard.probes[0]), "probe.scores": guard.probes[1]}
    words = {
        "estimator": name,
        "params": fitted.params(),
        "false_alarms": guard.false_alarms,
        "confidence": guard.promise.confidence,
        "per_class": guard.per_class,
        "classes": head.classes,
        "parent": guard.parent,
        "softscope": __version__,
    }
    return tensors, words


def _rebuild(tensors: dict[str, NDArray], words: Any) -> Guard:
    """The guard of `contents`; hostile values may raise anything."""
    head = Head(tensors["head.weight"], tensors.get("head.bias"), words["classes"])
    state = {name.removeprefix(_STATE): array for name, array in tensors.items() if name.startswith(_STATE)}
    fitted = estimator(words["estimator"], **words["params"]).restore(head, state)
    scores, counts = tensors["calibration.scores"], tensors["calibration.counts"]
    per_class = words["per_class"] is True
    calibration = Calibration(scores, counts, tensors.get("calibration.classes"))
    _check_calibration(calibration, head.n_classes if per_class else 1, head.n_classes)
    expected = tensors["probe.scores"]
    if expected.shape != tensors["probe.z"].shape[:1] or not np.isfinite(expected).all():
        raise ValueError("probe scores that don't fit the probe rows")
    promise = Promise(words["false_alarms"], words.get("confidence"))
    parent = words.get("parent")
    if not isinstance(parent, dict | None):
        raise ValueError("a parent that isn't described")
    return Guard(
        fitted, calibration, promise, per_class=per_class, probes=(tensors["probe.z"], expected), parent=parent
    )


def _check_calibration(calibration: Calibration, groups: int, n_classes: int) -> None:
    scores, counts, classes = calibration.scores, calibration.counts, calibration.classes
    sound = (
        scores.dtype == np.float64
        and counts.dtype == np.int64
        and scores.ndim == 1
        and counts.shape == (groups,)
        and counts.min() >= 0
        and counts.sum() == len(scores)
        and np.isfinite(scores).all()
        and all((np.diff(calibration.group(number)) >= 0).all() for number in range(len(counts)))
    )
    if not sound:
        raise ValueError("calibration scores that are not finite and ascending")
    if classes is not None and (
        classes.dtype != np.int64 or classes.shape != scores.shape or classes.min() < 0 or classes.max() >= n_classes
    ):
        raise ValueError("calibration classes that don't fit the scores")


def _check_probes(scores: Floats, guard: Guard, path: str | os.PathLike[str]) -> None:
    """Raise where the probe rows score differently here, or where the calibration scores can't be those they are of."""
    expected = guard.probes[1]
    if np.abs(scores - expected).max() > _PROBE_TOLERANCE * np.abs(expected).max():
        raise SoftscopeError(
            f"{path}: scores its own probe rows differently here, {scores[0]:.6g} instead of {expected[0]:.6g}",
            "Use the version of softscope that made it, or fit it again",
        )
    calibration, probes = np.sort(guard.calibration.scores), np.sort(expected)
    below = np.searchsorted(calibration, probes, side="left") / len(calibration)
    upto = np.searchsorted(calibration, probes, side="right") / len(calibration)
    steps = np.arange(len(probes) + 1) / len(probes)
    far = max(float((steps[1:] - upto).max()), float((below - steps[:-1]).max()))
    if far > _PROBE_DISTANCE or not np.isin(probes, calibration).all():
        raise SoftscopeError(
            f"{path}: its calibration scores are not those of its own sample rows", "Fit it again, or copy the original"
        )
