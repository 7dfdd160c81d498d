"""Inputs: drawn from the Problem's own generator, laid out in the arena, redrawn between timed batches.

Redrawing must be cheap and must leave no content that a candidate could have seen: a slot gets one of several masters,
rotated by a secret offset, with one secret key XORed into every mantissa, so each value stays in its binade and keeps
its sign. Tensors whose values have a meaning beyond their size (zeros, whole numbers, infinities, integers, booleans)
are copied from a master as they are.
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray

from kforge.errors import CannotJudgeError
from kforge.judge.arena import Arena, Layout
from kforge.judge.values import TensorAt, decode, dtype_name, encode

MASTERS: Final = 2
ZEROS: Final = 1e-3
"""Share of zeros that chance may bring into noise; above it they have a meaning, as after a ReLU."""
_MANTISSA: Final = {torch.float64: (52, np.uint64), torch.float32: (23, np.uint32), torch.float16: (10, np.uint16),
                    torch.bfloat16: (7, np.uint16)}  # fmt: skip

Arguments = tuple[Any, ...]


def place_all(values: object, layout: Layout, places: list[TensorAt]) -> list[Any]:
    """Reserve a place for every tensor of a value; gives the tagged value that names them."""

    def place(tensor: torch.Tensor) -> TensorAt:
        where = layout.place(tensor)
        places.append(where)
        return where

    return encode(values, place)


def tensors_of(values: object) -> list[torch.Tensor]:
    """Give a value's tensors in the order of encoding."""
    found: list[torch.Tensor] = []

    def keep(tensor: torch.Tensor) -> TensorAt:
        found.append(tensor)
        return TensorAt(0, shape=(), stride=(), dtype="float32")

    encode(values, keep)
    return found


def is_plain_noise(tensor: torch.Tensor) -> bool:
    """Say whether a tensor's values are numbers without a meaning of their own, which a key may change."""
    if tensor.dtype not in _MANTISSA or tensor.numel() == 0:
        return False
    zeros = 0
    for part in tensor.flatten().split(2**22):
        if not bool(torch.isfinite(part).all()):
            return False
        zeros += part.numel() - int(torch.count_nonzero(part))
    head = tensor.flatten()[: 2**16].double()
    whole, different = bool((head == head.round()).all()), int(head.unique().numel())
    return zeros <= tensor.numel() * ZEROS and not whole and different > min(64, head.numel() // 4)


def _without_zeros(bits: NDArray[Any], mantissa: int) -> NDArray[Any]:
    """Replace zeros and denormal numbers by a neighbour: a key would make them slow denormal numbers."""
    sign = bits.dtype.itemsize * 8 - 1
    tiny = np.flatnonzero((bits & ((1 << sign) - 1)) >> mantissa == 0)
    if tiny.size:
        bits[tiny] = bits[(tiny + 1) % bits.size]
    return bits


def _varies(how: str) -> CannotJudgeError:
    return CannotJudgeError(
        f"get_inputs gives other shapes from call to call: {how}",
        hint="let get_inputs give one shape, and list further ones in get_input_variants",
    )


@define
class _Source:
    """One tensor input: the bits of its masters."""

    masters: list[NDArray[Any]]
    mantissa: int | None
    kind: Any = field(default=np.uint8)


class Ring:
    """The slots of the arena, each a full set of arguments, and the masters that they are redrawn from."""

    def __init__(self, drawn: Sequence[Arguments], layout: Layout, slots: int) -> None:
        self.tagged: list[list[Any]] = []
        self._places: list[list[TensorAt]] = []
        for _ in range(slots):
            places: list[TensorAt] = []
            self.tagged.append(place_all(drawn[0], layout, places))
            self._places.append(places)
        self._drawn = drawn
        self._sources: list[_Source] = []

    @property
    def slots(self) -> int:
        """How many slots there are."""
        return len(self.tagged)

    def prepare(self, arena: Arena) -> bool:
        """Copy the masters' bits; gives False where no tensor can be redrawn with a key.

        Raises `CannotJudgeError` where the masters are laid out in different ways.
        """
        for drawn in self._drawn:
            self._check_layout(0, tensors_of(drawn))
        per_tensor = list(zip(*(tensors_of(drawn) for drawn in self._drawn), strict=True))
        for where, masters in zip(self._places[0], per_tensor, strict=True):
            mantissa: int | None = None
            kind: Any = np.uint8
            if all(is_plain_noise(master) for master in masters):
                mantissa, kind = _MANTISSA[masters[0].dtype]
            bits = []
            for master in masters:
                arena.put(master, where)
                copied = arena.flat(where).copy().view(kind)
                bits.append(copied if mantissa is None else _without_zeros(copied, mantissa))
            self._sources.append(_Source(bits, mantissa, kind))
        return any(source.mantissa is not None for source in self._sources)

    def put(self, arena: Arena, slot: int, arguments: Arguments) -> None:
        """Write given arguments into a slot; raises `CannotJudgeError` where they are laid out in another way."""
        tensors = tensors_of(arguments)
        self._check_layout(slot, tensors)
        for where, tensor in zip(self._places[slot], tensors, strict=True):
            arena.put(tensor, where)
        left = iter(self._places[slot])
        self.tagged[slot] = encode(arguments, lambda _: next(left))

    def _check_layout(self, slot: int, tensors: Sequence[torch.Tensor]) -> None:
        places = self._places[slot]
        if len(tensors) != len(places):
            raise _varies(f"{len(places)} tensors, then {len(tensors)}")
        for number, (where, tensor) in enumerate(zip(places, tensors, strict=True)):
            mine = (tuple(tensor.shape), tuple(tensor.stride()), dtype_name(tensor.dtype))
            if mine != (where.shape, where.stride, where.dtype):
                raise _varies(f"tensor {number} is {where.dtype} {where.shape}, then {mine[2]} {mine[0]}")

    def redraw(self, arena: Arena, slot: int) -> None:
        """Give a slot new contents under a fresh secret key, offset and choice of master."""
        for where, source in zip(self._places[slot], self._sources, strict=True):
            target = arena.flat(where).view(source.kind)
            master = source.masters[secrets.randbelow(len(source.masters))]
            if source.mantissa is None or master.size == 0:
                target[:] = master
                continue
            key = source.kind(1 + secrets.randbelow(2**source.mantissa - 1))
            offset = secrets.randbelow(master.size)
            np.bitwise_xor(master[offset:], key, out=target[: master.size - offset])
            np.bitwise_xor(master[:offset], key, out=target[master.size - offset :])

    def arguments(self, arena: Arena, slot: int) -> Arguments:
        """Give the judge's view of a slot; nothing is copied."""
        return tuple(decode(self.tagged[slot], arena.tensor))

    def places(self, slot: int) -> list[TensorAt]:
        """Give where the tensors of a slot lie."""
        return self._places[slot]


def slot_bytes(arguments: Arguments) -> int:
    """Give the bytes that one set of arguments takes in the arena."""
    layout = Layout()
    place_all(arguments, layout, [])
    return layout.size
