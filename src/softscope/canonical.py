"""Strict JSON both ways, and hashes of it and of code: how settings name a run and its steps.

`plain` makes values exact JSON; `parse_json` reads text that nobody vouches for, and `decode` makes dataclasses of it.
"""

import ast
import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from .errors import SoftscopeError

# Metadata of a dataclass field that joined later: `plain` leaves it out at its default, so that runs named before the
# field existed keep their names.
LATER = {"later": True}

JSON_BYTES = 1 << 28  # far above any file of ours
JSON_DEPTH = 64


def plain(value: Any, where: str = "value") -> Any:
    """`value` as what JSON holds exactly: dataclasses to dicts, numpy to Python, tuples to lists; NaN is refused."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic | np.ndarray):
        return plain(value.tolist(), where)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        if not np.isfinite(value):
            raise SoftscopeError(f"{where}: is {value}, which JSON can't hold", "Use None for what is undefined")
        return float(value)
    if is_dataclass(value) and not isinstance(value, type):
        given = {f.name: getattr(value, f.name) for f in fields(value) if not _left_out(f, getattr(value, f.name))}
        return {name: plain(item, f"{where}.{name}") for name, item in given.items()}
    if isinstance(value, Mapping):
        if any(not isinstance(key, str) for key in value):
            raise SoftscopeError(f"{where}: has keys that are not strings", "Use str(key)")
        return {key: plain(item, f"{where}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item, f"{where}[{i}]") for i, item in enumerate(value)]
    raise SoftscopeError(f"{where}: {type(value).__name__} doesn't fit into JSON", "Use numbers, strings, lists, dicts")


def parse_json(text: str | bytes) -> Any:
    """The value of JSON that may be damaged or hostile, or a ValueError that says what is wrong in one line.

    Refused beside what isn't JSON: NaN and infinities, more than JSON_BYTES, more than JSON_DEPTH lists and dicts in
    each other (whoever walks the value could run out of stack), text that UTF-8 can't hold, a name given twice.
    """
    if len(text) > JSON_BYTES:
        raise ValueError(f"JSON of {len(text):,} bytes, expected at most {JSON_BYTES:,}")
    try:
        value = json.loads(text, object_pairs_hook=_distinct, parse_constant=_refuse, parse_int=_int)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()  # fails on 1e999 and half a surrogate pair
    except RecursionError:
        raise ValueError(f"JSON nested more than {JSON_DEPTH} deep") from None
    level, depth = [value], 0
    while level:
        if depth > JSON_DEPTH:
            raise ValueError(f"JSON nested more than {JSON_DEPTH} deep")
        depth += 1
        inner = (item.values() if isinstance(item, dict) else item for item in level if isinstance(item, dict | list))
        level = [item for items in inner for item in items if isinstance(item, dict | list)]
    return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise ValueError("JSON with a name that occurs twice")
    return value


def _refuse(name: str) -> Any:
    raise ValueError(f"JSON with {name}")


def _int(digits: str) -> int:
    if len(digits) > 20:  # none of ours has more than 64 bits; more may not fit a float
        raise ValueError(f"JSON with a number of {len(digits)} digits")
    return int(digits)


def decode(kind: Any, value: Any, where: str) -> Any:
    """JSON's `value` as the dataclass, dict, tuple or scalar that the type `kind` asks for; `where` names it in errors.

    What doesn't fit is refused, not guessed; fields with a default came later, and older files may lack them.
    """
    origin, inner = get_origin(kind), get_args(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        (wanted,) = (option for option in inner if option is not NoneType)
        return None if value is None else decode(wanted, value, where)
    if is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    if origin is dict and isinstance(value, Mapping):
        return {key: decode(inner[1], item, f"{where}.{key}") for key, item in value.items()}
    if origin is tuple and isinstance(value, list):
        if inner[0] in (float, int) and all(type(item) is inner[0] for item in value):
            return tuple(value)
        return tuple(decode(inner[0], item, f"{where}[{index}]") for index, item in enumerate(value))
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    if (origin is Literal and value in inner) or (kind in (int, str, bool) and type(value) is kind):
        return value
    expected = {dict: "a dict", tuple: "a list"}.get(origin) or getattr(kind, "__name__", str(kind))
    raise SoftscopeError(f"{where}: expected {expected}, found {str(value)[:40]!r}", "Write the file again")


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:
    names = {field.name for field in fields(kind)}
    later = {
        field.name for field in fields(kind) if field.default is not MISSING or field.default_factory is not MISSING
    }
    if not isinstance(value, Mapping) or not names - later <= set(value) <= names:
        keys = sorted((names ^ set(value)) - later) if isinstance(value, Mapping) else [type(value).__name__]
        raise SoftscopeError(f"{where}: is not a {kind.__name__} ({', '.join(map(str, keys))})", "Write the file again")
    hints = get_type_hints(kind)
    return kind(**{name: decode(hints[name], value[name], f"{where}.{name}") for name in names & set(value)})


def fingerprint(value: Any) -> str:
    """sha256 of the canonical JSON of `value`: sorted keys, no spaces, shortest exact floats."""
    canonical = json.dumps(plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def content_digest(tensors: Mapping[str, np.ndarray], metadata: Mapping[str, str]) -> str:
    """sha256 over the metadata and, in the order of their names, every tensor's name, type, shape and bytes."""
    whole = hashlib.sha256(json.dumps(metadata, sort_keys=True).encode())
    for name, tensor in sorted(tensors.items()):
        whole.update(json.dumps([name, tensor.dtype.str, tensor.shape]).encode())
        whole.update(np.ascontiguousarray(tensor).reshape(-1).view(np.uint8).data)
    return whole.hexdigest()


@cache
def code_digest(*modules: str) -> str:
    """sha256 of the code of these modules, blind to layout, comments and docstrings.

    Among the inputs of a step it makes stores compute the step again when what makes it has changed.
    """
    whole = hashlib.sha256()
    for module in modules:
        spec = find_spec(module)
        if spec is None or spec.origin is None:
            raise ValueError(f"module {module} has no source file")
        tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node) is not None:
                node.body = node.body[1:]
        whole.update(ast.dump(tree).encode())
    return whole.hexdigest()


def _left_out(field: Field[Any], value: Any) -> bool:
    return "later" in field.metadata and bool(value == field.default)
