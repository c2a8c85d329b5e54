"""The search over the density's options (X8), for any features."""

from .fitting import Tried
from .options import (
    COMPONENTS,
    COVARIANCES,
    FITS,
    LAYERS,
    RIDGES,
    TRANSFORMS,
    ComponentCount,
    KernelSetting,
    Setting,
    paper_setting,
)
from .search import Search, tune
from .spaces import Features, Sets, spread_rows
from .summary import SearchSummary, open_features, search_in_store, words

__all__ = [
    "COMPONENTS", "COVARIANCES", "FITS", "LAYERS", "RIDGES", "TRANSFORMS", "ComponentCount", "Features",
    "KernelSetting", "Search", "SearchSummary", "Sets", "Setting", "Tried", "open_features", "paper_setting",
    "search_in_store", "spread_rows", "tune", "words",
]  # fmt: skip
