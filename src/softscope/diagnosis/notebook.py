"""A diagnosis in a notebook: its first screen as HTML, and pandas tables (pandas is not part of the core install).

Nothing here imports `Diagnosis`, which imports this: a diagnosis is whatever has its fields.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields
from html import escape
from importlib import import_module
from typing import Any

from ..errors import SoftscopeError
from ..metrics import Interval


def cell(diagnosis: Any) -> str:
    """Verdict, warnings, what confidence and the recommended score miss, and what to do, as HTML."""
    advice = diagnosis.advice
    best = advice.recommended
    names = ["plain-max", *([best] if best else [])]
    headings = ["confidence", *([diagnosis.estimators[best].symbol] if best else [])]
    rows = [
        [ood, *(f"{100 * scores[name].missed_at_95_accepted.value:.1f} %" for name in names)]
        for ood, scores in [*diagnosis.scores.items(), ("mean", diagnosis.mean_scores)]
    ]
    warnings = [f"{finding.what}. {finding.hint}." for finding in diagnosis.findings("warning")]
    parts = [f"<p><strong>{escape(advice.verdict.upper())}</strong> {escape(advice.headline)}</p>"]
    parts += [f"<p>Warning: {escape(text)}</p>" for text in warnings]
    parts += [f"<p>{escape(text)}</p>" for text in advice.texts("stand-ins")]
    parts += [
        "<table><thead><tr><th>missed at 5 % false alarms</th>",
        *(f"<th>{escape(words)}</th>" for words in headings),
        "</tr></thead><tbody>",
        *("<tr>" + "".join(f"<td>{escape(words)}</td>" for words in row) + "</tr>" for row in rows),
        "</tbody></table>",
    ]
    parts += [f"<p>What to do: {escape(text)}</p>" for text in ([] if warnings else advice.texts("estimator"))]
    return "".join(parts)


def frame(diagnosis: Any, what: str, outcomes: Mapping[str, str]) -> Any:
    """The DataFrame that `Diagnosis.to_frame` promises."""
    tables: dict[str, Callable[[Any], list[dict[str, Any]]]] = {
        "scores": _scores,
        "causes": _causes,
        "inputs": lambda one: _inputs(one, outcomes),
    }
    if what not in tables:
        raise SoftscopeError(f"to_frame({what!r}): unknown table", f"Use one of {', '.join(tables)}")
    try:
        pandas = import_module("pandas")
    except ImportError as error:
        raise SoftscopeError("to_frame needs pandas, which is not installed", "pip install pandas") from error
    return pandas.DataFrame(tables[what](diagnosis))


def _scores(diagnosis: Any) -> list[dict[str, Any]]:
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


def _causes(diagnosis: Any) -> list[dict[str, Any]]:
    rows = []
    for ood, causes in diagnosis.causes.items():
        for field in fields(causes):
            part: Interval | None = getattr(causes, field.name)
            if part is not None:
                rows.append({"ood": ood, "part": field.name, "value": part.value, "low": part.low, "high": part.high})
    return rows


def _inputs(diagnosis: Any, outcomes: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        {"ood": ood, "row": row, "code": code, "outcome": outcomes[code]}
        for ood, inputs in diagnosis.inputs.items()
        for row, code in enumerate(inputs.codes)
    ]


def _spread(name: str, interval: Interval) -> dict[str, float]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
