"""Expected values: the reference in float64, and its own error at the declared precision."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Callable, Sequence
from typing import Any, Final

import torch
from attrs import field, frozen
from torch.utils._python_dispatch import TorchDispatchMode

from kforge.errors import CannotJudgeError, UsageError
from kforge.judge.checks import Expected, budget_of, compare_tensor
from kforge.judge.inputs import Arguments
from kforge.judge.reference import Reference
from kforge.judge.values import dtype_name, leaves, structure
from kforge.judge.worker import seed_all
from kforge.records import Finding, Phase, Precision

_PRECISION_DTYPES: Final = {
    Precision.FP32: torch.float32,
    Precision.TF32: torch.float32,
    Precision.BF16: torch.bfloat16,
    Precision.FP16: torch.float16,
}

State = list[tuple[str, torch.Tensor]]


@frozen(eq=False)
class Case:
    """One set of weights and inputs with all that is expected of it."""

    seed: int
    """Of the weights; workers construct under it."""
    inputs_seed: int = field(kw_only=True)
    """Secret: never leaves the judge."""
    arguments: Arguments = field(kw_only=True)
    state: State = field(kw_only=True)
    output: Any = field(kw_only=True)
    """The reference's nesting, with an `Expected` for each tensor."""
    buffers: dict[str, Expected] = field(kw_only=True)
    """Buffers by name, after the call."""


def map_tensors(value: Any, change: Callable[[torch.Tensor], Any]) -> Any:
    """Rebuild a nested value with each tensor changed."""
    match value:
        case torch.Tensor():
            return change(value)
        case list():
            return [map_tensors(item, change) for item in value]
        case tuple():
            return tuple(map_tensors(item, change) for item in value)
        case dict():
            return {key: map_tensors(item, change) for key, item in value.items()}
    return value


