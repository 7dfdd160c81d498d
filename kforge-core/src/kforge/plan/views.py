"""How operations that only rename indices change the layout of what they are applied to."""

from __future__ import annotations

import math

from attrs import evolve, frozen

from kforge.plan.graph import Argument, Items, Node


@frozen
class Layout:
    """Element ``offset + sum(index * stride)`` of some memory, for each index of ``shape``."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0


@frozen
class View:
    """One renaming of indices: an operation without its tensor. Hashable."""

    kind: str
    numbers: tuple[int, ...] = ()


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Give the strides of a contiguous tensor, in elements."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Say whether elements lie row by row without gaps; the stride of a size of 1 or of an empty tensor is free."""
    if 0 in shape:
        return True
    wanted = contiguous(shape)
    return all(size == 1 or have == want for size, have, want in zip(shape, strides, wanted, strict=True))


def view_of(node: Node, shape: tuple[int, ...], which: str) -> View | None:
    """Give the renaming that leads from the tensor of ``shape`` to the result ``which``; None where there is none."""
    number, found = next(
        (at, value) for at, value in enumerate(node.results) if value is not None and value.name == which
    )
    result = found.shape
    name = node.op.partition(".")[0]
    rank = len(shape)
    given = dict(node.arguments)
    match name:
        case "view" | "reshape" | "_unsafe_view" | "flatten" | "unflatten" | "squeeze" | "unsqueeze":
            return View("reshape", result)
        case "expand" | "broadcast_to":
            return View("expand", result)
        case "permute":
            return View("permute", tuple(axis % max(rank, 1) for axis in _ints(given["dims"])))
        case "transpose" | "t" | "numpy_T" | "swapaxes":
            return View("permute", _transposed(name, given, rank))
        case "select":
            axis, index = _int(given["dim"]) % rank, _int(given["index"])
            return View("select", (axis, index % shape[axis]))
        case "slice":
            return _slice(given, shape)
        case "split" | "split_with_sizes" | "chunk":
            axis = _int(given["dim"]) % rank
            start = sum(value.shape[axis] for value in node.results[:number] if value is not None)
            return View("slice", (axis, start, result[axis], 1))
        case "unbind":
            return View("select", (_int(given["dim"]) % rank, number))
        case "alias" | "detach":
            return View("reshape", result)
        case _:
            return None


def apply(view: View, layout: Layout) -> Layout | None:
    """Give the layout behind the renaming; None when no strides can express it."""
    match view.kind:
        case "reshape":
            strides = _reshaped(layout, view.numbers)
            return None if strides is None else evolve(layout, shape=view.numbers, strides=strides)
        case "expand":
            return _expanded(layout, view.numbers)
        case "permute":
            return evolve(
                layout,
                shape=tuple(layout.shape[axis] for axis in view.numbers),
                strides=tuple(layout.strides[axis] for axis in view.numbers),
            )
        case "select":
            axis, index = view.numbers
            return Layout(
                layout.shape[:axis] + layout.shape[axis + 1 :],
                layout.strides[:axis] + layout.strides[axis + 1 :],
                layout.offset + index * layout.strides[axis],
            )
        case _:
            axis, start, size, step = view.numbers
            sizes, steps = list(layout.shape), list(layout.strides)
            offset = layout.offset + start * steps[axis]
            sizes[axis], steps[axis] = size, steps[axis] * step
            return Layout(tuple(sizes), tuple(steps), offset)


def _expanded(layout: Layout, shape: tuple[int, ...]) -> Layout:
    missing = len(shape) - len(layout.shape)
    strides = [0] * missing
    for size, have, stride in zip(shape[missing:], layout.shape, layout.strides, strict=True):
        strides.append(stride if size == have else 0)
    return evolve(layout, shape=shape, strides=tuple(strides))


def _reshaped(layout: Layout, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    if math.prod(shape) == 0:
        return contiguous(shape)
    # Runs of dimensions that one stride walks through; a new shape may divide a run, but not span two.
    runs: list[list[int]] = []
    for size, stride in zip(layout.shape, layout.strides, strict=True):
        if size == 1:
            continue
        if runs and runs[-1][1] == stride * size:
            runs[-1] = [runs[-1][0] * size, stride]
        else:
            runs.append([size, stride])
    found: list[int] = []
    left, step = runs.pop() if runs else [1, 1]
    for size in reversed(shape):
        if size == 1:
            found.append(0)
            continue
        if left == 1 and runs:
            left, step = runs.pop()
        if left % size:
            return None
        found.append(step)
        left, step = left // size, step * size
    return tuple(reversed(found))


def _slice(given: dict[str, Argument], shape: tuple[int, ...]) -> View:
    axis = _int(given["dim"]) % len(shape)
    size = shape[axis]
    start, end = given["start"], given["end"]
    first, last, step = slice(
        None if start is None else _int(start), None if end is None else _int(end), _int(given["step"])
    ).indices(size)
    return View("slice", (axis, first, len(range(first, last, step)), step))


def _transposed(name: str, given: dict[str, Argument], rank: int) -> tuple[int, ...]:
    order = list(range(rank))
    if name in ("t", "numpy_T"):
        return tuple(reversed(order))
    first, second = (_int(argument) % max(rank, 1) for key, argument in given.items() if key not in ("self", "input"))
    order[first], order[second] = order[second], order[first]
    return tuple(order)


def _int(argument: Argument) -> int:
    assert isinstance(argument, int)
    return argument


def _ints(argument: Argument) -> tuple[int, ...]:
    assert isinstance(argument, Items)
    return tuple(_int(item) for item in argument.items)
