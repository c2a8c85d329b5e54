"""A diagnosis of 4,096 features stays below 1.5 GB, the peak resident set of a process of its own."""

import subprocess
import sys
from pathlib import Path

import pytest

BOUND_MB = 1_500

# Rows are made in pieces, so that the peak is that of the diagnosis. They are too few for relative Mahalanobis to trust
# their covariance: it keeps a shrunk one beside that of Mahalanobis, which takes the most memory.
CHILD = """
import numpy as np
import softscope as sx

WIDTH, CLASSES = 4096, 10
weight = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)).astype(np.float32) / 64

def made(rows, seed, shift=0.0):
    rng, labels = np.random.default_rng(seed), np.arange(rows) % CLASSES
    z = np.empty((rows, WIDTH), np.float32)
    for start in range(0, rows, 500):
        part = labels[start : start + 500]
        noise = 0.02 * rng.normal(size=(len(part), WIDTH))
        z[start : start + 500] = np.maximum(1.5 * weight[part] + noise + shift, 0)
    return sx.FeatureSet(z, labels)

ood = {name: sx.FeatureSet(made(300, seed, shift).array()) for name, seed, shift in (("a", 3, 0.01), ("b", 4, 0.003))}
found = sx.diagnose(sx.Head(8 * weight), made(5000, 1), made(300, 2), ood, bootstraps=20)
assert found.structure.features == WIDTH
assert found.scores["a"]["density"].auroc.value > 0.9
print(next(int(line.split()[1]) / 1e3 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc for the peak of memory")
def test_4096_features_take_less_than_one_and_a_half_gigabytes() -> None:
    done = subprocess.run([sys.executable, "-c", CHILD], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert float(done.stdout.split()[-1]) < BOUND_MB
