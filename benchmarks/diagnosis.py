"""`diagnose` on wide features: 4,096 columns, as the classifiers of VGG and large transformers have them."""

from collections.abc import Iterator

import numpy as np

import softscope as sx
from benchmarks.measuring import Row, measure_child

WIDTH, CLASSES = 4096, 10
CPU_SECONDS, PEAK_MB = 60.0, 1_500.0


def run(quick: bool = False) -> Iterator[Row]:
    """CPU seconds and peak memory of one diagnosis in a process of its own, features and imports included."""
    train, others = (4_500, 100) if quick else (10_000, 2_000)
    ours, _ = measure_child("benchmarks.diagnosis:diagnose_wide", train, others)
    work = f"diagnose, {train:,} training rows, test and two OOD sets of {others:,}, H = {WIDTH:,}, K = {CLASSES}"
    yield Row(work, "-", ours, limit=CPU_SECONDS)
    yield Row("its peak memory, whole process", "-", ours, limit=PEAK_MB, by="peak_mb")


def diagnose_wide(train: int, others: int) -> float:
    """A diagnosis of made-up features after a ReLU; the AUROC of U_density on the nearer of two OOD sets."""
    weight = np.random.default_rng(0).normal(size=(CLASSES, WIDTH)).astype(np.float32) / 64
    near, far = (made(weight, others, seed, shift) for seed, shift in ((3, 0.003), (4, 0.01)))
    ood = {"near": near.array(), "far": far.array()}
    diagnosis = sx.diagnose(sx.Head(8 * weight), made(weight, train, 1), made(weight, others, 2), ood)
    return diagnosis.scores["near"]["density"].auroc.value


def made(weight: np.ndarray, rows: int, seed: int, shift: float = 0.0) -> sx.FeatureSet:
    """max(z, 0) of classes around their weight, made piece by piece so that nothing larger than the rows is held."""
    rng, labels = np.random.default_rng(seed), np.arange(rows) % CLASSES
    z = np.empty((rows, WIDTH), np.float32)
    for start in range(0, rows, 500):
        part = labels[start : start + 500]
        noise = 0.02 * rng.normal(size=(len(part), WIDTH))
        z[start : start + 500] = np.maximum(1.5 * weight[part] + noise + shift, 0)
    return sx.FeatureSet(z, labels)
