"""The search over the density's options (X8), for any features."""

from .fitting import Tried
from .options import ComponentCount, KernelSetting, Setting, paper_setting
from .search import Search, tune
from .spaces import Features, Sets
from .summary import SearchSummary, open_features, search_in_store

__all__ = [
    "ComponentCount",
    "Features",
    "KernelSetting",
    "Search",
    "SearchSummary",
    "Sets",
    "Setting",
    "Tried",
    "open_features",
    "paper_setting",
    "search_in_store",
    "tune",
]
