"""Decision boundary structures: the optimal one (T12), the counterfactual ones, spherical codes, the distance to them.

Every structure is a `Head`. It lives in the first coordinates of R^H unless `seed` asks for a random rotation.
"""

from dataclasses import dataclass

import numpy as np

from ..arrays import Floats
from ..errors import SoftscopeError
from ..head import Head

# How strongly the closest pair of weights outweighs the others while a spherical code is searched.
_SHARPNESS = (4.0, 16.0, 64.0, 256.0, 1024.0, 4096.0, 16384.0)


def optimal_structure(classes: int, features: int, *, norm: float = 1.0, seed: int | None = None) -> Head:
    """K weights of equal norm, no bias, cos(w_i, w_j) = -1/(K-1): the vertices of a simplex, K <= H + 1 (T12).

    >>> weight = optimal_structure(3, 2).weight
    >>> (weight @ weight.T).round(2)
    array([[ 1. , -0.5, -0.5],
           [-0.5,  1. , -0.5],
           [-0.5, -0.5,  1. ]])
    """
    _check_shape(classes, features)
    if classes > features + 1:
        raise SoftscopeError(
            f"{classes} weights can't all be at cosine -1/(K-1) in {features} features (K <= H + 1)",
            "Use more features, or softscope.geometry.spherical_code for the best arrangement found numerically",
        )
    return _structure(simplex(classes), None, features, norm, seed)


def sandwich(classes: int, features: int, *, norm: float = 1.0, seed: int | None = None) -> Head:
    """Weights evenly over a half circle: the first and last are opposite, the others lie between (the paper's T18)."""
    _check_plane(classes, features)
    return _structure(_on_circle(np.linspace(0.0, np.pi, classes)), None, features, norm, seed)


def stack(classes: int, features: int, *, norm: float = 1.0, seed: int | None = None) -> Head:
    """Parallel decision boundaries: w_i = a_i d, b_i = -norm a_i^2 / 2, a_i evenly spaced in [-1, 1] (times norm).

    Boundary between neighbours i, i+1 at d'z = (a_i + a_{i+1}) / 2: without its bias all boundaries would coincide.
    The paper shows this structure only as a picture; `norm` is the norm of the two outermost weights.
    """
    _check_shape(classes, features)
    steps = np.linspace(-1.0, 1.0, classes)
    return _structure(steps[:, None], -0.5 * steps**2, features, norm, seed)


def lopsided(classes: int, features: int, *, norm: float = 1.0, seed: int | None = None) -> Head:
    """All weights but the last share a fan of 45 degrees; the last points the other way. Equal norms, no bias.

    The paper shows this structure only as a picture: the boundaries crowd on one side of the space.
    """
    _check_plane(classes, features)
    fan = np.linspace(-np.pi / 8, np.pi / 8, classes - 1) if classes > 2 else np.zeros(1)
    return _structure(_on_circle(np.append(fan, np.pi)), None, features, norm, seed)


def random_structure(classes: int, features: int, *, norm: float = 1.0, seed: int = 0) -> Head:
    """K weights of equal norm in directions uniform on the sphere, no bias."""
    _check_shape(classes, features)
    rows = np.random.default_rng(seed).standard_normal((classes, features))
    return Head(norm * rows / np.linalg.norm(rows, axis=1, keepdims=True), name="random structure")


def simplex(classes: int) -> Floats:
    """K unit vectors of R^(K-1) with pairwise products -1/(K-1), rows of a K x (K-1) matrix."""
    product = -1.0 / (classes - 1)
    rows = np.zeros((classes, classes - 1))
    for k in range(classes - 1):
        rows[k, k] = np.sqrt(1.0 - rows[k, :k] @ rows[k, :k])
        rows[k + 1 :, k] = (product - rows[k + 1 :, :k] @ rows[k, :k]) / rows[k, k]
    return rows


def random_rotation(size: int, seed: int) -> Floats:
    """A rotation of R^size drawn from the Haar measure (determinant +1)."""
    q, r = np.linalg.qr(np.random.default_rng(seed).standard_normal((size, size)))
    q = q * np.sign(np.diag(r))
    if np.linalg.det(q) < 0:
        q[:, 0] = -q[:, 0]
    return np.asarray(q)


@dataclass(frozen=True)
class SphericalCode:
    """`head` with unit weights and no bias, the `largest_cosine` between two; `numerical`: found, not proven best."""

    head: Head
    largest_cosine: float
    numerical: bool
    starts: int


def spherical_code(classes: int, features: int, *, starts: int = 8, seed: int = 0) -> SphericalCode:
    """The arrangement of K unit weights in R^H with the largest smallest angle (the Tammes problem).

    K <= H + 1: the optimal structure, exact. Otherwise found numerically: minimise log sum exp(sharpness * cos) over
    pairs by L-BFGS with growing sharpness, the best of `starts` random starts. A best known code, not a proven one.
    """
    if classes <= features + 1:
        return SphericalCode(optimal_structure(classes, features), -1.0 / (classes - 1), numerical=False, starts=0)
    rng = np.random.default_rng(seed)
    codes = [_spread_out(rng.standard_normal((classes, features))) for _ in range(starts)]
    rows = min(codes, key=_largest_cosine)
    return SphericalCode(Head(rows, name="spherical code"), _largest_cosine(rows), numerical=True, starts=starts)


