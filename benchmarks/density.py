"""`python -m benchmarks density`: EM and density scoring against scikit-learn and pytorch-ood, on real features.

The features are the final layer (H = 512) of a LeNet that the benchmark itself trains on Fashion-MNIST for an epoch;
they are kept in the user's cache folder for the next run. Everything is measured on one thread: threads of BLAS that
wait for each other count as CPU time, and on a busy machine that would be what is measured.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softscope.arrays import Floats, spans
from softscope.engine.threads import limited_threads
from softscope.features import FeatureSet
from softscope.mixture import gaussian
from softscope.mixture.full import FullComponents, FullStatistics
from softscope.mixture.gaussian import fit_mixture
from softscope.mixture.starts import start as found_start

from .measuring import Cost, Row, measure, measure_child

_RIDGE = 1e-5
_FIT_ITERATIONS = 10


def run(quick: bool = False) -> Iterator[Row]:
    """The table of the numeric core: iterations, a whole fit, overlap, scoring; quick takes 3,000 rows and H = 64."""
    import scipy.linalg  # noqa: F401  its BLAS must be loaded for the limit to reach it

    with limited_threads(1):
        yield from _rows(quick)


def _rows(quick: bool) -> Iterator[Row]:
    path = _features(quick)
    z = FeatureSet.open(path).array()
    few, many = (5, 20) if quick else (10, 100)
    yield _iteration(z, _start(path, few), target=10.0)
    yield _iteration(z, _start(path, many), target=30.0)
    yield _memory(path, many)
    yield _fit(z, _start(path, few))
    yield _overlap(z, few)
    yield from _scoring(z, _start(path, many))


def _iteration(z: NDArray, start: NDArray[np.int64], target: float) -> Row:
    ours, mixture = measure(_one_iteration_ours(z, start), repeats=3)
    theirs, value = measure(_one_iteration_theirs(z.astype(np.float64), start), repeats=1)
    difference = abs(mixture / value - 1)
    return Row(
        f"one EM iteration, full covariance, N = {len(z):,}, H = {z.shape[1]}, K = {start.max() + 1}",
        "scikit-learn float64", ours, theirs, target=target, same=difference < 1e-6,
        check=f"mean log-likelihoods differ by {difference:.1e} of their size",
    )  # fmt: skip


def _memory(path: Path, components: int) -> Row:
    name = "benchmarks.density"
    ours, _ = measure_child(f"{name}:iterate_ours", str(path), components)
    theirs, _ = measure_child(f"{name}:iterate_theirs", str(path), components)
    return Row(
        f"peak memory of that, K = {components}", "scikit-learn float64", ours, theirs, target=2.0, by="peak_mb",
        note="whole processes, interpreter and features included",
    )  # fmt: skip


def _fit(z: NDArray, start: NDArray[np.int64]) -> Row:
    ours, mixture = measure(lambda: fit_mixture(FeatureSet(z), start, ridge=_RIDGE, iterations=_FIT_ITERATIONS), 1)
    wide = z.astype(np.float64)
    theirs, value = measure(lambda: _sklearn_fit(wide, start, len(mixture.history)), 1)
    difference = abs(mixture.history[-1] / value - 1)
    return Row(
        f"whole fit from the same k-means start, at most {_FIT_ITERATIONS} iterations, K = {start.max() + 1}",
        "scikit-learn float64", ours, theirs, target=8.0, same=difference < 1e-6,
        check=f"mean log-likelihoods differ by {difference:.1e} of their size",
    )  # fmt: skip


def _overlap(z: NDArray, components: int) -> Row:
    rows = z[:20_000]
    start = np.random.default_rng(0).integers(0, components, len(rows))
    mixture = fit_mixture(FeatureSet(rows), start, ridge=_RIDGE, iterations=0)
    assert isinstance(mixture.components, FullComponents)
    parts = mixture.components
    ours, values = measure(lambda: parts.log_joint(rows), repeats=3)
    dense, expected = measure(lambda: parts.dense(rows), repeats=3)
    return Row(
        f"E step, heavily overlapping components (rows dealt at random), K = {components}", "our own dense path",
        ours, dense, target=1 / 1.1, same=bool(np.allclose(values, expected, rtol=1e-5)),
        check="log joint densities to 1e-5 of their size",
    )  # fmt: skip


def _scoring(z: NDArray, start: NDArray[np.int64]) -> Iterator[Row]:
    from .peers import detector

    mixture = fit_mixture(FeatureSet(z), start, ridge=_RIDGE, iterations=0)
    work = f"scoring by density, N = {len(z):,}, K = {len(mixture.weights)}"
    ours, scores = measure(lambda: mixture.log_density(z), repeats=3)
    wide = z.astype(np.float64)
    model = _sklearn_start(wide, start)
    theirs, expected = measure(lambda: model.score_samples(wide), repeats=1)
    yield _scored(work, "scikit-learn float64", ours, scores, theirs, expected, 30.0)
    gmm, note = detector("gmm", "GMM")
    if gmm is None:
        yield Row(work, "pytorch-ood GMM", ours, target=5.0, note=note)
        return
    import torch

    fitted = gmm(None, reg=_RIDGE).to("cpu").fit_features(torch.from_numpy(z), torch.from_numpy(start))
    # In batches: on all rows at once it makes an array of N x K x H, 20 GB here.
    batches = [torch.from_numpy(z[span]) for span in spans(len(z), 1000)]
    theirs, batches_scored = measure(lambda: [fitted.predict_features(batch) for batch in batches], repeats=1)
    yield _scored(
        work, "pytorch-ood GMM, 1,000 rows at a time", ours, scores, theirs, -torch.cat(batches_scored).numpy(), 5.0
    )


def _scored(work: str, against: str, ours: Cost, scores: Floats, theirs: Cost, expected: Floats, target: float) -> Row:
    error = float(np.abs(scores - expected).max() / np.abs(expected).max())
    return Row(
        work, against, ours, theirs, target=target, same=error < 1e-4,
        check=f"log densities differ by at most {error:.1e} of the largest",
    )  # fmt: skip


def iterate_ours(path: str, components: int) -> float:
    """One iteration of ours in a process of its own, for its peak memory."""
    return float(_one_iteration_ours(FeatureSet.open(path).array(), _start(Path(path), components))())


def iterate_theirs(path: str, components: int) -> float:
    """One iteration of scikit-learn's in a process of its own, for its peak memory."""
    z = FeatureSet.open(path).array().astype(np.float64)
    return float(_one_iteration_theirs(z, _start(Path(path), components))())


