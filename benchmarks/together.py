"""Many scores of one network in one pass beside the products they can't do without and pytorch-ood; nearest neighbours
and NNGuide beside the bare product of queries and training rows."""

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr

from softscope.estimators import Estimator, NearestNeighbours, NNGuide, estimator, uncertainties
from softscope.head import Head

from .measuring import Row, race
from .peers import detector

_FEATURES, _CLASSES, _TRAIN, _BANK = 512, 100, 8_000, 50_000
_CHUNK = 4096
#: what costs at most two products: z W', and for the distance (z - mu) M with M [H, H]
CHEAP = (
    *("max", "entropy", "cool", "margin", "max-logit", "energy", "gen", "gradnorm", "kl-matching"),
    *("fdbd", "nci", "she", "scale", "norm", "mahalanobis++"),
)
#: pytorch-ood's detectors of the same scores; its GradNorm differentiates each row, its distance loops over classes
_PEERS = {
    "max": ("softmax", "MaxSoftmax"),
    "entropy": ("entropy", "Entropy"),
    "max-logit": ("maxlogit", "MaxLogit"),
    "energy": ("energy", "EnergyBased"),
    "gen": ("gen", "GEN"),
    "kl-matching": ("klmatching", "KLMatching"),
    "fdbd": ("fdbd", "fDBD"),
    "nci": ("nci", "NCI"),
    "she": ("she", "SHE"),
    "scale": ("scale", "SCALE"),
}