def duplicate(tensor: torch.Tensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """Copy a tensor with its strides, overlapping ones too, which `torch.clone` would make dense."""
    if tensor.numel() == 0:
        return tensor.to(dtype or tensor.dtype, copy=True)
    span = 1 + sum((size - 1) * step for size, step in zip(tensor.shape, tensor.stride(), strict=True))
    flat = torch.as_strided(tensor, (span,), (1,)).to(dtype or tensor.dtype, copy=True)
    return flat.as_strided(tensor.shape, tensor.stride())


def cast(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """Give a function that converts floating tensors to ``dtype`` and copies every other one."""

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            return duplicate(tensor, dtype)
        if tensor.is_complex() and dtype == torch.float64:
            return duplicate(tensor, torch.complex128)
        return duplicate(tensor)

    return change


def default_precision(arguments: Arguments, state: State) -> Precision:
    """Give the precision of the inputs' dtype, or of the parameters' where no input is floating."""
    by_dtype = {torch.float16: Precision.FP16, torch.bfloat16: Precision.BF16}
    tensors = [*(leaf for _, leaf in leaves(arguments)), *(tensor for _, tensor in state)]
    for tensor in tensors:
        if isinstance(tensor, torch.Tensor) and tensor.is_floating_point():
            return by_dtype.get(tensor.dtype, Precision.FP32)
    return Precision.FP32


class Reductions(TorchDispatchMode):
    """Watches a run of the reference for its longest reduction."""

    _NAMES: Final = ("sum", "mean", "var", "std", "norm", "logsumexp", "prod", "pool", "dot", "addcdiv")

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call] # torch leaves it without types
        self.longest = 1

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Nothing is compiled under this mode, and keeping torch's compiler out of it imports that, for 3 s."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        try:
            self.longest = max(self.longest, self._length(func.overloadpacket.__name__, args, result))
        except (AttributeError, IndexError, TypeError):
            return result
        return result

    def _length(self, name: str, args: Sequence[Any], result: object) -> int:
        if name in ("mm", "bmm", "linear", "mv", "mkldnn_linear"):
            return int(args[0].shape[-1])
        if name in ("addmm", "baddbmm", "addbmm", "addmv"):
            return int(args[1].shape[-1])
        if "convolution" in name:
            return int(args[1].numel() // args[1].shape[0])
        if "softmax" in name or name.startswith("cum"):
            return int(args[0].shape[args[1]])
        if "dot_product" in name or "attention" in name:
            return max(int(args[1].shape[-2]), int(args[0].shape[-1]))
        if any(part in name for part in self._NAMES):
            results = result if isinstance(result, tuple) else (result,)
            sizes = [item.numel() for item in results if isinstance(item, torch.Tensor) and item.numel()]
            return int(args[0].numel()) // min(sizes) if sizes else 1
        return 1


class Oracle:
    """Makes cases: draws inputs and weights under secret seeds and says what must come out."""

    def __init__(self, reference: Reference, precision: Precision | None) -> None:
        self._reference = reference
        module = reference.construct(0)
        arguments = reference.draw_inputs(0)
        natural = default_precision(arguments, state_of(module))
        self.precision = precision or natural
        if self.precision is Precision.TF32:
            raise UsageError("tf32 does not exist on this device", hint="use --precision fp32 or bf16")
        self._lowered = None if self.precision is natural else _PRECISION_DTYPES[self.precision]
        self.notes: list[Finding] = []
        self.reduction = 1

    def case(self) -> Case:
        """Draw one case and compute what is expected; raises `CannotJudgeError` where no verdict is possible."""
        reference = self._reference
        seed, inputs_seed = secrets.randbelow(2**31), secrets.randbelow(2**31)
        arguments = reference.draw_inputs(inputs_seed)
        state = [(name, tensor.clone()) for name, tensor in state_of(reference.construct(seed))]
        declared, declared_buffers = self._declared(seed, arguments)
        exact, exact_buffers = self._exact(seed, arguments, declared, declared_buffers)
        if structure(exact) != structure(declared):
            raise CannotJudgeError(
                "the reference returns another structure in float64 than at its own precision",
                hint="let forward return the same structure for every dtype",
            )
        outputs = iter([leaf for _, leaf in leaves(exact)])
        output = _zip_leaves(declared, lambda leaf: self._expect(next(outputs), leaf))
        buffers = {}
        for name, tensor in declared_buffers.items():
            expected = self._expect(exact_buffers[name], tensor)
            assert isinstance(expected, Expected)
            buffers[name] = expected
        return Case(seed, inputs_seed=inputs_seed, arguments=arguments, state=state, output=output, buffers=buffers)

    def _declared(self, seed: int, arguments: Arguments) -> tuple[Any, dict[str, torch.Tensor]]:
        """Run at the declared precision; the result has the dtypes of the reference's own run."""
        module = self._reference.construct(seed)
        inputs = map_tensors(arguments, duplicate)
        with Reductions() as watch:
            output = self._reference.run(module, inputs)
        self.reduction = max(self.reduction, watch.longest)
        for (path, before), (_, after) in zip(leaves(arguments, "input"), leaves(inputs, "input"), strict=True):
            if isinstance(before, torch.Tensor) and not same_bits(before, after):
                raise CannotJudgeError(
                    f"the reference changes its {path}", hint="clone the input in forward, or drop inplace=True"
                )
        buffers = {name: tensor.clone() for name, tensor in module.named_buffers()}
        if self._lowered is None:
            return output, buffers
        lowered = self._reference.construct(seed).to(self._lowered)
        low = self._reference.run(lowered, map_tensors(arguments, cast(self._lowered)))
        lows = iter([leaf for _, leaf in leaves(low)])
        return _zip_leaves(output, lambda leaf: _like(next(lows), leaf)), buffers

    def _exact(
        self, seed: int, arguments: Arguments, declared: object, buffers: dict[str, torch.Tensor]
    ) -> tuple[Any, dict[str, torch.Tensor]]:
        """Run in float64; a reference that cannot is compared with its own precision, and a finding says so."""
        try:
            module = self._reference.construct(seed).double()
            output = self._reference.run(module, map_tensors(arguments, cast(torch.float64)))
        except CannotJudgeError:
            raise
        except Exception as error:  # noqa: BLE001 - whatever a reference raises in a dtype that it was not written for
            if not self.notes:
                self.notes.append(Finding(
                    "float64", phase=Phase.COMPARE, decisive=False,
                    message=f"the reference does not run in float64 ({error}); its own precision is the expectation",
                ))  # fmt: skip
            return copy.deepcopy(declared), buffers
        return output, dict(module.named_buffers())

    def _expect(self, exact: object, declared: object) -> object:
        if not isinstance(declared, torch.Tensor) or not isinstance(exact, torch.Tensor):
            return declared
        name = dtype_name(declared.dtype)
        if not (declared.is_floating_point() or declared.is_complex()):
            return Expected(declared, dtype=name, budget=None)
        dtype = self._lowered or declared.real.dtype
        budget = budget_of(exact, declared, dtype, self.reduction)
        # Where the reference overflows at its own precision, that is what must come.
        wide = torch.complex128 if declared.is_complex() else torch.float64
        odd = ~torch.isfinite(declared) | ~torch.isfinite(exact)
        values = torch.where(odd, declared.to(wide), exact.to(wide)) if bool(odd.any()) else exact.to(wide)
        return Expected(values, dtype=name, budget=budget)

    def check_deterministic(self, case: Case) -> None:
        """Run the reference twice; raises `CannotJudgeError` when it does not repeat itself."""
        first, again = self._unseeded(case), self._unseeded(case)
        if structure(first) != structure(again):
            raise CannotJudgeError(
                "the reference is not deterministic: it returns another structure on the same inputs",
                hint="let forward return the same structure each time",
            )
        for (path, one), (_, leaf) in zip(leaves(first), leaves(again), strict=True):
            if isinstance(one, torch.Tensor) and same_bits(one, leaf):
                continue
            # Against itself: the budget against float64 values would be as wide as the randomness.
            expected = self._expect(one, one)
            differs = (
                compare_tensor(path, expected, leaf, Phase.COMPARE) is not None
                if isinstance(expected, Expected) and isinstance(leaf, torch.Tensor)
                else repr(expected) != repr(leaf)
            )
            if differs:
                raise CannotJudgeError(
                    f"the reference is not deterministic: {path} differs between two runs on the same inputs",
                    hint="remove randomness (dropout in training mode, torch.rand) from forward",
                )

    def _unseeded(self, case: Case) -> Any:
        """Run on a case, with torch's generator in a state that says nothing of the constructor's seed."""
        module = self._reference.construct(case.seed)
        seed_all(secrets.randbelow(2**31))
        return self._reference.run(module, map_tensors(case.arguments, duplicate))


def state_of(module: torch.nn.Module) -> State:
    """Give parameters and buffers by name."""
    return [(name, tensor.detach()) for name, tensor in (*module.named_parameters(), *module.named_buffers())]


def same_bits(first: torch.Tensor, second: object) -> bool:
    """Say whether two tensors hold the same bits (so NaN equals NaN)."""
    if not isinstance(second, torch.Tensor) or first.shape != second.shape or first.dtype != second.dtype:
        return False
    left, right = (tensor.contiguous().reshape(-1).view(torch.uint8) for tensor in (first, second))
    return torch.equal(left, right)


def _like(low: object, natural: object) -> object:
    if isinstance(low, torch.Tensor) and isinstance(natural, torch.Tensor):
        return low.to(natural.dtype)
    return low


def _zip_leaves(value: Any, change: Callable[[Any], Any]) -> Any:
    match value:
        case list():
            return [_zip_leaves(item, change) for item in value]
        case tuple():
            return tuple(_zip_leaves(item, change) for item in value)
        case dict():
            return {key: _zip_leaves(item, change) for key, item in value.items()}
    return change(value)
