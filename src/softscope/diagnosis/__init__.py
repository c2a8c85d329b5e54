"""From a classifier's features to what is wrong with its confidence, why, and what to do about it."""

from .model import Diagnosis
from .pipeline import diagnose

__all__ = ["Diagnosis", "diagnose"]
