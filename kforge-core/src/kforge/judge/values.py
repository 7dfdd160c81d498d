"""Tagged values: what a forward takes and returns, as plain data (see docs/adr/0001). Nothing is ever unpickled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import torch
from attrs import field, frozen

from kforge.judge.protocol import ProtocolError

MAX_DEPTH: Final = 32
MAX_VALUES: Final = 4096
MAX_RANK: Final = 64

DTYPES: Final[dict[str, torch.dtype]] = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64, torch.float32, torch.float16, torch.bfloat16,
        torch.int64, torch.int32, torch.int16, torch.int8,
        torch.uint8, torch.uint16, torch.uint32, torch.uint64,
        torch.bool, torch.complex64, torch.complex128,
    )
}  # fmt: skip


def dtype_name(dtype: torch.dtype) -> str:
    """Give torch's word without ``torch.``."""
    return str(dtype).removeprefix("torch.")


@frozen
class TensorAt:
    """A tensor by address: an offset into the arena on the way in, an address of the worker on the way out."""

    at: int
    shape: tuple[int, ...] = field(kw_only=True)
    stride: tuple[int, ...] = field(kw_only=True)
    """In elements."""
    dtype: str = field(kw_only=True)
    device: str = field(default="cpu", kw_only=True)
    type_name: str = field(default="torch.Tensor", kw_only=True)

    @property
    def numel(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def span(self) -> int:
        """Elements from the first to the last one, both included; 0 for an empty tensor."""
        if self.numel == 0:
            return 0
        return 1 + sum((size - 1) * step for size, step in zip(self.shape, self.stride, strict=True))


@frozen
class Other:
    """A value of a kind that KForge does not carry; only its class's name crosses."""

    type_name: str


def encode(value: object, tensor: Callable[[torch.Tensor], TensorAt]) -> list[Any]:
    """Tag a value; ``tensor`` says where a tensor lies."""
    match value:
        case None:
            return ["none"]
        case torch.Tensor():
            where = tensor(value)
            return ["tensor", [where.at, where.shape, where.stride, where.dtype, where.device, where.type_name]]
        case bool():
            return ["bool", value]
        case int():
            return ["int", int(value)]
        case float():
            return ["float", float(value)]
        case str():
            return ["str", str(value)]
        case complex():
            return ["complex", value.real, value.imag]
        case torch.dtype():
            return ["dtype", dtype_name(value)]
        case TensorAt():
            return ["tensor", [value.at, value.shape, value.stride, value.dtype, value.device, value.type_name]]
        case list() | tuple():
            kind = "list" if isinstance(value, list) else "tuple"
            return [kind, [encode(item, tensor) for item in value]]
        case dict():
            return ["dict", [[encode(key, tensor), encode(item, tensor)] for key, item in value.items()]]
    return ["other", f"{type(value).__module__}.{type(value).__qualname__}"]


def decode(tagged: object, tensor: Callable[[TensorAt], Any] = lambda where: where) -> Any:
    """Read a tagged value, hostile or not; raises `ProtocolError` for what is none."""
    return _Decoder(tensor).value(tagged, 0)


class _Decoder:
    def __init__(self, tensor: Callable[[TensorAt], Any]) -> None:
        self._tensor = tensor
        self._left = MAX_VALUES

    def value(self, tagged: object, depth: int) -> Any:
        self._left -= 1
        if depth > MAX_DEPTH or self._left < 0:
            raise ProtocolError("a value that is too deep or too large")
        match tagged:
            case ["none"]:
                return None
            case ["bool", bool() as flag]:
                return flag
            case ["int", int() as number] if not isinstance(number, bool):
                return number
            case ["float", float() | int() as number]:
                return float(number)
            case ["complex", float() | int() as real, float() | int() as imaginary]:
                return complex(real, imaginary)
            case ["str", str() as text]:
                return text
            case ["dtype", str() as name] if name in DTYPES:
                return DTYPES[name]
            case ["list", list() as items]:
                return [self.value(item, depth + 1) for item in items]
            case ["tuple", list() as items]:
                return tuple(self.value(item, depth + 1) for item in items)
            case ["dict", list() as pairs]:
                return self._dict(pairs, depth)
            case ["tensor", list() as parts]:
                return self._tensor(read_tensor(parts))
            case ["other", str() as name]:
                return Other(name[:200])
        raise ProtocolError("a value with an unknown tag")

    def _dict(self, pairs: list[Any], depth: int) -> dict[Any, Any]:
        result = {}
        for pair in pairs:
            if not isinstance(pair, list) or len(pair) != 2:
                raise ProtocolError("a broken dict")
            key = self.value(pair[0], depth + 1)
            if not isinstance(key, str | int | float | bool | None):
                raise ProtocolError("a dict's key of an unknown kind")
            result[key] = self.value(pair[1], depth + 1)
        return result


def read_tensor(parts: object) -> TensorAt:
    """Read where a tensor lies; every number is checked, since a worker may claim anything."""
    match parts:
        case [int() as at, list() | tuple() as shape, list() | tuple() as stride, str() as dtype, *rest]:
            device, name = (*map(str, rest), "", "")[:2]
            sizes = (*shape, *stride, at)
            ok = (
                len(shape) == len(stride) <= MAX_RANK
                and all(isinstance(size, int) and 0 <= size < 2**63 for size in sizes)
                and dtype in DTYPES
            )
            if ok:
                where = TensorAt(
                    at, shape=tuple(shape), stride=tuple(stride), dtype=dtype, device=device[:40], type_name=name[:200]
                )
                if where.numel < 2**48 and where.span < 2**48:
                    return where
    raise ProtocolError("a broken tensor")


def leaves(value: object, path: str = "output") -> Iterator[tuple[str, Any]]:
    """Walk a decoded value: each leaf with its path, such as ``output[0]['mean']``."""
    match value:
        case list() | tuple():
            for number, item in enumerate(value):
                yield from leaves(item, f"{path}[{number}]")
        case dict():
            for key, item in value.items():
                yield from leaves(item, f"{path}[{key!r}]")
        case _:
            yield path, value


def structure(value: object) -> str:
    """Describe the nesting, for a person: ``tuple of (tensor, dict with 'a', 'b')``."""
    match value:
        case TensorAt() | torch.Tensor():
            return "tensor"
        case list() | tuple():
            inner = ", ".join(structure(item) for item in value)
            return f"{'list' if isinstance(value, list) else 'tuple'} of ({inner})"
        case dict():
            return "dict with " + ", ".join(f"{key!r}: {structure(item)}" for key, item in value.items())
        case Other():
            return f"an object of {value.type_name}"
        case None:
            return "None"
    return type(value).__name__
