"""The search over the density's options (X8), for any features."""

from .fitting import Tried
from .options import KernelSetting, Setting, paper_setting
from .search import Search, tune
from .spaces import Features, Sets

__all__ = ["Features", "KernelSetting", "Search", "Sets", "Setting", "Tried", "paper_setting", "tune"]
