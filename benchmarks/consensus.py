"""Every score on every pair of a few small networks: how the default score was chosen (docs/consensus.md).

python -m benchmarks.consensus features FOLDER    # needs $SOFTSCOPE_DATA, torch and the extra `pretrained`
python -m benchmarks.consensus table FOLDER       # minutes; prints both tables as markdown
python -m benchmarks.consensus small FOLDER       # density beside consensus on the small networks
"""

import argparse
import io
import os
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from softscope import FeatureSet, Head, SoftscopeError
from softscope.estimators import ESTIMATORS, estimator
from softscope.metrics import auroc

LITE = ("oxford_pets", "flowers102", "beans", "uc_merced")
LITE_OTHERS = ("svhn", "cifar10", "nct_crc_he")
SMALL = ("mnist", "fashion_mnist", "svhn")
SMALL_OTHERS = ("cifar10",)
NEAR = ("oxford_pets", "flowers102", "uc_merced")
SPLITS = 3
JUDGED = ("oxford_pets", "uc_merced", "fashion_mnist", "svhn")
#: Minutes to hours on 1,280 features of 102 classes; a full covariance of each of 10 rows says little there.
LEFT_OUT = ("density", "kde")
#: name -> the scores whose p-values it combines, and how: larger = more uncertain.
CONSENSUS: dict[str, tuple[tuple[str, ...], Callable[[NDArray], NDArray]]] = {
    "fisher": (("mahalanobis++", "energy", "residual"), lambda p: -np.log(p).sum(axis=0)),
    "tippett": (("mahalanobis++", "energy", "residual"), lambda p: -p.min(axis=0)),
    "mean p": (("mahalanobis++", "energy", "residual"), lambda p: -p.sum(axis=0)),
    "fisher, nnguide": (("mahalanobis++", "nnguide", "residual"), lambda p: -np.log(p).sum(axis=0)),
}


@dataclass(frozen=True)
class Network:
    """A trained head with its training rows, test rows it knows, and rows it doesn't, by name."""

    trained_on: str
    head: Head
    train: FeatureSet
    test: NDArray
    unknown: dict[str, NDArray]


