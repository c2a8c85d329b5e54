"""Files in, scores out: features of any number of rows through a guard, on one machine or many."""

from .extraction import SpreadExtraction
from .fitting import sharded_features
from .job import Job
from .rows import RowScorer
from .run import ScoreSummary, score

__all__ = ["Job", "RowScorer", "ScoreSummary", "SpreadExtraction", "score", "sharded_features"]
