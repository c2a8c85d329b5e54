"""What the report's tests share: a small diagnosis, and one of ten OOD sets with hostile names."""

from dataclasses import replace
from typing import Any

import pytest

from softscope.diagnosis import Diagnosis
from softscope.diagnosis.model import Finding

from ..diagnosis.example import example

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(2)</script>",
    '"><img src=x onerror=alert(3)>',
    "<!--<script>",
    "{{ 7 * 7 }}{% raw %}",
    "' onmouseover='alert(4)",
    "]]></svg><svg onload=alert(5)>",
    "a-name-of-one-word-" * 6,
    "mean",
    "&lt;b&gt; & \u2028 é 数字",
)


@pytest.fixture(scope="session")
def diagnosis() -> Diagnosis:
    return example(rows=300, bootstraps=40)


@pytest.fixture(scope="session")
def hostile(diagnosis: Diagnosis) -> Diagnosis:
    """Ten OOD sets, and classes, files, warnings and advice, all with names that try to run."""
    tree = _renamed(diagnosis.to_dict(), list(diagnosis.ood), HOSTILE)
    for name in HOSTILE:
        tree["ood"][name] |= {"name": name, "file": f"/data/{name}.safetensors"}
    made = Diagnosis.from_dict(tree)
    advice = replace(made.advice, verdicts=dict.fromkeys(HOSTILE, "do not trust"), headline=f"Beware: {HOSTILE[0]}")
    return replace(
        made,
        classes=HOSTILE[: len(diagnosis.classes)],
        advice=advice,
        self_check=tuple(Finding("warning", name, name) for name in HOSTILE),
        provenance=diagnosis.provenance
        | {"command": f"softscope diagnose --ood {HOSTILE[1]}=x", HOSTILE[2]: HOSTILE[2]},
        settings={HOSTILE[0]: HOSTILE[1]},
    )


def _renamed(node: Any, old: list[str], new: tuple[str, ...]) -> Any:
    """Every dict keyed by OOD sets keyed by the new names instead, the old sets taken in turn."""
    if isinstance(node, list):
        return [_renamed(item, old, new) for item in node]
    if not isinstance(node, dict):
        return node
    out = {key: _renamed(value, old, new) for key, value in node.items() if key not in old}
    if old[0] in node:
        out |= {name: _renamed(node[old[place % len(old)]], old, new) for place, name in enumerate(new)}
    return out
