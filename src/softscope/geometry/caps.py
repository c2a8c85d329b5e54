"""Classes of bounded confidence (T29): how sure a head can be of a class, whatever the features, and what that costs.

After a ReLU features are never negative. A class is bounded exactly when a mixture of the other classes' weights is at
least as large as its own in every feature: some shares p_j >= 0 that add up to 1 have sum_j p_j w_j >= w_c. Then

    log(s_c / (1 - s_c)) <= b_c - sum_j p_j b_j - H(p),   H(p) = -sum_j p_j log p_j,

and the best p gives the largest confidence that any features reach. Equal shares give 1 / (1 + (K-1) exp(-m)), with
m = b_c less the mean bias of the others.
"""

from typing import Any

import numpy as np

from ..arrays import Floats
from ..head import Head

# A box for the search: leads of 700 round to a confidence of 1, so no larger features are needed.
_FAR = 700.0


def confidence_caps(head: Head, *, nonnegative: bool = True) -> Floats:
    """The largest s_c that any features reach, for each class c (T29); 1 where it is not bounded.

    `nonnegative`: features are those after a ReLU. Otherwise any features, and a class is bounded only where its weight
    lies in the convex hull of the others.

    >>> from softscope.geometry import stack
    >>> confidence_caps(stack(3, 2, norm=4.0, seed=0)).round(3)
    array([1.   , 0.787, 1.   ])
    """
    return np.array(
        [1.0 / (1.0 + np.exp(-largest_odds(head, c, nonnegative=nonnegative))) for c in range(head.n_classes)]
    )


def largest_odds(head: Head, c: int, *, nonnegative: bool = True) -> float:
    """sup over features of log(s_c / (1 - s_c)), infinite where class c is not bounded.

    The log-odds are concave in z. A linear programme finds a direction along which class c leads all others; if there
    is none, the supremum is found by L-BFGS-B.
    """
    from scipy.optimize import linprog, minimize

    apart = np.delete(head.weight.astype(np.float64), c, axis=0) - head.weight[c].astype(np.float64)
    shift = np.delete(head.bias.astype(np.float64), c) - float(head.bias[c])
    scale = float(np.abs(apart).max())
    if scale == 0.0:
        return -float(np.logaddexp.reduce(shift))
    size = head.n_features
    low = 0.0 if nonnegative else -1.0
    lead = linprog(
        np.append(np.zeros(size), -1.0),
        A_ub=np.column_stack([apart / scale, np.ones(len(apart))]),
        b_ub=np.zeros(len(apart)),
        bounds=[(low, 1.0)] * size + [(None, None)],
    )
    if -lead.fun > 1e-9:
        return float("inf")

    def behind(z: Floats) -> tuple[float, Floats]:
        logits = apart @ z + shift
        total = np.logaddexp.reduce(logits)
        return float(total), np.exp(logits - total) @ apart

    far = _FAR / scale
    solution = minimize(
        behind, np.zeros(size), jac=True, method="L-BFGS-B", bounds=[(low * far, far)] * size, options={"maxiter": 5000}
    )
    return -float(solution.fun)


def loss_floor(caps: Any, shares: Any) -> float:
    """No network with this head has a cross-entropy below sum_c share_c log(1 / cap_c), nats (T29)."""
    return float(-(np.asarray(shares, np.float64) @ np.log(np.asarray(caps, np.float64))))


def auroc_cap(caps: Any, predicted: Any, ood_confidence: Any) -> float:
    """No AUROC of U_max exceeds 1 - sum_c predicted_c P(OOD confidence > cap_c) (T29).

    `predicted_c`: the share of test inputs that are put into class c, all of which have s_max <= cap_c; an OOD input
    that is surer than that ranks on the wrong side of every one of them.
    """
    confidence = np.asarray(ood_confidence, np.float64)
    surer = np.array([(confidence > cap).mean() for cap in np.asarray(caps, np.float64)])
    return float(1.0 - np.asarray(predicted, np.float64) @ surer)
