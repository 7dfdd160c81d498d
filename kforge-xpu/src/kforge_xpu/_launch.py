"""One kernel on one device: sizes checked once, arguments packed and sent at every call."""

from __future__ import annotations

import contextlib
import math
import operator
from collections.abc import Sequence
from typing import Literal

from kforge_xpu._arguments import OtherDeviceError, Packer
from kforge_xpu._runtime import DeviceLimits, KernelFacts, Runtime, process
from kforge_xpu._runtime import runtime as current_runtime
from kforge_xpu.errors import SyclLaunchError
from kforge_xpu.signature import Parameter

# A kernel sees few sizes; one that sees ever new ones must not fill the memory.
_REMEMBERED = 256
_LARGEST_SIZE = 2**63 - 1

Sizes = tuple[tuple[int, ...], int]


class Launcher:
    """Calling it launches and returns True, or returns False where the tensors are on another device."""

    def __init__(
        self,
        *,
        name: str,
        parameters: Sequence[Parameter],
        dimensions: int | None,
        runtime: Runtime,
        facts: KernelFacts,
        limits: DeviceLimits,
        kind: str,
        index: int | None,
    ) -> None:
        self._name = name
        self._count = len(parameters)
        self._parameters = tuple(parameters)
        self._dimensions = dimensions
        self._runtime = runtime
        self._send = runtime.launch
        self._handle = facts.handle
        self._facts = facts
        self._limits = limits
        self._pack = Packer(parameters, kind, index).pack
        # The CPU's queue is one for the process; on a GPU each launch asks for torch's current stream.
        self._queue = runtime.queue(kind, index) if kind == "cpu" else None
        self._where = (kind, index)
        self._known: dict[object, Sizes | Literal[False] | None] = {}

    def __call__(
        self, global_size: int | Sequence[int], local_size: int | Sequence[int], arguments: Sequence[object]
    ) -> bool:
        if process.inherited:
            # Raises; going on would hang.
            current_runtime()
        key = (global_size, local_size)
        # Lists cannot be looked up, and need not be.
        sizes = self._known.get(key, False) if type(global_size) is not list and type(local_size) is not list else False
        if sizes is False:
            sizes = self._check_sizes(global_size, local_size)
        if len(arguments) != self._count:
            raise self._wrong_count(len(arguments))
        try:
            request = self._pack(*(sizes or ((0,) * 6, 0)), arguments)
        except OtherDeviceError:
            return False
        except SyclLaunchError as problem:
            problem.kernel = self._name
            raise
        if sizes is None:
            return True
        queue = self._queue
        if not self._send(queue or self._runtime.queue(*self._where), self._handle, request, queue is not None):
            raise SyclLaunchError(f"the runtime refused the launch: {self._runtime.error()}", self._name)
        return True

    def device_of(self, arguments: Sequence[object]) -> tuple[str, int | None]:
        """Where the tensors are: `cpu`, or `xpu` with its index. Raises SyclLaunchError where that is not one place."""
        import torch

        devices = {argument.device for argument in arguments if isinstance(argument, torch.Tensor)}
        names = sorted(str(device) for device in devices)
        if len(devices) > 1:
            raise SyclLaunchError(f"the tensors are on different devices: {', '.join(names)}", self._name)
        device = devices.pop()
        if device.type not in ("cpu", "xpu"):
            raise SyclLaunchError(
                f"the tensors are on {device}; SYCL kernels run on tensors of cpu and xpu", self._name
            )
        return device.type, device.index if device.type == "xpu" else None

    def _check_sizes(self, global_size: object, local_size: object) -> Sizes | None:
        over = self._extents(global_size, "global")
        group = self._extents(local_size, "local")
        if len(over) != len(group):
            raise self._refused(
                f"the global size {over} has {len(over)} dimensions, the local size {group} {len(group)}"
            )
        if self._dimensions and len(over) != self._dimensions:
            raise self._refused(f"the kernel has {self._dimensions} dimensions, the sizes have {len(over)}")
        if self._dimensions == 0 and math.prod(over) * math.prod(group) > 1:
            raise self._refused("a single task runs with sizes of 1")
        for extent in group:
            if extent < 1:
                raise self._refused(f"the local size {group} must be positive", extent)
        for extent in over:
            if extent < 0:
                raise self._refused(f"the global size {over} must not be negative", extent)
        if math.prod(over) > _LARGEST_SIZE:
            raise self._refused(f"the global size {over} is too large", math.prod(over), _LARGEST_SIZE)
        self._check_group(group)
        for extent, part in zip(over, group, strict=True):
            if extent % part:
                raise self._refused(f"the global size {over} is not divisible by the local size {group}", extent, part)
        return self._remember(global_size, local_size, over, group)

    def _check_group(self, group: tuple[int, ...]) -> None:
        count = math.prod(group)
        for who, limit in (
            (self._limits.name, self._limits.largest_group),
            ("this kernel", self._facts.largest_group),
        ):
            if count > limit:
                raise self._refused(f"a work-group of {count} work-items, {group}: {who} permits {limit}", count, limit)
        # Kernels of fewer dimensions use the last ones.
        for extent, limit in zip(group, self._limits.largest_extents[-len(group) :], strict=True):
            if extent > limit:
                raise self._refused(f"the local size {group}: {self._limits.name} permits {limit}", extent, limit)
        required = self._facts.required
        if required is not None and group != required[-len(group) :]:
            raise self._refused(f"the kernel requires the local size {required[-len(group) :]}, not {group}")

    def _remember(
        self, global_size: object, local_size: object, over: tuple[int, ...], group: tuple[int, ...]
    ) -> Sizes | None:
        fill = (1,) * (3 - len(over))
        dimensions = len(over) if self._dimensions is None else self._dimensions
        sizes = None if 0 in over else ((*over, *fill, *group, *fill), dimensions)
        if len(self._known) >= _REMEMBERED:
            self._known.clear()
        with contextlib.suppress(TypeError):
            self._known[global_size, local_size] = sizes
        return sizes

    def _extents(self, size: object, which: str) -> tuple[int, ...]:
        parts = tuple(size) if isinstance(size, tuple | list) else (size,)
        try:
            extents = tuple(operator.index(part) for part in parts)
        except TypeError:
            extents = ()
        if not 1 <= len(extents) <= 3 or any(isinstance(part, bool) for part in parts):
            raise self._refused(f"the {which} size is an int or up to 3 ints, not {size!r}")
        return extents

    def _refused(self, message: str, requested: int | None = None, limit: int | None = None) -> SyclLaunchError:
        return SyclLaunchError(message, self._name, requested, limit)

    def _wrong_count(self, given: int) -> SyclLaunchError:
        wanted = ", ".join(parameter.text or "?" for parameter in self._parameters)
        return self._refused(f"takes {self._count} arguments ({wanted}), {given} given", given, self._count)
