"""A classifier and its guard as one ONNX file: pixels in; class, probability, uncertainty, p and alarm out.

It runs in onnxruntime alone, without softscope. What was exported is run and compared with Python before it is written,
and `check_guarded` runs the samples that the file carries once more, wherever it was copied to.
"""

import io
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..canonical import parse_json, plain
from ..errors import SoftscopeError
from ..files import existing_file, first_line, write_bytes
from .formulas import alarms, decision_constants, p_values
from .guard import Guard
from .onnx_tensor import Graph, Node, values_of
from .reference_formulas import plan_of

OUTPUTS = ("class", "probability", "uncertainty", "p", "alarm")
_METADATA = "softscope.guard"
_TOLERANCE = 1e-5
_SAMPLES = 4
_LARGEST = (1 << 31) - (1 << 20)  # bytes of a protobuf message
_FREE_SIZE = 64  # pixels of a sample's side, where a model takes any
_CLASSIFIER = "Export a classifier that ends in one linear layer (Gemm, or MatMul and Add) with its weights in the file"


@dataclass(frozen=True)
class Pixels:
    """uint8 images [N, height, width, channels] become (pixels / 255 - mean) / std inside the graph."""

    mean: Sequence[float] = (0.0, 0.0, 0.0)
    std: Sequence[float] = (1.0, 1.0, 1.0)


def export_guarded(
    guard: Guard,
    model: Any,
    path: str | os.PathLike[str],
    *,
    pixels: Pixels | None = None,
    example: Any = None,
) -> dict[str, Any]:
    """Write `model` (an .onnx file, or a torch module with an `example` batch) with `guard` inside to `path`.

    With `pixels` the graph takes uint8 images, else what the model takes. Returns what the file says of itself.
    """
    onnx = _onnx()
    source = _opened(model) if isinstance(model, str | os.PathLike) else _from_torch(model, example)
    inside = _last_layer(source.graph, guard)
    _check_features(guard)
    joined = onnx.ModelProto()
    joined.CopyFrom(source)
    _rename_outputs(joined.graph, [*OUTPUTS, "image", "rate"])
    del joined.graph.output[:]
    graph = Graph(joined.graph, _opset(joined))
    if pixels is not None:
        _take_pixels(graph, pixels)
    features, logits = (Node(graph, name) for name in _last_layer(joined.graph, guard))
    _guard_nodes(graph, guard, features, logits)
    joined.ir_version = max(joined.ir_version, 8)  # from 4 on an input with a value is optional
    feed = _samples(joined)
    expected = _check_whole(guard, source, inside, joined, feed, pixels)
    words = {
        "sha256": guard.sha256,
        "guard": guard.describe(),
        "classes": guard.head.classes,
        "samples": {"seed": 0, "rows": _SAMPLES, **expected},
        "softscope": __version__,
    }
    entry = joined.metadata_props.add()
    entry.key, entry.value = _METADATA, json.dumps(plain(words, "metadata"))
    content = _serialised(joined)
    write_bytes(path, content)
    return words


