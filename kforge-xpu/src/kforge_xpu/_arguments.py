"""From Python arguments to the bytes of a launch request, checked against the kernel's own parameters."""

from __future__ import annotations

import ctypes
import operator
import struct
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kforge_xpu.errors import SyclLaunchError
from kforge_xpu.signature import Parameter

if TYPE_CHECKING:
    import torch

Converter = Callable[[Any], Any]

# Slots are multiples of 8 bytes; a size byte of 0 says pointer (shim.cpp, Request).
_SLOT = 8
_LARGEST_VALUE = 255


class OtherDeviceError(Exception):
    """A tensor lies elsewhere than on the device that the converters were made for."""


class Packer:
    """Packs launch requests of one kernel for one device.

    `kind` and `index` name the device whose tensors are accepted: `cpu`, or `xpu` and its number.
    """

    def __init__(self, parameters: Sequence[Parameter], kind: str, index: int | None) -> None:
        self.parameters = tuple(parameters)
        at_home = _at_home(kind, index)
        self._convert = [_converter(parameter, at_home) for parameter in parameters]
        self._codes = [_code(parameter) for parameter in parameters]
        sizes = bytes(0 if code == "Q*" else struct.calcsize(f"<{code}") for code in self._codes if code is not None)
        self._layout = sizes
        self._fixed = None if None in self._codes else struct.Struct(_format(sizes, self._codes)).pack

    def pack(self, sizes: tuple[int, ...], dimensions: int, arguments: Sequence[object]) -> bytes:
        """The request. `sizes`: 3 global, 3 local. Raises SyclLaunchError, or OtherDeviceError."""
        values = [convert(argument) for convert, argument in zip(self._convert, arguments, strict=True)]
        if self._fixed is None:
            return self._pack_varying(sizes, dimensions, values)
        try:
            return self._fixed(*sizes, dimensions, len(values), self._layout, *values)
        except (struct.error, OverflowError):
            self._explain(values)
            raise

    def _pack_varying(self, sizes: tuple[int, ...], dimensions: int, values: list[Any]) -> bytes:
        codes, plain = list(self._codes), list(values)
        for i, value in enumerate(values):
            if codes[i] is not None:
                continue
            codes[i], plain[i] = ("Q*", value) if isinstance(value, int) else (f"{len(value)}s", value)
        self._explain(plain, codes)
        layout = bytes(0 if code == "Q*" else struct.calcsize(f"<{code}") for code in codes if code is not None)
        return struct.pack(_format(layout, codes), *sizes, dimensions, len(plain), layout, *plain)

    def _explain(self, values: Sequence[Any], codes: Sequence[str | None] | None = None) -> None:
        for i, (code, value) in enumerate(zip(codes or self._codes, values, strict=True)):
            try:
                struct.pack(f"<{(code or 'Q').rstrip('*')}", value)
            except (struct.error, OverflowError):
                raise SyclLaunchError(
                    f"argument {i} ({self.parameters[i].text}): {value!r} does not fit {self.parameters[i].type}"
                ) from None


def _format(sizes: bytes, codes: Sequence[str | None]) -> str:
    slots = []
    for size, code in zip(sizes, codes, strict=True):
        text = (code or "Q").rstrip("*")
        slots.append(f"{text}{-(size or _SLOT) % _SLOT}x")
    return f"<6Q2I{len(sizes) + -len(sizes) % _SLOT}s" + "".join(slots)


def _code(parameter: Parameter) -> str | None:
    """The struct code of a parameter's value; `Q*` for an address, None where only the argument decides."""
    if parameter.pointer:
        return "Q*"
    return "H" if parameter.code == "bf16" else parameter.code


def _at_home(kind: str, index: int | None) -> Callable[[torch.Tensor], bool]:
    if kind == "cpu":
        return operator.attrgetter("is_cpu")
    return lambda tensor: tensor.is_xpu and tensor.get_device() == index


def _converter(parameter: Parameter, at_home: Callable[[torch.Tensor], bool]) -> Converter:
    if parameter.pointer:
        return _pointer(parameter, at_home)
    code = parameter.code
    if code is None:
        return _untyped(parameter, at_home)
    if code == "?":
        return _scalar(parameter, bool, _boolean)
    if code == "bf16":
        return lambda argument: _bfloat16(_floating(argument, parameter), parameter)
    if code in "efd":
        return _scalar(parameter, float, _floating)
    return _scalar(parameter, int, _integer)


def _scalar(parameter: Parameter, exact: type, otherwise: Callable[[Any, Parameter], Any]) -> Converter:
    def convert(argument: Any) -> Any:
        return argument if type(argument) is exact else otherwise(argument, parameter)

    return convert


