"""The paper's experiments by id and figure label, and the module behind each, imported when asked for.

A module of this room holds `SCALES` (the settings of "smoke", "laptop", for some "overnight", and "paper") and
`run(settings, store, engine)`. A new experiment is a paragraph in `experiments.toml`, which also has the texts beside
its numbers.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from ...lazy import lazily
from .registry import REGISTER as REGISTER
from .registry import Entry as Entry
from .registry import find as find
from .registry import texts as texts

if TYPE_CHECKING:
    from .base import Experiment
    from .base import reproduce as reproduce
    from .verdict import Row as Row

__getattr__ = lazily(__name__, {"base": ("reproduce",), "verdict": ("Row",)})


def load(entry: Entry) -> "Experiment":
    """The experiment itself."""
    from .base import Experiment

    module = import_module(f".{entry.module}", __name__)
    return Experiment(entry.id, entry.figures, entry.title, module.SCALES, module.run)
