"""A diagnosis of 4,096 features stays below 1.5 GB, the peak resident set of a process of its own."""

from pathlib import Path

import pytest

from benchmarks.diagnosis import PEAK_MB
from benchmarks.measuring import measure_child


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc for the peak of memory")
def test_4096_features_take_less_than_one_and_a_half_gigabytes() -> None:
    """With rows so few that relative Mahalanobis keeps a shrunk covariance beside that of Mahalanobis."""
    cost, near = measure_child("benchmarks.diagnosis:diagnose_wide", 5_000, 300)
    assert near > 0.7
    assert cost.peak_mb is not None
    assert cost.peak_mb < PEAK_MB
