"""From a torch module to the plain graph. Runs in the judge; torch is imported where it is used."""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kforge.plan.graph import (
    Argument,
    Constant,
    Graph,
    Items,
    Mutation,
    Node,
    Ref,
    State,
    Structure,
    StructureKind,
    Untraceable,
    Value,
)

if TYPE_CHECKING:
    import torch
    from torch.export.graph_signature import InputSpec

CONSTANT_LIMIT = 256
"""Elements of a constant tensor that are written down; larger ones are known by name only."""


def trace(model: torch.nn.Module, inputs: Sequence[object]) -> Graph | Untraceable:
    """Give the operations that ``model(*inputs)`` performs, for these shapes, in the mode the module is in.

    In-place operations become their functional forms, with what they change in ``mutations``. Composite operations stay
    whole (``linear``, ``gelu``, ``layer_norm``) as far as torch can express them without a change of state.
    """
    import torch

    try:
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # advice to authors of export, none of it for our user
            program = torch.export.export(model, tuple(inputs)).run_decompositions({})
        return _Reader(program, model.training).graph()
    except Exception as error:  # noqa: BLE001 - torch.export raises anything, and a missing graph is an answer
        first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
        return Untraceable(f"torch.export: {type(error).__name__}: {first}"[:500])


class _Reader:
    """Reads one exported program."""

    def __init__(self, program: torch.export.ExportedProgram, training: bool) -> None:
        self._program = program
        self._training = training
        self._renamed: dict[str, str] = {}

    def graph(self) -> Graph:
        placeholders: dict[str, Any] = {}
        nodes: list[Node] = []
        for node in self._program.graph.nodes:
            if node.op == "placeholder":
                placeholders[node.name] = node
            elif node.op == "call_function" and not self._is_item(node):
                nodes.append(self._node(node))
        signature = self._program.graph_signature
        by_kind: dict[str, list[InputSpec]] = {}
        for spec in signature.input_specs:
            by_kind.setdefault(spec.kind.name, []).append(spec)
        values = {name: _value(name, node.meta["val"]) for name, node in placeholders.items() if _is_tensor(node)}
        given = by_kind.get("USER_INPUT", [])
        return Graph(
            tuple(nodes),
            arguments=self._arguments([_leaf(spec.arg) for spec in given]),
            inputs=tuple(values[spec.arg.name] for spec in given if spec.arg.name in values),
            parameters=tuple(_state(spec, values) for spec in by_kind.get("PARAMETER", [])),
            buffers=tuple(_state(spec, values) for spec in by_kind.get("BUFFER", [])),
            constants=tuple(self._constant(spec, values) for spec in by_kind.get("CONSTANT_TENSOR", [])),
            outputs=self._outputs(),
            mutations=self._mutations(),
            training=self._training,
        )

    def _is_item(self, node: Any) -> bool:
        """Note that ``getitem`` gives a result of an operation with several another name; say whether it does."""
        import operator

        if node.target is not operator.getitem:
            return False
        source, index = node.args
        self._renamed[node.name] = _result_name(source.name, int(index))
        return True

    def _node(self, node: Any) -> Node:
        given = dict(zip((argument.name for argument in node.target._schema.arguments), node.args, strict=False))
        given |= node.kwargs
        arguments = tuple(
            (argument.name, self._argument(given.get(argument.name, argument.default_value)))
            for argument in node.target._schema.arguments
        )
        result = node.meta.get("val")
        several = isinstance(result, tuple | list)
        results = tuple(
            _value(_result_name(node.name, index) if several else node.name, item) if _holds(item) else None
            for index, item in enumerate(result if several else [result])
        )
        namespace, _, op = str(node.target).partition(".")
        return Node(op if namespace == "aten" else str(node.target), arguments=arguments, results=results)

    def _argument(self, argument: Any) -> Argument:
        import torch

        if isinstance(argument, torch.fx.Node):
            return Ref(self._renamed.get(argument.name, argument.name))
        if isinstance(argument, list | tuple):
            return Items(tuple(self._argument(item) for item in argument))
        if argument is None or isinstance(argument, bool | int | float | str):
            return argument
        if isinstance(argument, torch.SymInt | torch.SymFloat | torch.SymBool):
            raise TypeError("a size that depends on data")
        return str(argument).removeprefix("torch.")

    def _arguments(self, leaves: list[Argument]) -> tuple[Argument, ...]:
        """Build the nest of forward's positional arguments from its leaves."""
        from torch.utils import _pytree as pytree

        tree: Any = self._program.call_spec.in_spec
        positional, named = pytree.tree_unflatten(leaves, tree)
        if named:
            raise TypeError("arguments given by name")
        return tuple(_nested(item) for item in positional)

    def _outputs(self) -> Structure:
        from torch.utils import _pytree as pytree

        leaves = [
            Structure(StructureKind.VALUE, name=self._renamed.get(spec.arg.name, spec.arg.name))
            if type(spec.arg).__name__ == "TensorArgument"
            else Structure(StructureKind.CONSTANT, constant=_leaf(spec.arg))
            for spec in self._program.graph_signature.output_specs
            if spec.kind.name == "USER_OUTPUT"
        ]
        tree: Any = self._program.call_spec.out_spec
        return _structure(pytree.tree_unflatten(leaves, tree))

    def _mutations(self) -> tuple[Mutation, ...]:
        found = []
        for spec in self._program.graph_signature.output_specs:
            if spec.kind.name.endswith("_MUTATION"):
                name = self._renamed.get(spec.arg.name, spec.arg.name)
                found.append(Mutation(str(spec.target), value=name, buffer=spec.kind.name == "BUFFER_MUTATION"))
        return tuple(found)

    def _constant(self, spec: InputSpec, values: dict[str, Value]) -> Constant:
        value = values[spec.arg.name]
        if math.prod(value.shape) > CONSTANT_LIMIT or value.dtype.startswith("complex"):
            return Constant(value)
        import torch

        tensor = self._program.constants[str(spec.target)]
        if not isinstance(tensor, torch.Tensor):
            return Constant(value)
        return Constant(value, elements=tuple(tensor.detach().reshape(-1).tolist()))


