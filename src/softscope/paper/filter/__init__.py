"""The scan of a binary input space (X6): which inputs, of all that exist, does a network call certain?

network = scanned(load_model("model.safetensors").net)
found = scan(network, Range(seed=0, start=0, stop=2**27))
found.share_above(log_odds_of(0.99)), found.numbers[3]      # the most confident threes, by input number
"""

from .networks import Folded, PlainNet, Scanned, scanned
from .scan import BLOCK, Range, scan, scan_in_store
from .statistics import Statistics, edges, exact_binomial, log_odds_of

__all__ = [
    "BLOCK",
    "Folded",
    "PlainNet",
    "Range",
    "Scanned",
    "Statistics",
    "edges",
    "exact_binomial",
    "log_odds_of",
    "scan",
    "scan_in_store",
    "scanned",
]
