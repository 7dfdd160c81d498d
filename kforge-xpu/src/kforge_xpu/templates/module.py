"""The Python module around rendered kernels: ``ModelNew`` with the reference's parameters, arguments and outputs."""

from __future__ import annotations

import keyword
from collections.abc import Sequence

from attrs import frozen

from kforge.plan.graph import Argument, Items, Ref, State, Structure, StructureKind, Value
from kforge.plan.plan import Plan, Role, Tensor
from kforge.plan.views import contiguous
from kforge_xpu.templates.pointwise import PointwiseText

_OWN = '''

def own(module, path, tensor, *, persistent=None):
    """Give `module` a parameter or buffer of this dotted path, as the reference has it."""
    *folders, name = path.split(".")
    for folder in folders:
        if folder not in module._modules:
            module.add_module(folder, torch.nn.Module())
        module = module._modules[folder]
    if persistent is None:
        module.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
    else:
        module.register_buffer(name, tensor, persistent=persistent)
'''
_LAID_OUT = '''

def laid_out(name, tensor, shape, stride):
    """Check a tensor against what the kernels were written for; another memory layout is copied."""
    if tensor.shape != shape:
        raise ValueError(f"{name} has shape {tuple(tensor.shape)}; this kernel was written for {shape}")
    if tensor.stride() == stride:
        return tensor
    if all(size == 1 or have == want for size, have, want in zip(shape, tensor.stride(), stride)):
        return tensor
    return torch.empty_strided(shape, stride, dtype=tensor.dtype, device=tensor.device).copy_(tensor)
'''


