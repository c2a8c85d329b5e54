"""Training: one seeded loop for every network here, that resumes to the same bits.

    result = train(net, images, labels, TrainSettings(epochs=2, seed=0), checkpoint_dir="runs/lenet")
    evaluate(net, test_images, test_labels).accuracy

torch is imported when training starts; the settings are plain data.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from .settings import Augment as Augment
from .settings import Precision as Precision
from .settings import TrainSettings as TrainSettings

if TYPE_CHECKING:
    from .loop import EpochRecord as EpochRecord
    from .loop import TrainResult as TrainResult
    from .loop import train as train
    from .scoring import Evaluation as Evaluation
    from .scoring import evaluate as evaluate

_HOMES = {
    "train": "loop",
    "TrainResult": "loop",
    "EpochRecord": "loop",
    "evaluate": "scoring",
    "Evaluation": "scoring",
}

__all__ = ["Augment", "EpochRecord", "Evaluation", "Precision", "TrainResult", "TrainSettings", "evaluate", "train"]


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'softscope.paper.training' has no attribute {name!r}")
    return getattr(import_module(f".{home}", __name__), name)
