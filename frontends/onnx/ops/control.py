"""Control flow, as far as it is decided at import."""

from __future__ import annotations

from xdsl.ir import SSAValue

from tessella.frontends.onnx.call import Call
from tessella.frontends.onnx.model import Graph
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import InvalidModelError, ShapeError


@converts("If", 1, 25, note="condition known at import")
def branch(call: Call) -> list[SSAValue | None]:
    """The branch that is taken, in place."""
    condition = call.static(0, "the condition of If")
    if condition.size != 1:
        raise ShapeError("a condition is one boolean", found=str(call.x.type))
    name = "then_branch" if condition.any() else "else_branch"
    graph = call.attribute(name)
    if not isinstance(graph, Graph):
        raise InvalidModelError(f"attribute {name!r} is not a graph")
    return call.branch(graph)