def _state(spec: InputSpec, values: dict[str, Value]) -> State:
    return State(values[spec.arg.name], path=str(spec.target), persistent=spec.persistent is not False)


def _result_name(name: str, index: int) -> str:
    return f"{name}_result{index}"


def _holds(result: object) -> bool:
    import torch

    return isinstance(result, torch.Tensor)


def _is_tensor(node: Any) -> bool:
    return _holds(node.meta.get("val"))


def _value(name: str, tensor: torch.Tensor) -> Value:
    return Value(
        name,
        shape=tuple(int(size) for size in tensor.shape),
        stride=tuple(int(step) for step in tensor.stride()),
        dtype=str(tensor.dtype).removeprefix("torch."),
    )


def _leaf(argument: Any) -> Argument:
    kind = type(argument).__name__
    if kind == "TensorArgument":
        return Ref(argument.name)
    if kind == "ConstantArgument" and (argument.value is None or isinstance(argument.value, bool | int | float | str)):
        plain: Argument = argument.value
        return plain
    raise TypeError(f"{getattr(argument, 'name', kind)} is neither a tensor nor a plain number or text")


def _nested(item: Any) -> Argument:
    if isinstance(item, list | tuple):
        return Items(tuple(_nested(part) for part in item))
    if item is None or isinstance(item, Ref | bool | int | float | str):
        return item
    raise TypeError(f"an argument of type {type(item).__name__}")


def _structure(item: Any) -> Structure:
    if isinstance(item, Structure):
        return item
    if isinstance(item, dict):
        return Structure(
            StructureKind.DICT,
            keys=tuple(str(key) for key in item),
            items=tuple(_structure(part) for part in item.values()),
        )
    if type(item) in (list, tuple):
        kind = StructureKind.LIST if isinstance(item, list) else StructureKind.TUPLE
        return Structure(kind, items=tuple(_structure(part) for part in item))
    raise TypeError(f"an output of type {type(item).__name__}")
