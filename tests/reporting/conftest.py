"""What the report's tests share: a small diagnosis, one of ten OOD sets with hostile names, and a browser."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
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
def found() -> Diagnosis:
    return example(rows=300, bootstraps=40)


@pytest.fixture(scope="session")
def hostile(found: Diagnosis) -> Diagnosis:
    """Ten OOD sets, and classes, files, warnings and advice, all with names that try to run."""
    tree = _renamed(found.to_dict(), list(found.ood), HOSTILE)
    for name in HOSTILE:
        tree["ood"][name] |= {"name": name, "file": f"/data/{name}.safetensors"}
    made = Diagnosis.from_dict(tree)
    advice = replace(made.advice, verdicts=dict.fromkeys(HOSTILE, "do not trust"), headline=f"Beware: {HOSTILE[0]}")
    return replace(
        made,
        classes=HOSTILE[: len(found.classes)],
        advice=advice,
        self_check=tuple(Finding("warning", name, name) for name in HOSTILE),
        provenance=found.provenance | {"command": f"softscope diagnose --ood {HOSTILE[1]}=x", HOSTILE[2]: HOSTILE[2]},
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


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium, without its sandbox, which containers don't allow."""
    sync_api = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium on this machine: install the package chromium to test the report in a browser")
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        yield running
        running.close()


class Visit:
    """A page, with what it logged, the dialogs it opened and the addresses it asked for."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.errors: list[str] = []
        self.requests: list[str] = []
        page.on("console", lambda message: self.errors.append(message.text))
        page.on("pageerror", lambda error: self.errors.append(str(error)))
        page.on("dialog", lambda dialog: (self.errors.append(f"dialog {dialog.message}"), dialog.dismiss()))
        page.on("request", lambda request: self.requests.append(request.url))


@pytest.fixture
def visit(browser: Any) -> Iterator[Callable[..., Visit]]:
    """Open a file in a fresh context, by default a laptop's screen in light colours."""
    contexts = []

    def open_(path: Path, width: int = 1280, **options: Any) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": 900}, **options)
        contexts.append(context)
        visited = Visit(context.new_page())
        visited.page.goto(path.as_uri())
        return visited

    yield open_
    for context in contexts:
        context.close()
