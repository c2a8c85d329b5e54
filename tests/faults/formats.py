"""Every file that Softscope reads from others: how a sound one is made, and what a user would do with it."""

import io
import json
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np

from softscope import Density, FeatureSet, Guard, Head, diagnose, report
from softscope.diagnosis import Diagnosis

CLASSES, FEATURES, ROWS = 3, 6, 60
Use = Callable[[Path], object]


@dataclass(frozen=True)
class Format:
    """`make(folder)` writes a sound file and gives its path; `use(path)` reads it as a command would.

    `opened`: the command opens the file itself; a request comes over the wire.
    """

    name: str
    make: Callable[[Path], Path]
    use: Use
    opened: bool = True


def draw(rows: int = ROWS, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Features of three classes, with labels."""
    rng = np.random.default_rng(seed)
    labels = np.arange(rows) % CLASSES
    return (3 * np.eye(CLASSES, FEATURES)[labels] + rng.normal(size=(rows, FEATURES))).astype(np.float32), labels


@cache
def _parts() -> tuple[Head, FeatureSet, FeatureSet]:
    head = Head(np.eye(CLASSES, FEATURES, dtype=np.float32), np.zeros(CLASSES), classes=["a", "b", "c"])
    return head, FeatureSet(*draw()), FeatureSet(*draw(seed=1))


@cache
def sound_guard() -> Guard:
    """A guard on the density of features of three classes."""
    head, train, test = _parts()
    return Guard.fit(head, train, test, Density(), false_alarms=0.1)


@cache
def _diagnosis() -> Diagnosis:
    head, train, test = _parts()
    return diagnose(head, train, test, {"far": FeatureSet(draw(seed=2)[0] + 2)}, bootstraps=20)


def _saved(what: str, folder: Path) -> Path:
    head, train, _ = _parts()
    path = folder / f"{what}.safetensors"
    {"features": train, "head": head, "guard": sound_guard()}[what].save(path)
    return path


def _npy(folder: Path) -> Path:
    np.save(folder / "z.npy", draw()[0])
    return folder / "z.npy"


def _npz(pack: Callable, folder: Path) -> Path:
    z, labels = draw()
    pack(folder / "z.npz", z=z, labels=labels)
    return folder / "z.npz"


def _parquet(folder: Path) -> Path:
    import pyarrow as pa
    import pyarrow.parquet as pq

    z, labels = draw()
    pq.write_table(pa.table({"z": list(z), "labels": labels}), folder / "z.parquet")
    return folder / "z.parquet"


def _images(folder: Path) -> Path:
    from softscope.images import ImageSet, write_images

    pixels = np.random.default_rng(0).integers(0, 256, (12, 8, 8, 1)).astype(np.uint8)
    write_images(folder / "i.parquet", ImageSet(pixels, np.arange(12) % 3, ("a", "b", "c"), "i", "test", None, {}))
    return folder / "i.parquet"


def _json(folder: Path) -> Path:
    _diagnosis().save(folder / "diagnosis.json")
    return folder / "diagnosis.json"


def _step(folder: Path) -> Path:
    from softscope.runs import Store

    Store(folder / "store").run({"a": 1}).step("one", lambda draft: draft.json({"b": [1.5]}))
    (path,) = (folder / "store").rglob("manifest.json")
    return path


def _model(folder: Path) -> Path:
    from softscope.paper.nets import build, save_model

    save_model(build("toy"), folder / "model.safetensors", classes=["a", "b", "c"])
    return folder / "model.safetensors"


def _checkpoint(folder: Path) -> Path:
    from softscope.paper.nets import build
    from softscope.paper.training import TrainSettings, train

    z, labels = draw()
    train(build("toy"), z[:, :2], labels, TrainSettings(epochs=1, threads=1), checkpoint_dir=folder)
    return folder / "checkpoint.safetensors"


def _weights(folder: Path) -> Path:
    import torch

    torch.save(torch.nn.Linear(4, 3).state_dict(), folder / "w.pt")
    return folder / "w.pt"


def _use_features(path: Path) -> object:
    features = FeatureSet.open(path)
    return sound_guard().p_values(features) if features.n_features == FEATURES else features.array().sum()


def _use_head(path: Path) -> object:
    head = Head.load(path)
    return head.logits(np.zeros((2, head.n_features), np.float32))


def _use_diagnosis(path: Path) -> object:
    return report(Diagnosis.load(path), path.with_suffix(".html"))


def _use_images(path: Path) -> object:
    from softscope.images import load_files

    return load_files([path]).images.sum()


def _use_step(path: Path) -> object:
    from softscope.runs import Store

    store = Store(path.parents[2])
    return store.run({"a": 1}).step("one", lambda draft: draft.json({"b": [1.5]})).json()


def _use_model(path: Path) -> object:
    from softscope.paper.nets import load_model

    return load_model(path).net


def _use_checkpoint(path: Path) -> object:
    from softscope.paper.nets import build
    from softscope.paper.training import TrainSettings, train

    z, labels = draw()
    return train(build("toy"), z[:, :2], labels, TrainSettings(epochs=1, threads=1), checkpoint_dir=path.parent)


def _use_weights(path: Path) -> object:
    from torch import nn

    from softscope.models.weights import load_weights

    return load_weights(nn.Linear(4, 3), path)


def onnx_file(folder: Path) -> Path:
    """A network of grey images of 8 x 8 with five features and three classes."""
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    rng = np.random.default_rng(0)
    weights = {"w1": rng.normal(size=(64, 5)), "b1": np.zeros(5), "w2": rng.normal(size=(5, 3)), "b2": np.zeros(3)}
    nodes = [
        helper.make_node("Flatten", ["x"], ["flat"]),
        helper.make_node("Gemm", ["flat", "w1", "b1"], ["h"]),
        helper.make_node("Relu", ["h"], ["z"]),
        helper.make_node("Gemm", ["z", "w2", "b2"], ["logits"]),
    ]
    graph = helper.make_graph(
        nodes,
        "net",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["n", 1, 8, 8])],
        [helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["n", 3])],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), folder / "m.onnx")
    return folder / "m.onnx"


def _use_onnx(path: Path) -> object:
    from softscope.models import extract

    return extract(str(path), np.random.default_rng(0).normal(size=(4, 1, 8, 8)).astype(np.float32))


CORE = (
    Format("features.safetensors", partial(_saved, "features"), _use_features),
    Format("head", partial(_saved, "head"), _use_head),
    Format("guard", partial(_saved, "guard"), Guard.load),
    Format("npy", _npy, _use_features),
    Format("npz", partial(_npz, np.savez), _use_features),
    Format("npz, compressed", partial(_npz, np.savez_compressed), _use_features),
    Format("features.parquet", _parquet, _use_features),
    Format("images.parquet", _images, _use_images),
    Format("diagnosis.json", _json, _use_diagnosis),
    Format("run store", _step, _use_step),
)
TORCH = (
    Format("model", _model, _use_model),
    Format("checkpoint", _checkpoint, _use_checkpoint),
    Format("weights.pt", _weights, _use_weights),
    Format("onnx", onnx_file, _use_onnx),
)


def zip_member(content: bytes, name: str, member: bytes) -> bytes:
    """The npz `content` with the member `name` replaced: damage behind a checksum that is right."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            new.writestr(info.filename, member if info.filename == name else old.read(info))
    return out.getvalue()


def edited_json(content: bytes, edit: Callable[[dict], None]) -> bytes:
    """JSON with one thing changed."""
    value = json.loads(content)
    edit(value)
    return json.dumps(value).encode()
