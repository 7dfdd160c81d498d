"""The one converter between records and plain JSON data."""

from __future__ import annotations

import json
from typing import Any, TypeVar

import cattrs
from cattrs.preconf.json import make_converter

from kforge.errors import UsageError

T = TypeVar("T")

_converter = make_converter(forbid_extra_keys=True)


def to_plain(record: object) -> Any:  # noqa: ANN401 - JSON data has no narrower type
    """Give the record as JSON data: objects, arrays, strings, numbers, booleans, null."""
    return _converter.unstructure(record)


def from_plain(data: object, kind: type[T]) -> T:
    """Build the record from JSON data; every fault is told at once, each with its path (``$.findings[2].phase``)."""
    try:
        return _converter.structure(data, kind)
    except Exception as error:
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
