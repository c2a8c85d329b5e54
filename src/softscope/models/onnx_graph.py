"""The last linear layer of an ONNX graph: found by walking back from its answer, its constants folded.

Understood are Gemm, MatMul (with Add) and 1x1 Conv, weights stored, in Constant nodes or quantised (DequantizeLinear),
or the sum of two of these, times a number (the mean of two heads); followed by softmax (also spelled out as Exp,
ReduceSum, Div), log-softmax, a sigmoid of one logit, changes of shape.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError

Link = Literal["logits", "softmax", "log_softmax", "sigmoid"]

EXPORT_HINT = "Export a classifier that ends in one linear layer (Gemm, or MatMul and Add) with its weights in the file"
_THROUGH = (
    "Identity", "Flatten", "Squeeze", "Unsqueeze", "Reshape", "Cast", "Dropout", "Gather", "Slice", "ReduceMean",
    "GlobalAveragePool", "AveragePool", "Transpose",
)  # fmt: skip
_ROUNDED = ("QuantizeLinear", "DequantizeLinear")
_SHAPES = ("Expand", "Reshape", "Unsqueeze", "Squeeze", "Identity", "Cast")
_LINKS: dict[str, Link] = {"Softmax": "softmax", "LogSoftmax": "log_softmax", "Sigmoid": "sigmoid"}
# Operations whose result is no larger than their inputs, or checked to be small: what a hostile file may make us fold.
_FOLDED = ("Identity", "Transpose", "Reshape", "Cast", "DequantizeLinear", "Squeeze", "Unsqueeze", "Flatten")
_FOLDED_PAIRS = ("Mul", "Add", "Sub", "Div")
_MAX_VALUES = 1 << 28
_MAX_OUTPUTS = 64  # so many are tried: a hostile file has as many as it likes


@dataclass(frozen=True)
class OnnxHead:
    """Weight [K, H] and bias [K] (two rows for one logit), the tensors z, logits and answer, and the link between."""

    weight: NDArray
    bias: NDArray
    outputs: int
    z: str
    logits: str
    answer: str
    link: Link
    channels_first: bool
    rounded: bool = False  # the answer is quantised after the last layer


def find_head(graph: Any, path: str) -> OnnxHead:
    """The head behind the first output that has one; the time is linear in the nodes of the graph.

    Where two layers make the answer, a node that puts what they see side by side is added to the graph.
    """
    walk = _Walk(graph)
    reasons = []
    for output in graph.output[:_MAX_OUTPUTS]:
        try:
            return walk.back_from(output.name)
        except _NotLinearError as reason:
            reasons.append(f"{output.name} {reason}")
    raise SoftscopeError(f"{path}: {'; '.join(reasons[:4]) or 'no output'}", EXPORT_HINT)


class _NotLinearError(Exception):
    """Why an output has no linear layer behind it."""


@dataclass(frozen=True)
class _Layer:
    """One linear layer: weight [K, H], bias [K], and the tensor z that it sees."""

    weight: NDArray
    bias: NDArray
    z: str
    channels_first: bool


class _Walk:
    def __init__(self, graph: Any) -> None:
        self._graph = graph
        self._stored = {entry.name: entry for entry in graph.initializer}
        self._makers = {output: node for node in graph.node for output in node.output}
        self._folded: dict[str, NDArray | None] = {}

    def back_from(self, answer: str) -> OnnxHead:
        """Walk back from an output through softmax and changes of shape to the linear layer."""
        link: Link = "logits"
        name, steps, rounded = answer, 0, False
        while True:
            node = self._makers.get(name)
            steps += 1
            if node is None or steps > len(self._makers):
                raise _NotLinearError("comes from no linear layer")
            if node.op_type in _LINKS and link == "logits":
                link = _LINKS[node.op_type]
                name = node.input[0]
            elif node.op_type in _THROUGH or node.op_type in _ROUNDED:
                name, rounded = node.input[0], rounded or node.op_type in _ROUNDED
            elif node.op_type == "Div" and link == "logits" and (inner := self._spelled_softmax(node)) is not None:
                link, name = "softmax", inner
            else:
                layers = self._layers(name)
                if link == "sigmoid" and len(layers[0].weight) > 1:
                    raise _NotLinearError("answers one sigmoid per class: a multi-label model has no softmax")
                return _head(self._joined(layers), name, answer, link, rounded)

    def _spelled_softmax(self, node: Any) -> str | None:
        """x where the node is exp(x) / sum of exp(x), x perhaps less its largest value; the probe proves it later."""
        power, total = self._makers.get(node.input[0]), self._maker(node.input[1], _SHAPES)
        if power is None or total is None or power.op_type != "Exp" or total.op_type != "ReduceSum":
            return None
        if total.input[0] != node.input[0]:
            return None
        shift = self._makers.get(power.input[0])
        return str(shift.input[0] if shift is not None and shift.op_type == "Sub" else power.input[0])

    def _maker(self, name: str, through: Sequence[str]) -> Any:
        """The node that makes a tensor, behind those of the kinds `through`; None in a cycle of them."""
        node = self._makers.get(name)
        for _ in self._makers:
            if node is None or node.op_type not in through:
                return node
            node = self._makers.get(node.input[0])
        return None

    def _layers(self, name: str) -> list[_Layer]:
        """The layer that makes a tensor, or the two whose sum it is, times the numbers that they are multiplied by."""
        waiting, products, steps = [(name, 1.0)], [], 0
        while waiting:
            name, factor = waiting.pop(0)
            node = self._makers.get(name)
            steps += 1
            if node is None or steps > len(self._makers):
                raise _NotLinearError("comes from no linear layer")
            if (number := self._number(node)) is not None:
                waiting.insert(0, (number[0], factor * number[1]))
            elif node.op_type == "Add" and all(self._value(each) is None for each in node.input):
                waiting[:0] = [(each, factor) for each in node.input]
            else:
                products.append((node, factor))
            if len(waiting) + len(products) > 2:
                raise _NotLinearError("ends in a sum of more than two layers")
        try:
            return [self._linear(node, factor) for node, factor in products]
        except _NotLinearError:
            if len(products) == 1:
                raise
            raise _NotLinearError("ends in an addition that is not a bias") from None

    def _number(self, node: Any) -> tuple[str, float] | None:
        """(x, c) where the node is x times the constant number c, else None."""
        if node.op_type not in ("Mul", "Div"):
            return None
        for name, other in (node.input, node.input[::-1]):
            value = self._value(other)
            if value is not None and value.size == 1 and value.all() and self._value(name) is None:
                return name, float(value.item() if node.op_type == "Mul" else 1 / value.item())
            if node.op_type == "Div":
                break
        return None

    def _joined(self, layers: Sequence[_Layer]) -> _Layer:
        """Two layers as one, [W1, W2] on [z1, z2]."""
        from onnx import helper

        if len(layers) == 1:
            return layers[0]
        one, other = layers
        if len(one.weight) != len(other.weight) or one.channels_first != other.channels_first:
            raise _NotLinearError("ends in a sum of two layers that don't fit together")
        if one.z == other.z:
            return _Layer(one.weight + other.weight, one.bias + other.bias, one.z, one.channels_first)
        taken = {*self._makers, *self._stored, *(entry.name for entry in self._graph.input)}
        z = next(name for name in map("both_{}".format, range(len(taken) + 1)) if name not in taken)
        self._graph.node.append(helper.make_node("Concat", [one.z, other.z], [z], axis=1 if one.channels_first else -1))
        return _Layer(np.hstack([one.weight, other.weight]), one.bias + other.bias, z, one.channels_first)

    def _linear(self, node: Any, factor: float) -> _Layer:
        """Weight, bias and z of the Gemm, Add, MatMul or Conv, multiplied by a factor."""
        bias, product = None, node
        if node.op_type == "Add":
            constants = [self._value(name) for name in node.input]
            moving = [name for name, value in zip(node.input, constants) if value is None]
            product = self._maker(moving[0], ("Reshape", "Squeeze", "Identity", "Cast")) if len(moving) == 1 else None
            if product is None:
                raise _NotLinearError("ends in an addition that is not a bias")
            bias = next(value for value in constants if value is not None)
        settings = _attributes(product)
        if product.op_type not in ("Gemm", "MatMul", "Conv"):
            raise _NotLinearError(f"ends in {product.op_type}, not in a linear layer")
        weight = self._value(product.input[1])
        if weight is None:
            raise _NotLinearError("has a last layer whose weight is computed, not stored")
        if product.op_type == "Conv":
            if weight.ndim < 3 or prod(weight.shape[2:]) != 1 or settings.get("group", 1) != 1:
                raise _NotLinearError("ends in a convolution that is not 1x1")
            weight = weight.reshape(weight.shape[:2])
        else:
            weight = weight if settings.get("transB") else weight.T
        if weight.ndim != 2:
            raise _NotLinearError(f"has a last layer with a weight of shape {weight.shape}")
        if product.op_type != "MatMul" and len(product.input) > 2 and product.input[2]:
            own = self._value(product.input[2])
            if own is None or settings.get("transA"):
                raise _NotLinearError("has a last layer that is not a plain linear layer")
            own = own * np.float32(settings.get("beta", 1.0))
            bias = own if bias is None else bias.reshape(-1) + own
        weight = np.asarray(weight * np.float32(settings.get("alpha", 1.0)), np.float32)
        offset = np.zeros(len(weight), np.float32) if bias is None else np.asarray(bias, np.float32).reshape(-1)
        if offset.size == 1:
            offset = np.repeat(offset, len(weight))
        if offset.size != len(weight):
            raise _NotLinearError(f"has a last layer with {offset.size} offsets for {len(weight)} outputs")
        with np.errstate(over="ignore", invalid="ignore"):  # a head refuses weights that are inf or NaN
            scale = np.float32(factor)
            return _Layer(scale * weight, scale * offset, product.input[0], product.op_type == "Conv")

    def _value(self, name: str, depth: int = 0) -> NDArray | None:
        """The tensor if it is constant: stored, in a Constant node, or folded from such; else None."""
        if name in self._folded:
            return self._folded[name]
        self._folded[name] = None  # a cycle is not constant
        self._folded[name] = self._computed(name, depth) if depth < 32 else None
        return self._folded[name]

    def _computed(self, name: str, depth: int) -> NDArray | None:
        from onnx import numpy_helper
        from onnx.reference import ReferenceEvaluator

        if name in self._stored:
            return np.asarray(numpy_helper.to_array(self._stored[name]))
        node = self._makers.get(name)
        if node is None:
            return None
        if node.op_type == "Constant":
            value = _attributes(node).get("value")
            return None if value is None else np.asarray(numpy_helper.to_array(value))
        if node.op_type not in (*_FOLDED, *_FOLDED_PAIRS):
            return None
        values = [self._value(each, depth + 1) for each in node.input if each]
        if not values or any(value is None for value in values):
            return None
        arrays = [value for value in values if value is not None]
        if node.op_type in _FOLDED_PAIRS and prod(np.broadcast_shapes(*(each.shape for each in arrays))) > _MAX_VALUES:
            return None
        feed = dict(zip((each for each in node.input if each), arrays))
        return np.asarray(ReferenceEvaluator(node).run(None, feed)[0])


def _head(layer: _Layer, logits: str, answer: str, link: Link, rounded: bool) -> OnnxHead:
    weight, offset, count = layer.weight, layer.bias, len(layer.weight)
    if count == 1:
        weight, offset = np.concatenate([0 * weight, weight]), np.concatenate([0 * offset, offset])
    return OnnxHead(weight, offset, count, layer.z, logits, answer, link, layer.channels_first, rounded)


def _attributes(node: Any) -> dict[str, Any]:
    from onnx import helper

    return {entry.name: helper.get_attribute_value(entry) for entry in node.attribute}
