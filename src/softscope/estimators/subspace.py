"""References that read what lies off the features' principal subspace: Residual, ViM."""

from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, square_norms
from ..blas import one_blas_thread
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..head import Head
from ..mixture import RANK_TOLERANCE, ClassMoments, Conditioning, Moments, cholesky
from .base import Estimator, Info, each_chunk, register, unit_rows
from .softmax import energy


@register
class Residual(Estimator):
    """Distance from the principal subspace of the training features.

    With u = -W^+ b the origin and R the directions of the training features about u beyond the `dim` of largest second
    moment. `dim` is the authors' 1000 for H >= 2048 and 512 for H >= 768; below, where 512 would leave little or
    nothing, H / 2. Where the training features span no more than `dim` directions (all residuals would be 0) it is
    halved to half of what they span; `dim_` is the one used and `conditioning_` says why.

    `normalise` works on z / norm(z), with the origin 0, as a direction has none: the score is then the sine of the
    angle between z and the subspace. OpenOOD computes the subspace of validation instead of training rows.
    """

    info = Info("R17", "residual", "U_residual", "norm(R'(z - u))", ("head", "train"), "Wang et al. 2022")

    dim_: int
    conditioning_: tuple[Conditioning, ...]
    # R ("residual"), or where columns are many the fewer others P ("principal"): R R' = 1 - P P'.
    _axes: Floats
    _kind: Literal["residual", "principal"]

    def __init__(self, *, dim: int | None = None, normalise: bool = False) -> None:
        self.dim = dim
        self.normalise = normalise

    def _check(self, head: Head) -> None:
        if self.dim is not None and not 0 <= self.dim < head.n_features:
            raise SoftscopeError(
                f"{self.info.name}: dim is {self.dim}, the features have {head.n_features} columns",
                "Give 0 <= dim < H",
            )

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        self._origin = np.zeros(head.n_features) if self.normalise else _head_origin(head)
        if moments is None or self.normalise:
            spread = Moments.over(self._prepared(rows) for rows in train.chunks())
        else:
            spread = moments.whole
        step = spread.mean - self._origin
        asked, count, about = self._asked(head.n_features), spread.count, spread.scatter
        about /= max(count, 1.0)
        for row, share in zip(about, step):
            row += share * step
        factor = cholesky(about.copy())
        if factor is not None and asked <= len(factor.lower) // 2:
            rank, condition, self.dim_ = len(factor.lower), factor.condition, asked
            del factor
            self._kind, self._axes = "principal", _largest(about, asked)
        else:
            with one_blas_thread():
                values, vectors = np.linalg.eigh(about)
            rank = int((values > RANK_TOLERANCE * values[-1]).sum())
            self.dim_ = asked if asked < rank else rank // 2
            self._kind, self._axes = "residual", np.ascontiguousarray(vectors[:, : head.n_features - self.dim_])
            condition = float(values[-1] / values[-rank]) if rank else float("inf")
        reduced = f"dim {asked} reduced to {self.dim_}: the features span {rank} directions"
        remedy = "" if self.dim_ == asked else reduced
        self.conditioning_ = (Conditioning(-1, count, rank, condition, 0.0, "float64", remedy),)

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return self._residual_norms(rows)

    def state(self) -> dict[str, NDArray]:
        return {"origin": self._origin, self._kind: self._axes} | super().state()

    def _restore(self, state: Mapping[str, NDArray]) -> None:
        super()._restore(state)
        self._kind = "residual" if "residual" in state else "principal"
        self._origin, self._axes = state["origin"], state[self._kind]
        columns = self._axes.shape[1]
        self.dim_ = columns if self._kind == "principal" else self.n_features_ - columns

    def _asked(self, width: int) -> int:
        if self.dim is not None:
            return self.dim
        return 1000 if width >= 2048 else 512 if width >= 768 else width // 2

    def _prepared(self, rows: NDArray) -> NDArray:
        return unit_rows(rows) if self.normalise else rows

    def _residual_norms(self, rows: NDArray) -> Floats:
        centred = self._prepared(rows) - self._origin
        along = centred @ self._axes
        if self._kind == "residual":
            return np.sqrt(square_norms(along))
        squares = square_norms(centred)
        rest = squares - square_norms(along)
        # Where little is left the difference of squares has lost its digits.
        close = rest < 1e-6 * squares
        if close.any():
            rest[close] = square_norms(centred[close] - along[close] @ self._axes.T)
        return np.sqrt(rest)


@register
class ViM(Residual):
    """Virtual-logit matching: the log-odds of a virtual class whose logit is the residual off the principal subspace.

    `dim` and the residual are those of `Residual`; alpha = mean max_i l_i / mean norm(R'(z - u)) over training rows (a
    second pass over them). The paper's score is the virtual class's softmax probability; its log-odds has the same
    order and can't saturate. It has no `normalise`: residual and logits must be of the same z. OpenOOD
    chooses dim on OOD data; pytorch-ood cuts logits off at 100 and -100.
    """

    info = Info(
        "R4",
        "vim",
        "U_vim",
        "alpha norm(R'(z - u)) - log sum_i exp(l_i)",
        ("head", "train"),
        "Wang et al. 2022",
    )
    fitted_numbers = ("alpha",)

    alpha_: float

    def __init__(self, *, dim: int | None = None) -> None:
        super().__init__(dim=dim)

    def _fit(self, head: Head, train: FeatureSet, moments: ClassMoments | None) -> None:
        super()._fit(head, train, moments)
        largest = residual = 0.0
        for _, rows in each_chunk(train):
            largest += float(head.logits(rows).max(axis=1).sum(dtype=np.float64))
            residual += float(self._residual_norms(rows).sum())
        self.alpha_ = largest / residual if residual > 0 else 0.0

    def _uncertainty(self, rows: NDArray) -> NDArray:
        return self.alpha_ * self._residual_norms(rows) + energy(self.head_.logits(rows))


def _largest(moment: Floats, dim: int) -> Floats:
    """The `dim` eigenvectors (columns) of largest eigenvalue of `moment`, which is overwritten."""
    from scipy.linalg import eigh

    width = len(moment)
    with one_blas_thread():
        vectors = eigh(moment.T, overwrite_a=True, check_finite=False, subset_by_index=(width - dim, width - 1))[1]
    return np.ascontiguousarray(vectors)


def _head_origin(head: Head) -> Floats:
    """u = -W^+ b, the point whose logits are 0 (in the least-squares sense).

    Singular values below float32 rounding count as 0: rows of W that sum to 0 would otherwise send u to infinity.
    """
    cut = max(head.weight.shape) * float(np.finfo(np.float32).eps)
    origin: Floats = -np.linalg.pinv(head.weight.astype(np.float64), rcond=cut) @ head.bias.astype(np.float64)
    return origin
