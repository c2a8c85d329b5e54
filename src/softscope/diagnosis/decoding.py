"""From plain JSON back to a tree of dataclasses, by their type hints; what doesn't fit is named, not guessed.

Fields that came later have a default, so that older files can still be read.
"""

import math
from collections.abc import Mapping
from dataclasses import MISSING, fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from ..errors import SoftscopeError

T = TypeVar("T")


def decode(kind: type[T], value: Any, where: str) -> T:
    """`value` as the dataclass, dict, tuple or scalar that the type `kind` asks for; `where` names it in errors."""
    decoded: T = _decode(kind, value, where)
    return decoded


def _decode(kind: Any, value: Any, where: str) -> Any:
    origin = get_origin(kind)
    if kind is Any:
        return value
    if origin in (Union, UnionType):
        (inner,) = (option for option in get_args(kind) if option is not NoneType)
        return None if value is None else _decode(inner, value, where)
    if origin is Literal:
        return value if value in get_args(kind) else _refuse(kind, value, where)
    if origin is tuple:
        return _decode_tuple(get_args(kind)[0], value, where)
    if origin is dict:
        return _decode_dict(get_args(kind)[1], value, where)
    if is_dataclass(kind):
        return _decode_dataclass(kind, value, where)
    return _decode_scalar(kind, value, where)


def _decode_scalar(kind: Any, value: Any, where: str) -> Any:
    if kind is float and type(value) in (int, float) and math.isfinite(value):
        return float(value)
    return value if type(value) is kind and kind in (int, str, bool) else _refuse(kind, value, where)


def _decode_tuple(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, list):
        _refuse("a list", value, where)
    if kind in (float, int) and all(type(item) is kind for item in value):
        return tuple(value)
    return tuple(_decode(kind, item, f"{where}[{index}]") for index, item in enumerate(value))


def _decode_dict(kind: Any, value: Any, where: str) -> Any:
    if not isinstance(value, Mapping):
        _refuse("a dict", value, where)
    return {key: _decode(kind, item, f"{where}.{key}") for key, item in value.items()}


def _decode_dataclass(kind: Any, value: Any, where: str) -> Any:
    names = {field.name for field in fields(kind)}
    later = {
        field.name for field in fields(kind) if field.default is not MISSING or field.default_factory is not MISSING
    }
    if not isinstance(value, Mapping) or not names - later <= set(value) <= names:
        keys = sorted((names ^ set(value)) - later) if isinstance(value, Mapping) else [type(value).__name__]
        raise SoftscopeError(f"{where}: is not a {kind.__name__} ({', '.join(map(str, keys))})", "Write the file again")
    hints = get_type_hints(kind)
    return kind(**{name: _decode(hints[name], value[name], f"{where}.{name}") for name in names & set(value)})


def _refuse(kind: Any, value: Any, where: str) -> Any:
    expected = getattr(kind, "__name__", str(kind))
    raise SoftscopeError(f"{where}: expected {expected}, found {str(value)[:40]!r}", "Write the file again")
