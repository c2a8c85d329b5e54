"""What tests share: deterministic randomness, a small labelled feature set with its head, a browser, settings."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads must not spin on cores that other workers need

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from softscope.features import FeatureSet
from softscope.head import Head

from .apart import pytest_runtest_logreport, pytest_runtest_protocol

__all__ = ["pytest_runtest_logreport", "pytest_runtest_protocol"]  # pytest finds hooks by their names

settings.register_profile(
    "softscope", deadline=None, max_examples=50, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
settings.load_profile("softscope")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def head() -> Head:
    """Four classes in 12 dimensions, with a bias and names."""
    rng = np.random.default_rng(1)
    weight, bias = rng.normal(size=(4, 12)).astype(np.float32), rng.normal(size=4).astype(np.float32)
    return Head(weight, bias, ["cat", "dog", "hen", "owl"])


@pytest.fixture
def train() -> FeatureSet:
    """400 rows of four well-separated Gaussian classes in 12 dimensions, in random order."""
    rng = np.random.default_rng(2)
    labels = rng.permutation(np.repeat(np.arange(4), 100))
    means = rng.normal(scale=3.0, size=(4, 12))
    return FeatureSet((means[labels] + rng.normal(size=(400, 12))).astype(np.float32), labels, name="train")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The system's Chromium, without its sandbox, which containers don't allow."""
    sync_api = pytest.importorskip("playwright.sync_api")
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if program is None:
        pytest.skip("no Chromium on this machine: install the package chromium to test pages in a browser")
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
