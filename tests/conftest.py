"""What tests share: deterministic randomness, a small labelled feature set with its head, and hypothesis' settings."""

import os

os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # idle threads must not spin on cores that other workers need

import numpy as np
import pytest
from hypothesis import HealthCheck, settings

from softscope.features import FeatureSet
from softscope.head import Head

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
