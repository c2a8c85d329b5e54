"""Any trained classifier whose last layer is linear, logits = W z + b: its head and its features, checked.

    head, train = extract(model, data)                       # any model and data, see `extract`
    train = extract_features(model, images, labels)          # a torch model and arrays, as the paper wing uses it

torch and onnxruntime are imported when a model is first looked at.
"""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .command import DiagnosisFiles as DiagnosisFiles
    from .command import class_names as class_names
    from .command import roles as roles
    from .command import write_features as write_features
    from .command import write_splits as write_splits
    from .extracting import extract as extract
    from .extracting import extract_sets as extract_sets
    from .files import Options as Options
    from .files import Part as Part
    from .files import WrittenSet as WrittenSet
    from .files import write_part as write_part
    from .onnx_graph import OnnxHead as OnnxHead
    from .onnx_graph import find_head as find_head
    from .opened import OpenedModel as OpenedModel
    from .opened import check_logits as check_logits
    from .opening import open_model as open_model
    from .plan import Plan as Plan
    from .plan import SetPlan as SetPlan
    from .plan import first_images as first_images
    from .plan import make_plan as make_plan
    from .torch import TorchModel as TorchModel
    from .torch import extract_features as extract_features

_HOMES = {
    "command": ("DiagnosisFiles", "class_names", "roles", "write_features", "write_splits"),
    "extracting": ("extract", "extract_sets"),
    "files": ("Options", "Part", "WrittenSet", "write_part"),
    "onnx_graph": ("OnnxHead", "find_head"),
    "opened": ("OpenedModel", "check_logits"),
    "opening": ("open_model",),
    "plan": ("Plan", "SetPlan", "first_images", "make_plan"),
    "torch": ("TorchModel", "extract_features"),
}
__getattr__ = lazily(__name__, _HOMES)
__all__ = [name for names in _HOMES.values() for name in names]
