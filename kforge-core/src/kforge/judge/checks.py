"""Is what came what was expected? Every comparison is made by the judge on bytes that it copied itself.

The error allowed follows the error that the reference itself makes at the declared precision, measured against its own
float64 values, with floors from the dtype:

- one element: 10 M + e v (abs(r) + s)
- the root mean square of any block of 4096 elements: 4 B + b v rms(r)

M is the reference's largest error, B its largest block error, r the expected value. v is u n^0.5 for float32 and
float64, and u + u32 n^0.5 for 16-bit types; u is the unit roundoff of the precision, u32 that of float32. e = 16 and b
= 4 for float32 and float64 (elementary functions are right to a few units), e = 4 and b = 2 for 16-bit types (they are
computed in float32 and rounded once). n is the longest reduction in the reference (1 where there is none): a sum of n
terms in any order has a rounding error that grows as n^0.5 u (Higham and Mary, SIAM Journal on Scientific Computing 41,
2019, A2815). s is rms(r) where n > 1, since cancellation in a sum is relative to its terms and not to its result; else
0.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import torch
from attrs import define, field, frozen

from kforge.judge.values import Other, TensorAt, structure
from kforge.records import Finding, Phase

BLOCK: Final = 4096
CHUNK: Final = 2**17
"""Elements compared at once: few enough to stay in a core's cache in float64."""

ELEMENT_FACTOR: Final = 10.0
BLOCK_FACTOR: Final = 4.0
ROUNDOFFS: Final = {False: (16.0, 4.0), True: (4.0, 2.0)}
"""e and b; the key says whether the type has 16 bits."""


@frozen
class Budget:
    """The error allowed for one output; see the module's text."""

    worst: float
    """M, in the output's unit."""
    block: float
    """B."""
    roundoff: float
    """v, relative."""
    half: bool
    """Whether the precision is a 16-bit type."""
    scale: float
    """s."""

    def element(self, expected: torch.Tensor) -> torch.Tensor:
        """Give the absolute error allowed for each element."""
        return ELEMENT_FACTOR * self.worst + ROUNDOFFS[self.half][0] * self.roundoff * (expected.abs() + self.scale)

    def of_block(self, rms: torch.Tensor) -> torch.Tensor:
        """Give the root mean square error allowed for blocks whose expected values have this root mean square."""
        return BLOCK_FACTOR * self.block + ROUNDOFFS[self.half][1] * self.roundoff * rms


@frozen(eq=False)
class Expected:
    """One expected output tensor: float64 (complex128, or the exact integers), with its budget."""

    values: torch.Tensor
    dtype: str = field(kw_only=True)
    budget: Budget | None = field(kw_only=True)
    """None where the values must be equal."""


def _blocks(errors: torch.Tensor) -> torch.Tensor:
    """Give the root mean square of each block of 4096 of a flat tensor."""
    whole = errors.numel() // BLOCK * BLOCK
    squares = errors.square()
    parts = [squares[:whole].view(-1, BLOCK).mean(1)]
    if whole < errors.numel():
        parts.append(squares[whole:].mean().reshape(1))
    return torch.cat(parts).sqrt()


def as_real(tensor: torch.Tensor) -> torch.Tensor:
    """Give a flat float64 tensor; a complex number becomes two."""
    if tensor.is_complex():
        tensor = torch.view_as_real(tensor.to(torch.complex128))
    return tensor.to(torch.float64).flatten()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Keep torch from sharing out chunks: beside a busy worker its threads wait for each other most of the time."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _chunks(*tensors: torch.Tensor) -> Iterator[tuple[int, tuple[torch.Tensor, ...]]]:
    flats = [tensor.reshape(-1) for tensor in tensors]
    for start in range(0, flats[0].numel(), CHUNK):
        yield start, tuple(as_real(flat[start : start + CHUNK]) for flat in flats)


