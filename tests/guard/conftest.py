"""A small network's features: a head, training rows, calibration rows of the same law, and fresh rows."""

import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest

from softscope import cli
from softscope.features import FeatureSet
from softscope.guard import Guard
from softscope.head import Head

CLASSES, WIDTH = 4, 12


def draw(rng, rows):
    """Rows along the weights of the network below, cut off below 0 as by a ReLU, with the class of each."""
    weight = np.random.default_rng(4).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    labels = rng.integers(0, CLASSES, rows)
    return np.maximum(1.5 * weight[labels] + 0.5 * rng.normal(size=(rows, WIDTH)), 0).astype(np.float32), labels


@pytest.fixture(scope="session")
def world():
    rng = np.random.default_rng(5)
    weight = np.random.default_rng(4).normal(size=(CLASSES, WIDTH)).astype(np.float32)
    return SimpleNamespace(
        head=Head(weight, 0.1 * rng.normal(size=CLASSES), ["cat", "dog", "hen", "<owl>"]),
        train=FeatureSet(*draw(rng, 600), name="train"),
        calibration=FeatureSet(*draw(rng, 300), name="calibration"),
        fresh=draw(rng, 400)[0],
        strange=(8 * rng.normal(size=(100, WIDTH))).astype(np.float32),
    )


@pytest.fixture(scope="session")
def guard(world):
    """A density guard; tests don't change it."""
    return Guard.fit(world.head, world.train, world.calibration, "density")


@pytest.fixture
def softscope(monkeypatch, capsys):
    """Run a `softscope` line, with text on standard input where given: exit code, stdout and stderr."""
    monkeypatch.setenv("COLUMNS", "200")

    def call(line, stdin=None):
        monkeypatch.setattr(sys, "argv", ["softscope", *line.split()])
        if stdin is not None:
            monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        with pytest.raises(SystemExit) as caught:
            cli.main()
        written = capsys.readouterr()
        return caught.value.code or 0, written.out, written.err

    return call
