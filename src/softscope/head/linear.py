"""`Head`: the last linear layer of a classifier, logits = W z + b, and the angles the paper reads off it.

A layer without bias has a bias of zeros, so that nobody else branches on it.
"""

import json
import os
from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, as_matrix, as_vector, check_finite, chunk_rows, spans
from ..blas import rows_round_alike
from ..canonical import parse_json
from ..errors import SoftscopeError, printable
from ..files import read_safetensors, safetensors_header, write_safetensors

if TYPE_CHECKING:
    import torch


class Head:
    """Last layer of a classifier: `weight` [K, H], `bias` [K] (zeros where None is given), `classes` K names or None.

    Arrays are read-only float32 or float64, as given. `name` stands in error messages for where it came from.

    >>> head = Head([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]], classes=["cat", "dog", "owl"])
    >>> head
    Head(3 classes, 2 features, no bias, float64)
    >>> head.logits([[2.0, 1.0]])
    array([[ 2.,  1., -3.]])
    >>> head.class_name(0)
    'cat'
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
        given = np.zeros(self.n_classes) if bias is None else as_vector(bias, f"{name}: bias", length=self.n_classes)
        self.bias: NDArray = _frozen(given, self.weight.dtype)
        check_finite(self.bias, f"{name}: bias as {self.weight.dtype}")
        names = None if classes is None else (classes,) if isinstance(classes, str) else tuple(classes)
        if names is not None and len(names) != self.n_classes:
            raise SoftscopeError(
                f"{name}: {len(names)} class names for {self.n_classes} rows of weight", "Give one name per class"
            )
        self.classes: tuple[str, ...] | None = names and tuple(printable(str(each)) for each in names)
        self.name = printable(name)
        self._turned: dict[np.dtype, NDArray] = {}

    def __repr__(self) -> str:
        bias = "bias" if self.bias.any() else "no bias"
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

    def logits(self, z: Any) -> NDArray:
        """Logits W z + b of the rows of `z`, float32 [N, K] (float64 where z and W both are), in chunks of rows."""
        rows = self.check(z)
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is named below
            out = np.empty((len(rows), self.n_classes), self.logit_dtype(rows.dtype))
            self.product(rows, out)
            out += self.bias.astype(out.dtype, copy=False)
        check_finite(out, f"logits of {self.name}, beyond the range of {out.dtype}")
        return out

    def logit_dtype(self, dtype: np.dtype) -> np.dtype:
        """Precision of the logits of `dtype` features: float64 where both they and W are, else float32."""
        return np.dtype(np.float64 if dtype == self.weight.dtype == np.float64 else np.float32)

    def product(self, rows: NDArray, out: NDArray) -> None:
        """z W' of `rows` into `out` [N, K], without the bias and without looking at the values.

        Always multiplied in blocks of `block_rows` rows, the last one padded: how BLAS rounds depends on the shapes,
        so that only this way a row's logits do not depend on the rows beside it. Where float32 products depend on a
        row's place in the block too, they are made in float64.
        """
        weight = self._transposed(out.dtype if rows_round_alike() else np.dtype(np.float64))
        height = self.block_rows
        whole = len(rows) - len(rows) % height
        for span in spans(whole, height):
            block = np.ascontiguousarray(rows[span], weight.dtype)
            if weight.dtype == out.dtype:
                np.matmul(block, weight, out=out[span])
            else:
                out[span] = np.matmul(block, weight)
        if whole < len(rows):
            block = np.zeros((height, self.n_features), weight.dtype)
            block[: len(rows) - whole] = rows[whole:]
            out[whole:] = np.matmul(block, weight)[: len(rows) - whole]

    @cached_property
    def block_rows(self) -> int:
        """Rows that `product` multiplies at once.

        OpenBLAS multiplies up to 10^6 x 1 without packing, twice as fast for few classes; beyond that larger blocks
        are faster, and 256 rows come within 3 % of the best.
        """
        unpacked = 10**6 // self.weight.size // 32 * 32
        return min(unpacked, 1024) or 256

    @cached_property
    def weight_norms(self) -> Floats:
        """norm(w_i) of each class, float64 [K]."""
        return _norms(self.weight)

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
            np.matmul(_directions(rows[span]), self._directions.T, out=out[span])
        return np.clip(out, -1.0, 1.0, out=out)

    def norms(self, z: Any) -> Floats:
        """norm(z) of each row, float64 [N]."""
        rows = self.check(z)
        out = np.empty(len(rows))
        for span in spans(len(rows), chunk_rows(self.n_features)):
            out[span] = _norms(rows[span])
        return out

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `weight`, `bias` and the class names as safetensors, atomically."""
        metadata = {"format": "softscope.head"} | ({"classes": json.dumps(self.classes)} if self.classes else {})
        write_safetensors(path, {"weight": self.weight, "bias": self.bias}, metadata)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "Head":
        """Read a head written by `save`, or any safetensors file with tensors `weight` and (optionally) `bias`."""
        entries, metadata = safetensors_header(path)
        if "weight" not in entries:
            raise SoftscopeError(
                f"{path}: expected tensors 'weight' and 'bias', found {', '.join(sorted(entries)) or 'nothing'}",
                "Save the last layer with Head(weight, bias).save(path)",
            )
        tensors, _ = read_safetensors(path)
        return cls(tensors["weight"], tensors.get("bias"), _class_names(metadata, path), name=str(path))

    @classmethod
    def from_torch(
        cls, model: "torch.nn.Module", classes: Sequence[str] | None = None, *, probe: Any = None, output: Any = None
    ) -> "Head":
        """The last linear layer of a torch classifier (`head.search` says how it is found).

        `probe`, a few inputs as the model takes them, helps where neither the model's interface nor its graph tells
        which layer makes the logits; `output` picks the logits out of a tuple or dict that the model returns.
        """
        from .search import find_last_layer

        weight, bias = (last_layer := find_last_layer(model, probe, output)).weight_and_bias()
        return cls(weight, bias, classes, name=f"{type(model).__name__}.{last_layer.name}")

    @classmethod
    def from_sklearn(cls, estimator: Any) -> "Head":
        """The last linear layer of a fitted scikit-learn classifier, or of the one that a Pipeline ends in.

        W, b are `coef_`, `intercept_`, or the last of `coefs_`, `intercepts_` of a network; [0, w] for one logit.
        """
        while hasattr(estimator, "steps"):
            estimator = estimator.steps[-1][1]
        name = type(estimator).__name__
        if not hasattr(estimator, "classes_"):
            raise SoftscopeError(f"{name}: is not fitted, or not a classifier", "Call fit first")
        if hasattr(estimator, "coefs_"):
            weight, bias = estimator.coefs_[-1].T, estimator.intercepts_[-1]
        elif hasattr(estimator, "coef_"):
            weight = np.atleast_2d(estimator.coef_)
            bias = np.broadcast_to(np.asarray(estimator.intercept_, weight.dtype), (len(weight),))
        else:
            raise SoftscopeError(
                f"{name}: has no linear last layer",
                "Give LogisticRegression, SGDClassifier with log_loss, MLPClassifier, or a Pipeline that ends in one",
            )
        if len(weight) == 1:
            weight, bias = np.concatenate([0 * weight, weight]), np.concatenate([0 * bias, bias])
        return cls(weight, bias, tuple(map(str, estimator.classes_)), name=name)

    @cached_property
    def _directions(self) -> Floats:
        return _directions(self.weight)

    def _transposed(self, dtype: np.dtype) -> NDArray:
        """W' [H, K] in `dtype`, contiguous, made once for each of float32 and float64."""
        if dtype not in self._turned:
            self._turned[dtype] = np.ascontiguousarray(self.weight.T, dtype)
        return self._turned[dtype]


