"""ONNX graphs written like torch: a `Node` has the methods of a torch tensor that `formulas` uses, and records them."""

from collections.abc import Callable
from typing import Any

import numpy as np

_PREFIX = "softscope_"


class Graph:
    """Adds nodes and constants to an ONNX graph whose operators are those of version `opset`."""

    def __init__(self, graph: Any, opset: int) -> None:
        self.graph, self.opset = graph, opset
        self._count = 0

    def constant(self, value: Any, dtype: Any = np.float64) -> "Node":
        """A constant tensor, kept in the file."""
        from onnx import numpy_helper

        name = self._name("constant")
        array = np.ascontiguousarray(value, dtype).reshape(np.shape(value))
        self.graph.initializer.append(numpy_helper.from_array(array, name))
        return Node(self, name)

    def add(self, operator: str, *inputs: Any, **attributes: Any) -> "Node":
        """What one node makes; numbers among the inputs become float64 constants."""
        return self.add_several(1, operator, *inputs, **attributes)[0]

    def add_several(self, count: int, operator: str, *inputs: Any, **attributes: Any) -> "list[Node]":
        """`add` for a node that makes `count` tensors."""
        from onnx import helper

        names = [value.name if isinstance(value, Node) else self.constant(value).name for value in inputs]
        made = [self._name(operator.lower()) for _ in range(count)]
        self.graph.node.append(helper.make_node(operator, names, made, **attributes))
        return [Node(self, name) for name in made]

    def whole(self, *numbers: int) -> "Node":
        """A constant vector of whole numbers: axes, shapes, counts."""
        return self.constant(np.array(numbers), np.int64)

    def reduce(self, operator: str, value: "Node", axis: int) -> "Node":
        """A reduction over one axis, which is gone afterwards; where the axis stands depends on the opset."""
        if self.opset >= (13 if operator == "ReduceSum" else 18):
            return self.add(operator, value, self.whole(axis), keepdims=0)
        return self.add(operator, value, axes=[axis], keepdims=0)

    def where(self, condition: "Node", one: Any, other: Any) -> "Node":
        """`one` where the condition holds, else `other`."""
        return self.add("Where", condition, one, other)

    def move_to_front(self, begin: int) -> None:
        """Put the nodes from `begin` on before all others: a graph lists its nodes in the order they run."""
        nodes = list(self.graph.node)
        del self.graph.node[:]
        self.graph.node.extend([*nodes[begin:], *nodes[:begin]])

    def output(self, node: "Node", name: str, kind: int) -> None:
        """Give `node` to the outside as `name`, one value of ONNX type `kind` per row."""
        from onnx import helper

        self.graph.node.append(helper.make_node("Identity", [node.name], [name]))
        self.graph.output.append(helper.make_tensor_value_info(name, kind, [None]))

    def _name(self, kind: str) -> str:
        self._count += 1
        return f"{_PREFIX}{kind}_{self._count}"


def _binary(operator: str, *, turned: bool = False) -> "Callable[[Node, Any], Node]":
    return lambda node, other: node.graph.add(operator, *((other, node) if turned else (node, other)))


def _unary(operator: str) -> "Callable[[Node], Node]":
    return lambda node: node.graph.add(operator, node)


class Node:
    """A tensor of the graph. Methods mean what they mean in torch."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    __add__, __radd__ = _binary("Add"), _binary("Add", turned=True)
    __sub__, __rsub__ = _binary("Sub"), _binary("Sub", turned=True)
    __mul__, __rmul__ = _binary("Mul"), _binary("Mul", turned=True)
    __truediv__, __rtruediv__ = _binary("Div"), _binary("Div", turned=True)
    __and__, __or__, matmul = _binary("And"), _binary("Or"), _binary("MatMul")
    __neg__, abs, exp, log, floor, sqrt = map(_unary, ("Neg", "Abs", "Exp", "Log", "Floor", "Sqrt"))

    def __ge__(self, other: Any) -> "Node":
        return self.graph.add("Not", self.graph.add("Less", self, other))

    def __le__(self, other: Any) -> "Node":
        return self.graph.add("Not", self.graph.add("Greater", self, other))

    def __eq__(self, other: object) -> "Node":  # type: ignore[override]
        return self.graph.add("Equal", self, other)

    __hash__ = None  # type: ignore[assignment]

    def __getitem__(self, rows: "Node") -> "Node":
        return self.graph.add("Gather", self, rows, axis=0)

    def log1p(self) -> "Node":
        """log(w) x / (w - 1) with w = 1 + x as rounded, and x where w is 1: ONNX has no log1p (Kahan's way)."""
        rounded = self + 1.0
        same = rounded == 1.0
        step = self.graph.where(same, 1.0, rounded - 1.0)
        return self.graph.where(same, self, rounded.log() * self / step)

    def double(self) -> "Node":
        return self.cast(np.float64)

    def cast(self, dtype: Any) -> "Node":
        """To a numpy dtype."""
        from onnx import helper

        return self.graph.add("Cast", self, to=helper.np_dtype_to_tensor_dtype(np.dtype(dtype)))

    def clamp(self, min: float | None = None, max: float | None = None) -> "Node":
        node = self if min is None else self.graph.add("Max", self, min)
        return node if max is None else self.graph.add("Min", node, max)

    def reshape(self, *shape: int) -> "Node":
        return self.graph.add("Reshape", self, self.graph.whole(*shape))

    def scalar(self) -> "Node":
        """The one value of a vector, without an axis."""
        return self.reshape()

    def transpose(self, first: int, second: int) -> "Node":
        """Of a matrix."""
        return self.graph.add("Transpose", self, perm=[second, first])

    def sum(self, axis: int) -> "Node":
        return self.graph.reduce("ReduceSum", self, axis)

    def amax(self, axis: int) -> "Node":
        return self.graph.reduce("ReduceMax", self, axis)

    def mean(self, axis: int) -> "Node":
        return self.graph.reduce("ReduceMean", self, axis)

    def argmax(self, axis: int) -> "Node":
        return self.graph.add("ArgMax", self, axis=axis, keepdims=0)

    def topk(self, count: int) -> Any:
        return self.graph.add_several(2, "TopK", self, self.graph.whole(count))

    def narrow(self, axis: int, start: int, length: int) -> "Node":
        whole = self.graph.whole
        return self.graph.add("Slice", self, whole(start), whole(start + length), whole(axis))


def dimensions(entry: Any) -> list[int | None]:
    """The sizes of a graph's input or output, None where they are free."""
    return [d.dim_value if d.HasField("dim_value") else None for d in entry.type.tensor_type.shape.dim]
