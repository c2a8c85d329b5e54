"""ONNX classifiers, run by onnxruntime: the fastest way through a frozen network on a CPU. torch is not needed.

The graph is walked back from its answer to the last linear layer; the tensors on both sides of it become outputs.
"""

import ast
import os
from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, log_softmax, softmax

from ..arrays import memory_bytes
from ..errors import SoftscopeError, out_of_memory
from ..files import existing_file, first_line, sha256
from ..head import Head
from ..images import Preprocessing
from .onnx_graph import EXPORT_HINT, Link, OnnxHead, find_head
from .opened import Layer, OpenedModel

_TYPES = {
    "tensor(float)": np.float32, "tensor(double)": np.float64, "tensor(float16)": np.float16, "tensor(bool)": np.bool_,
    "tensor(int64)": np.int64, "tensor(int32)": np.int32, "tensor(uint8)": np.uint8, "tensor(int8)": np.int8,
}  # fmt: skip
_NOT_ONNX = "not an ONNX model that runs"
_MAX_BATCH = 4096  # a graph exported for more would only ask for memory


class OnnxModel(OpenedModel):
    """An ONNX file whose answer is a linear layer of some features z; takes arrays, tuples, or dicts by input name."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = existing_file(path)
        self.name = self._path.name
        self._head, self._session, self.classes = _open(self._path)
        self._inputs = self._session.get_inputs()
        self._batch = self._fixed_batch()
        self.preprocessing = _preprocessing(self._inputs)
        self.words = {"classifier": self._head.logits}

    def describe(self) -> str:
        inputs = ", ".join(f"{entry.name} {entry.type[7:-1]} {entry.shape}" for entry in self._inputs)
        return f"ONNX, inputs {inputs}"

    def prepare(self, probe: Any, layer: Layer = "after") -> Head:
        """The head as the graph has it, after the probe has shown that the answer follows from it."""
        if layer != "after":
            raise SoftscopeError("features before the non-linearity need a torch model", "Use --layer after")
        head = Head(self._head.weight, self._head.bias, self.classes, name=self.name)
        _, logits, answer = self._run(probe)
        if not np.isfinite(answer).all():
            raise SoftscopeError(f"{self.name} answers NaN or inf", "Check its weights and its inputs")
        made = _LINKS[self._head.link](logits)
        allowed = (0.05 if self._head.rounded else 1e-3) * max(1e-6, float(np.abs(answer).max()))
        if made.shape != answer.shape or np.abs(made - answer).max() > allowed:
            raise SoftscopeError(f"{self.name}: its answer doesn't follow from its last linear layer", EXPORT_HINT)
        return head

    def read(self, inputs: Any) -> tuple[NDArray, NDArray, NDArray]:
        """Features and logits of a batch; a graph exported for a fixed batch gets its last one filled up."""
        z, logits, _ = self._run(inputs)
        if logits.shape[1] == 1:
            logits = np.concatenate([0 * logits, logits], 1)
        return z, z, logits

    def fingerprint(self) -> str:
        return sha256(self._path)

    def _run(self, inputs: Any) -> tuple[NDArray, NDArray, NDArray]:
        """z [n, H], logits [n, K] of the last layer and the graph's own answer [n, K]."""
        feed = self._feed(inputs)
        rows = len(next(iter(feed.values())))
        step = self._batch or rows
        parts = []
        for start in range(0, rows, step):
            taken = min(step, rows - start)
            some = {name: _filled(values[start : start + step], step) for name, values in feed.items()}
            wanted = [self._head.answer, self._head.z, self._head.logits]
            try:
                answer, z, logits = self._session.run(wanted, some)
            except Exception as error:  # those of onnxruntime share no base class
                if out_of_memory(error):
                    raise SoftscopeError(
                        f"{self.name}: out of memory for {rows} inputs", "Lower --batch (batch=)"
                    ) from error
                raise SoftscopeError(
                    f"{self.name} failed on {_shapes(feed)}: {first_line(error)[-200:]}",
                    f"It takes {self.describe().removeprefix('ONNX, ')}",
                ) from error
            parts.append(_one_row_each(z[:taken], logits[:taken], answer[:taken], self._head))
        z, logits, answer = (np.concatenate(each) for each in zip(*parts))
        return z, logits, answer

    def _feed(self, inputs: Any) -> dict[str, NDArray]:
        if isinstance(inputs, Mapping):
            given = {name: inputs[name] for name in inputs}
        else:
            values = inputs if isinstance(inputs, tuple | list) else (inputs,)
            given = {entry.name: value for entry, value in zip(self._inputs, values)}
        missing = [entry.name for entry in self._inputs if entry.name not in given]
        if missing or len(given) > len(self._inputs):
            names = ", ".join(entry.name for entry in self._inputs)
            raise SoftscopeError(
                f"{self.name}: takes the inputs {names}, got {', '.join(given)}", "Give a dict of these"
            )
        types = {entry.name: _TYPES.get(entry.type, np.float32) for entry in self._inputs}
        return {name: np.asarray(value).astype(types[name], copy=False) for name, value in given.items()}

    def _fixed_batch(self) -> int | None:
        sizes = {entry.shape[0] for entry in self._inputs if entry.shape and isinstance(entry.shape[0], int)}
        if any(not 1 <= size <= _MAX_BATCH for size in sizes):
            raise SoftscopeError(f"{self.name}: is exported for batches of {max(sizes)}", f"Use at most {_MAX_BATCH}")
        return max(sizes) if sizes else None


