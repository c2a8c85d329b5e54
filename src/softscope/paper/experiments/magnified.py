"""Magnified inputs in a trained ReLU network (T22): how far psi(a x) is from a psi(x), and what confidence does."""

from copy import deepcopy
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import log_odds
from .networks import TrainedNetwork

if TYPE_CHECKING:
    from ..nets import Net

FACTORS = (2, 10, 100)
_ROWS = 300


def magnified(network: TrainedNetwork) -> dict[str, Any]:
    """Over the first test images x, with psi_0 the network without its biases, norms over all of them:

    departure_a  norm(psi(a x) / a - psi_0(x)) / norm(psi_0(x)), which tends to 0 as 1/a
    gaining      percentage of inputs whose U_max falls when they are magnified 10 times
    """
    from ...images import fit_images

    net, head = network.net(), network.head
    x = fit_images(network.plan.data.load("test").images[:_ROWS], net.input_shape).astype(np.float32)
    limit = _features(_without_biases(net), x)
    size = float(np.linalg.norm(limit))
    z = {a: _features(net, a * x) for a in (1, *FACTORS)}
    departures = {f"departure_{a}": float(np.linalg.norm(z[a] / a - limit)) / size for a in FACTORS}
    gaining = log_odds(head.logits(z[10])) < log_odds(head.logits(z[1]))
    return {**departures, "gaining": 100 * float(np.mean(gaining)), "inputs": len(x)}


def _without_biases(net: "Net") -> "Net":
    bare = deepcopy(net)
    for name, values in bare.body.named_parameters():
        if name.endswith("bias"):
            values.detach().zero_()
    return bare


def _features(net: "Net", x: NDArray) -> Floats:
    from ...models import extract_features

    return extract_features(net, x).array().astype(np.float64)