def budget_of(exact: torch.Tensor, declared: torch.Tensor, dtype: torch.dtype, reduction: int) -> Budget:
    """Measure the reference's own error: ``exact`` in float64, ``declared`` computed at ``dtype``; same shape."""
    worst, block, squares, count = 0.0, 0.0, 0.0, 0
    with _one_thread():
        for _, (right, mine) in _chunks(exact, declared):
            errors, whole = (mine - right).abs_(), right.numel()
            if not math.isfinite(largest := float(errors.max())):
                finite = torch.isfinite(right) & torch.isfinite(mine)
                errors, right = torch.where(finite, errors, 0.0), torch.where(finite, right, 0.0)
                largest, whole = float(errors.max()), int(finite.sum())
            worst = max(worst, largest)
            block = max(block, float(_blocks(errors).max()))
            squares += float(right.dot(right))
            count += whole
    rms = math.sqrt(squares / count) if count else 0.0
    # 16-bit kernels add in float32: only inputs and results are rounded to 16 bits, each once.
    single = torch.finfo(torch.float32).eps / 2
    half = dtype.itemsize == 2
    roundoff = torch.finfo(dtype).eps / 2
    roundoff = roundoff + single * math.sqrt(reduction) if half else roundoff * math.sqrt(reduction)
    return Budget(worst, block, roundoff, half, rms if reduction > 1 else 0.0)


def _place(flat: int, shape: tuple[int, ...], parts: int) -> tuple[int, ...]:
    flat //= parts
    index = []
    for size in reversed(shape):
        index.append(flat % size)
        flat //= size
    return tuple(reversed(index))


@define
class _Worst:
    """The element that exceeds its budget most, and how many do."""

    bad: int = 0
    excess: float = 0.0
    at: int | None = None
    expected: float = 0.0
    got: float = 0.0
    allowed: float = 0.0
    block: tuple[float, float] | None = None
    """Root mean square error and its limit, where only a block is off."""

    def look(self, start: int, right: torch.Tensor, mine: torch.Tensor, budget: Budget, slack: float) -> None:
        """Take in one chunk, both sides flat and float64."""
        errors = (mine - right).abs_()
        allowed = budget.element(right).mul_(slack)
        if bool((errors <= allowed).all()) and bool(torch.isfinite(right).all()):
            if self.at is None:
                self._look_at_blocks(start, right, mine, errors, allowed, slack * budget.of_block(_blocks(right)))
            return
        finite = torch.where(torch.isfinite(right), right, 0.0)
        same = (right == mine) | (right.isnan() & mine.isnan())
        odd = ~same & ~(torch.isfinite(right) & torch.isfinite(mine))
        errors = torch.where(same | odd, 0.0, (mine - right).abs())
        allowed = slack * budget.element(finite)
        excess = torch.where(odd, math.inf, errors - allowed)
        self.bad += int((excess > 0).sum())
        place = int(excess.argmax())
        if float(excess[place]) > self.excess:
            self.excess, self.block = float(excess[place]), None
            self._keep(start, place, right, mine, allowed)
        elif self.at is None:
            self._look_at_blocks(start, right, mine, errors, allowed, slack * budget.of_block(_blocks(finite)))

    def _look_at_blocks(self, start: int, right: torch.Tensor, mine: torch.Tensor, errors: torch.Tensor,
                        allowed: torch.Tensor, limits: torch.Tensor) -> None:  # fmt: skip
        means = _blocks(errors)
        number = int((means - limits).argmax())
        if float(means[number]) > float(limits[number]):
            place = number * BLOCK + int(errors[number * BLOCK : (number + 1) * BLOCK].argmax())
            self.block = (float(means[number]), float(limits[number]))
            self._keep(start, place, right, mine, allowed)

    def _keep(self, start: int, place: int, right: torch.Tensor, mine: torch.Tensor, allowed: torch.Tensor) -> None:
        self.at = start + place
        self.expected, self.got, self.allowed = float(right[place]), float(mine[place]), float(allowed[place])


def compare_tensor(
    path: str, expected: Expected, got: torch.Tensor, phase: Phase, *, slack: float = 1.0
) -> Finding | None:
    """Compare elements; shapes and dtypes are equal already. ``slack`` widens the budget for inexact expectations."""
    parts = 2 if got.is_complex() else 1
    if expected.budget is None:
        return _compare_exactly(path, expected.values.reshape(-1), got, phase)
    worst = _Worst()
    with _one_thread():
        for start, (right, mine) in _chunks(expected.values, got):
            worst.look(start * parts, right, mine, expected.budget, slack)
    if worst.at is None:
        return None
    index = _place(worst.at, tuple(got.shape), parts)
    place = f"[{', '.join(map(str, index))}]"
    error = abs(worst.got - worst.expected)
    message = f"{path}: element {place} is {worst.got:.9g}, expected {worst.expected:.9g}"
    if worst.block is not None:
        mean, limit = worst.block
        message += (
            f"; the {BLOCK} elements around it are off by {mean:.3g} (root mean square), {limit:.3g} is allowed: "
            "the kernel computes at a lower precision than the reference"
        )
    else:
        off = f"{worst.bad} of {expected.values.numel()} elements are off"
        message += f" (error {error:.3g}, allowed {worst.allowed:.3g}); {off}"
    odd = not (math.isfinite(worst.got) and math.isfinite(worst.expected))
    return Finding(
        "nonfinite" if odd else "values", phase=phase, message=message, output=path, index=index,
        expected=repr(worst.expected), got=repr(worst.got), error=None if odd else error, allowed=worst.allowed,
    )  # fmt: skip


