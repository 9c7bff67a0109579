"""The pointers that accesses use: accesses at constant distances from each other share a
pointer."""

from __future__ import annotations

from functools import partial, reduce

from xdsl.ir import Block, SSAValue
from xdsl.utils.type import get_element_type_or_self

from tessella.codegen.addresses import AffineIndex, Scope, Start, Stepping, added
from tessella.codegen.lltypes import I64, LLType, constant, type_of
from tessella.codegen.writer import Writer

SCALES = (1, 2, 4, 8)
"""Scale factors in bytes by which an address can use the loop's own variable.

A pointer that advances beside the variable costs an addition in each iteration, which slows
products of a matrix and a vector.
"""


def in_memory(lltype: LLType) -> LLType:
    """Return the type that a value has in memory: i8 for i1, otherwise its own type."""
    return lltype.of("i8") if lltype.element == "i1" else lltype


def address(w: Writer, buffer: SSAValue, index: SSAValue) -> str:
    """Return the address of the element of a buffer at an index."""
    terms, distance = w.indices[index]
    return _moved(w, buffer, _pointer(w, Start(buffer, terms), len(w.scopes) - 1), distance)


def _moved(w: Writer, buffer: SSAValue, pointer: str, elements: int) -> str:
    """Return a pointer offset by a number of elements."""
    if not elements:
        return pointer
    # A shared pointer may lie outside the buffer, so the GEP is not inbounds.
    return w.gep(pointer, _element(buffer), constant(I64, elements), "")


def _element(buffer: SSAValue) -> str:
    return in_memory(type_of(get_element_type_or_self(buffer.type))).text


def _pointer(w: Writer, start: Start, depth: int) -> str:
    """Return the pointer at ``start`` for use in the enclosing block number ``depth``. If that
    block has not computed it yet, its computation is written."""
    if not start.terms:
        return w.buffers[start.buffer]
    scope = w.scopes[depth]
    if start not in scope.pointers:
        outside = {scope.block for scope in w.scopes[:depth]}
        steps = scope.lower is not None and all(
            value is scope.block.args[0] or _block(value) in outside for value, _ in start.terms
        )
        make = partial(_stepping, depth=depth) if steps else _computed
        scope.pointers[start] = make(w, start)
    return scope.pointers[start]


def _block(value: SSAValue) -> Block | None:
    owner = value.owner
    return owner if isinstance(owner, Block) else owner.parent


def _computed(w: Writer, start: Start) -> str:
    parts = (
        w.values[value] if k == 1 else w.binary("mul nsw", w.values[value], constant(I64, k))
        for value, k in start.terms
    )
    index = reduce(partial(w.binary, "add nsw"), parts)
    return w.gep(w.buffers[start.buffer], _element(start.buffer), index, "")


def _stepping(w: Writer, start: Start, depth: int) -> str:
    """Return a pointer for use in a loop, which is computed before the loop.

    If the pointer depends on the loop's variable, it advances with each iteration, or the variable
    becomes the index of the access.
    """
    scope, (buffer, terms) = w.scopes[depth], start
    variable = scope.block.args[0]
    by = dict(terms).get(variable, 0)
    rest = tuple((value, k) for value, k in terms if value is not variable)
    if by * type_of(get_element_type_or_self(buffer.type)).memory_bytes in SCALES:
        pointer = _before(w, Start(buffer, rest), depth)
        counter = w.values[variable]
        index = counter if by == 1 else w.binary("mul nsw", counter, constant(I64, by))
        return w.gep(pointer, _element(buffer), index, "")
    first = _first(w, scope)
    low = added(rest, tuple((value, k * by) for value, k in first.terms if by))
    pointer = _before(w, Start(buffer, low), depth, by * first.constant)
    if not by:
        return pointer
    name = w.name()
    step = constant(I64, by * scope.step).typed
    following = f"getelementptr {_element(buffer)}, ptr {name}, {step}"
    scope.stepping.append(Stepping(name, pointer, following))
    return name


def _before(w: Writer, start: Start, depth: int, elements: int = 0) -> str:
    """Write the computation of a pointer, moved by a number of elements, before the loop number
    ``depth``. Returns the pointer."""
    here, w.lines = w.lines, w.scopes[depth].before
    pointer = _moved(w, start.buffer, _pointer(w, start, depth - 1), elements)
    w.lines = here
    return pointer


def _first(w: Writer, scope: Scope) -> AffineIndex:
    """Return the lower bound of a loop as an affine sum."""
    assert scope.lower is not None
    value = w.values[scope.lower]
    return AffineIndex((), int(value.text)) if value.is_constant else w.indices[scope.lower]