# In float64, and log-softmax not as the logarithm of softmax, which is -inf where that underflows.
_LINKS: dict[Link, Any] = {
    "logits": lambda logits: logits,
    "softmax": lambda logits: softmax(logits.astype(np.float64), -1),
    "log_softmax": lambda logits: log_softmax(logits.astype(np.float64), -1),
    "sigmoid": expit,
}


def onnx_session(content: bytes, **entries: str) -> Any:
    """onnxruntime's session of a model, with these entries in its configuration.

    A graph of a few bytes can ask for any amount of memory: more than half of this machine's is an error.
    """
    import onnxruntime

    _bound_memory()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    for name, value in {"session.use_env_allocators": "1", **entries}.items():
        options.add_session_config_entry(name, value)
    # Its fallback would print several lines and try the same again.
    return onnxruntime.InferenceSession(content, options, ["CPUExecutionProvider"], enable_fallback=0)


@cache
def _bound_memory() -> None:
    import onnxruntime as ort

    place = ort.OrtMemoryInfo("Cpu", ort.OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, ort.OrtMemType.DEFAULT)
    with suppress(Exception):  # the program that uses this library has bounded it already
        ort.create_and_register_allocator(place, ort.OrtArenaCfg(memory_bytes() // 2, -1, -1, -1))


def need_onnx() -> None:
    """A SoftscopeError where the packages are missing that read and run ONNX files."""
    try:
        import onnx  # noqa: F401
        import onnxruntime  # noqa: F401
    except ImportError as error:
        raise SoftscopeError("onnx and onnxruntime are not installed", "pip install 'softscope[onnx]'") from error


def load_onnx(path: str | os.PathLike[str]) -> Any:
    """The graph and metadata of an ONNX file."""
    need_onnx()
    import onnx

    file = existing_file(path)
    try:
        return onnx.load(str(file))
    except Exception as error:  # protobuf's errors share no base class
        raise SoftscopeError(f"{path}: {_NOT_ONNX} ({first_line(error)[:200]})", EXPORT_HINT) from error


def _open(path: Any) -> tuple[OnnxHead, Any, tuple[str, ...] | None]:
    """The head, a session that also gives the tensors around it, and the class names in the file's metadata."""
    model = load_onnx(path)
    from onnx import ValueInfoProto

    try:
        head = find_head(model.graph, str(path))
        known = {output.name for output in model.graph.output}
        wanted = [name for name in (head.z, head.logits) if name not in known]
        model.graph.output.extend(ValueInfoProto(name=name) for name in dict.fromkeys(wanted))
        # Fused operations on 8-bit weights round the logits to a part in 500; the graph as it is written doesn't.
        session = onnx_session(model.SerializeToString(), **{"session.disable_quant_qdq": "1"})
    except SoftscopeError:
        raise
    except Exception as error:  # those of protobuf and onnxruntime share no base class
        raise SoftscopeError(f"{path}: {_NOT_ONNX} ({first_line(error)[:200]})", EXPORT_HINT) from error
    return head, session, _class_names({entry.key: entry.value for entry in model.metadata_props}, len(head.bias))


def _class_names(metadata: Mapping[str, str], count: int) -> tuple[str, ...] | None:
    """Names that exporters leave in the metadata: a list, or a dict from number to name."""
    for key in ("classes", "class_names", "names", "labels"):
        text = metadata.get(key, "")
        if not 0 < len(text) <= 1 << 20:
            continue
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, MemoryError, RecursionError):
            continue
        names = list(value.values()) if isinstance(value, dict) else value
        if isinstance(names, list) and len(names) == count and all(isinstance(name, str) for name in names):
            return tuple(names)
    return None


def _preprocessing(inputs: Any) -> Preprocessing:
    """Channels, size and layout of the first input where it takes images; mean and deviation are not in the file."""
    shape = [size if isinstance(size, int) else None for size in inputs[0].shape or ()]
    if len(shape) != 4:
        return Preprocessing()
    first = shape[1] in (1, 3)
    channels = shape[1] if first else shape[3]
    sides = shape[2:] if first else shape[1:3]
    size = (sides[0], sides[1]) if sides[0] and sides[1] and max(sides[0], sides[1]) <= _MAX_BATCH else None
    raw = inputs[0].type == "tensor(uint8)"
    return Preprocessing(
        size=size,
        channels=channels if channels in (1, 3) else 3,
        scale=1.0 if raw else 1 / 255,
        layout="NCHW" if first or shape[3] not in (1, 3) else "NHWC",
    )


def _one_row_each(z: NDArray, logits: NDArray, answer: NDArray, head: OnnxHead) -> tuple[NDArray, NDArray, NDArray]:
    """One row for each input: of several positions their mean, or the one that the answer was made from."""
    width, count = head.weight.shape[1], head.outputs
    answer = np.asarray(answer, np.float64).reshape(len(answer), -1)
    seen, made = _by_position(z, width, head.channels_first), _by_position(logits, count, head.channels_first)
    if 1 < made.shape[1] == answer.shape[1] / count:
        raise SoftscopeError(
            f"the model answers once for each of {made.shape[1]} positions of an input, not once per input",
            "Give inputs of one position, or export a model that makes one answer of all positions",
        )
    if made.shape[1] != seen.shape[1] or answer.shape[1] != count:
        raise SoftscopeError(f"the last layer saw {z.shape} and made {logits.shape} for {answer.shape}", EXPORT_HINT)
    if made.shape[1] == 1:
        return seen[:, 0], made[:, 0], answer
    mean = made.mean(1)
    if np.allclose(_LINKS[head.link](mean), answer, rtol=1e-3, atol=1e-5):
        return seen.mean(1), mean, answer
    place = np.abs(_LINKS[head.link](made) - answer[:, None]).max(2).argmin(1)
    rows = np.arange(len(answer))
    return seen[rows, place], made[rows, place], answer


def _by_position(values: NDArray, width: int, channels_first: bool) -> NDArray:
    array = np.asarray(values, np.float32)
    if channels_first:
        return np.moveaxis(array.reshape(len(array), width, -1), 1, 2)
    return array.reshape(len(array), -1, width)


def _filled(values: NDArray, rows: int) -> NDArray:
    if len(values) == rows:
        return values
    return np.concatenate([values, np.repeat(values[-1:], rows - len(values), axis=0)])


def _shapes(feed: Mapping[str, NDArray]) -> str:
    return ", ".join(f"{name} {list(values.shape)}" for name, values in feed.items())