def _one_iteration_ours(z: NDArray, start: NDArray[np.int64]) -> Any:
    features = FeatureSet(z)
    first: Any = gaussian.first_statistics(features, start, "full")
    first.ridge = _RIDGE
    components, sample = first.components()[0], first.sample
    del first

    def iterate() -> float:
        components._bounds = None  # weighing them is part of an iteration
        statistics: Any = FullStatistics(components.means, _RIDGE, sample)
        value, statistics = gaussian._e_step(features, components, statistics)
        statistics.components()
        return value

    return iterate


def _one_iteration_theirs(z: Floats, start: NDArray[np.int64]) -> Any:
    model = _sklearn_start(z, start)

    def iterate() -> float:
        value, responsibilities = model._e_step(z)
        model._m_step(z, responsibilities)
        return float(value)

    return iterate


def _sklearn_start(z: Floats, start: NDArray[np.int64]) -> Any:
    from sklearn.mixture import GaussianMixture as Sklearn
    from sklearn.mixture._gaussian_mixture import _compute_precision_cholesky, _estimate_gaussian_parameters

    components = int(start.max()) + 1
    model = Sklearn(components, reg_covar=_RIDGE)
    weights, means, covariances = _estimate_gaussian_parameters(z, np.eye(components)[start], _RIDGE, "full")
    model.weights_, model.means_, model.covariances_ = weights / len(z), means, covariances
    model.precisions_cholesky_ = _compute_precision_cholesky(covariances, "full")
    return model


def _sklearn_fit(z: Floats, start: NDArray[np.int64], iterations: int) -> float:
    model = _sklearn_start(z, start)
    value = -np.inf
    for _ in range(iterations):
        value, responsibilities = model._e_step(z)
        model._m_step(z, responsibilities)
    return float(value)


def _start(path: Path, components: int) -> NDArray[np.int64]:
    """The k-means start with that many components, found once for both sides."""
    kept = path.with_name(f"{path.stem}-start-{components}.npy")
    if not kept.exists():
        np.save(kept, found_start(FeatureSet.open(path), components, "kmeans", seed=0))
    labels: NDArray[np.int64] = np.load(kept, allow_pickle=False)
    return labels


def _features(quick: bool) -> Path:
    from softscope.files import cache_folder
    from softscope.models import extract_features
    from softscope.paper.datasets import load
    from softscope.paper.nets import build
    from softscope.paper.training import TrainSettings, train

    rows, width = (3_000, 64) if quick else (50_000, 512)
    path = cache_folder() / "bench" / f"fashion-mnist-lenet-{width}-{rows}.safetensors"
    if not path.exists():
        images = load("fashion_mnist", "train", limit=rows)
        net = build("lenet", features=width, classes=10)
        train(net, images.images, images.labels, TrainSettings(epochs=1))
        extract_features(net, images.images, images.labels).save(path)
    return path