def run(quick: bool = False) -> Iterator[Row]:
    """N = 50,000 rows of H = 512 features, K = 100 classes; 1,024 queries against 50,000 rows (a tenth if quick)."""
    share = 10 if quick else 1
    rng = np.random.default_rng(0)
    weight = rng.normal(0, 0.2, (_CLASSES, _FEATURES)).astype(np.float32)
    head = Head(weight, rng.normal(0, 0.2, _CLASSES))
    labels = np.arange(_TRAIN) % _CLASSES
    train = np.maximum(weight[labels] + rng.standard_normal((_TRAIN, _FEATURES), dtype=np.float32), 0)
    z = np.maximum(rng.standard_normal((50_000 // share, _FEATURES), dtype=np.float32), 0)
    fitted = {name: estimator(name).fit(head, (train, labels)) for name in CHEAP}
    uncertainties(fitted, np.tile(z[:1000], (21, 1)))  # numba compiles, or reads its cache, before the clock starts
    yield from _product_rows(fitted, head, z)
    yield from _pytorch_ood_rows(fitted, head, (train, labels), z)
    bank = np.maximum(rng.standard_normal((_BANK // share, _FEATURES), dtype=np.float32), 0)
    yield from _neighbour_rows(head, bank, z[:1024])


def _product_rows(fitted: dict[str, Estimator], head: Head, z: NDArray) -> Iterator[Row]:
    work = f"{len(fitted)} scores from z in one pass, N = {len(z):,}, H = {_FEATURES}, K = {_CLASSES}"
    whitening = fitted["mahalanobis++"].state()["matrix"]

    def products(dtype: type) -> Callable[[], None]:
        first: NDArray = np.ascontiguousarray(head.weight.T)
        second: NDArray = whitening.astype(dtype)

        def multiply() -> None:
            for start in range(0, len(z), _CHUNK):
                rows = z[start : start + _CHUNK]
                np.matmul(rows, first)
                np.matmul(rows.astype(dtype, copy=False), second)

        return multiply

    for dtype, target in ((np.float64, 0.4), (np.float32, None)):
        ours, _, theirs, _ = race(lambda: uncertainties(fitted, z), products(dtype), 3)
        against = f"the two products they need alone, numpy: z W' in float32, z M in {np.dtype(dtype)}"
        note = "M [H, H] whitens z for the distance, which is measured in float64"
        yield Row(work, against, ours, theirs, target=target, note=note)


def _pytorch_ood_rows(
    fitted: dict[str, Estimator], head: Head, train: tuple[NDArray, NDArray], z: NDArray
) -> Iterator[Row]:
    shared = {name: fitted[name] for name in _PEERS}
    work = f"{len(shared)} scores from z in one pass, N = {len(z):,}, H = {_FEATURES}, K = {_CLASSES}"
    detectors = {name: detector(*place) for name, place in _PEERS.items()}
    if reason := next((why for _, why in detectors.values() if why), ""):
        ours, _, _, _ = race(lambda: uncertainties(shared, z), lambda: None, 1)
        yield Row(work, "pytorch-ood", ours, note=reason)
        return
    peer = _pytorch_ood({name: cls for name, (cls, _) in detectors.items()}, shared, head, train, z)
    ours, mine, theirs, other = race(lambda: uncertainties(shared, z), peer, 2)
    alike = {name: float(spearmanr(mine[name], other[name]).statistic) for name in shared}
    lowest = min(alike, key=lambda name: alike[name])
    yield Row(
        work,
        "pytorch-ood, one detector after the other",
        ours,
        theirs,
        target=5,
        same=alike[lowest] > 0.999,
        check=f"rank correlation of each score, the lowest {alike[lowest]:.5f} ({lowest})",
        note="each detector calls the head, as its predict does; theirs in float32, ours the rank forms in float64",
    )


def _pytorch_ood(
    detectors: dict[str, Any],
    fitted: dict[str, Estimator],
    head: Head,
    train: tuple[NDArray, NDArray],
    z: NDArray,
) -> Callable[[], dict[str, NDArray]]:
    import torch

    model = torch.nn.Linear(_FEATURES, _CLASSES)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(head.weight))
        model.bias.copy_(torch.tensor(head.bias))
    rows, seen, labels = torch.from_numpy(z), *map(torch.from_numpy, train)
    options: dict[str, dict[str, Any]] = {name: {"model": model} for name in ("max", "entropy", "max-logit", "energy")}
    options |= {"gen": {"model": model}, "kl-matching": {"model": model}}
    options |= {name: {"encoder": torch.nn.Identity(), "head": model} for name in ("fdbd", "nci", "she")}
    options["nci"]["alpha"] = fitted["nci"].state()["a"][0]
    maps, flat = (lambda x: x[:, :, None, None]), torch.nn.Sequential(torch.nn.Flatten(), model)
    options["scale"] = {"backbone": maps, "head": flat, "percentile": 0.85}
    made = {name: cls(**options[name]) for name, cls in detectors.items()}
    with torch.no_grad():
        made["kl-matching"].fit_logits(model(seen), labels)
        for name in ("fdbd", "nci", "she"):
            made[name].fit_features(seen, labels)

    def work() -> dict[str, NDArray]:
        with torch.inference_mode():
            parts = {name: [one.predict(part) for part in torch.split(rows, _CHUNK)] for name, one in made.items()}
        return {name: torch.cat(values).numpy() for name, values in parts.items()}

    return work


def _neighbour_rows(head: Head, bank: NDArray, queries: NDArray) -> Iterator[Row]:
    """The share of the product's rate that is left once the neighbours are found too."""
    turned = np.ascontiguousarray(bank.T)

    def multiply() -> None:
        for start in range(0, turned.shape[1], _CHUNK):
            np.matmul(queries, turned[:, start : start + _CHUNK])

    for score in (NearestNeighbours(max_rows=len(bank)), NNGuide(max_rows=len(bank))):
        find = partial(score.fit(head, bank).uncertainty, queries)
        ours, _, theirs, _ = race(find, multiply, 3)
        work = f"{score.info.name} of {len(queries):,} rows against {len(bank):,}, H = {_FEATURES}"
        yield Row(work, f"the bare product, numpy, {_CHUNK} rows at a time", ours, theirs, target=0.8)
