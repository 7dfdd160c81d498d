"""A pointwise kernel as SYCL C++, and how it is launched."""

from __future__ import annotations

from attrs import frozen

from kforge.plan.c_printer import Printer
from kforge.plan.plan import Load, Pointwise
from kforge.plan.scalar import compute_dtype
from kforge.plan.views import contiguous
from kforge_xpu.templates.dialect import DIALECT, STORAGE

_LEAST = 64
"""Work-items that make a group worth its start ..."""
_LANES = 16
"""... and what their number is a multiple of."""
_INT_LIMIT = 2**31 - 2**20
"""Sizes up to here are counted in int; the rest is room for work-items beyond the end."""


MARK = 'extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclex::nd_range_kernel<1>))'


@frozen
class Launch:
    """How Python launches a kernel: its sizes as expressions, and whether the element count is an argument."""

    global_size: str
    local_size: str
    takes_count: bool


@frozen
class PointwiseText:
    """Writes one kernel; ``flexible`` makes it take any number of elements."""

    kernel: Pointwise
    work_group: int
    vector: int
    flexible: bool

    @property
    def flat(self) -> bool:
        """Whether one index walks through all tensors."""
        return len(self.kernel.shape) <= 1

    @property
    def group(self) -> int:
        """Work-items of a group: ``work_group``, or the largest part of a row up to it, so that no group spans two."""
        if self.flat:
            return self.work_group
        row = self.kernel.shape[-1]
        parts = (size for size in range(_LEAST, self.work_group + 1, _LANES) if row % size == 0)
        return max(parts, default=self.work_group)

    @property
    def aligned(self) -> bool:
        """Whether each group lies in one row."""
        return not self.flat and self.kernel.shape[-1] % self.group == 0

    def tensors(self) -> tuple[str, ...]:
        """Name the tensors in the order of the kernel's parameters."""
        return tuple(dict.fromkeys([load.tensor for load in self.kernel.loads])) + tuple(
            store.tensor for store in self.kernel.stores
        )

    def launch(self) -> Launch:
        """Give the sizes as Python expressions."""
        group, step = self.group, self.vector
        if self.flexible:
            return Launch(f"-(-_count // {group * step}) * {group}", str(group), takes_count=True)
        return Launch(str(-(-self.kernel.size // (group * step)) * group), str(group), takes_count=False)

    def text(self) -> str:
        """Give the C++ text: the function of one element, and the kernel."""
        return f"{self._element()}\n{self._kernel()}"

    def _printer(self) -> Printer:
        return Printer(self.kernel, DIALECT)

    def _element(self) -> str:
        printer, kernel = self._printer(), self.kernel
        given = [f"const {DIALECT.types[compute_dtype(load.dtype)]} {printer.name(load.name)}" for load in kernel.loads]
        results = [f"{STORAGE[store.dtype]}& result{number}" for number, store in enumerate(kernel.stores)]
        lines = [
            f"// One element of {kernel.name}.",
            f"inline void {kernel.name}_element({_wrapped(given + results, len(kernel.name) + 21)}) {{",
            *(f"  {statement}" for statement in printer.statements()),
        ]
        for number, store in enumerate(kernel.stores):
            value = printer.operand(store.value, compute_dtype(store.dtype))
            converted = f"{STORAGE[store.dtype]}({value})" if store.dtype in ("float16", "bfloat16") else value
            lines.append(f"  result{number} = {converted};")
        return "\n".join([*lines, "}", ""])

    def _kernel(self) -> str:
        kernel = self.kernel
        dtypes = {load.tensor: load.dtype for load in kernel.loads}
        parameters = [f"const {STORAGE[dtype]}* {_pointer(tensor)}" for tensor, dtype in dtypes.items()]
        parameters += [f"{STORAGE[store.dtype]}* {_pointer(store.tensor)}" for store in kernel.stores]
        if self.flexible:
            parameters.append("int64_t count")
        head = f"void {kernel.name}({_wrapped(parameters, len(kernel.name) + 6)}) {{"
        return "\n".join([MARK, head, *(f"  {line}" for line in self._body()), "}", ""])

    def _body(self) -> list[str]:
        integer = self._integer()
        end = "count" if self.flexible else str(self.kernel.size)
        lines = [
            "const auto item = this_work_item::get_nd_item<1>();",
            f"const {integer} index = {integer}(item.get_global_id(0)){self._times()};",
            f"if (index >= {end}) return;",
        ]
        if self.flat:
            return lines + self._elements("index", end)
        # The index of what is written stays the work-item's own number: with rows as a dimension of the launch a CPU's
        # compiler made no vectors, and a bias cost four times as much. Where a group lies in one row, all but the last
        # index are the group's, so that reading along a row is seen to be contiguous too (in 64 bits only: a sum of two
        # 32-bit numbers might overflow, and the compiler minds).
        if self.aligned:
            lines.append(f"const int64_t first = int64_t(item.get_group(0)) * {self.group};")
        return [*lines, *self._divisions(), self._call("index")]

    def _times(self) -> str:
        return f" * {self.vector}" if self.vector > 1 else ""

    def _integer(self) -> str:
        reach = max(
            [self.kernel.size]
            + [
                load.offset
                + sum(step * max(size - 1, 0) for step, size in zip(load.strides, self.kernel.shape, strict=True))
                for load in self.kernel.loads
            ]
        )
        return "int64_t" if self.flexible or reach > _INT_LIMIT else "int32_t"

    def _elements(self, name: str, end: str) -> list[str]:
        """Compute one element, or ``vector`` neighbours, along the last dimension."""
        if self.vector == 1:
            return [self._call(name)]
        step = self.vector
        near, far = [], []
        loads, stores = self.kernel.loads, self.kernel.stores
        for number, load in enumerate(loads):
            if load.strides and load.strides[-1] == 1:
                place = f"{_pointer(load.tensor)} + {self._address(load, name)}"
                near.append(f"  {STORAGE[load.dtype]} block{number}[{step}];")
                near.append(f"  __builtin_memcpy(block{number}, {place}, sizeof block{number});")
        for number, store in enumerate(stores):
            place = f"{_pointer(store.tensor)} + {name}"
            near.append(f"  {STORAGE[store.dtype]} result{number}[{step}];")
            far.append(f"  __builtin_memcpy({place}, result{number}, sizeof result{number});")
        given = [
            self._converted(load, f"block{number}[k]")
            if load.strides and load.strides[-1] == 1
            else self._loaded(load, name)
            for number, load in enumerate(loads)
        ]
        given += [f"result{number}[k]" for number in range(len(stores))]
        integer = self._integer()
        return [
            f"if ({name} + {step} <= {end}) {{  // a whole block: one wide load and store for each tensor",
            *near,
            "#pragma unroll",
            f"  for (int k = 0; k < {step}; ++k)",
            f"    {self.kernel.name}_element({', '.join(given)});",
            *far,
            "} else {",
            f"  for ({integer} k = {name}; k < {end}; ++k)",
            f"    {self._call('k')}",
            "}",
        ]

    def _call(self, name: str) -> str:
        given = [self._loaded(load, name) for load in self.kernel.loads]
        given += [f"{_pointer(store.tensor)}[{name}]" for store in self.kernel.stores]
        return f"{self.kernel.name}_element({', '.join(given)});"

    def _loaded(self, load: Load, name: str) -> str:
        return self._converted(load, f"{_pointer(load.tensor)}[{self._address(load, name)}]")

    def _converted(self, load: Load, text: str) -> str:
        return f"float({text})" if load.dtype in ("float16", "bfloat16") else text

    def _address(self, load: Load, name: str) -> str:
        if self.flat:
            return _sum(load.offset, [(name, load.strides[0])] if load.strides else [])
        if load.strides == contiguous(self.kernel.shape):
            return _sum(load.offset, [(name, 1)])
        return _sum(load.offset, [(f"i{axis}", step) for axis, step in enumerate(load.strides)])

    def _divisions(self) -> list[str]:
        """Take the element's number apart into the indices that some load needs."""
        shape, lines, step = self.kernel.shape, [], max(self.kernel.size, 1)
        needed = [load.strides for load in self.kernel.loads if load.strides != contiguous(shape)]
        whole, integer = ("first", "int64_t") if self.aligned else ("index", self._integer())
        for axis, size in enumerate(shape):
            step //= max(size, 1)
            part = whole if step == 1 else f"{whole} / {step}"
            part = part if axis == 0 else f"{part} % {size}"
            if self.aligned and step == 1:
                part = f"{part} + int64_t(item.get_local_id(0))"
            if any(strides[axis] for strides in needed):
                lines.append(f"const {integer} i{axis} = {part};")
        return lines


def _sum(offset: int, terms: list[tuple[str, int]]) -> str:
    parts = [str(offset)] if offset else []
    parts += [name if step == 1 else f"{name} * {step}" for name, step in terms if step]
    return " + ".join(parts) or "0"


def _pointer(tensor: str) -> str:
    return "p_" + "".join(letter if letter.isalnum() else "_" for letter in tensor)


def _wrapped(parts: list[str], column: int) -> str:
    """Join parameters; those that do not fit stand under the first."""
    text, line = "", column
    for number, part in enumerate(parts):
        if number and line + len(part) > 110:
            text, line = f"{text},\n{' ' * column}", column
        elif number:
            text, line = f"{text}, ", line + 2
        text, line = text + part, line + len(part)
    return text
