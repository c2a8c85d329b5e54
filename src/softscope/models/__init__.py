"""Any trained classifier whose last layer is linear, logits = W z + b: its head and its features, checked.

    head, train = extract(model, data)                       # any model and data, see `extract`
    train = extract_features(model, images, labels)          # a torch model and arrays, as the paper wing uses it

torch and onnxruntime are imported when a model is first looked at.
"""

from typing import TYPE_CHECKING

from ..lazy import lazily
from .extracting import extract, extract_sets
from .files import DiagnosisFiles, Options, Part, WrittenSet, roles, write_features, write_part, write_splits
from .opened import OpenedModel, check_logits
from .opening import class_names, open_model
from .plan import Plan, SetPlan, first_images, make_plan

if TYPE_CHECKING:
    from .onnx import load_onnx, need_onnx, onnx_session
    from .onnx_graph import EXPORT_HINT, OnnxHead, find_head
    from .torch import TorchModel, extract_features

_HOMES = {
    "onnx": ("load_onnx", "need_onnx", "onnx_session"),
    "onnx_graph": ("EXPORT_HINT", "OnnxHead", "find_head"),
    "torch": ("TorchModel", "extract_features"),
}
__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "EXPORT_HINT", "DiagnosisFiles", "OnnxHead", "OpenedModel", "Options", "Part", "Plan", "SetPlan", "TorchModel",
    "WrittenSet", "check_logits", "class_names", "extract", "extract_features", "extract_sets", "find_head",
    "first_images", "load_onnx", "make_plan", "need_onnx", "onnx_session", "open_model", "roles", "write_features",
    "write_part", "write_splits",
]  # fmt: skip
