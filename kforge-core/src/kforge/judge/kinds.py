"""What kinds of values a Problem may hand to its Model and get back from it."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import torch

from kforge.errors import ProblemError
from kforge.judge.values import DTYPES, MAX_DEPTH

_PLAIN: Final = (bool, int, float, complex, str, type(None), torch.dtype)
_KEYS: Final = (str, int, float, bool, type(None))


def plain(value: object, path: str) -> Any:
    """Check an argument and give it as workers can get it: tensors detached, strided, in host memory.

    ``path`` names it in the `ProblemError` raised for other kinds: ``input 1``.
    """
    return _plain(value, path, 0)


def _plain(value: object, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise ProblemError(
            f"{path} is nested too deeply", hint=f"at most {MAX_DEPTH} levels of lists and dicts are taken"
        )
    if isinstance(value, torch.Tensor):
        fault = tensor_fault(value)
        if fault is not None:
            raise ProblemError(f"{path} is {fault}", hint="give a plain, dense torch.Tensor, and convert it in forward")
        return value.detach().resolve_conj().resolve_neg().cpu()
    if type(value) in _PLAIN:
        return value
    if type(value) is list:
        return [_plain(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(value)]
    if type(value) is tuple or isinstance(value, torch.Size):
        return tuple(_plain(item, f"{path}[{number}]", depth + 1) for number, item in enumerate(value))
    if type(value) is dict:
        for key in value:
            if type(key) not in _KEYS:
                raise ProblemError(f"{path} has a key that is {a(key)}", hint="use strings or whole numbers as keys")
        return {key: _plain(item, f"{path}[{key!r}]", depth + 1) for key, item in value.items()}
    raise ProblemError(f"{path} is {a(value)}, a kind that cannot be handed over", hint=_remedy(value))


def _remedy(value: object) -> str:
    if isinstance(value, np.ndarray):
        return "convert it: torch.from_numpy(array)"
    if isinstance(value, np.generic):
        return "convert it with .item()"
    if isinstance(value, torch.nn.Module) or callable(value):
        return "make it inside Model, and hand over a name or a number that says which one"
    return "hand over tensors, numbers, strings, None, and lists, tuples or dicts of these"


def tensor_fault(tensor: torch.Tensor) -> str | None:
    """Say what keeps a tensor from being carried, as words that follow "is"; None for a plain one."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter):
        return f"{a(tensor)}, a subclass of torch.Tensor"
    if tensor.is_nested:
        return "a nested tensor"
    if tensor.is_quantized:
        return f"a quantised tensor ({tensor.dtype})"
    if tensor.layout is not torch.strided:
        return f"a sparse tensor ({tensor.layout})"
    if tensor.device.type == "meta":
        return "a tensor without contents (device meta)"
    if str(tensor.dtype).removeprefix("torch.") not in DTYPES:
        return f"a tensor of {tensor.dtype}, which is not carried"
    return None


def output_fault(value: object, path: str = "output", depth: int = 0) -> str | None:
    """Say what keeps a value of the reference from being compared: ``output[1] is ...``; None where nothing does.

    Subclasses of tuple (named ones, torch's own return types), list and dict count as such.
    """
    if depth > MAX_DEPTH:
        return f"{path} is nested too deeply"
    match value:
        case torch.Tensor():
            fault = tensor_fault(value)
            return None if fault is None else f"{path} is {fault}"
        case list() | tuple():
            items = [(f"{path}[{number}]", item) for number, item in enumerate(value)]
        case dict():
            odd = [key for key in value if not isinstance(key, _KEYS)]
            if odd:
                return f"{path} has a key that is {a(odd[0])}"
            items = [(f"{path}[{key!r}]", item) for key, item in value.items()]
        case _:
            return None if isinstance(value, _PLAIN) else f"{path} is {a(value)}"
    faults = (output_fault(item, where, depth + 1) for where, item in items)
    return next((fault for fault in faults if fault is not None), None)


def bytes_of(value: object) -> int:
    """Give the bytes that the elements of all tensors in a nested value take, each tensor counted by itself."""
    match value:
        case torch.Tensor():
            return value.numel() * value.element_size()
        case list() | tuple():
            return sum(bytes_of(item) for item in value)
        case dict():
            return sum(bytes_of(item) for item in value.values())
    return 0


def a(value: object) -> str:
    """Name a value's type with its article: ``a list``, ``an object of numpy.ndarray``."""
    kind = type(value)
    if value is None:
        return "None"
    if kind.__module__ == "builtins":
        return f"{'an' if kind.__name__[0] in 'aeiou' else 'a'} {kind.__name__}"
    if kind is torch.Tensor:
        return "a tensor"
    return f"an object of {kind.__module__}.{kind.__qualname__}"
