"""Sets with scores made by hand, to test what is computed from scores alone."""

import numpy as np

from softscope.diagnosis.sets import COSINE_EDGES, Observed, Scored, row_hashes
from softscope.features import FeatureSet


def made_scored(
    values: dict[str, np.ndarray],
    *,
    z: np.ndarray | None = None,
    predicted: np.ndarray | None = None,
    labels: np.ndarray | None = None,
    true_probability: np.ndarray | None = None,
    odds: np.ndarray | None = None,
) -> Scored:
    """A set of as many rows as there are scores; what isn't given is of no importance to the test."""
    rows = len(next(iter(values.values())))
    features = np.arange(rows, dtype=np.float64)[:, None] if z is None else z
    seen = Observed(
        features=FeatureSet(features, labels, name="made"),
        file=None,
        labels=labels,
        predicted=np.zeros(rows, np.int64) if predicted is None else predicted,
        odds=np.zeros(rows) if odds is None else odds,
        true_probability=true_probability,
        norms=np.ones(rows),
        familiarity=np.ones(rows),
        other_cosines=np.zeros(len(COSINE_EDGES) - 1, np.int64),
        hashes=row_hashes(features),
        digest="",
        lowest=0.0,
        sum_error=1.0,
    )
    return Scored(seen, {name: np.asarray(own, np.float64) for name, own in values.items()})
