"""The scan of a binary input space (X6): which inputs, of all that exist, does a network call certain?

network = scanned(load_model("model.safetensors").net)
statistics = scan(network, Range(seed=0, start=0, stop=2**27))
statistics.share_above(log_odds_of(0.99)), statistics.numbers[3]      # the most confident threes, by input number
"""

from . import inputs
from .finds import Climbed, Match, climb, nearest_distances, permutation_test, template_correlations
from .networks import Folded, Scanned, Unfolded, scanned
from .scan import BLOCK, Range, ScanSummary, run_scan, scan, scan_in_store, told
from .statistics import BINS, QUANTITIES, ScanStatistics, edges, exact_binomial, log_odds_of, percent

__all__ = [
    "BINS",
    "BLOCK",
    "QUANTITIES",
    "Climbed",
    "Folded",
    "Match",
    "Range",
    "ScanStatistics",
    "ScanSummary",
    "Scanned",
    "Unfolded",
    "climb",
    "edges",
    "exact_binomial",
    "inputs",
    "log_odds_of",
    "nearest_distances",
    "percent",
    "permutation_test",
    "run_scan",
    "scan",
    "scan_in_store",
    "scanned",
    "template_correlations",
    "told",
]
