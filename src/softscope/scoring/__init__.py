"""Files in, scores out: features of any number of rows through a guard, on one machine or many."""

from .extraction import Spread
from .fitting import sharded_features
from .job import Job
from .rows import Scorer
from .run import ScoreSummary, score

__all__ = ["Job", "ScoreSummary", "Scorer", "Spread", "score", "sharded_features"]
