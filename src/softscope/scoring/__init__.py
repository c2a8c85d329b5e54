"""Files in, scores out: features of any number of rows through a guard, on one machine or many."""

from .rows import Scorer
from .run import Job, ScoreSummary, score

__all__ = ["Job", "ScoreSummary", "Scorer", "score"]