@dataclass(frozen=True)
class Spread:
    """Mean, standard deviation, extremes and skewness of a set of numbers (skewness 0 where they are all equal)."""

    mean: float
    std: float
    low: float
    high: float
    skewness: float

    @classmethod
    def of(cls, values: Floats) -> "Spread":
        """The spread of `values`, a non-empty array."""
        centred = values - values.mean()
        std = float(np.sqrt((centred**2).mean()))
        skewness = float((centred**3).mean() / std**3) if std > 1e-12 * max(1.0, float(np.abs(values).max())) else 0.0
        return cls(float(values.mean()), std, float(values.min()), float(values.max()), skewness)


@dataclass(frozen=True)
class StructureReport:
    """How a head compares with the optimal structure.

    `distance` is min over rotations (with reflections) R and scales s of norm(W - s S R) / norm(W), S the simplex:
    0 for an optimal structure, at most 1. `centred_distance` is the same after the mean weight, which softmax ignores,
    is taken away. Both are None where K > H + 1, where no optimal structure exists.
    """

    classes: int
    features: int
    norms: Spread
    biases: Spread
    bias_to_norm: float
    cosines: Spread
    optimal_cosine: float
    distance: float | None
    centred_distance: float | None


def structure_report(head: Head) -> StructureReport:
    """Norms, biases, cosines and the Procrustes distance of `head` to the nearest optimal structure (X3, T12)."""
    weight = head.weight.astype(np.float64)
    bias = head.bias.astype(np.float64)
    pairs = head.class_cosines[np.triu_indices(head.n_classes, 1)]
    mean_norm = float(head.weight_norms.mean())
    exists = head.n_classes <= head.n_features + 1
    return StructureReport(
        classes=head.n_classes,
        features=head.n_features,
        norms=Spread.of(head.weight_norms),
        biases=Spread.of(bias),
        bias_to_norm=float(np.abs(bias).mean() / mean_norm) if mean_norm > 0 else 0.0,
        cosines=Spread.of(pairs),
        optimal_cosine=-1.0 / (head.n_classes - 1),
        distance=procrustes_distance(weight) if exists else None,
        centred_distance=procrustes_distance(weight - weight.mean(axis=0)) if exists else None,
    )


def procrustes_distance(weight: Floats) -> float:
    """min over orthogonal R and s >= 0 of norm(W - s S R)_F / norm(W)_F, S the simplex of as many rows.

    With M = S'W the best s is the nuclear norm of M over norm(S)^2. Any relabelling of the simplex is a rotation or
    reflection of it, so no search over permutations is needed.
    """
    scale = float((weight**2).sum())
    if scale == 0.0:
        return 1.0
    target = simplex(len(weight))
    nuclear = float(np.linalg.svd(target.T @ weight, compute_uv=False).sum())
    return float(np.sqrt(max(0.0, 1.0 - nuclear**2 / (len(weight) * scale))))


def _structure(rows: Floats, bias: Floats | None, features: int, norm: float, seed: int | None) -> Head:
    if not norm > 0:
        raise SoftscopeError(f"a structure needs a positive norm, found {norm}", "Give norm=1.0 or larger")
    weight = np.zeros((len(rows), features))
    weight[:, : rows.shape[1]] = norm * rows
    if seed is not None:
        weight = weight @ random_rotation(features, seed)
    return Head(weight, None if bias is None else norm * bias, name="structure")


def _on_circle(angles: Floats) -> Floats:
    return np.column_stack([np.cos(angles), np.sin(angles)])


def _check_shape(classes: int, features: int) -> None:
    if classes < 2 or features < 1:
        raise SoftscopeError(
            f"a structure needs at least 2 classes and 1 feature, found K = {classes}, H = {features}",
            "Give a larger K or H",
        )


def _check_plane(classes: int, features: int) -> None:
    _check_shape(classes, features)
    if features < 2:
        raise SoftscopeError(f"this structure lies in a plane, found H = {features}", "Give H = 2 or more")


def _spread_out(rows: Floats) -> Floats:
    from scipy.optimize import minimize

    shape, pairs = rows.shape, np.triu_indices(len(rows), 1)

    def repulsion(flat: Floats, sharpness: float) -> tuple[float, Floats]:
        free = flat.reshape(shape)
        norms = np.linalg.norm(free, axis=1, keepdims=True)
        unit = free / norms
        cosines = (unit @ unit.T)[pairs]
        top = cosines.max()
        weights = np.exp(sharpness * (cosines - top))
        total = weights.sum()
        pull = np.zeros((shape[0], shape[0]))
        pull[pairs] = weights / total
        slope = (pull + pull.T) @ unit
        slope = (slope - (slope * unit).sum(axis=1, keepdims=True) * unit) / norms
        return float(top + np.log(total) / sharpness), slope.ravel()

    for sharpness in _SHARPNESS:
        rows = minimize(repulsion, rows.ravel(), args=(sharpness,), jac=True, method="L-BFGS-B").x.reshape(shape)
        rows = rows / np.linalg.norm(rows, axis=1, keepdims=True)
    return rows


def _largest_cosine(rows: Floats) -> float:
    cosines = rows @ rows.T
    return float(cosines[np.triu_indices(len(rows), 1)].max())