def check_guarded(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a guarded model says of itself, after its own samples gave the outputs they gave at export."""
    model = _opened(path)
    words = next((entry.value for entry in model.metadata_props if entry.key == _METADATA), None)
    try:
        described: dict[str, Any] = parse_json(words or "")
        samples = described["samples"]
        feed = _samples(model)
        outputs = dict(zip(OUTPUTS, _run(model, feed, OUTPUTS)))
        expected = np.array(samples["uncertainty"], np.float64)
        same = _close(outputs["uncertainty"], expected) and outputs["alarm"].tolist() == samples["alarm"]
        _ = described["sha256"], described["guard"]["groups"]
    except SoftscopeError:
        raise
    except (ValueError, KeyError, TypeError) as error:
        raise SoftscopeError(
            f"{path}: is not a guarded model ({first_line(error)})", "Make one with `softscope guard export`"
        ) from error
    if not same:
        raise SoftscopeError(
            f"{path}: its samples score differently here, {outputs['uncertainty'][0]:.6g} instead of {expected[0]:.6g}",
            "Export it again, or use the version of onnxruntime it was made with",
        )
    return described


def _guard_nodes(graph: Graph, guard: Guard, features: Node, raw_logits: Node) -> None:
    from onnx import TensorProto

    plan = plan_of(guard)
    constants = {name: graph.constant(value) for name, value in (plan.constants | decision_constants(guard)).items()}
    head = guard.head
    z = features.reshape(-1, head.n_features).double()
    logits = raw_logits.reshape(-1, head.n_classes).double()
    classes = logits.argmax(1)
    groups = classes if guard.per_class else (classes.double() * 0.0).cast(np.int64)
    scores = plan.formula(z, logits, constants)
    p = p_values(scores, groups, constants)
    # The optional input `rate`: below 0, its default, the guard's own levels hold.
    rate = Node(graph, "rate")
    own = alarms(p, groups, constants) & (rate <= 0.0)
    other = (p <= rate) & graph.add("Greater", rate, 0.0)
    unsound = graph.add("Not", scores - scores == 0.0)  # false for NaN and inf
    probability = 1.0 / (logits - logits.amax(1).reshape(-1, 1)).exp().sum(1)
    _optional_input(graph, "rate", -1.0)
    graph.output(classes, "class", TensorProto.INT64)
    graph.output(probability.cast(np.float32), "probability", TensorProto.FLOAT)
    graph.output(scores, "uncertainty", TensorProto.DOUBLE)
    graph.output(p, "p", TensorProto.DOUBLE)
    graph.output(own | other | unsound, "alarm", TensorProto.BOOL)


def _optional_input(graph: Graph, name: str, value: float) -> None:
    from onnx import TensorProto, helper, numpy_helper

    graph.graph.input.append(helper.make_tensor_value_info(name, TensorProto.DOUBLE, [1]))
    graph.graph.initializer.append(numpy_helper.from_array(np.array([value]), name))


def _take_pixels(graph: Graph, pixels: Pixels) -> None:
    """A new input `image` before the model's own, which must be a float image."""
    from onnx import TensorProto, helper

    fixed = {entry.name for entry in graph.graph.initializer}
    entry = next(value for value in graph.graph.input if value.name not in fixed)
    shape = _dimensions(entry)
    mean, std = np.asarray(pixels.mean, np.float32), np.asarray(pixels.std, np.float32)
    first = len(shape) == 4 and shape[1] in (1, 3)
    if len(shape) != 4 or not (first or shape[3] in (1, 3)) or entry.type.tensor_type.elem_type != TensorProto.FLOAT:
        raise SoftscopeError(
            f"the model takes {shape}, not float images of 1 or 3 channels", "Export it with --raw-input"
        )
    channels = shape[1] if first else shape[3]
    if mean.size not in (1, channels) or mean.shape != std.shape or not (std > 0).all():
        raise SoftscopeError(f"mean {mean.tolist()}, std {std.tolist()}", f"Give {channels} numbers each, std above 0")
    image = Node(graph, "image")
    begin = len(graph.graph.node)
    scaled = graph.add("Div", image.cast(np.float32), graph.constant(255.0, np.float32))
    shifted = graph.add("Sub", scaled, graph.constant(mean, np.float32))
    ready = graph.add("Div", shifted, graph.constant(std, np.float32))
    if first:
        ready = graph.add("Transpose", ready, perm=[0, 3, 1, 2])
    own = entry.name
    graph.graph.node.append(helper.make_node("Identity", [ready.name], [own]))
    added = list(graph.graph.node[begin:])
    del graph.graph.node[begin:]
    rest = list(graph.graph.node)
    del graph.graph.node[:]
    graph.graph.node.extend([*added, *rest])
    graph.graph.input.remove(entry)
    order = [shape[0], shape[2], shape[3], channels] if first else shape
    graph.graph.input.insert(0, helper.make_tensor_value_info("image", TensorProto.UINT8, order))


def _last_layer(graph: Any, guard: Guard) -> tuple[str, str]:
    """The names of features and logits: around the layer whose weights are those of the guard's head."""
    values, weight = values_of(graph), guard.head.weight
    for node in reversed(graph.node):
        if node.op_type not in ("Gemm", "MatMul") or len(node.input) < 2 or node.input[1] not in values:
            continue
        matrix = values[node.input[1]]
        turned = matrix if matrix.shape == weight.shape else matrix.T
        if turned.shape != weight.shape or not np.allclose(turned, weight, rtol=1e-3, atol=1e-6):
            continue
        if node.op_type == "Gemm":
            return node.input[0], node.output[0]
        users = [user for user in graph.node if node.output[0] in user.input]
        biased = users[0].output[0] if len(users) == 1 and users[0].op_type == "Add" else node.output[0]
        return node.input[0], biased
    raise SoftscopeError(
        f"no layer of the model has the weights {weight.shape[0]} x {weight.shape[1]} of the guard's head", _CLASSIFIER
    )


def _check_features(guard: Guard) -> None:
    """Run the guard alone, as a graph, on its sample rows: scores to 1e-5, alarms equal."""
    from onnx import TensorProto, helper

    rows, expected = guard.probes
    graph = Graph(helper.make_graph([], "guard", [], []), 17)
    graph.graph.input.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, [None, guard.head.n_features]))
    weight = graph.constant(guard.head.weight.T, np.float32)
    logits = graph.add(
        "Add", graph.add("MatMul", Node(graph, "z"), weight), graph.constant(guard.head.bias, np.float32)
    )
    _guard_nodes(graph, guard, Node(graph, "z"), logits)
    model = helper.make_model(graph.graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    scores, alarm = _run(model, {"z": rows.astype(np.float32)}, ("uncertainty", "alarm"))
    if not _close(scores, expected) or (alarm != guard.alarms(rows)).any():
        raise SoftscopeError(
            f"the graph scores the guard's sample rows differently, {scores[0]:.6g} instead of {expected[0]:.6g}",
            "Please report this with the guard's file",
        )


def _check_whole(
    guard: Guard, source: Any, inside: tuple[str, str], joined: Any, feed: dict[str, NDArray], pixels: Pixels | None
) -> dict[str, Any]:
    """Run samples through the joined graph and through the model and Python: equal, or a SoftscopeError."""
    import onnx

    outputs = dict(zip(OUTPUTS, _run(joined, feed, OUTPUTS)))
    opened = onnx.ModelProto()
    opened.CopyFrom(source)
    known = {output.name for output in opened.graph.output}
    opened.graph.output.extend(onnx.ValueInfoProto(name=name) for name in set(inside) - known)
    given = next(iter(feed.values()))
    if pixels is not None:
        shape = _dimensions(next(v for v in source.graph.input if v.name not in values_of(source.graph)))
        given = (given.astype(np.float32) / 255 - np.asarray(pixels.mean, np.float32)) / np.asarray(
            pixels.std, np.float32
        )
        given = np.ascontiguousarray(np.moveaxis(given, 3, 1)) if shape[1] in (1, 3) else given
    fixed = values_of(source.graph)
    own = next(value.name for value in source.graph.input if value.name not in fixed)
    z, _ = _run(opened, {own: given.astype(np.float32)}, inside)
    scores = guard.uncertainty(z.reshape(len(given), -1))
    if not _close(outputs["uncertainty"], scores):
        raise SoftscopeError(
            f"the joined graph scores {outputs['uncertainty'][0]:.6g} where Python scores {scores[0]:.6g}",
            "Please report this with the model and the guard",
        )
    return {name: values.tolist() for name, values in outputs.items()}


def _close(scores: NDArray, expected: NDArray) -> bool:
    return bool(
        scores.shape == expected.shape and np.abs(scores - expected).max() <= _TOLERANCE * np.abs(expected).max()
    )


def _samples(model: Any) -> dict[str, NDArray]:
    """Random inputs for the model's first input, the same wherever they are made."""
    from onnx import TensorProto

    fixed = {entry.name for entry in model.graph.initializer}
    entry = next(value for value in model.graph.input if value.name not in fixed)
    shape = [size or _FREE_SIZE for size in _dimensions(entry)]
    shape[0] = _dimensions(entry)[0] or _SAMPLES
    draws = np.random.default_rng(0).integers(0, 256, shape)
    if entry.type.tensor_type.elem_type == TensorProto.UINT8:
        return {entry.name: draws.astype(np.uint8)}
    return {entry.name: (draws / 128 - 1).astype(np.float32)}


def _run(model: Any, feed: dict[str, NDArray], outputs: Sequence[str]) -> list[NDArray]:
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(_serialised(model), options, ["CPUExecutionProvider"])
        results: list[NDArray] = session.run(list(outputs), feed)
        return results
    except Exception as error:  # onnxruntime's errors share no base class
        if isinstance(error, SoftscopeError):
            raise
        raise SoftscopeError(f"onnxruntime can't run the graph ({first_line(error)[:200]})", _CLASSIFIER) from error


def _serialised(model: Any) -> bytes:
    if model.ByteSize() > _LARGEST:
        raise SoftscopeError(
            f"the graph would have {model.ByteSize() / 1e9:.1f} GB, an ONNX file holds 2 GB",
            "Use a tied covariance, or knn with fewer max_rows",
        )
    content: bytes = model.SerializeToString()
    return content


def _dimensions(entry: Any) -> list[int | None]:
    return [d.dim_value if d.HasField("dim_value") else None for d in entry.type.tensor_type.shape.dim]


def _rename_outputs(graph: Any, taken: Sequence[str]) -> None:
    used = {name for node in graph.node for name in [*node.input, *node.output]} | {v.name for v in graph.input}
    clash = sorted(used & set(taken))
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name in clash:
                    names[place] = f"model_{name}"
    for entry in [*graph.input, *graph.initializer, *graph.value_info]:
        if entry.name in clash:
            entry.name = f"model_{entry.name}"


def _opset(model: Any) -> int:
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if version < 11:
        raise SoftscopeError(f"the model has ONNX operators of version {version}, needed is 11", "Export it again")
    return int(version)


def _opened(path: str | os.PathLike[str]) -> Any:
    onnx = _onnx()
    file = existing_file(path)
    try:
        return onnx.load_model_from_string(Path(file).read_bytes())
    except Exception as error:  # protobuf's errors share no base class
        raise SoftscopeError(f"{path}: not an ONNX model ({first_line(error)[:200]})", _CLASSIFIER) from error


def _from_torch(model: Any, example: Any) -> Any:
    from ..torch_door import torch

    onnx = _onnx()
    if not isinstance(model, torch.nn.Module) or example is None:
        raise SoftscopeError(
            f"a {type(model).__name__} without an example batch can't be exported",
            "Give the path of an .onnx file, or a torch module with example=images[:2]",
        )
    content = io.BytesIO()
    batch = torch.as_tensor(example)
    training = model.training
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(
                model.eval(),
                (batch,),
                content,  # type: ignore[arg-type]
                input_names=["input"],
                output_names=["answer"],
                dynamic_axes={"input": {0: "rows"}, "answer": {0: "rows"}},
                opset_version=17,
                dynamo=False,
            )
    except Exception as error:  # a model may refuse to be exported in any way it likes
        raise SoftscopeError(
            f"{type(model).__name__}: torch can't export it ({first_line(error)[:200]})", "Export it to .onnx yourself"
        ) from error
    finally:
        model.train(training)
    return onnx.load_model_from_string(content.getvalue())


def _onnx() -> Any:
    try:
        import onnx
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise SoftscopeError("onnx and onnxruntime are not installed", "pip install 'softscope[onnx]'") from error
    return onnx
