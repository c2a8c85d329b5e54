"""Any trained classifier whose last layer is linear, logits = W z + b: its head and its features, checked.

    head, train = extract(model, data)                       # any model and data, see `extract`
    train = extract_features(model, images, labels)          # a torch model and arrays, as the paper wing uses it

torch and onnxruntime are imported when a model is first looked at.
"""

from typing import TYPE_CHECKING

from ..lazy import lazily

if TYPE_CHECKING:
    from .extracting import extract, extract_sets
    from .files import (
        DiagnosisFiles,
        Options,
        Part,
        WrittenSet,
        class_names,
        roles,
        write_features,
        write_part,
        write_splits,
    )
    from .onnx import onnx_session
    from .onnx_graph import OnnxHead, find_head
    from .opened import OpenedModel, check_logits
    from .opening import open_model
    from .plan import Plan, SetPlan, first_images, make_plan
    from .torch import TorchModel, extract_features

_HOMES = {
    "extracting": ("extract", "extract_sets"),
    "files": (
        "DiagnosisFiles", "Options", "Part", "WrittenSet", "class_names", "roles", "write_features", "write_part",
        "write_splits",
    ),
    "onnx": ("onnx_session",),
    "onnx_graph": ("OnnxHead", "find_head"),
    "opened": ("OpenedModel", "check_logits"),
    "opening": ("open_model",),
    "plan": ("Plan", "SetPlan", "first_images", "make_plan"),
    "torch": ("TorchModel", "extract_features"),
}  # fmt: skip
__getattr__ = lazily(__name__, _HOMES)

__all__ = [
    "DiagnosisFiles", "OnnxHead", "OpenedModel", "Options", "Part", "Plan", "SetPlan", "TorchModel", "WrittenSet",
    "check_logits", "class_names", "extract", "extract_features", "extract_sets", "find_head", "first_images",
    "make_plan", "onnx_session", "open_model", "roles", "write_features", "write_part", "write_splits",
]  # fmt: skip
