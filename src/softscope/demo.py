"""What `softscope demo` diagnoses: real data that comes with scikit-learn, a conv net trained on it, feature files.

Familiar are the digits 0-7. Unfamiliar are the digits 8 and 9, which the network never saw; 8x8 patches of
scikit-learn's two sample photographs; and noise.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .files import writable_folder
from .progress import Progress, silent

SEED = 0
KNOWN = 8
_PATCHES = 400
Images = NDArray[np.uint8]


@dataclass(frozen=True)
class DemoFiles:
    """Paths of what the demo wrote; `images` are parquet files of the unfamiliar images, for the report."""

    head: Path
    train: Path
    test: Path
    ood: dict[str, Path]
    images: dict[str, Path]
    accuracy: float

    def command(self, folder: Path) -> str:
        """The `softscope diagnose` line that repeats the diagnosis by hand."""
        parts = [f"softscope diagnose --head {self.head} --train {self.train} --test {self.test}"]
        parts += [f"--ood {name}={path}" for name, path in self.ood.items()]
        parts += [f"--images {name}={path}" for name, path in self.images.items()]
        return " ".join([*parts, f"-o {folder}"])


def write_demo(folder: Path, *, progress: Progress = silent) -> DemoFiles:
    """Train the network and write its head, features and the unfamiliar images under `folder`."""
    from .head import Head
    from .images import ImageSet, write_images
    from .models import extract_features
    from .paper.nets import build, save_model
    from .paper.training import TrainSettings, evaluate, train

    writable_folder(folder)
    train_images, train_labels, test_images, test_labels, unseen = _digits()
    net = build("small", features=64, classes=KNOWN, seed=SEED)
    train(net, train_images, train_labels, TrainSettings(epochs=30, seed=SEED), progress=progress)
    accuracy = evaluate(net, test_images, test_labels).accuracy
    save_model(net, folder / "model.safetensors")
    head = Head.from_torch(net, classes=[str(k) for k in range(KNOWN)])
    head.save(folder / "head.safetensors")
    paths = {}
    for name, images, labels in (("train", train_images, train_labels), ("test", test_images, test_labels)):
        paths[name] = folder / f"{name}.safetensors"
        extract_features(net, images, labels).save(paths[name])
    ood, pictures = {}, {}
    for name, images in {"digits-8-9": unseen, "photographs": _photographs(), "noise": _noise()}.items():
        ood[name] = folder / f"{name}.safetensors"
        extract_features(net, images).save(ood[name])
        pictures[name] = folder / f"{name}-images.parquet"
        unlabelled = np.zeros(len(images), np.int64)
        write_images(pictures[name], ImageSet(images, unlabelled, (name,), name, "test", None, {}))
    return DemoFiles(folder / "head.safetensors", paths["train"], paths["test"], ood, pictures, accuracy)


def _digits() -> tuple[Images, NDArray[np.int64], Images, NDArray[np.int64], Images]:
    """Digits 0-7 shuffled and cut 70 : 30 into train and test, and the unseen digits 8-9."""
    from sklearn.datasets import load_digits

    bunch = load_digits()
    images = _as_bytes(bunch.images / 16.0)
    labels = bunch.target.astype(np.int64)
    known = np.random.default_rng(SEED).permutation(np.flatnonzero(labels < KNOWN))
    cut = int(0.7 * len(known))
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
    found: Images = np.rint(255 * images).astype(np.uint8)[..., None]
    return found
