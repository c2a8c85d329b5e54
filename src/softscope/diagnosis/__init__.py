"""From a classifier's features to what is wrong with its confidence, why, and what to do about it."""

from .causes import cause_sizes
from .model import Diagnosis
from .pipeline import diagnose
from .sets import COMPARED

__all__ = ["COMPARED", "Diagnosis", "cause_sizes", "diagnose"]
