"""scikit-learn classifiers with a linear last layer: linear models, neural networks, and pipelines that end in one."""

import hashlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..files import first_line
from ..head import Head
from ..images import Preprocessing
from .opened import Layer, OpenedModel

_READABLE = 1e-9  # below this 1 - p has fewer correct digits than the check asks for


class SklearnModel(OpenedModel):
    """A fitted classifier: z is what its last linear layer sees, after all steps of a pipeline and all hidden layers.

    `coef_` and `intercept_` are the head (of two classes [0, w]); of an MLPClassifier the last of `coefs_`.
    """

    def __init__(self, estimator: Any) -> None:
        self._steps, self._last = _parted(estimator)
        self._head = Head.from_sklearn(self._last)
        self.name = self._head.name
        self.preprocessing = Preprocessing()
        self._is_network = hasattr(self._last, "coefs_")
        self.classes = self._head.classes
        self.words = {"classifier": "coefs_" if self._is_network else "coef_"}

    def describe(self) -> str:
        steps = [type(step).__name__ for step in self._steps]
        return f"scikit-learn {' + '.join([*steps, self.name])}"

    def prepare(self, probe: Any, layer: Layer = "after") -> Head:
        if layer != "after":
            raise SoftscopeError("features before the non-linearity need a torch model", "Use layer='after'")
        return Head(self._head.weight, self._head.bias, self.classes, name=self.name)

    def read(self, inputs: Any) -> tuple[NDArray, NDArray, NDArray]:
        """Features, and logits from the model's own answer: decision_function, or log of predict_proba."""
        values, step = inputs, self._last
        try:
            for step in self._steps:
                values = step.transform(values)
            step = self._last
            z = self._features(values)
            return z, z, self._own_logits(values, z)
        except Exception as error:  # steps of the user's own may fail in any way they like
            raise SoftscopeError(
                f"{type(step).__name__} failed: {first_line(error)[:200]}", "Check the inputs"
            ) from error

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr((self._steps, self._last)).encode())
        digest.update(self._head.weight.data)
        digest.update(self._head.bias.data)
        return digest.hexdigest()

    def _features(self, values: Any) -> NDArray:
        """What the last layer sees: dense rows, through the hidden layers of a network."""
        z = np.asarray(values.toarray() if hasattr(values, "toarray") else values)
        if self._is_network:
            from sklearn.neural_network._base import ACTIVATIONS

            activate = ACTIVATIONS[self._last.activation]
            for weight, bias in zip(self._last.coefs_[:-1], self._last.intercepts_[:-1]):
                z = z @ weight + bias
                activate(z)
        return z.astype(np.float32 if z.dtype == np.float32 else np.float64)

    def _own_logits(self, values: Any, z: NDArray) -> NDArray:
        """The model's own answer as logits: the check compares the head with it, and a shift of all logits is none."""
        if not self._is_network and hasattr(self._last, "decision_function"):
            own = np.asarray(self._last.decision_function(values), np.float64)
            return np.stack([0 * own, own], 1) if own.ndim == 1 else own
        own = np.log(np.maximum(self._last.predict_proba(values), 1e-300))
        made = z @ self._head.weight.T + self._head.bias
        own += (made.max(1) - own.max(1))[:, None]
        # A probability near 0 has lost its digits (two classes: 1 - p), so it can only be compared as one near 0.
        lead = made.max(1, keepdims=True)
        lost = np.maximum(own, made) < lead + np.log(_READABLE)
        return np.asarray(np.where(lost, made, own))


def _parted(estimator: Any) -> tuple[list[Any], Any]:
    """The steps before the classifier and the classifier, of a Pipeline (also nested) or alone."""
    steps = getattr(estimator, "steps", None)
    if steps is None:
        return [], estimator
    before = [step for _, step in steps[:-1] if step is not None and step != "passthrough"]
    inner, last = _parted(steps[-1][1])
    return [*before, *inner], last
