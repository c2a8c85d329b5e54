"""Training: one seeded loop for every network here, that resumes to the same bits.

    result = train(net, images, labels, TrainSettings(epochs=2, seed=0), checkpoint_dir="runs/lenet")
    evaluate(net, test_images, test_labels).accuracy

torch is imported when training starts; the settings are plain data.
"""

from typing import TYPE_CHECKING

from ...lazy import lazily
from .settings import Augment as Augment
from .settings import Precision as Precision
from .settings import TrainSettings as TrainSettings

if TYPE_CHECKING:
    from .loop import EpochRecord as EpochRecord
    from .loop import TrainResult as TrainResult
    from .loop import train as train
    from .parts import Evaluation as Evaluation
    from .parts import evaluate as evaluate

__getattr__ = lazily(__name__, {"loop": ("EpochRecord", "TrainResult", "train"), "parts": ("Evaluation", "evaluate")})

__all__ = ["Augment", "EpochRecord", "Evaluation", "Precision", "TrainResult", "TrainSettings", "evaluate", "train"]
