"""`Head`: the last linear layer of a classifier, logits = W z + b, and the angles the paper reads off it.

Whether the bias is absent, zero or real is hidden here; nobody else touches W by hand.
"""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .arrays import Floats, as_matrix, as_vector, chunk_rows, spans
from .errors import SoftscopeError
from .files import read_safetensors, write_safetensors

if TYPE_CHECKING:
    import torch


class Head:
    """Last layer of a classifier: `weight` [K, H], `bias` [K] or None, `classes` K names or None.

    Arrays are read-only float32 or float64, as given. `name` stands in error messages for where it came from.
    """

    def __init__(
        self, weight: Any, bias: Any = None, classes: Sequence[str] | None = None, *, name: str = "head"
    ) -> None:
        self.weight: NDArray = _frozen(as_matrix(weight, f"{name}: weight"))
        if self.n_classes < 2:
            raise SoftscopeError(
                f"{name}: weight has {self.n_classes} row, softmax needs at least 2 classes",
                "A binary head with one output becomes two rows, [-w/2, w/2]",
            )
        self.bias: NDArray | None = None
        if bias is not None:
            self.bias = _frozen(as_vector(bias, f"{name}: bias", length=self.n_classes).astype(self.weight.dtype))
        if classes is not None and len(classes) != self.n_classes:
            raise SoftscopeError(
                f"{name}: {len(classes)} class names for {self.n_classes} rows of weight", "Give one name a class"
            )
        self.classes: tuple[str, ...] | None = None if classes is None else tuple(str(c) for c in classes)
        self.name = name

    def __repr__(self) -> str:
        bias = "no bias" if self.bias is None else "bias"
        return f"Head({self.n_classes} classes, {self.n_features} features, {bias}, {self.weight.dtype})"

    @property
    def n_classes(self) -> int:
        """K."""
        return int(self.weight.shape[0])

    @property
    def n_features(self) -> int:
        """H."""
        return int(self.weight.shape[1])

    def class_name(self, index: int) -> str:
        """The name of class `index`, or its number where the head has no names."""
        return self.classes[index] if self.classes else str(index)

    def check(self, z: Any, name: str = "z") -> NDArray:
        """`z` as a finite matrix with as many columns as this head expects, or a SoftscopeError."""
        return as_matrix(z, name, columns=self.n_features, owner=f"the head ({self.name})")

    def logits(self, z: Any, *, out: NDArray | None = None) -> NDArray:
        """Logits W z + b of the rows of `z`, float32 [N, K] (float64 where z and W both are), in chunks of rows."""
        rows = self.check(z)
        weight, bias = self._like(rows.dtype)
        if out is None:
            out = np.empty((len(rows), self.n_classes), weight.dtype)
        for span in spans(len(rows), chunk_rows(self.n_features, weight.itemsize)):
            np.matmul(rows[span].astype(weight.dtype, copy=False), weight.T, out=out[span])
            if bias is not None:
                out[span] += bias
        return out

    @cached_property
    def weight_norms(self) -> Floats:
        """norm(w_i) of each class, float64 [K]."""
        return np.linalg.norm(self.weight.astype(np.float64), axis=1)

    @cached_property
    def class_cosines(self) -> Floats:
        """cos(w_i, w_j) between classes, float64 [K, K]; 0 where a weight is all zeros."""
        directions = self._directions
        cosines = np.clip(directions @ directions.T, -1.0, 1.0)
        np.fill_diagonal(cosines, np.where(self.weight_norms > 0, 1.0, 0.0))
        return cosines

    def cosines(self, z: Any) -> Floats:
        """cos(w_i, z) of each row of `z` to each class, float64 [N, K]; 0 where z or w_i is all zeros."""
        rows = self.check(z)
        out = np.empty((len(rows), self.n_classes))
        for span in spans(len(rows), chunk_rows(self.n_features)):
            chunk = rows[span].astype(np.float64)
            np.matmul(chunk, self._directions.T, out=out[span])
            out[span] /= _nonzero(np.linalg.norm(chunk, axis=1))[:, None]
        return np.clip(out, -1.0, 1.0, out=out)

    def norms(self, z: Any) -> Floats:
        """norm(z) of each row, float64 [N]."""
        rows = self.check(z)
        out = np.empty(len(rows))
        for span in spans(len(rows), chunk_rows(self.n_features)):
            out[span] = np.linalg.norm(rows[span].astype(np.float64), axis=1)
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `weight`, `bias` (where there is one) and the class names as safetensors, atomically."""
        tensors = {"weight": self.weight} | ({} if self.bias is None else {"bias": self.bias})
        metadata = {"format": "softscope.head"} | ({"classes": json.dumps(self.classes)} if self.classes else {})
        write_safetensors(path, tensors, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Head":
        """Read a head written by `save`, or any safetensors file with tensors `weight` and (optionally) `bias`."""
        tensors, metadata = read_safetensors(path)
        if "weight" not in tensors:
            raise SoftscopeError(
                f"{path}: expected tensors 'weight' and 'bias', found {sorted(tensors) or 'none'}",
                "Save the last layer with Head(weight, bias).save(path)",
            )
        return cls(tensors["weight"], tensors.get("bias"), _class_names(metadata, path), name=str(path))

    @classmethod
    def from_torch(cls, model: "torch.nn.Module", classes: Sequence[str] | None = None) -> "Head":
        """The last linear layer of a torch classifier (see `softscope.extract`)."""
        from .extract import head_of

        return head_of(model, classes=classes)

    @cached_property
    def _directions(self) -> Floats:
        return self.weight.astype(np.float64) / _nonzero(self.weight_norms)[:, None]

    def _like(self, dtype: np.dtype) -> tuple[NDArray, NDArray | None]:
        wide = np.float64 if dtype == np.float64 and self.weight.dtype == np.float64 else np.float32
        bias = None if self.bias is None else self.bias.astype(wide, copy=False)
        return self.weight.astype(wide, copy=False), bias


def _frozen(array: NDArray) -> NDArray:
    copy = np.array(array, order="C")
    copy.flags.writeable = False
    return copy


def _nonzero(norms: Floats) -> Floats:
    return np.where(norms > 0, norms, 1.0)


def _class_names(metadata: dict[str, str], path: str | os.PathLike[str]) -> list[str] | None:
    if "classes" not in metadata:
        return None
    try:
        names = json.loads(metadata["classes"])
    except json.JSONDecodeError as error:
        raise SoftscopeError(f"{path}: metadata 'classes' is no JSON list of names", "Save the head again") from error
    if not isinstance(names, list):
        raise SoftscopeError(f"{path}: metadata 'classes' is no JSON list of names", "Save the head again")
    return [str(name) for name in names]