def _address(tensor: torch.Tensor, parameter: Parameter) -> int:
    try:
        return tensor.data_ptr()
    except RuntimeError as problem:
        raise SyclLaunchError(f"{parameter.text}: this tensor has no memory of its own: {problem}") from problem


def _pointer(parameter: Parameter, at_home: Callable[[torch.Tensor], bool]) -> Converter:
    import torch

    # Names that this version of torch lacks drop out.
    accepted = frozenset(getattr(torch, name) for name in parameter.dtypes if hasattr(torch, name))

    def convert(argument: Any) -> int:
        if isinstance(argument, torch.Tensor):
            if not at_home(argument):
                raise OtherDeviceError
            if accepted and argument.dtype not in accepted:
                raise SyclLaunchError(
                    f"the parameter {parameter.text} points to {_element(parameter)}, the tensor holds {argument.dtype}"
                )
            return _address(argument, parameter)
        if argument is None:
            return 0
        if isinstance(argument, ctypes.c_void_p):
            return argument.value or 0
        raise SyclLaunchError(
            f"the parameter {parameter.text} takes a torch tensor or None, not {type(argument).__name__}"
        )

    return convert


def _element(parameter: Parameter) -> str:
    return (parameter.type or "").replace("vector ", "vectors of ")


def _untyped(parameter: Parameter, at_home: Callable[[torch.Tensor], bool]) -> Converter:
    import torch

    def convert(argument: Any) -> int | bytes:
        if isinstance(argument, torch.Tensor):
            if not at_home(argument):
                raise OtherDeviceError
            return _address(argument, parameter)
        if argument is None:
            return 0
        if isinstance(argument, ctypes.c_void_p):
            return argument.value or 0
        value = None
        if isinstance(argument, ctypes._SimpleCData | ctypes.Structure | ctypes.Union | ctypes.Array):
            value = bytes(argument)
        elif (
            type(argument).__module__ == "numpy" and hasattr(argument, "tobytes") and getattr(argument, "ndim", 1) == 0
        ):
            value = argument.tobytes()
        if value is None or not 0 < len(value) <= _LARGEST_VALUE:
            raise SyclLaunchError(
                f"the type of the parameter {parameter.text or '(not found in the source)'} cannot be told from the "
                f"source: pass a tensor, or a ctypes or numpy scalar of that type (ctypes.c_int(3), numpy.float32(1)), "
                f"not {type(argument).__name__}"
            )
        return value

    return convert


def _integer(argument: Any, parameter: Parameter) -> int:
    value = _value(argument, parameter)
    try:
        return operator.index(value)
    except TypeError:
        # numpy.bool is no integer for Python.
        if type(value).__name__ in ("bool", "bool_"):
            return int(value)
        raise _refused(argument, parameter, "an int") from None


def _floating(argument: Any, parameter: Parameter) -> float:
    value = _value(argument, parameter)
    if not hasattr(type(value), "__float__") and not hasattr(type(value), "__index__"):
        raise _refused(argument, parameter, "a float")
    try:
        return float(value)
    except OverflowError:
        raise SyclLaunchError(f"the parameter {parameter.text}: {value!r} does not fit {parameter.type}") from None
    except (TypeError, ValueError):
        raise _refused(argument, parameter, "a float") from None


def _boolean(argument: Any, parameter: Parameter) -> bool:
    value = _value(argument, parameter)
    try:
        return (False, True)[int(operator.index(value))] if not isinstance(value, bool) else value
    except (TypeError, IndexError):
        if type(value).__name__ in ("bool", "bool_"):
            return bool(value)
        raise _refused(argument, parameter, "a bool") from None


def _value(argument: Any, parameter: Parameter) -> Any:
    import torch

    if isinstance(argument, torch.Tensor):
        raise SyclLaunchError(f"the parameter {parameter.text} takes a number, not a tensor: pass tensor.item()")
    return argument.value if isinstance(argument, ctypes._SimpleCData) else argument


def _refused(argument: Any, parameter: Parameter, wanted: str) -> SyclLaunchError:
    return SyclLaunchError(f"the parameter {parameter.text} takes {wanted}, not {argument!r}")


def _bfloat16(value: float, parameter: Parameter) -> int:
    try:
        bits = int.from_bytes(struct.pack("<f", value), "little")
    except OverflowError:
        raise SyclLaunchError(f"the parameter {parameter.text}: {value!r} does not fit bfloat16") from None
    if value != value:
        return 0x7FC0
    rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16
    if rounded & 0x7FFF == 0x7F80 and abs(value) != float("inf"):
        raise SyclLaunchError(f"the parameter {parameter.text}: {value!r} does not fit bfloat16")
    return rounded
