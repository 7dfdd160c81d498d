"""The one converter between records and plain JSON data."""

from __future__ import annotations

import json
import math
from typing import Any, TypeVar

import cattrs
from cattrs.preconf.json import make_converter

from kforge.errors import UsageError
from kforge.plan.graph import Argument, Items, Ref

T = TypeVar("T")

_converter = make_converter(forbid_extra_keys=True)

_DEPTH = 50
"""Lists in lists that an argument may have; torch's schemas have two."""


def _plain_argument(argument: Argument) -> Any:
    if isinstance(argument, Ref):
        return {"ref": argument.name}
    if isinstance(argument, Items):
        return [_plain_argument(item) for item in argument.items]
    if isinstance(argument, float) and not math.isfinite(argument):
        return {"float": str(argument)}  # JSON has no word for these
    return argument


def _argument(data: object, _kind: object, depth: int = 0) -> Argument:
    if data is None or isinstance(data, bool | int | float | str):
        return data
    if isinstance(data, list) and depth < _DEPTH:
        return Items(tuple(_argument(item, _kind, depth + 1) for item in data))
    if isinstance(data, dict) and len(data) == 1:
        ((tag, text),) = data.items()
        if tag == "ref" and isinstance(text, str):
            return Ref(text)
        if tag == "float" and text in {"nan", "inf", "-inf"}:
            return float(text)
    raise ValueError("an argument is a scalar, a list, {'ref': name} or {'float': 'nan', 'inf' or '-inf'}")


def _is_argument(kind: object) -> bool:
    return bool(kind == Argument)


_converter.register_structure_hook_func(_is_argument, _argument)
_converter.register_unstructure_hook_func(_is_argument, _plain_argument)


def to_plain(record: object) -> Any:
    """Give the record as JSON data: objects, arrays, strings, numbers, booleans, null."""
    return _converter.unstructure(record)


def from_plain(data: object, kind: type[T]) -> T:
    """Build the record from JSON data; every fault is told at once, each with its path (``$.findings[2].phase``)."""
    try:
        return _converter.structure(data, kind)
    except Exception as error:  # noqa: BLE001 - cattrs raises groups of whatever the fields raised
        faults = "; ".join(cattrs.transform_error(error))
        raise UsageError(f"this is not a {kind.__name__} record: {faults}") from None


def to_json(record: object, *, indent: int | None = None) -> str:
    """Give the record as JSON text."""
    return json.dumps(to_plain(record), indent=indent, ensure_ascii=False)


def from_json(text: str | bytes, kind: type[T]) -> T:
    """Build the record from JSON text."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"this is not JSON: {error}") from None
    return from_plain(data, kind)