def _frozen(array: NDArray, dtype: np.dtype | None = None) -> NDArray:
    with np.errstate(over="ignore"):
        copy = np.array(array, dtype, order="C")
    copy.flags.writeable = False
    return copy


def _norms(rows: NDArray) -> Floats:
    """norm(row) in float64, at most the largest float64."""
    wide, scale = _in_range(rows)
    with np.errstate(over="ignore"):
        norms: Floats = np.minimum(scale * np.linalg.norm(wide, axis=1), np.finfo(np.float64).max)
        return norms


def _directions(rows: NDArray) -> Floats:
    """row / norm(row) in float64, 0 where the row is all zeros."""
    wide, _ = _in_range(rows)
    norms = np.linalg.norm(wide, axis=1)
    return np.divide(wide, np.where(norms > 0, norms, 1.0)[:, None], out=wide)


def _in_range(rows: NDArray) -> tuple[Floats, Floats]:
    """`rows` as wide * scale in float64: squares of wide neither overflow nor vanish (those of float32 never do)."""
    wide, scale = rows.astype(np.float64), np.ones(len(rows))
    if rows.dtype == np.float64:
        largest = np.maximum(rows.max(axis=1), -rows.min(axis=1))
        scale = np.where(largest > 0, largest, 1.0)
        wide /= scale[:, None]
    return wide, scale


def _class_names(metadata: dict[str, str], path: str | os.PathLike[str]) -> list[str] | None:
    if "classes" not in metadata:
        return None
    try:
        names = parse_json(metadata["classes"])
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise SoftscopeError(f"{path}: metadata 'classes' is not a JSON list of names", "Save the head again")
    return names
