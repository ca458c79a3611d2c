"""Builds dataclasses from JSON objects by their type hints.

What a class does not know is kept in its ``extra``. A field that is absent keeps its default. A field of another type
than expected is an error, since haul does not change fields silently.
"""

from __future__ import annotations

import dataclasses
import functools
import os
import typing
from collections.abc import Hashable, Mapping
from typing import Any, TypeVar, Union

from .errors import UnexpectedOutput

T = TypeVar("T")
EXTRA = "extra"


def decode(kind: type[T], raw: Mapping[str, Any], where: str) -> T:
    """A ``kind`` from the object ``raw``; ``where`` names it in errors."""
    values: dict[str, Any] = {}
    extra: dict[str, Any] = {}
    hints = field_types(typing.cast(Hashable, kind))
    for key, value in raw.items():
        if key == "path_hex" and "path" in hints:
            continue
        if key == "path" and isinstance(value, str) and hints.get("path") is str:
            values[key] = native_path(value, raw.get("path_hex"), where)
        elif key in hints and key != EXTRA:
            values[key] = convert(hints[key], value, f"{where}.{key}")
        else:
            extra[key] = value
    if EXTRA in hints:
        values[EXTRA] = extra
    return kind(**values)


@functools.lru_cache(maxsize=None)
def field_types(kind: Any) -> dict[str, Any]:
    """Types of the fields of a dataclass."""
    hints = typing.get_type_hints(kind)
    return {field.name: hints[field.name] for field in dataclasses.fields(kind) if field.init}


def convert(hint: Any, value: Any, where: str) -> Any:
    origin = typing.get_origin(hint)
    arguments = typing.get_args(hint)
    if hint is Any:
        return value
    if origin is Union:
        if value is None and type(None) in arguments:
            return None
        return convert(next(one for one in arguments if one is not type(None)), value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(convert(arguments[0], one, f"{where}[{index}]") for index, one in enumerate(value))
    if origin is dict and isinstance(value, dict):
        return value
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return decode(typing.cast(type[Any], hint), value, where)
    if hint is float and isinstance(value, (int, float)) and not isinstance(value, bool):
        return float(value)
    if hint in (int, str, bool) and type(value) is hint:
        return value
    raise UnexpectedOutput(
        f"{where}: {value!r} is not a {getattr(hint, '__name__', hint)}",
        hint="install versions of haul and of this module that fit",
    )


def native_path(text: str, hexadecimal: Any, where: str) -> str:
    """A name as Python's file functions take it, also where it is not UTF-8."""
    if hexadecimal is None:
        return os.fsdecode(text.encode("utf-8", "surrogatepass"))
    try:
        return os.fsdecode(bytes.fromhex(hexadecimal))
    except (TypeError, ValueError):
        raise UnexpectedOutput(f"{where}.path_hex: {hexadecimal!r} is not hexadecimal") from None
