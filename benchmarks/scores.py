"""Five scores of the logits together (U_max, U_entropy, U_cool, energy, max-logit) beside the bare product z W' and
pytorch-ood, which gives the plain float32 values where ours are the rank forms in float64."""

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softscope.estimators.logits import Task, on_all_cores, scores, tasks_of
from softscope.features import FeatureSet
from softscope.head import Head

from .measuring import Row, race
from .peers import detector

_FEATURES = 512
_CHUNK = 4096  # rows at a time for the peers: no slower than any other for the product, the fastest for pytorch-ood

Scores = dict[str, NDArray]


def run(quick: bool = False) -> Iterator[Row]:
    """N = 10^5 rows (3 x 10^4 if quick) of H = 512 random features, K = 10, 100, 1000 classes."""
    rows = 30_000 if quick else 100_000
    generator = np.random.default_rng(0)
    z = generator.standard_normal((rows, _FEATURES), dtype=np.float32)
    scores(_head(2), z[:30_000])  # numba compiles, or reads its cache, before the clock starts
    for classes, repeats in ((10, 6), (100, 4), (1000, 2)):
        head = _head(classes)
        work = f"five scores from z, N = {rows:,}, H = {_FEATURES}, K = {classes}"
        yield from _product_rows(work, head, z, repeats)
        yield from _pytorch_ood_rows(work, head, z, repeats)


def _head(classes: int) -> Head:
    generator = np.random.default_rng(classes)
    return Head(generator.normal(0, 0.2, (classes, _FEATURES)).astype(np.float32), generator.normal(0, 0.2, classes))


def _product_rows(work: str, head: Head, z: NDArray, repeats: int) -> Iterator[Row]:
    """The share of the product's rate that is left once the scores are made too: theirs / ours."""

    def in_our_blocks() -> None:
        features = FeatureSet(z)
        size = max(len(rows) for _, rows in tasks_of(head, features))

        def multiply(task: Task) -> None:
            head.product(task[1], np.empty((size, head.n_classes), np.float32)[: len(task[1])])

        on_all_cores(multiply, tasks_of(head, features))

    weight, out = np.ascontiguousarray(head.weight.T), np.empty((_CHUNK, head.n_classes), np.float32)

    def by_numpy() -> None:
        for start in range(0, len(z), _CHUNK):
            rows = z[start : start + _CHUNK]
            np.matmul(rows, weight, out=out[: len(rows)])

    peers: tuple[tuple[str, Callable[[], None], str], ...] = (
        ("the product z W' alone, in the same blocks and threads", in_our_blocks, ""),
        ("the product z W' alone, numpy", by_numpy, f"numpy.matmul into one buffer of {_CHUNK} rows, its own threads"),
    )
    for against, peer, note in peers:
        ours, _, theirs, _ = race(lambda: scores(head, z), peer, repeats)
        yield Row(work, against, ours, theirs, target=0.85, note=note)


def _pytorch_ood_rows(work: str, head: Head, z: NDArray, repeats: int) -> Iterator[Row]:
    """pytorch-ood as its users call it, each detector with the model, and at its best, all on logits made once."""
    detectors = {module: detector(module, name) for module, name in _PEERS.items()}
    reason = next((why for _, why in detectors.values() if why), "")
    if reason:
        ours, _, _, _ = race(lambda: scores(head, z), lambda: None, repeats)
        yield Row(work, "pytorch-ood", ours, note=reason)
        return
    classes = {module: cls for module, (cls, _) in detectors.items()}
    for name, sharing, note in (
        ("pytorch-ood, five detectors", False, "each detector calls the head, as its predict does"),
        ("pytorch-ood, logits shared by hand", True, "the logits are made once, outside of its detectors"),
    ):
        peer = _pytorch_ood(classes, head, z, sharing)
        ours, mine, theirs, other = race(lambda: scores(head, z), peer, repeats)
        same, check = _compare(mine, other, head.n_classes)
        yield Row(work, name, ours, theirs, target=2.5, same=same, check=check, note=note)


_PEERS = {"softmax": "MaxSoftmax", "entropy": "Entropy", "energy": "EnergyBased", "maxlogit": "MaxLogit"}


def _pytorch_ood(detectors: dict[str, Any], head: Head, z: NDArray, sharing: bool) -> Callable[[], Scores]:
    import torch

    model = torch.nn.Linear(_FEATURES, head.n_classes)
    with torch.no_grad():
        model.weight.copy_(torch.tensor(head.weight))
        model.bias.copy_(torch.tensor(head.bias))
    cold = torch.nn.Linear(_FEATURES, head.n_classes)  # U_cool is the entropy of a network whose logits are divided
    with torch.no_grad():
        cold.weight.copy_(model.weight / 10)
        cold.bias.copy_(model.bias / 10)
    rows = torch.from_numpy(z)
    made = {
        "max": detectors["softmax"](model),
        "entropy": detectors["entropy"](model),
        "cool": detectors["entropy"](cold),
        "energy": detectors["energy"](model),
        "max-logit": detectors["maxlogit"](model),
    }

    def work() -> Scores:
        out = {name: torch.empty(len(z)) for name in made}
        with torch.inference_mode():
            for start in range(0, len(z), _CHUNK):
                span = slice(start, start + _CHUNK)
                logits = model(rows[span]) if sharing else None
                for name, one in made.items():
                    if logits is None:
                        out[name][span] = one.predict(rows[span])
                    else:
                        out[name][span] = one.predict_logits(logits / 10 if name == "cool" else logits)
        return {name: values.numpy() for name, values in out.items()}

    return work


def _compare(ours: Scores, theirs: Scores, classes: int) -> tuple[bool, str]:
    """Whether our rank forms, turned back into the values they rank, are pytorch-ood's within its float32 and clips."""
    with np.errstate(over="ignore"):
        values = {"max": -1 / (1 + np.exp(ours["max"])), "entropy": np.exp(ours["entropy"])}
    values |= {"cool": np.exp(ours["cool"]), "energy": ours["energy"], "max-logit": ours["max-logit"]}
    worst = {name: float(np.abs(values[name] - theirs[name]).max()) for name in values}
    # It clips probabilities at 1e-7, which adds up to 1.6e-6 a class to its entropy.
    allowed = dict.fromkeys(values, 0.0001) | {"entropy": 1e-4 + 1.7e-6 * classes}
    same = all(worst[name] <= allowed[name] for name in values)
    return same, "largest differences " + ", ".join(f"{k} {v:.1e}" for k, v in worst.items())
