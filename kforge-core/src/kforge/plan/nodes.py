"""Facts about a graph's nodes that planning needs in several places."""

from __future__ import annotations

from kforge.plan.activations import ACTIVATIONS
from kforge.plan.graph import Graph, Node, Ref
from kforge.plan.lowering import LOWERINGS

ALL = LOWERINGS | ACTIVATIONS
"""What can be computed element by element, by the operation's name without its overload."""


def wanted(graph: Graph) -> tuple[str, ...]:
    """Give the names of the values that must be computed: outputs that are no inputs, and new contents of buffers."""
    computed = {value.name for node in graph.nodes for value in node.results if value is not None}
    names = [*graph.outputs.names(), *(mutation.value for mutation in graph.mutations)]
    return tuple(dict.fromkeys(name for name in names if name in computed))


def producers(graph: Graph) -> dict[str, Node]:
    return {value.name: node for node in graph.nodes for value in node.results if value is not None}


def references(node: Node) -> dict[str, str]:
    return {name: argument.name for name, argument in node.arguments if isinstance(argument, Ref)}


def base(node: Node) -> str:
    return node.op.partition(".")[0]