def _compare_exactly(path: str, right: torch.Tensor, got: torch.Tensor, phase: Phase) -> Finding | None:
    """Compare integers and booleans as they are: float64 does not hold all of them."""
    mine = got.reshape(-1)
    if torch.equal(right, mine):
        return None
    off = (right != mine).nonzero()[:, 0]
    at = int(off[0])
    index = _place(at, tuple(got.shape), 1)
    expected, came = right[at].item(), mine[at].item()
    message = (
        f"{path}: element [{', '.join(map(str, index))}] is {came}, expected {expected} (they must be equal); "
        f"{off.numel()} of {right.numel()} elements are off"
    )
    return Finding(
        "values", phase=phase, message=message, output=path, index=index, expected=repr(expected), got=repr(came),
        error=float(abs(came - expected)), allowed=0.0,
    )  # fmt: skip


def compare_structure(expected: Any, output: Any, phase: Phase) -> Finding | None:
    """Compare the nesting of tuples, lists and dicts."""
    if _skeleton(expected) == _skeleton(output):
        return None
    right, mine = structure(_shapes(expected)), structure(output)
    return Finding(
        "structure", phase=phase, message=f"output: {mine} came, {right} is expected", output="output", expected=right,
        got=mine,
    )  # fmt: skip


def _skeleton(value: Any) -> Any:
    match value:
        case list() | tuple():
            return (isinstance(value, list), tuple(_skeleton(item) for item in value))
        case dict():
            return frozenset((key, _skeleton(item)) for key, item in value.items())
    return None


def _shapes(value: Any) -> Any:
    match value:
        case list() | tuple():
            return type(value)(_shapes(item) for item in value)
        case dict():
            return {key: _shapes(item) for key, item in value.items()}
        case Expected():
            return value.values
    return value


def compare_shape(path: str, expected: object, got: object, phase: Phase) -> Finding | None:
    """Compare what kind of value came: structure, exact type, shape, dtype; scalars by value."""

    def finding(check: str, message: str, right: object, mine: object) -> Finding:
        text = f"{path}: {message}"
        return Finding(check, phase=phase, message=text, output=path, expected=str(right), got=str(mine))

    if not isinstance(expected, Expected):
        return _compare_scalar(path, expected, got, phase)
    if not isinstance(got, TensorAt):
        return finding("structure", f"{_kind(got)} came, a tensor is expected", "tensor", _kind(got))
    shape = tuple(expected.values.shape)
    if got.type_name != "torch.Tensor":
        message = f"a {got.type_name} came, exactly torch.Tensor is expected"
        return finding("type", message, "torch.Tensor", got.type_name)
    if got.shape != shape:
        return finding("shape", f"shape {got.shape} came, {shape} is expected", shape, got.shape)
    if got.dtype != expected.dtype:
        return finding("dtype", f"{got.dtype} came, {expected.dtype} is expected", expected.dtype, got.dtype)
    return None


def _kind(value: object) -> str:
    return structure(value)


def _compare_scalar(path: str, expected: object, got: object, phase: Phase) -> Finding | None:
    """Compare None, bool, int, float, complex and str: same type, same value (floats to 1e-6 of it)."""
    if type(expected) is not type(got) or isinstance(got, Other):
        return Finding(
            "structure", phase=phase, message=f"{path}: {_kind(got)} came, {_kind(expected)} is expected", output=path,
            expected=_kind(expected), got=_kind(got),
        )  # fmt: skip
    if isinstance(expected, float | complex) and isinstance(got, float | complex):
        both_nan = expected != expected and got != got
        near = math.isfinite(abs(expected)) and abs(expected - got) <= 1e-6 * abs(expected)
        close = both_nan or expected == got or near
    else:
        close = expected == got
    if close:
        return None
    return Finding(
        "values", phase=phase, message=f"{path} is {got!r}, expected {expected!r}", output=path,
        expected=repr(expected), got=repr(got),
    )  # fmt: skip
