"""What `softscope demo` diagnoses: real data and a small network of scikit-learn's own, written as feature files.

Familiar are the digits 0-7. Unfamiliar are the digits 8 and 9, which the network never saw; 8x8 patches of
scikit-learn's two sample photographs; and noise.
"""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .files import writable_folder

if TYPE_CHECKING:
    from sklearn.neural_network import MLPClassifier

SEED = 0
KNOWN = 8
_PATCHES = 1000
Images = NDArray[np.uint8]


@dataclass(frozen=True)
class DemoFiles:
    """Paths of what the demo wrote; `images` are parquet files of the unfamiliar images, for the report."""

    head: Path
    train: Path
    test: Path
    ood: dict[str, Path]
    images: dict[str, Path]

    def command(self, folder: Path) -> str:
        """The `softscope diagnose` line that repeats the diagnosis by hand."""
        words = ["softscope", "diagnose", "--head", self.head, "--train", self.train, "--test", self.test]
        for option, files in (("--ood", self.ood), ("--images", self.images)):
            words += [word for name, path in files.items() for word in (option, f"{name}={path}")]
        return shlex.join(map(str, [*words, "-o", folder]))


def write_demo(folder: Path) -> DemoFiles:
    """Train the network and write its head, features and the unfamiliar images under `folder`."""
    from .features import FeatureSet
    from .head import Head
    from .images import ImageSet, write_images

    writable_folder(folder)
    train_images, train_labels, test_images, test_labels, unseen = _digits()
    net = _trained(train_images, train_labels)
    head = Head(net.coefs_[-1].T.astype(np.float32), net.intercepts_[-1], classes=[str(k) for k in range(KNOWN)])
    head.save(folder / "head.safetensors")
    paths = {}
    for name, images, labels in (("train", train_images, train_labels), ("test", test_images, test_labels)):
        paths[name] = folder / f"{name}.safetensors"
        FeatureSet(_features(net, images), labels).save(paths[name])
    ood, pictures = {}, {}
    for name, images in {"digits-8-9": unseen, "photographs": _photographs(), "noise": _noise()}.items():
        ood[name] = folder / f"{name}.safetensors"
        FeatureSet(_features(net, images)).save(ood[name])
        pictures[name] = folder / f"{name}-images.parquet"
        unlabelled = np.zeros(len(images), np.int64)
        write_images(pictures[name], ImageSet(images, unlabelled, (name,), name, "test", None, {}))
    return DemoFiles(folder / "head.safetensors", paths["train"], paths["test"], ood, pictures)


def _trained(images: Images, labels: NDArray[np.int64]) -> "MLPClassifier":
    from sklearn.neural_network import MLPClassifier

    net = MLPClassifier(hidden_layer_sizes=(64,), max_iter=500, random_state=SEED)
    return net.fit(_pixels(images), labels)


def _features(net: "MLPClassifier", images: Images) -> NDArray[np.float32]:
    """z = ReLU(x W + b), what feeds the last layer of scikit-learn's network."""
    z = np.maximum(_pixels(images) @ net.coefs_[0] + net.intercepts_[0], 0.0)
    return np.asarray(z, dtype=np.float32)


def _pixels(images: Images) -> NDArray:
    return np.asarray(images.reshape(len(images), -1) / 255.0)


def _digits() -> tuple[Images, NDArray[np.int64], Images, NDArray[np.int64], Images]:
    """Digits 0-7 shuffled and cut in half into train and test, and the unseen digits 8-9."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = _as_bytes(bunch.images / 16.0)
    labels = bunch.target.astype(np.int64)
    known = np.random.default_rng(SEED).permutation(np.flatnonzero(labels < KNOWN))
    cut = len(known) // 2
    train, test = known[:cut], known[cut:]
    return images[train], labels[train], images[test], labels[test], images[labels >= KNOWN]


def _photographs() -> Images:
    """8x8 grey patches of scikit-learn's sample photographs, each the mean of 4x4 pixels, stretched to full range."""
    from sklearn.datasets import load_sample_images

    rng = np.random.default_rng(SEED)
    patches = []
    for photograph in load_sample_images().images:
        grey = photograph.mean(axis=2)
        for _ in range(_PATCHES // 2):
            top, left = (int(rng.integers(0, size - 32)) for size in grey.shape)
            patch = grey[top : top + 32, left : left + 32].reshape(8, 4, 8, 4).mean(axis=(1, 3))
            patches.append((patch - patch.min()) / max(float(np.ptp(patch)), 1.0))
    return _as_bytes(np.stack(patches))


def _noise() -> Images:
    return np.random.default_rng(SEED).integers(0, 256, (_PATCHES, 8, 8, 1)).astype(np.uint8)


def _as_bytes(images: NDArray) -> Images:
    return np.asarray(np.rint(255 * images)[..., None], dtype=np.uint8)
