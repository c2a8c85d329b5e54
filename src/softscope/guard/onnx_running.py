"""ONNX models around an export: made from torch, run on samples that any machine makes alike."""

import os
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from math import prod
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError
from ..files import existing_file, first_line
from ..models import EXPORT_HINT, need_onnx, onnx_session
from .onnx_tensor import dimensions

Feed = dict[str, NDArray]
_SAMPLES, _SIDES, _LENGTH = 4, (96, 128), 16  # where a graph leaves them open; the sides of an image are not equal
_MOST_VALUES = 1 << 26
_LARGEST = (1 << 31) - (1 << 20)  # bytes of a protobuf message


@contextmanager
def as_file(model: Any, example: Any) -> Iterator[Path]:
    """The path of an .onnx file as it is, or of a torch module's export, made with an `example` batch."""
    if isinstance(model, str | os.PathLike):
        yield existing_file(model)
        return
    from ..torch_door import torch

    need_onnx()
    if not isinstance(model, torch.nn.Module) or example is None:
        raise SoftscopeError(
            f"a {type(model).__name__} without an example batch can't be exported",
            "Give the path of an .onnx file, or a torch module with example=images[:2]",
        )
    named = {name: torch.as_tensor(value) for name, value in example.items()} if isinstance(example, Mapping) else {}
    inputs = named or {"input": torch.as_tensor(example)}
    training = model.training
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                torch.onnx.export(
                    model.eval(),
                    () if named else tuple(inputs.values()),
                    str(path),
                    kwargs=named or None,
                    input_names=list(inputs),
                    output_names=["answer"],
                    dynamic_axes={name: {0: "rows"} for name in (*inputs, "answer")},
                    opset_version=17,
                    dynamo=False,
                )
        except Exception as error:  # a model may refuse to be exported in any way it likes
            raise SoftscopeError(
                f"{type(model).__name__}: torch can't export it ({first_line(error)[:200]})",
                "Export it to .onnx yourself",
            ) from error
        finally:
            model.train(training)
        yield path


def inputs_of(graph: Any) -> list[Any]:
    """What a caller must give: inputs without a value of their own."""
    fixed = {entry.name for entry in graph.initializer}
    return [entry for entry in graph.input if entry.name not in fixed]


def samples(model: Any, shapes: Mapping[str, Sequence[int]] | None = None) -> Feed:
    """Random inputs, the same wherever they are made; `shapes` are those of an earlier call.

    Whole numbers are 0 or 1, and 1 in the first place: good as words, as masks and as kinds of words alike.
    """
    from onnx import helper

    feed: Feed = {}
    for entry in inputs_of(model.graph):
        shape = _shape(entry) if shapes is None else [int(size) for size in shapes[entry.name]]
        if not 0 < prod(shape) <= _MOST_VALUES:
            raise SoftscopeError(f"samples of shape {shape}", "Export the model for smaller inputs")
        draws = np.random.default_rng(0).integers(0, 256, shape)
        dtype = helper.tensor_dtype_to_np_dtype(entry.type.tensor_type.elem_type)
        if dtype == np.uint8:
            feed[entry.name] = draws.astype(np.uint8)
        elif dtype in (np.int64, np.int32, np.bool_):
            draws = draws % 2
            draws[..., :1] = 1
            feed[entry.name] = draws.astype(dtype)
        else:
            feed[entry.name] = (draws / 128 - 1).astype(np.float32)
    return feed


def _shape(entry: Any) -> list[int]:
    sizes = dimensions(entry)
    free = [_SAMPLES, *([_LENGTH] if len(sizes) < 4 else [_SIDES[0], *_SIDES])]
    # A free side of an image [N, H, W, C] or [N, C, H, W] is 96 or 128, by its place.
    return [size or free[min(place, len(free) - 1)] for place, size in enumerate(sizes)]


def run(model: Any, feed: Feed, outputs: Sequence[str]) -> list[NDArray]:
    """The named tensors of a graph, outputs or not."""
    import onnx

    known = {output.name for output in model.graph.output}
    hidden = [name for name in dict.fromkeys(outputs) if name not in known]
    model.graph.output.extend(onnx.ValueInfoProto(name=name) for name in hidden)
    try:
        results: list[NDArray] = onnx_session(serialised(model)).run(list(outputs), feed)
        return results
    except Exception as error:  # onnxruntime's errors share no base class
        if isinstance(error, SoftscopeError):
            raise
        raise SoftscopeError(f"onnxruntime can't run the graph ({first_line(error)[:200]})", EXPORT_HINT) from error
    finally:
        del model.graph.output[len(known) :]


def serialised(model: Any) -> bytes:
    """The bytes of an .onnx file."""
    if model.ByteSize() > _LARGEST:
        raise SoftscopeError(
            f"the graph would have {model.ByteSize() / 1e9:.1f} GB, an ONNX file holds 2 GB",
            "Use a tied covariance, or knn with fewer max_rows",
        )
    content: bytes = model.SerializeToString()
    return content
