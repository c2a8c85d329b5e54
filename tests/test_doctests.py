"""The examples in docstrings run, and every public name has one."""

import doctest
import importlib
from pathlib import Path

import pytest

import softscope

SOURCE = Path(softscope.__file__).parent
MODULES = sorted(path for path in SOURCE.rglob("*.py") if ">>> " in path.read_text(encoding="utf-8"))
TORCH = ("paper.nets",)


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_examples_print_what_they_say(path):
    words = path.relative_to(SOURCE.parent).with_suffix("").parts
    name = ".".join(words).removesuffix(".__init__")
    if name.startswith(tuple(f"softscope.{room}" for room in TORCH)):
        pytest.importorskip("torch")
    outcome = doctest.testmod(importlib.import_module(name))
    assert outcome.attempted
    assert not outcome.failed


@pytest.mark.parametrize("name", [name for name in softscope.__all__ if not name.startswith("_")])
def test_a_public_name_has_an_example(name):
    assert ">>> " in (getattr(softscope, name).__doc__ or "")


ROOMS = (
    "estimators", "features", "geometry", "guard", "head", "images", "metrics", "mixture", "models", "diagnosis",
    "reporting", "tuning", "scoring", "paper.claims", "paper.datasets", "paper.filter", "paper.nets", "paper.training",
)  # fmt: skip


@pytest.mark.parametrize("room", ROOMS)
def test_every_name_that_a_room_offers_exists(room):
    module = importlib.import_module(f"softscope.{room}")
    for name in module.__all__:
        assert hasattr(module, name), f"{room}.{name}"
