"""Networks trained alike, taken together (T26): the entropy of each, averaged, and the entropy of their average."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats
from ...estimators.softmax import entropy, log_entropy
from ...metrics import auroc
from .networks import TrainedNetwork


def together(networks: Sequence[TrainedNetwork], ood: str) -> dict[str, Any]:
    """What T26 reads, in nats, and AUROCs in percent; `networks` differ in nothing but their seed.

    entropy_*   mean over networks and inputs of the entropy of a single network's softmax
    ensemble_*  mean over inputs of the entropy of the average softmax; the rest of it is disagreement
    auroc_*     of U_entropy: mean over single networks, and of the average softmax
    """
    low = [_logits(network, network.test.array()) for network in networks]
    high = [_logits(network, network.ood[ood].array()) for network in networks]
    single = [auroc(log_entropy(a), log_entropy(b)).value for a, b in zip(low, high)]
    means = average(low), average(high)
    return {
        "networks": len(networks),
        "entropy_in": float(np.mean([entropy(logits).mean() for logits in low])),
        "entropy_out": float(np.mean([entropy(logits).mean() for logits in high])),
        "ensemble_in": float(entropy(means[0]).mean()),
        "ensemble_out": float(entropy(means[1]).mean()),
        "auroc_single": 100 * float(np.mean(single)),
        "auroc_ensemble": 100 * auroc(*(log_entropy(mean) for mean in means)).value,
    }


def average(logits: Sequence[NDArray]) -> Floats:
    """log of the mean softmax of several networks, from their logits [N, K]: again logits, of the ensemble."""
    total: Floats | None = None
    for own in logits:
        exact = own.astype(np.float64)
        exact -= np.logaddexp.reduce(exact, axis=1, keepdims=True)
        total = exact if total is None else np.logaddexp(total, exact)
    assert total is not None
    found: Floats = total - np.log(len(logits))
    return found


def _logits(network: TrainedNetwork, z: NDArray) -> NDArray:
    return network.head.logits(z)
