"""A diagnosis as pandas tables, for notebooks. pandas is imported when asked for, and no part of the core install."""

from dataclasses import fields
from importlib import import_module
from typing import Any

from ..errors import SoftscopeError
from ..metrics import Interval
from .model import OUTCOMES, Causes, Diagnosis


def frame(diagnosis: Diagnosis, what: str) -> Any:
    """The DataFrame that `Diagnosis.to_frame` promises."""
    tables = {"scores": _scores, "causes": _causes, "inputs": _inputs}
    if what not in tables:
        raise SoftscopeError(f"to_frame({what!r}): unknown table", f"Use one of {', '.join(tables)}")
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise SoftscopeError("to_frame needs pandas, which is not installed", "pip install pandas") from error
    return pandas.DataFrame(tables[what](diagnosis))


def _scores(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    return [
        {
            "ood": ood,
            "estimator": name,
            "symbol": diagnosis.estimators[name].symbol,
            **_spread("auroc", score.auroc),
            **_spread("missed", score.missed_at_95_accepted),
            **_spread("gain", score.gain),
        }
        for ood, scores in diagnosis.scores.items()
        for name, score in scores.items()
    ]


def _causes(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    rows = []
    for ood, causes in diagnosis.causes.items():
        for field in fields(Causes):
            part: Interval | None = getattr(causes, field.name)
            if part is not None:
                rows.append({"ood": ood, "part": field.name, "value": part.value, "low": part.low, "high": part.high})
    return rows


def _inputs(diagnosis: Diagnosis) -> list[dict[str, Any]]:
    return [
        {"ood": ood, "row": row, "code": code, "outcome": OUTCOMES[code]}
        for ood, inputs in diagnosis.inputs.items()
        for row, code in enumerate(inputs.codes)
    ]


def _spread(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
