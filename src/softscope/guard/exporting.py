"""A classifier and its guard as one ONNX file: pixels in; class, probability, uncertainty, p and alarm out.

It runs in onnxruntime alone, without softscope. What was exported is run and compared with Python before it is written,
and `check_guarded` runs the samples that the file carries once more, wherever it was copied to.
"""

import json
import os
from collections.abc import Callable, Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from .. import __version__
from ..canonical import parse_json, plain
from ..errors import SoftscopeError
from ..files import first_line, write_bytes
from ..images import Encoded, Preprocessing
from ..models import EXPORT_HINT, OnnxHead, OpenedModel, find_head, load_onnx, open_model
from .formulas import alarms, decision_constants, p_values
from .guard import Guard
from .onnx_pixels import IMAGE, RESIZED, take_images
from .onnx_running import Feed, as_file, inputs_of, run, samples, serialised
from .onnx_tensor import Graph, Node
from .reference_formulas import plan_of

FeedScorer = Callable[[Feed], NDArray]
Pooling = Literal["only", "mean", "first", "last"]
OUTPUTS = ("class", "probability", "uncertainty", "p", "alarm")
_METADATA = "softscope.guard"
_TOLERANCE = 1e-5
_MOST_LEVELS = 4  # of 255 by which a resized pixel may differ from Pillow's, see `onnx_pixels`


def export_guarded(
    guard: Guard,
    model: Any,
    path: str | os.PathLike[str],
    *,
    preprocessing: Preprocessing | None = None,
    example: Any = None,
) -> dict[str, Any]:
    """Write `model` (an .onnx file, or a torch module with an `example` batch) with `guard` inside to `path`.

    With `preprocessing` the graph takes uint8 images (of any size, where it has a `size`), else what the model takes.
    Returns what the file says of itself.
    """
    with as_file(model, example) as file:
        joined = load_onnx(file)
        names = [entry.name for entry in inputs_of(joined.graph)]
        _free_names(joined.graph, [*OUTPUTS, IMAGE, "rate"])
        head = _checked_head(joined.graph, guard)
        _check_features(guard)
        reference = open_model(str(file))
        pooling = _pooling(reference, names, joined, head)
        del joined.graph.output[:]
        graph = Graph(joined.graph, _opset(joined))
        done = None
        if preprocessing is not None:
            done = take_images(graph, inputs_of(joined.graph)[0], preprocessing)
        _guard_nodes(graph, guard, *_rows_of(graph, head, pooling))
        joined.ir_version = max(joined.ir_version, 8)  # from 4 on an input with a value is optional
        feed = samples(joined)
        python_scores = _python_scores(guard, reference, names, done)
        resizes = done is not None and done.size is not None
        expected = _check_whole(joined, feed, python_scores, resizes)
        resizing = _resizing(joined, feed, python_scores, done) if done is not None and resizes else None
    words = {
        "sha256": guard.sha256,
        "guard": guard.describe(),
        "classes": guard.head.classes,
        "preprocessing": None if done is None else str(done),
        "resizing": resizing,
        "samples": {"shapes": {name: list(values.shape) for name, values in feed.items()}, **expected},
        "softscope": __version__,
    }
    note = joined.metadata_props.add()
    note.key, note.value = _METADATA, json.dumps(plain(words, "metadata"))
    write_bytes(path, serialised(joined))
    return words


