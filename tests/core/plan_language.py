"""A plan computed by the machine's C++ compiler: what is printed is what is tested."""

from __future__ import annotations

import ctypes
import hashlib
import math
import subprocess
import warnings
from collections.abc import Sequence
from pathlib import Path

import torch

from kforge.plan.c_printer import Dialect, Printer
from kforge.plan.graph import Graph, Structure, StructureKind
from kforge.plan.plan import Plan, Pointwise, Role
from kforge.plan.planner import make_plan
from kforge.plan.scalar import FLOAT_FUNCTIONS, FLOAT_FUNCTIONS_OF_TWO, compute_dtype
from kforge.plan.trace import trace

STORAGE = {
    "bool": "bool",
    "uint8": "uint8_t",
    "int8": "int8_t",
    "int16": "int16_t",
    "int32": "int32_t",
    "int64": "int64_t",
    "float32": "float",
    "float64": "double",
    "float16": "half16",
    "bfloat16": "brain16",
}
_SINGLE = {name: "1.0f / std::sqrt({0})" if name == "rsqrt" else f"std::{name}({{0}})" for name in FLOAT_FUNCTIONS}
DIALECT = Dialect(
    {
        **{name: word for name, word in STORAGE.items() if name not in ("float16", "bfloat16")},
        "uint16": "uint16_t",
        "uint32": "uint32_t",
        "uint64": "uint64_t",
    },
    functions={
        **_SINGLE,
        **{name: f"std::{name}({{0}}, {{1}})" for name in FLOAT_FUNCTIONS_OF_TWO},
        "abs": "std::fabs({0})",
        "max": "{0} > {1} || {0} != {0} ? {0} : {1}",
        "min": "{0} < {1} || {0} != {0} ? {0} : {1}",
        "isnan": "std::isnan({0})",
        "isinf": "std::isinf({0})",
        "nan": {"float32": 'std::nanf("")', "float64": 'std::nan("")'},
        "infinity": {"float32": "HUGE_VALF", "float64": "HUGE_VAL"},
        "round_float16": "float(half16({0}))",
        "round_bfloat16": "float(brain16({0}))",
    },
)

_HEAD = """
#include <cmath>
#include <cstdint>
#include <cstring>
typedef _Float16 half16;
struct brain16 {
  uint16_t bits;
  brain16() = default;
  brain16(float x) {
    uint32_t b; std::memcpy(&b, &x, 4);
    bits = std::isnan(x) ? 0x7fc0 : (b + 0x7fff + ((b >> 16) & 1)) >> 16;
  }
  operator float() const { uint32_t b = uint32_t(bits) << 16; float x; std::memcpy(&x, &b, 4); return x; }
};
"""


def kernel_text(kernel: Pointwise) -> str:
    """Give a C++ function with a loop over all elements, in the order of `kernel.loads` and `kernel.stores`."""
    printer = Printer(kernel, DIALECT)
    assert printer.missing() == ()
    parameters = [f"const {STORAGE[load.dtype]}* in{number}" for number, load in enumerate(kernel.loads)]
    parameters += [f"{STORAGE[store.dtype]}* out{number}" for number, store in enumerate(kernel.stores)]
    lines = [f'extern "C" void {kernel.name}({", ".join(parameters)}) {{']
    lines.append(f"for (int64_t index = 0; index < {kernel.size}; ++index) {{")
    step = kernel.size
    for axis, size in enumerate(kernel.shape):
        step //= max(size, 1)
        lines.append(f"const int64_t i{axis} = index / {max(step, 1)} % {max(size, 1)};")
    for number, load in enumerate(kernel.loads):
        place = " + ".join([str(load.offset), *(f"i{axis} * {step}" for axis, step in enumerate(load.strides))])
        kind = DIALECT.types[compute_dtype(load.dtype)]
        lines.append(f"const {kind} {printer.name(load.name)} = in{number}[{place}];")
    lines += printer.statements()
    for number, store in enumerate(kernel.stores):
        lines.append(f"out{number}[index] = {printer.operand(store.value, compute_dtype(store.dtype))};")
    return "\n".join([*lines, "}}", ""])


