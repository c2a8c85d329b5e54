"""The Open Inference Protocol (KServe V2) for a guard: JSON, or JSON with binary tensors, read without trust."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SoftscopeError

INPUT = "z"
#: Outputs in the order they are sent: name -> datatype of the protocol.
OUTPUTS = {"uncertainty": "FP64", "p": "FP64", "alarm": "BOOL", "class": "INT64"}
_DTYPES: dict[str, np.dtype[Any]] = {"FP32": np.dtype("<f4"), "FP64": np.dtype("<f8")}
_RAW: dict[str, np.dtype[Any]] = {"FP64": np.dtype("<f8"), "BOOL": np.dtype("?"), "INT64": np.dtype("<i8")}
_LARGEST_ROWS = 1 << 31
#: Headers of an answer in JSON.
JSON = [(b"content-type", b"application/json")]


@dataclass(frozen=True)
class Request:
    """The rows of one request, and which outputs it wants: name -> whether as binary."""

    id: str | None
    rows: NDArray
    outputs: Mapping[str, bool]


def metadata(name: str, features: int) -> dict[str, Any]:
    """What the protocol says of a model."""
    outputs = [{"name": output, "datatype": kind, "shape": [-1]} for output, kind in OUTPUTS.items()]
    inputs = [{"name": INPUT, "datatype": "FP32", "shape": [-1, features]}]
    return {"name": name, "versions": ["1"], "platform": "softscope_guard", "inputs": inputs, "outputs": outputs}


def read_request(body: bytes, header_length: bytes | None, features: int) -> Request:
    """The request in `body`; `header_length` is the header Inference-Header-Content-Length of the binary form."""
    import orjson

    head, tail = body, b""
    if header_length is not None:
        length = int(header_length) if len(header_length) < 12 and header_length.isdigit() else -1
        if not 0 <= length <= len(body):
            said = header_length[:40].decode("ascii", "replace")
            raise _wrong(f"Inference-Header-Content-Length is {said!r}, the body has {len(body)} bytes")
        head, tail = body[:length], body[length:]
    try:
        words = orjson.loads(head)
    except orjson.JSONDecodeError as error:
        raise _wrong(f"the body is not JSON ({str(error)[:80]}); JSON has no NaN") from error
    if not isinstance(words, dict):
        raise _wrong("the body is not a JSON object")
    inputs = words.get("inputs")
    if not isinstance(inputs, list) or len(inputs) != 1 or not isinstance(inputs[0], dict):
        raise _wrong(f"expected one input, called {INPUT!r}")
    rows = _tensor(inputs[0], tail, features)
    name = words.get("id")
    if not isinstance(name, str | None):
        raise _wrong("the id is not a string")
    return Request(name, rows, _wanted(words))


def _tensor(entry: dict[str, Any], tail: bytes, features: int) -> NDArray:
    if entry.get("name") != INPUT:
        raise _wrong(f"the input is not called {INPUT!r}")
    kind, shape = entry.get("datatype"), entry.get("shape")
    if not isinstance(kind, str) or kind not in _DTYPES:
        raise _wrong(f"the datatype is not one of {', '.join(_DTYPES)}")
    if not isinstance(shape, list) or not all(type(size) is int and 0 < size < _LARGEST_ROWS for size in shape):
        raise _wrong("the shape is not a list of positive whole numbers")
    if shape not in ([features], [*shape[:1], features]):
        raise _wrong(f"the shape is {shape[:4]}, expected [rows, {features}]")
    size = prod(shape)
    parameters = entry.get("parameters")
    length = parameters.get("binary_data_size") if isinstance(parameters, dict) else None
    if length is not None:
        if type(length) is not int or length != len(tail) or length != size * _DTYPES[kind].itemsize:
            raise _wrong(f"binary_data_size and the {len(tail)} bytes after the header don't fit the shape")
        return np.frombuffer(tail, _DTYPES[kind]).reshape(-1, features)
    with np.errstate(over="ignore"):  # what is beyond float32 becomes inf, which is refused as a row
        return _from_list(entry.get("data"), size).astype(_DTYPES[kind]).reshape(-1, features)


def _from_list(data: Any, size: int) -> NDArray:
    try:
        values = np.asarray(data)
        if values.dtype.kind not in "iuf" or values.size != size or not isinstance(data, list):
            raise ValueError
        return values.astype(np.float64)
    except (ValueError, TypeError, OverflowError, RecursionError) as error:
        raise _wrong(f"the data are not {size} numbers") from error


def _wanted(words: dict[str, Any]) -> dict[str, bool]:
    parameters = words.get("parameters")
    binary = isinstance(parameters, dict) and parameters.get("binary_data_output") is True
    asked = words.get("outputs")
    if asked is None:
        return dict.fromkeys(OUTPUTS, binary)
    if not isinstance(asked, list) or not all(isinstance(entry, dict) for entry in asked):
        raise _wrong("the outputs are not a list of objects")
    wanted = {}
    for entry in asked:
        name, own = entry.get("name"), entry.get("parameters")
        if not isinstance(name, str) or name not in OUTPUTS:
            raise _wrong(f"there is no such output, only {', '.join(OUTPUTS)}")
        choice = own.get("binary_data", binary) if isinstance(own, dict) else binary
        wanted[name] = choice is True
    return wanted


def response(model: str, request: Request, values: Mapping[str, NDArray]) -> tuple[bytes, list[tuple[bytes, bytes]]]:
    """The answer's body and headers."""
    import orjson

    outputs, tail = [], b""
    for name, binary in request.outputs.items():
        entry: dict[str, Any] = {"name": name, "datatype": OUTPUTS[name], "shape": [len(values[name])]}
        if binary:
            raw = values[name].astype(_RAW[OUTPUTS[name]]).tobytes()
            entry["parameters"] = {"binary_data_size": len(raw)}
            tail += raw
        else:
            entry["data"] = values[name].tolist()
        outputs.append(entry)
    words = {"model_name": model, "model_version": "1", "outputs": outputs}
    head = orjson.dumps(words if request.id is None else words | {"id": request.id})
    if not tail:
        return head, JSON
    length = str(len(head)).encode()
    return head + tail, [
        (b"content-type", b"application/octet-stream"),
        (b"inference-header-content-length", length),
    ]


def error_body(what: str) -> bytes:
    """What the protocol sends for a request that is refused."""
    import orjson

    return orjson.dumps({"error": what})


def _wrong(what: str) -> SoftscopeError:
    return SoftscopeError(what, "See docs/deployment.md for a request")
