"""How well an uncertainty tells familiar inputs from unfamiliar ones, and how good the classifier is, with intervals.

Scores are any real numbers; larger = more uncertain, always. `familiar` holds the scores of in-distribution inputs,
`unfamiliar` those of out-of-distribution inputs. Intervals are at 95 %.
"""

from .discoveries import DiscoveryBound, discovery_bound, known_envelope
from .interval import Interval, accuracy, cross_entropy, mean_interval, proportion
from .ranking import (
    Comparison,
    RocCurve,
    auroc,
    auroc_difference,
    average_precision,
    balanced,
    fpr_at_recall,
    roc_curve,
)

__all__ = [
    "Comparison", "DiscoveryBound", "Interval", "RocCurve", "accuracy", "auroc", "auroc_difference",
    "average_precision", "balanced", "cross_entropy", "discovery_bound", "fpr_at_recall", "known_envelope",
    "mean_interval", "proportion", "roc_curve",
]  # fmt: skip
