"""Control flow: branches that are decided at import, and loops over sequences."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects.nn.core import shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.support.errors import InvalidModelError, ShapeError, UnsupportedError


@converts("If", 1, 25, note="condition known at import")
def branch(call: Call) -> list[SSAValue | None]:
    """The branch that is taken, in place."""
    condition = call.static(0, "the condition of If")
    if condition.size != 1:
        raise ShapeError("a condition must be one boolean", found=str(call.x.type))
    return call.branch(call.graph("then_branch" if condition.any() else "else_branch"), ())


@converts("Scan", 9, 25, note="at least one step")
def scan(call: Call) -> Sequence[SSAValue]:
    """The body, for each element of the sequences along their axes."""
    count, values = call.integer("num_scan_inputs"), call.operands()
    if not 1 <= count <= len(values):
        raise InvalidModelError("num_scan_inputs does not fit the inputs", found=str(count))
    body, carried = call.graph("body"), len(values) - count
    results = len(body.outputs) - carried
    first, sequences = values[:carried], values[carried:]
    axes = _listed(call, "scan_input_axes", count)
    taken = [_moved(call, x, axis, to_front=True) for x, axis in zip(sequences, axes, strict=True)]
    if min(shape_of(x)[0] for x in taken) < 1:
        raise ShapeError("a sequence without elements", found=str(call.x.type))
    if len({shape_of(x)[0] for x in taken}) > 1:
        raise ShapeError("sequences differ in length", found=", ".join(str(x.type) for x in taken))
    directions = [
        *_listed(call, "scan_input_directions", count),
        *_listed(call, "scan_output_directions", results),
    ]

    def step(
        state: Sequence[SSAValue], inputs: Sequence[SSAValue]
    ) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
        made = call.branch(body, [*state, *inputs])
        found = [value for value in made if value is not None]
        if len(found) < len(made):
            raise UnsupportedError([])  # each was reported where it is
        return found[:carried], found[carried:]

    backward = [bool(direction) for direction in directions]
    made = call.build.scan("scan_body", first, taken, step, backward.__getitem__)
    axes = _listed(call, "scan_output_axes", results)
    stacked = zip(made[carried:], axes, strict=True)
    return [*made[:carried], *(_moved(call, y, axis, to_front=False) for y, axis in stacked)]


def _listed(call: Call, name: str, count: int) -> Sequence[int]:
    """An attribute with a number for each sequence; zeros where it is left out."""
    numbers = call.integers(name) or (0,) * max(0, count)
    if len(numbers) != count:
        raise InvalidModelError(
            f"attribute {name!r} has the wrong length", expected=str(count), found=str(numbers)
        )
    return numbers


def _moved(call: Call, x: SSAValue, axis: int, *, to_front: bool) -> SSAValue:
    """An axis moved to the front, or the first one moved to where ``axis`` is."""
    rank = len(shape_of(x))
    axis = front_axis(axis, rank)
    if to_front:
        return call.transpose(x, (axis, *(d for d in range(rank) if d != axis)))
    return call.transpose(x, (*range(1, axis + 1), 0, *range(axis + 1, rank)))
