"""Features and head of an ONNX classifier, run by onnxruntime: the fastest way through a frozen network on a CPU."""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import as_labels, spans
from ..errors import SoftscopeError
from ..features import FeatureSet
from ..files import existing_file, first_line
from ..head import Head
from ..progress import Progress, silent
from .collecting import Layer, check_logits, collected

_THROUGH = ("Softmax", "LogSoftmax", "Identity", "Flatten", "Squeeze", "Reshape")
_HINT = "Export a classifier that ends in one linear layer (Gemm, or MatMul and Add) with its weights in the file"


class OnnxClassifier:
    """An ONNX file whose answer is a linear layer of some features z, with or without a softmax behind it.

    Takes uint8 images [N, height, width, channels]; the graph gets (pixels / 255 - mean) / std in its own layout.
    """

    def __init__(self, path: str | os.PathLike[str], *, mean: Sequence[float], std: Sequence[float]) -> None:
        self.name = existing_file(path).name
        graph, self._session = _open(path)
        node = _last_linear(graph, path)
        weight, bias, self._z, self._logits = _linear(graph, node, path)
        self._head = Head(weight, bias, name=self.name)
        entry = self._session.get_inputs()[0]
        self._input, shape = entry.name, [size if isinstance(size, int) else None for size in entry.shape]
        if len(shape) != 4 or entry.type != "tensor(float)" or not {1, 3} & {shape[1], shape[3]}:
            raise SoftscopeError(
                f"{path}: takes {entry.type} {entry.shape}, expected float images of 1 or 3 channels", _HINT
            )
        self._batch, self._channels_first = shape[0], shape[1] in (1, 3)
        self.input_shape = (shape[2], shape[3], shape[1]) if self._channels_first else tuple(shape[1:])
        self._mean, self._std = np.asarray(mean, np.float32), np.asarray(std, np.float32)
        if self._mean.size not in (1, self.input_shape[2]) or self._mean.size != self._std.size:
            raise SoftscopeError(f"mean {list(mean)}, std {list(std)}", f"Give {self.input_shape[2]} numbers each")
        self.classes: tuple[str, ...] | None = None
        self.dataset: str | None = None

    def head(self, classes: Sequence[str] | None = None, probe: Any = None) -> Head:
        """The last linear layer; `probe` is not needed."""
        return Head(self._head.weight, self._head.bias, classes, name=self.name)

    def features(
        self,
        images: Any,
        labels: Any = None,
        *,
        layer: Layer = "after",
        batch: int = 64,
        out: str | os.PathLike[str] | None = None,
        progress: Progress = silent,
        name: str = "features",
        metadata: Mapping[str, str] | None = None,
    ) -> FeatureSet:
        """What the last layer sees of each image, checked like `extract_features`."""
        if layer != "after":
            raise SoftscopeError("features before the non-linearity need a torch model", "Use --layer after")
        pixels = np.asanyarray(images)
        known = None if labels is None else as_labels(np.asarray(labels), f"{name}: labels", rows=len(pixels))
        words = {"layer": layer, "model": self.name, "classifier": self._logits} | dict(metadata or {})
        blocks = self._blocks(pixels, self._batch or batch, progress, name)
        shape = (len(pixels), self._head.n_features)
        return collected(blocks, shape, known, out=out, name=name, metadata=words)

    def _blocks(self, pixels: NDArray, batch: int, progress: Progress, name: str) -> Iterator[NDArray]:
        for span in spans(len(pixels), batch):
            rows = span.stop - span.start
            x = (pixels[span].astype(np.float32) / 255 - self._mean) / self._std
            # A graph exported for a fixed batch gets its last one filled up.
            x = np.pad(x, ((0, (self._batch or rows) - rows), (0, 0), (0, 0), (0, 0)))
            feed = {self._input: np.ascontiguousarray(np.moveaxis(x, 3, 1) if self._channels_first else x)}
            z, logits = (result[:rows] for result in self._session.run([self._z, self._logits], feed))
            z = z.reshape(rows, -1)
            check_logits(self._head, z, logits.reshape(rows, -1), span.start)
            yield z
            progress(f"features of {name}", span.stop, len(pixels))


def _open(path: str | os.PathLike[str]) -> tuple[Any, Any]:
    """The graph, and a session that also gives every tensor the last layer could read."""
    try:
        import onnx
        import onnxruntime
    except ImportError as error:
        raise SoftscopeError("onnx and onnxruntime are not installed", "pip install 'softscope[onnx]'") from error
    try:
        model = onnx.load(path)
        graph = model.graph
        z, logits = _linear(graph, _last_linear(graph, path), path)[2:]
        known = {output.name for output in graph.output}
        graph.output.extend(onnx.ValueInfoProto(name=name) for name in (z, logits) if name not in known)
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3
        return graph, onnxruntime.InferenceSession(model.SerializeToString(), options, ["CPUExecutionProvider"])
    except SoftscopeError:
        raise
    except Exception as error:  # those of protobuf and onnxruntime share no base class
        raise SoftscopeError(f"{path}: no ONNX model that runs ({first_line(error)[:200]})", _HINT) from error


def _last_linear(graph: Any, path: str | os.PathLike[str]) -> Any:
    """The Gemm, Add or MatMul node that makes the answer, a softmax behind it left aside."""
    makers = {output: node for node in graph.node for output in node.output}
    node = makers.get(graph.output[0].name) if graph.output else None
    while node is not None and node.op_type in _THROUGH:
        node = makers.get(node.input[0])
    if node is None or node.op_type not in ("Gemm", "Add", "MatMul"):
        raise SoftscopeError(f"{path}: ends in {node.op_type if node else 'nothing'}, no linear layer", _HINT)
    return node


def _linear(graph: Any, node: Any, path: str | os.PathLike[str]) -> tuple[NDArray, NDArray | None, str, str]:
    """Weight [K, H], bias or None, and the names of features and logits."""
    from onnx import helper, numpy_helper

    fixed = {entry.name: entry for entry in graph.initializer}
    makers = {output: maker for maker in graph.node for output in maker.output}
    bias, product = None, node
    if node.op_type == "Add":
        offsets = [name for name in node.input if name in fixed]
        products = [makers.get(name) for name in node.input if name not in fixed]
        product = products[0] if len(products) == 1 else None
        if len(offsets) != 1 or product is None or product.op_type != "MatMul":
            raise SoftscopeError(f"{path}: ends in an addition that is no bias", _HINT)
        bias = numpy_helper.to_array(fixed[offsets[0]]).reshape(-1)
    if product.input[1] not in fixed:
        raise SoftscopeError(f"{path}: the last layer's weight is computed, not stored", _HINT)
    weight = numpy_helper.to_array(fixed[product.input[1]])
    settings = {entry.name: helper.get_attribute_value(entry) for entry in product.attribute}
    weight = weight if settings.get("transB") else weight.T
    if product.op_type == "Gemm":
        if settings.get("transA") or (len(product.input) > 2 and product.input[2] not in fixed):
            raise SoftscopeError(f"{path}: the last layer is no plain linear layer", _HINT)
        weight = weight * np.float32(settings.get("alpha", 1.0))
        if len(product.input) > 2:
            bias = numpy_helper.to_array(fixed[product.input[2]]).reshape(-1) * np.float32(settings.get("beta", 1.0))
    return weight, bias, product.input[0], node.output[0]
