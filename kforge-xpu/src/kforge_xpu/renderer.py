"""Writes SYCL candidates from a plan."""

from __future__ import annotations

from collections.abc import Mapping

from kforge.interfaces import Axis
from kforge.plan.c_printer import Printer
from kforge.plan.plan import Plan, Pointwise, Role
from kforge.plan.views import is_contiguous
from kforge.records import DeviceFacts
from kforge_xpu.templates.dialect import DIALECT, HELPERS, STORAGE
from kforge_xpu.templates.module import ModuleText
from kforge_xpu.templates.pointwise import PointwiseText

_GROUPS = (512, 256, 1024, 2048, 128, 4096, 64)
_VECTORS = (1, 4, 2, 8, 16)
_WIDEST = 64
"""Bytes of the widest block that one work-item loads at once."""
_SIZES = {"bool": 1, "uint8": 1, "int8": 1, "int16": 2, "float16": 2, "bfloat16": 2, "int32": 4, "float32": 4}

_HEAD = """\
#include <sycl/sycl.hpp>

namespace this_work_item = sycl::ext::oneapi::this_work_item;
namespace syclex = sycl::ext::oneapi::experimental;
"""


class SyclRenderer:
    """The `kforge.interfaces.Renderer` of the language ``sycl``."""

    def can_render(self, plan: Plan, facts: DeviceFacts) -> tuple[str, ...]:
        """Say what of the plan SYCL cannot write; empty when it can write all."""
        reasons = []
        for kernel in plan.kernels:
            reasons += [f"{kernel.name}: {missing}" for missing in Printer(kernel, DIALECT).missing()]
            dtypes = [load.dtype for load in kernel.loads] + [store.dtype for store in kernel.stores]
            reasons += [f"{kernel.name}: dtype {dtype}" for dtype in dtypes if dtype not in STORAGE]
        if not plan.kernels:
            reasons.append("the reference computes nothing: its outputs are its inputs or parameters")
        return tuple(dict.fromkeys(reasons))

    def space(self, plan: Plan, facts: DeviceFacts) -> tuple[Axis, ...]:
        """Give work-group sizes (work-items) and vector widths (elements a work-item).

        A CPU has one width only: its compiler makes vectors of neighbouring work-items, and blocks come in its way
        (measured: 2 to 20 times slower).
        """
        limit = facts.max_group_size or max(_GROUPS)
        groups = tuple(size for size in _GROUPS if size <= limit) or (limit,)
        axes = [Axis("work_group", values=groups)]
        if facts.kind != "cpu" and any(_may_vectorise(kernel) for kernel in plan.kernels):
            dtypes = [load.dtype for kernel in plan.kernels for load in kernel.loads]
            dtypes += [store.dtype for kernel in plan.kernels for store in kernel.stores]
            largest = max(_SIZES.get(dtype, 8) for dtype in dtypes)
            axes.append(Axis("vector", values=tuple(width for width in _VECTORS if width * largest <= _WIDEST)))
        return tuple(axes)

    def render(self, plan: Plan, parameters: Mapping[str, int]) -> str:
        """Write the module."""
        flexible = _is_flexible(plan)
        group, vector = parameters.get("work_group", _GROUPS[0]), parameters.get("vector", 1)
        kernels = tuple(
            PointwiseText(kernel, group, vector if _may_vectorise(kernel) else 1, flexible) for kernel in plan.kernels
        )
        bodies = [kernel.text() for kernel in kernels]
        body = "\n".join(bodies)
        helpers = [text for name, text in HELPERS.items() if f"{name}(" in body]
        source = "\n".join([_HEAD, *helpers, body])
        return ModuleText(plan, kernels, source, flexible).text()


def _may_vectorise(kernel: Pointwise) -> bool:
    """Say whether neighbours are neighbours, or one element, in every tensor."""
    return len(kernel.shape) <= 1 and all(load.strides in ((), (0,), (1,)) for load in kernel.loads)


def _is_flexible(plan: Plan) -> bool:
    """Say whether the kernels compute the same for tensors of any one shape."""
    read = [tensor for tensor in plan.tensors if tensor.role is not Role.OUTPUT]
    shapes = {tensor.value.shape for tensor in plan.tensors}
    return (
        len(shapes) == 1
        and bool(read)
        and all(tensor.role in (Role.INPUT, Role.TEMPORARY) for tensor in read)
        and any(tensor.role is Role.INPUT for tensor in read)
        and all(is_contiguous(tensor.value.shape, tensor.value.stride) for tensor in plan.tensors)
        and all(len(kernel.shape) <= 1 for kernel in plan.kernels)
        and all(load.offset == 0 and load.strides in ((), (1,)) for kernel in plan.kernels for load in kernel.loads)
        and not plan.graph.mutations
    )