def networks(folder: Path) -> Iterator[Network]:
    """Every network with its far sets, and those with unseen classes."""
    lite = {name: _lite(folder, name) for name in (*LITE, *LITE_OTHERS)}
    for name in LITE:
        (z, labels), (test, _) = lite[name]["train"], lite[name]["test"]
        far = {other: lite[other]["test"][0] for other in (*LITE, *LITE_OTHERS) if other != name}
        yield Network(name, _linear_head(z, labels), FeatureSet(z, labels), test, far)
    for name in NEAR:
        (z, labels), (test, test_labels) = lite[name]["train"], lite[name]["test"]
        for split in range(SPLITS):
            order = np.random.default_rng(split).permutation(labels.max() + 1)
            kept = np.sort(order[len(order) // 3 :])
            inside, known = np.isin(labels, kept), np.isin(test_labels, kept)
            train = FeatureSet(z[inside], np.searchsorted(kept, labels[inside]))
            head = _linear_head(z[inside], np.searchsorted(kept, labels[inside]))
            yield Network(name, head, train, test[known], {f"unseen {split}": test[~known]})
    for name in SMALL:
        with np.load(folder / f"small-{name}.npz") as held:
            far = {other: held[f"test_{other}"] for other in (*SMALL, *SMALL_OTHERS) if other != name}
            train = FeatureSet(held["train"], held["labels"])
            yield Network(name, Head(held["W"], held["b"]), train, held[f"test_{name}"], far)


def areas(network: Network) -> dict[tuple[str, str], float]:
    """AUROC in percent by OOD set and candidate; a score that refuses these features is left out."""
    sets = {"test": network.test, **network.unknown}
    scores: dict[str, dict[str, NDArray]] = {}
    for name in ESTIMATORS:
        if name in LEFT_OUT:
            continue
        try:
            fitted = estimator(name).fit(network.head, network.train)
        except SoftscopeError:
            continue
        scores[name] = {key: fitted.uncertainty(z) for key, z in sets.items()}
    held_out = np.random.default_rng(0).permutation(len(network.train)) % 5 == 0
    fit, calibration = network.train.take(~held_out), network.train.rows(held_out)
    p_values: dict[str, dict[str, NDArray]] = {}
    for name in dict.fromkeys(part for parts, _ in CONSENSUS.values() for part in parts):
        fitted = estimator(name).fit(network.head, fit)
        known = np.sort(fitted.uncertainty(calibration))
        p_values[name] = {
            key: (1 + len(known) - np.searchsorted(known, fitted.uncertainty(z))) / (len(known) + 1)
            for key, z in sets.items()
        }
    for name, (parts, rule) in CONSENSUS.items():
        scores[name] = {key: rule(np.stack([p_values[part][key] for part in parts])) for key in sets}
    return {
        (ood, name): 100 * auroc(values["test"], values[ood]).value
        for name, values in scores.items()
        for ood in network.unknown
    }


def small_line(network: Network) -> str:
    """AUROC in percent of the density and of the consensus on each OOD set of a network."""
    parts = []
    for name in ("density", "consensus"):
        fitted = estimator(name).fit(network.head, network.train)
        known = fitted.uncertainty(network.test)
        by_set = {ood: auroc(known, fitted.uncertainty(z)).value for ood, z in network.unknown.items()}
        parts.append(f"{name} " + ", ".join(f"{ood} {100 * area:.1f}" for ood, area in by_set.items()))
    return f"{network.trained_on}: {'; '.join(parts)}"


def table(results: list[tuple[str, dict[tuple[str, str], float]]], *, judged: bool) -> str:
    """Markdown: mean, mean of near and far pairs and worst pair of each candidate, on the training sets that judge."""
    values: dict[str, dict[str, float]] = {}
    for trained_on, found in results:
        if (trained_on in JUDGED) == judged:
            for (ood, name), area in found.items():
                values.setdefault(name, {})[f"{trained_on} / {ood}"] = area
    pairs = max(len(by_pair) for by_pair in values.values())
    lines = []
    for name, by_pair in values.items():
        if len(by_pair) == pairs:
            near = [area for pair, area in by_pair.items() if "unseen" in pair]
            far = [area for pair, area in by_pair.items() if "unseen" not in pair]
            worst = min(by_pair, key=lambda pair: by_pair[pair])
            means = [float(np.mean(part)) for part in (near + far, near, far)]
            cells = [name, *(f"{mean:.1f}" for mean in means), f"{by_pair[worst]:.1f}", worst]
            lines.append((means[0], f"| {' | '.join(cells)} |"))
    head = "| score | mean | near | far | worst | worst pair |\n|---|---|---|---|---|---|\n"
    return head + "\n".join(line for _, line in sorted(lines, reverse=True)) + f"\n\n{pairs} pairs.\n"


def make_features(folder: Path) -> None:
    """Features of all networks into `folder`, on one thread."""
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(0)
    folder.mkdir(parents=True, exist_ok=True)
    for name in (*LITE, *LITE_OTHERS):
        for split in ("train", "test") if name in LITE else ("test",):
            _lite_features(folder, name, split)
    tests = {name: _images(name, "test", 2000, 32) for name in (*SMALL, *SMALL_OTHERS)}
    for name in SMALL:
        np.savez(folder / f"small-{name}.npz", **_small_network(name, tests))


def _lite_features(folder: Path, name: str, split: str) -> None:
    import torch

    from softscope.paper.nets.pretrained import pretrained

    network = pretrained("efficientnet_lite0")
    pixels, labels = _images(name, split, 400 if name in LITE_OTHERS else 2000, network.size)
    with torch.no_grad():
        parts = [network.net.forward_features(torch.from_numpy(pixels[i : i + 16])) for i in range(0, len(pixels), 16)]
    np.savez(folder / f"efficientnet_lite0-{name}-{split}.npz", z=torch.cat(parts).numpy(), labels=labels)


def _small_network(name: str, tests: dict[str, tuple[NDArray, NDArray]]) -> dict[str, Any]:
    """Three convolutions and a hidden layer of 128, trained for a few epochs on 12,000 images."""
    import torch
    from torch import nn

    def ready(pixels: NDArray) -> torch.Tensor:
        return torch.from_numpy(pixels).permute(0, 3, 1, 2).float() / 255 - 0.45

    pixels, labels = _images(name, "train", 12_000, 32)
    x, y = ready(pixels), torch.from_numpy(labels)
    blocks = [
        layer
        for before, after in ((3, 24), (24, 48), (48, 64))
        for layer in (nn.Conv2d(before, after, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2))
    ]
    body, head = nn.Sequential(*blocks, nn.Flatten(), nn.Linear(1024, 128), nn.ReLU()), nn.Linear(128, 10)
    epochs = {"mnist": 3, "fashion_mnist": 4, "svhn": 7}[name]
    optimiser = torch.optim.Adam([*body.parameters(), *head.parameters()], weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, 4e-3, total_steps=epochs * (len(x) // 128))
    for _ in range(epochs):
        for batch in torch.split(torch.randperm(len(x))[: len(x) // 128 * 128], 128):
            loss = nn.functional.cross_entropy(head(body(x[batch])), y[batch])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            schedule.step()
    with torch.no_grad():
        read = {f"test_{other}": body(ready(images)).numpy() for other, (images, _) in tests.items()}
        read["train"] = torch.cat([body(part) for part in torch.split(x, 1000)]).numpy()
        return {"W": head.weight.numpy(), "b": head.bias.numpy(), "labels": labels, **read}


def _images(name: str, split: str, most: int, size: int) -> tuple[NDArray, NDArray]:
    import pyarrow.parquet as pq
    from PIL import Image

    path = next(Path(os.environ["SOFTSCOPE_DATA"], name).glob(f"{split}-*.parquet"))
    rows = pq.read_table(path).slice(0, most)
    opened = (Image.open(io.BytesIO(image["bytes"])).convert("RGB") for image in rows["image"].to_pylist())
    pixels = np.stack([np.asarray(image.resize((size, size), Image.Resampling.BICUBIC)) for image in opened])
    return pixels, np.array(rows["label"].to_pylist())


def _lite(folder: Path, name: str) -> dict[str, tuple[NDArray, NDArray]]:
    parts = {}
    for path in folder.glob(f"efficientnet_lite0-{name}-*.npz"):
        with np.load(path) as held:
            parts[path.stem.rsplit("-", 1)[1]] = held["z"].astype(np.float32), held["labels"]
    return parts


def _linear_head(z: NDArray, labels: NDArray) -> Head:
    from sklearn.linear_model import LogisticRegression

    scale = float(np.linalg.norm(z, axis=1).mean())
    model = LogisticRegression(C=100.0, max_iter=300).fit(z / scale, labels)
    return Head(model.coef_ / scale, model.intercept_)


def main() -> None:
    """Make the features, or print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.consensus", description=__doc__)
    parser.add_argument("what", choices=["features", "table", "small"])
    parser.add_argument("folder", type=Path)
    given = parser.parse_args()
    if given.what == "features":
        make_features(given.folder)
        return
    if given.what == "small":
        for network in networks(given.folder):
            if network.head.n_features < 512:
                print(small_line(network), flush=True)
        return
    results = []
    for network in networks(given.folder):
        print(f"{network.trained_on}: {', '.join(network.unknown)}", file=sys.stderr, flush=True)
        results.append((network.trained_on, areas(network)))
    print("Developed on:\n\n" + table(results, judged=False) + "\nJudged on:\n\n" + table(results, judged=True))


if __name__ == "__main__":
    main()