def compiled(plan: Plan, folder: Path) -> ctypes.CDLL:
    """Build all kernels of a plan."""
    text = _HEAD + "\n".join(kernel_text(kernel) for kernel in plan.kernels)
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    source, library = folder / f"{name}.cpp", folder / f"{name}.so"
    if not library.exists():
        source.write_text(text)
        command = ["g++", "-std=c++17", "-O1", "-fPIC", "-shared", "-Wall", "-Wno-unused", "-fwrapv"]
        command.remove("-fwrapv")  # the printed text itself must not rely on it
        done = subprocess.run(
            [*command, "-ffp-contract=off", str(source), "-o", str(library)],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{done.stderr}\n{text}"
    return ctypes.CDLL(str(library))


def traced(model: torch.nn.Module, inputs: Sequence[object]) -> Graph:
    """Trace, or fail with the reason."""
    graph = trace(model, inputs)
    assert isinstance(graph, Graph), graph
    return graph


def planned(model: torch.nn.Module, inputs: Sequence[object]) -> Plan:
    """Trace and plan, or fail with the reasons."""
    plan = make_plan(traced(model, inputs))
    assert isinstance(plan, Plan), str(plan)
    return plan


def computed(
    plan: Plan, model: torch.nn.Module, inputs: Sequence[torch.Tensor], folder: Path
) -> dict[str, torch.Tensor]:
    """Run a plan's kernels; gives every tensor of the plan by its name."""
    library = compiled(plan, folder)
    graph = plan.graph
    tensors = {value.name: tensor for value, tensor in zip(graph.inputs, inputs, strict=True)}
    state = {
        **dict(model.named_parameters(remove_duplicate=False)),
        **dict(model.named_buffers(remove_duplicate=False)),
    }
    tensors |= {item.value.name: state[item.path].detach() for item in graph.parameters + graph.buffers}
    for constant in graph.constants:
        dtype = getattr(torch, constant.value.dtype)
        tensors[constant.value.name] = torch.tensor(constant.elements, dtype=dtype).reshape(constant.value.shape)
    for item in plan.tensors:
        if item.role in (Role.OUTPUT, Role.TEMPORARY):
            value = item.value
            tensors[value.name] = torch.empty_strided(value.shape, value.stride, dtype=getattr(torch, value.dtype))
    for kernel in plan.kernels:
        used = [tensors[load.tensor] for load in kernel.loads] + [tensors[store.tensor] for store in kernel.stores]
        getattr(library, kernel.name)(*(ctypes.c_void_p(tensor.data_ptr()) for tensor in used))
    return tensors


def nested(place: Structure, tensors: dict[str, torch.Tensor]) -> object:
    """Build what the reference returns."""
    if place.kind is StructureKind.VALUE:
        assert place.name is not None
        return tensors[place.name]
    if place.kind is StructureKind.CONSTANT:
        return place.constant
    items = [nested(item, tensors) for item in place.items]
    if place.kind is StructureKind.DICT:
        return dict(zip(place.keys, items, strict=True))
    return items if place.kind is StructureKind.LIST else tuple(items)


def flat(nest: object) -> list[object]:
    """Give the leaves of a nest of outputs."""
    if isinstance(nest, dict):
        nest = list(nest.values())
    if isinstance(nest, list | tuple):
        return [leaf for item in nest for leaf in flat(item)]
    return [nest]


def check(model: torch.nn.Module, inputs: Sequence[torch.Tensor], folder: Path) -> Plan:
    """Compare a plan, compiled, with torch. The error may be what a few roundings at the output's precision make."""
    plan = planned(model, inputs)
    got = flat(nested(plan.graph.outputs, computed(plan, model, inputs, folder)))
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        wanted = flat(model(*inputs))
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        same(one, other)
    return plan


def same(got: object, wanted: object) -> None:
    """Compare two leaves of outputs."""
    if not isinstance(wanted, torch.Tensor):
        assert got == wanted
        return
    assert isinstance(got, torch.Tensor)
    loose = {torch.float16: 4e-3, torch.bfloat16: 3e-2, torch.float32: 2e-5, torch.float64: 1e-12}.get(wanted.dtype, 0)
    torch.testing.assert_close(got, wanted, rtol=loose, atol=loose, equal_nan=True)


def total(plan: Plan) -> int:
    """Count the elements that all kernels compute."""
    return sum(math.prod(kernel.shape) for kernel in plan.kernels)