def check_guarded(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What a guarded model says of itself, after its own samples gave the outputs they gave at export."""
    model = load_onnx(path)
    words = next((entry.value for entry in model.metadata_props if entry.key == _METADATA), None)
    try:
        described: dict[str, Any] = parse_json(words or "")
        stored = described["samples"]
        outputs = dict(zip(OUTPUTS, run(model, samples(model, stored["shapes"]), OUTPUTS)))
        expected = np.array(stored["uncertainty"], np.float64)
        same = _close(outputs["uncertainty"], expected) and outputs["alarm"].tolist() == stored["alarm"]
        _ = described["sha256"], described["guard"]["groups"]
    except SoftscopeError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError) as error:
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
    from onnx import TensorProto, helper, numpy_helper

    plan = plan_of(guard.estimator)
    constants = {name: graph.constant(value) for name, value in (plan.constants | decision_constants(guard)).items()}
    z, logits = features.double(), raw_logits.double()
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
    graph.graph.input.append(helper.make_tensor_value_info("rate", TensorProto.DOUBLE, [1]))
    graph.graph.initializer.append(numpy_helper.from_array(np.array([-1.0]), "rate"))
    graph.output(classes, "class", TensorProto.INT64)
    graph.output(probability.cast(np.float32), "probability", TensorProto.FLOAT)
    graph.output(scores, "uncertainty", TensorProto.DOUBLE)
    graph.output(p, "p", TensorProto.DOUBLE)
    graph.output(own | other | unsound, "alarm", TensorProto.BOOL)


def _checked_head(graph: Any, guard: Guard) -> OnnxHead:
    """The last layer of the graph, which must have the weights of the guard's head."""
    try:
        head = find_head(graph, "the model")
        same = head.weight.shape == guard.head.weight.shape and np.allclose(
            head.weight, guard.head.weight, rtol=1e-3, atol=1e-6
        )
    except SoftscopeError:
        same = False
    if not same:
        classes, width = guard.head.weight.shape
        raise SoftscopeError(
            f"the last layer of the model doesn't have the weights {classes} x {width} of the guard's head",
            EXPORT_HINT,
        )
    return head


def _pooling(reference: OpenedModel, names: Sequence[str], model: Any, head: OnnxHead) -> Pooling:
    """Which row the answer is made from, where the last layer sees several for each input (words, places)."""
    feed = samples(model)
    z = np.asarray(run(model, feed, [head.z])[0])
    width = head.weight.shape[1]
    flat = z.reshape(len(z), width, -1).swapaxes(1, 2) if head.channels_first else z.reshape(len(z), -1, width)
    given = dict(zip(names, feed.values()))
    reference.prepare(given)
    chosen = reference.read(given)[1]
    if flat.shape[1] == 1:
        return "only"
    ways: dict[Pooling, NDArray] = {"mean": flat.mean(1), "first": flat[:, 0], "last": flat[:, -1]}
    for way, rows in ways.items():
        if np.allclose(rows, chosen, rtol=1e-4, atol=1e-6 * np.abs(flat).max()):
            return way
    raise SoftscopeError(
        "the model's answer is made from neither the first, the last nor the mean of the rows of its last layer",
        "Export a model whose last layer sees one row per input",
    )


def _rows_of(graph: Graph, head: OnnxHead, pooling: Pooling) -> tuple[Node, Node]:
    """Features [N, H] and logits [N, K] of the last layer."""

    def row(name: str, width: int) -> Node:
        node = Node(graph, name)
        if pooling == "only":
            return node.reshape(-1, width)
        if head.channels_first:
            node = graph.add("Transpose", node.reshape(0, width, -1), perm=[0, 2, 1])
        else:
            node = node.reshape(0, -1, width)
        if pooling == "mean":
            return node.mean(1)
        place = graph.constant(0 if pooling == "first" else -1, np.int64)
        return graph.add("Gather", node, place, axis=1)

    logits = row(head.logits, head.outputs)
    if head.outputs == 1:  # one logit l of two classes is (0, l)
        logits = graph.add("Concat", graph.add("Sub", logits, logits), logits, axis=1)
    return row(head.z, head.weight.shape[1]), logits


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
    scores, alarm = run(model, {"z": rows.astype(np.float32)}, ("uncertainty", "alarm"))
    if not _close(scores, expected) or (alarm != guard.alarms(rows)).any():
        raise SoftscopeError(
            f"the graph scores the guard's sample rows differently, {scores[0]:.6g} instead of {expected[0]:.6g}",
            "Please report this with the guard's file",
        )


def _python_scores(
    guard: Guard, reference: OpenedModel, names: Sequence[str], done: Preprocessing | None
) -> FeedScorer:
    """Scores of samples by the model as it was, Pillow and Python: what the joined graph is compared with."""

    def scores(feed: Feed) -> NDArray:
        first, *others = feed.values()
        given = first if done is None else done.apply(first)
        return guard.uncertainty(reference.read(dict(zip(names, [given, *others])))[1])

    return scores


def _check_whole(joined: Any, feed: Feed, python_scores: FeedScorer, resizes: bool) -> dict[str, Any]:
    """Run samples through the joined graph and through Python: equal, or a SoftscopeError. Returns what they gave."""
    outputs = dict(zip(OUTPUTS, run(joined, feed, OUTPUTS)))
    scores = python_scores(feed | ({IMAGE: _resized(joined, feed)} if resizes else {}))
    if not _close(outputs["uncertainty"], scores):
        raise SoftscopeError(
            f"the joined graph scores {outputs['uncertainty'][0]:.6g} where Python scores {scores[0]:.6g}",
            "Please report this with the model and the guard",
        )
    return {name: value.tolist() for name, value in outputs.items()}


def _resizing(joined: Any, feed: Feed, python_scores: FeedScorer, done: Preprocessing) -> dict[str, Any]:
    """How far the graph's resizing of wide and tall samples is from Pillow's: in levels of 255, and in scores."""
    levels, apart = [], []
    for images in (feed[IMAGE], np.ascontiguousarray(feed[IMAGE].swapaxes(1, 2))):
        ours = _resized(joined, feed | {IMAGE: images})
        pillow = done.decoder().decode(Encoded(list(images), [IMAGE] * len(images))).images
        levels.append(np.abs(ours.astype(np.int64) - pillow))
        expected = python_scores(feed | {IMAGE: pillow})
        apart.append(np.abs(python_scores(feed | {IMAGE: ours}) - expected).max() / np.abs(expected).max())
    largest = int(np.max(levels))
    if largest > _MOST_LEVELS:
        raise SoftscopeError(
            f"the graph resizes otherwise than Pillow, by {largest} of 255 levels", "Please report this"
        )
    return {"levels": largest, "share": float((np.array(levels) > 0).mean()), "scores": float(np.max(apart))}


def _resized(joined: Any, feed: Feed) -> NDArray[np.uint8]:
    return run(joined, feed, [RESIZED])[0].astype(np.uint8)


def _close(scores: NDArray, expected: NDArray) -> bool:
    return bool(
        scores.shape == expected.shape and np.abs(scores - expected).max() <= _TOLERANCE * np.abs(expected).max()
    )


def _free_names(graph: Any, taken: Sequence[str]) -> None:
    """Rename tensors of the model that have one of the names `taken`."""
    used = {name for node in graph.node for name in [*node.input, *node.output]} | {v.name for v in graph.input}
    clash = used & set(taken)
    for node in graph.node:
        for names in (node.input, node.output):
            for place, name in enumerate(names):
                if name in clash:
                    names[place] = f"model_{name}"
    for entry in [*graph.input, *graph.output, *graph.initializer, *graph.value_info]:
        if entry.name in clash:
            entry.name = f"model_{entry.name}"


def _opset(model: Any) -> int:
    version = max((entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")), default=0)
    if version < 11:
        raise SoftscopeError(f"the model has ONNX operators of version {version}, needed is 11", "Export it again")
    return int(version)
