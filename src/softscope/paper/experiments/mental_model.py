"""How far the two assumptions of the mental model (E5, T19) hold for a trained network.

1: the head has the optimal structure (equal norms, no bias, cosines -1/(K-1) between weights).
2: z has the cosine -1/(K-1) to every weight but the nearest. With 1 it implies a largest cosine of 1.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from ...features import FeatureSet
from ...geometry import structure_report
from ...head import Head


def assumptions(head: Head, sets: Mapping[str, FeatureSet]) -> dict[str, Any]:
    """`head`, how far it is from the optimal structure, and `sets`, the cosines of their features to its weights.

    head  norm_spread      std of norm(w) / mean
          bias_share       mean abs(b) / mean norm(w)
          cosine_deviation root mean square of cos(w_i, w_j) + 1/(K-1)
          distance, centred_distance   to the optimal structure; None where there is none (K > H + 1)
    sets  largest          mean of max_i cos(w_i, z)
          others_deviation root mean square of the other cosines + 1/(K-1)
    """
    report = structure_report(head)
    optimum = report.optimal_cosine
    return {
        "head": {
            "norm_spread": report.norms.std / report.norms.mean,
            "bias_share": report.bias_to_norm,
            "cosine_deviation": float(np.hypot(report.cosines.std, report.cosines.mean - optimum)),
            "distance": report.distance,
            "centred_distance": report.centred_distance,
        },
        "sets": {name: _cosines(head, features, optimum) for name, features in sets.items()},
    }


def _cosines(head: Head, features: FeatureSet, optimum: float) -> dict[str, float]:
    rows, largest, others = 0, 0.0, 0.0
    for z in features.chunks():
        cosines = head.cosines(z)
        top = cosines.max(axis=1)
        rows += len(z)
        largest += float(top.sum())
        others += float(((cosines - optimum) ** 2).sum() - ((top - optimum) ** 2).sum())
    count = rows * (head.n_classes - 1)
    return {"largest": largest / rows, "others_deviation": float(np.sqrt(max(others, 0.0) / count))}
