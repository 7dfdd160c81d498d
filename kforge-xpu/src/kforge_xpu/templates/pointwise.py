"""A pointwise kernel as SYCL C++, and how it is launched."""

from __future__ import annotations

import math

from attrs import frozen

from kforge.plan.c_printer import Printer
from kforge.plan.plan import Load, Pointwise
from kforge.plan.scalar import compute_dtype
from kforge_xpu.templates.dialect import DIALECT, STORAGE

_NARROW = 32
"""Rows shorter than this are not worth a dimension of work-items; their index is divided instead."""
_INT_LIMIT = 2**31 - 2**20
"""Sizes up to here are counted in int; the rest is room for work-items beyond the end."""


@frozen
class Launch:
    """How Python launches a kernel: sizes in the kernel's own order, and whether the element count is an argument."""

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
    def by_rows(self) -> bool:
        """Whether rows and columns are dimensions of the launch."""
        return not self.flat and self.kernel.shape[-1] >= _NARROW

    def tensors(self) -> tuple[str, ...]:
        """Name the tensors in the order of the kernel's parameters."""
        return tuple(dict.fromkeys([load.tensor for load in self.kernel.loads])) + tuple(
            store.tensor for store in self.kernel.stores
        )

    def launch(self) -> Launch:
        """Give the sizes as Python expressions."""
        group, step = self.work_group, self.vector
        if not self.by_rows:
            if self.flexible:
                return Launch(f"-(-count // {group * step}) * {group}", str(group), takes_count=True)
            return Launch(str(-(-self.kernel.size // (group * step)) * group), str(group), takes_count=False)
        rows, columns = math.prod(self.kernel.shape[:-1]), -(-self.kernel.shape[-1] // step)
        wide = min(group, -(-columns // 16) * 16)
        tall = max(1, min(group // wide, rows))
        over = (-(-rows // tall) * tall, -(-columns // wide) * wide)
        return Launch(str(over), str((tall, wide)), takes_count=False)

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
        rank = 2 if self.by_rows else 1
        head = f"void {kernel.name}({_wrapped(parameters, len(kernel.name) + 6)}) {{"
        return "\n".join([f"KERNEL_{rank}D", head, *(f"  {line}" for line in self._body()), "}", ""])

    def _body(self) -> list[str]:
        integer = self._integer()
        if self.by_rows:
            columns, rows = self.kernel.shape[-1], math.prod(self.kernel.shape[:-1])
            lines = [
                "const auto item = this_work_item::get_nd_item<2>();",
                f"const {integer} row = item.get_global_id(0);",
                f"const {integer} column = {integer}(item.get_global_id(1)){self._times()};",
                f"if (row >= {rows} || column >= {columns}) return;",
                *self._row_indices(),
            ]
            return lines + self._elements("column", str(columns))
        end = "count" if self.flexible else str(self.kernel.size)
        lines = [
            "const auto item = this_work_item::get_nd_item<1>();",
            f"const {integer} index = {integer}(item.get_global_id(0)){self._times()};",
            f"if (index >= {end}) return;",
        ]
        return lines + (self._elements("index", end) if self.flat else self._divided())

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
            place = f"{_pointer(store.tensor)} + {self._place(name)}"
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
        given += [f"{_pointer(store.tensor)}[{self._place(name)}]" for store in self.kernel.stores]
        return f"{self.kernel.name}_element({', '.join(given)});"

    def _loaded(self, load: Load, name: str) -> str:
        return self._converted(load, f"{_pointer(load.tensor)}[{self._address(load, name)}]")

    def _converted(self, load: Load, text: str) -> str:
        return f"float({text})" if load.dtype in ("float16", "bfloat16") else text

    def _address(self, load: Load, name: str) -> str:
        names = [f"i{axis}" for axis in range(len(self.kernel.shape) - 1)] + [name]
        if len(self.kernel.shape) == 2 and self.by_rows:
            names[0] = "row"
        return _sum(load.offset, list(zip(names, load.strides, strict=False)) if load.strides else [])

    def _place(self, name: str) -> str:
        return f"row * {self.kernel.shape[-1]} + {name}" if self.by_rows else name

    def _row_indices(self) -> list[str]:
        """Take the row's number apart into the indices of the leading dimensions."""
        leading = self.kernel.shape[:-1]
        return [] if len(leading) == 1 else _divisions("row", leading, self._integer())

    def _divided(self) -> list[str]:
        """Take the element's number apart into all indices."""
        shape = self.kernel.shape
        last = f"i{len(shape) - 1}"
        lines = _divisions("index", shape, self._integer())
        given = [self._loaded(load, last) for load in self.kernel.loads]
        given += [f"{_pointer(store.tensor)}[index]" for store in self.kernel.stores]
        return [*lines, f"{self.kernel.name}_element({', '.join(given)});"]


def _divisions(name: str, shape: tuple[int, ...], integer: str) -> list[str]:
    lines, step = [], math.prod(shape)
    for axis, size in enumerate(shape):
        step //= max(size, 1)
        part = name if step == 1 else f"{name} / {step}"
        lines.append(f"const {integer} i{axis} = {part if axis == 0 else f'{part} % {size}'};")
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
