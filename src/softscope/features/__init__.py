"""Final-layer features z with optional labels, in memory or in files larger than memory."""

from .feature_set import FeatureSet

__all__ = ["FeatureSet"]
