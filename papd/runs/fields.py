"""Values of a file put into the fields of a dataclass: names and types are checked, nothing is dropped."""

import dataclasses
import types
import typing
from collections.abc import Iterable, Mapping
from typing import Any

from papd.errors import ConfigError, nearest


def coerce_fields(cls: type, values: Mapping[str, Any], *, known: Iterable[str] = ()) -> dict[str, Any]:
    """The keyword arguments of ``cls`` that ``values`` spells; ``known`` are further names for the hint."""
    kinds = typing.get_type_hints(cls)
    names = {field.name for field in dataclasses.fields(cls)}
    for name in values:
        if name not in names:
            raise ConfigError(f"unknown field {name!r}{nearest(name, names | set(known))}")
    return {name: _coerce(name, value, kinds[name]) for name, value in values.items()}


def parse_whole(text: str) -> int:
    """A whole number as people write it: 1000000, 1_000_000 or 1e6."""
    try:
        return int(text)
    except ValueError:
        pass
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is no whole number") from None
    if not number.is_integer():
        raise ValueError(f"{text!r} is no whole number")
    return int(number)


def _coerce(name: str, value: Any, kind: Any) -> Any:
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _coerce_optional(name, value, kind)
    if origin is typing.Literal:
        return _coerce_choice(name, value, typing.get_args(kind))
    if origin is tuple:
        each = value if isinstance(value, list | tuple) else [value]
        return tuple(_coerce(name, item, typing.get_args(kind)[0]) for item in each)
    return _coerce_plain(name, value, kind)


def _coerce_optional(name: str, value: Any, kind: Any) -> Any:
    if value is None:
        return None
    (inner,) = (each for each in typing.get_args(kind) if each is not types.NoneType)
    return _coerce(name, value, inner)


def _coerce_choice(name: str, value: Any, choices: tuple[Any, ...]) -> Any:
    if not isinstance(value, str) or value not in choices:
        raise ConfigError(f"{name}={value!r}: {name} is one of {', '.join(choices)}")
    return value


def _coerce_plain(name: str, value: Any, kind: type) -> Any:
    if kind is bool and isinstance(value, bool):
        return value
    if kind is str and isinstance(value, str):
        return value
    if kind is int and _is_whole(value):
        return int(value)
    if kind is float and isinstance(value, int | float) and not isinstance(value, bool):
        return _as_float(name, value)
    words = {bool: "true or false", str: "a string", int: "a whole number", float: "a number"}[kind]
    raise ConfigError(f"{name}={value!r}: {name} is {words}")


def _is_whole(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and _has_no_fraction(value)


def _has_no_fraction(value: int | float) -> bool:
    """Whether a number is an integer; a file may write 1e6."""
    return isinstance(value, int) or value.is_integer()


def _as_float(name: str, value: int | float) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ConfigError(f"{name} is too large for a number") from None