@frozen
class ModuleText:
    """Writes the module. ``flexible``: every kernel takes tensors of any one shape."""

    plan: Plan
    kernels: tuple[PointwiseText, ...]
    source: str
    flexible: bool

    def text(self) -> str:
        """Give the whole file."""
        helpers = (_OWN if self._states() else "") + ("" if self.flexible else _LAID_OUT)
        return (
            f'"""{self._summary()}"""\n\nimport torch\n\nfrom kforge_xpu import SyclModule\n\n'
            f'SOURCE = r"""\n{self.source}"""\n{helpers}\n\n{self._class()}'
        )

    def _states(self) -> tuple[State, ...]:
        return self.plan.graph.parameters + self.plan.graph.buffers

    def _summary(self) -> str:
        lines = [f"{kernel.kernel.name}: {len(kernel.kernel.steps)} operations an element" for kernel in self.kernels]
        shapes = "tensors of any one shape" if self.flexible else "the shapes that the reference was traced with"
        listed = "\n    ".join(lines)
        return f"SYCL kernels that replace the reference's torch operations, for {shapes}.\n\n    {listed}\n"

    def _class(self) -> str:
        names = [parameter for parameter, _ in self._signature()]
        return "\n".join(
            [
                "class ModelNew(torch.nn.Module):",
                '    """Computes what the reference\'s Model computes; parameters and buffers have the same names."""',
                "",
                "    def __init__(self, *args, **kwargs):",
                "        super().__init__()  # the reference's arguments are part of the kernels already",
                *(f"        {line}" for line in self._state_lines()),
                "        self._module = SyclModule(SOURCE)",
                "",
                f"    def forward({', '.join(['self', *names])}):",
                *(f"        {line}" for line in self._forward_lines()),
                "",
            ]
        )

    def _state_lines(self) -> list[str]:
        graph = self.plan.graph
        lines = [
            f'own(self, "{state.path}", {_zeros(state.value)})  # its value is loaded by name'
            for state in graph.parameters
        ]
        lines += [
            f'own(self, "{state.path}", {_zeros(state.value)}, persistent={state.persistent})'
            for state in graph.buffers
        ]
        for tensor in self._read(Role.CONSTANT):
            found = next(constant for constant in graph.constants if constant.value.name == tensor.value.name)
            numbers = ", ".join(_number(element) for element in found.elements or ())
            made = f"torch.tensor([{numbers}], dtype=torch.{tensor.value.dtype}).reshape({tensor.value.shape})"
            lines.append(f"self._{tensor.value.name} = {made}")
        return lines

    def _read(self, *roles: Role) -> list[Tensor]:
        return [tensor for tensor in self.plan.tensors if tensor.role in roles]

    def _signature(self) -> list[tuple[str, Argument]]:
        """Give each parameter of forward with what it holds."""
        found: list[tuple[str, Argument]] = []
        for number, argument in enumerate(self.plan.graph.arguments):
            plain = isinstance(argument, Ref) and argument.name.isidentifier() and not keyword.iskeyword(argument.name)
            found.append((argument.name if plain and isinstance(argument, Ref) else f"argument{number}", argument))
        return found

    def _forward_lines(self) -> list[str]:
        lines = [line for name, argument in self._signature() for line in _unpacked(name, argument)]
        lines += self._sources()
        for kernel in self.kernels:
            for store in kernel.kernel.stores:
                lines.append(self._allocation(self.plan.tensor(store.tensor).value))
            launch = kernel.launch()
            given = [self._name(tensor) for tensor in kernel.tensors()] + (["_count"] if launch.takes_count else [])
            sizes = f"{launch.global_size}, {launch.local_size}"
            lines.append(f"self._module.{kernel.kernel.name}({sizes}, {', '.join(given)})")
        for mutation in self.plan.graph.mutations:
            lines.append(f"{_access(mutation.target, buffer=True)}.copy_({self._name(mutation.value)})")
        return [*lines, f"return {self._structure(self.plan.graph.outputs)}"]

    def _sources(self) -> list[str]:
        """Bring all that kernels read into variables, checked."""
        lines = []
        paths = {state.value.name: state for state in self._states()}
        inputs = self._read(Role.INPUT)
        if inputs:
            lines.append(f"_device = {inputs[0].value.name}.device")
        elif self._states():
            first = self._states()[0]
            lines.append(f"_device = {_access(first.path, buffer=first in self.plan.graph.buffers)}.device")
        else:
            lines.append("_device = torch.get_default_device()")
        if self.flexible:
            return lines + self._flexible_sources([tensor.value.name for tensor in inputs])
        for tensor in self._read(Role.INPUT, Role.PARAMETER, Role.BUFFER):
            value = tensor.value
            held = value.name
            if tensor.role is not Role.INPUT:
                held = _access(paths[value.name].path, buffer=tensor.role is Role.BUFFER)
            lines.append(f'{self._name(value.name)} = laid_out("{value.name}", {held}, {value.shape}, {value.stride})')
        lines += [f"{self._name(t.value.name)} = self._{t.value.name}.to(_device)" for t in self._read(Role.CONSTANT)]
        return lines

    def _flexible_sources(self, inputs: Sequence[str]) -> list[str]:
        first = inputs[0]
        lines = [f"_shape, _count = {first}.shape, {first}.numel()"]
        for other in inputs[1:]:
            lines += [
                f"if {other}.shape != _shape:",
                f'    raise ValueError(f"{other} has shape {{tuple({other}.shape)}}, {first} has {{tuple(_shape)}}")',
            ]
        return lines + [f"{name} = {name}.contiguous()" for name in inputs]

    def _allocation(self, value: Value) -> str:
        kind = f"dtype=torch.{value.dtype}, device=_device"
        if self.flexible:
            return f"{self._name(value.name)} = torch.empty(_shape, {kind})"
        if value.stride == contiguous(value.shape):
            return f"{self._name(value.name)} = torch.empty({value.shape}, {kind})"
        return f"{self._name(value.name)} = torch.empty_strided({value.shape}, {value.stride}, {kind})"

    def _name(self, tensor: str) -> str:
        role = self.plan.tensor(tensor).role
        if role is Role.INPUT and self.flexible:
            return tensor
        return tensor if tensor not in _PYTHON_NAMES and role is not Role.INPUT else f"{tensor}_"

    def _structure(self, place: Structure) -> str:
        if place.kind is StructureKind.CONSTANT:
            return _number(place.constant)
        if place.kind is StructureKind.VALUE:
            assert place.name is not None
            return self._name(place.name) if self._made(place.name) else self._given(place.name)
        items = [self._structure(item) for item in place.items]
        if place.kind is StructureKind.DICT:
            pairs = (f"{key!r}: {item}" for key, item in zip(place.keys, items, strict=True))
            return f"{{{', '.join(pairs)}}}"
        if place.kind is StructureKind.LIST:
            return f"[{', '.join(items)}]"
        return f"({', '.join(items)}{',' if len(items) == 1 else ''})"

    def _made(self, name: str) -> bool:
        return any(t.value.name == name and t.role in (Role.OUTPUT, Role.TEMPORARY) for t in self.plan.tensors)

    def _given(self, name: str) -> str:
        """Write an output that is an input, parameter, buffer or constant itself."""
        for state in self._states():
            if state.value.name == name:
                return _access(state.path, buffer=state in self.plan.graph.buffers)
        return name


_PYTHON_NAMES = frozenset(
    (*keyword.kwlist, "self", "torch", "_device", "_shape", "_count", "own", "laid_out", "SOURCE")
)


def _zeros(value: Value) -> str:
    return f"torch.zeros({value.shape}, dtype=torch.{value.dtype})"


def _access(path: str, *, buffer: bool) -> str:
    if all(part.isidentifier() and not keyword.iskeyword(part) for part in path.split(".")):
        return f"self.{path}"
    return f'self.get_{"buffer" if buffer else "parameter"}("{path}")'


def _number(value: Argument) -> str:
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return f'float("{value}")'
    return repr(value)


def _unpacked(name: str, argument: Argument) -> list[str]:
    """Take a nested argument apart; a number must be the one that the reference was traced with."""
    if isinstance(argument, Ref):
        return [] if argument.name == name else [f"{argument.name} = {name}"]
    if isinstance(argument, Items):
        return [f"{_pattern(argument)} = {name}"] if argument.items else []
    return [f"if {name} != {argument!r}:", f'    raise ValueError("{name} is fixed at {argument}")']


def _pattern(argument: Argument) -> str:
    if isinstance(argument, Ref):
        return argument.name
    if isinstance(argument, Items):
        return f"({''.join(f'{_pattern(item)}, ' for item in argument.items).strip()})"
    return "_"
