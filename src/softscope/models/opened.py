"""Any classifier as an opened model: by name (as the command line has it), by path, or as an object in memory.

`OpenedModel` is what every kind of model is once it is open; `check_logits` holds it against its own logits.
"""

import os
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import existing_file, stream_safetensors
from ..head import Head
from ..images import Preprocessing

Layer = Literal["after", "before"]
TOLERANCE = 1e-4


class OpenedModel(ABC):
    """A classifier with a linear last layer.

    `classes` names its outputs, as `names_from` knows them, `dataset` the data set it was trained on, `preprocessing`
    how it takes images; `words` go into the metadata of its features.
    """

    name: str
    preprocessing: Preprocessing
    classes: tuple[str, ...] | None = None
    names_from: str = "the model"
    dataset: str | None = None
    layer: Layer = "after"
    tolerance: float = TOLERANCE
    words: dict[str, str] = {}  # noqa: RUF012  replaced as a whole, never written to

    @abstractmethod
    def describe(self) -> str:
        """Architecture and size, in a line."""

    @abstractmethod
    def prepare(self, probe: Any, layer: Layer = "after") -> Head:
        """The head, found with the help of a few inputs; called before `read`."""

    @abstractmethod
    def read(self, inputs: Any) -> tuple[NDArray, NDArray, NDArray]:
        """Rows for the file, features z and the model's own logits; rows are z but for the layer `before`."""

    @abstractmethod
    def fingerprint(self) -> str:
        """The same for the same model."""


def check_logits(head: Head, z: NDArray, logits: NDArray, first_row: int, tolerance: float = TOLERANCE) -> None:
    """Raise unless the head applied to `z` gives `logits` to `tolerance` of the largest; `first_row` numbers row 0."""
    if not (np.isfinite(z).all() and np.isfinite(logits).all()):
        raise SoftscopeError(f"the model gives NaN or inf in rows from {first_row}", "Check its weights and its inputs")
    error = float(np.abs(head.logits(z) - logits).max())
    scale = float(np.abs(logits).max())
    if error > tolerance * max(scale, 1e-30):
        raise SoftscopeError(
            f"the head applied to the features misses the model's logits by {error:.2g} (largest {scale:.2g}), "
            f"rows from {first_row}",
            "Is something done to the logits after the last layer, a scale or a dropout that is on in evaluation? "
            "Is the model in half precision (use model.float())?",
        )


def collected(
    blocks: Iterable[NDArray],
    shape: tuple[int, int],
    labels: NDArray[np.int64] | None,
    *,
    out: str | os.PathLike[str] | None,
    name: str,
    metadata: Mapping[str, str],
) -> FeatureSet:
    """Blocks of rows as a FeatureSet: in memory, or with `out` written as they come and opened from there."""
    if out is None:
        return FeatureSet(np.concatenate(list(blocks)), labels, name=name, metadata=metadata)
    tensors: dict[str, Any] = {"z": (np.dtype(np.float32), shape, _all(blocks, shape[0]))}
    if labels is not None:
        tensors["labels"] = (labels.dtype, labels.shape, [labels])
    stream_safetensors(out, tensors, metadata)
    return FeatureSet.open(out)


def _all(blocks: Iterable[NDArray], rows: int) -> Iterator[NDArray]:
    """The blocks, or an error that keeps a file from being replaced by one with too few rows."""
    done = 0
    for block in blocks:
        yield block
        done += len(block)
    if done != rows:
        raise SoftscopeError(f"{done:,} rows where there should be {rows:,}", "Extract again")


KINDS = (
    "package.module:factory with --weights, an .onnx file, hf:NAME or a Hugging Face folder, timm:NAME, "
    "torchvision:NAME, or a .safetensors file saved by softscope"
)


def open_model(
    model: Any,
    weights: str | os.PathLike[str] | None = None,
    *,
    classes: Sequence[str] | None = None,
    output: Any = None,
    device: str | None = None,
    processor: Any = None,
    **preprocessing: Any,
) -> OpenedModel:
    """The classifier `model`: a name, a path, a torch module, a Hugging Face or timm model, a scikit-learn estimator.

    `weights` is a file for a factory's, timm's or torchvision's model; `classes` names the outputs in their order;
    `output` picks the logits out of what a torch model returns; `processor` is a Hugging Face image processor or
    tokenizer. Further options replace those of the model's own `Preprocessing`.
    """
    opened = _opened(model, weights, output, device, processor)
    if classes is not None:
        opened.classes, opened.names_from = tuple(map(str, classes)), "--classes"
    opened.preprocessing = opened.preprocessing.changed(**preprocessing)
    return opened


def _opened(model: Any, weights: Any, output: Any, device: str | None, processor: Any) -> OpenedModel:
    if isinstance(model, OpenedModel):
        return model
    if isinstance(model, str | os.PathLike):
        return _by_name(os.fspath(model), weights, output, device, processor)
    if weights is not None:
        raise SoftscopeError("weights go with a model named by its factory", "Load them into the model yourself")
    if hasattr(model, "predict") and hasattr(model, "get_params"):
        from .sklearn import SklearnModel

        return SklearnModel(model)
    from ..torch_door import nn
    from .hugging_face import HuggingFaceModel, is_hugging_face

    if is_hugging_face(model):
        return HuggingFaceModel(model, processor=processor, device=device)
    if not isinstance(model, nn.Module):
        raise SoftscopeError(f"{type(model).__name__}: not a classifier that can be opened", f"Give {KINDS}")
    from .torch import TorchModel

    return TorchModel(model, output=output, device=device)


def _by_name(model: str, weights: Any, output: Any, device: str | None, processor: Any) -> OpenedModel:
    if Path(model).suffix.lower() == ".onnx":
        from .onnx import OnnxModel

        return OnnxModel(model)
    if model.startswith("hf:") or (Path(model) / "config.json").is_file():
        from .hugging_face import open_hugging_face

        return open_hugging_face(model.removeprefix("hf:"), processor, device)
    if model.startswith(("timm:", "torchvision:")):
        from .weights import open_pretrained

        return open_pretrained(model, weights, device)
    if ":" not in model or Path(model).exists():
        path = existing_file(model)
        raise SoftscopeError(
            f"{path}: scripted and pickled models would run their code and aren't opened", f"Give {KINDS}"
        )
    from .torch import TorchModel
    from .weights import load_weights, made_by

    module = made_by(model)
    if weights is not None:
        load_weights(module, weights)
    return TorchModel(module.eval(), model, output=output, device=device)
