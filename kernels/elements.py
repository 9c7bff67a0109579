"""The element types that kernels read, compute with and write.

A kernel declares a table with a row for each case:

    reads     computes  writes
    f32       f32       f32     a product of f32
    f16       f32       f16     a product of f16, summed in f32
    u8 i8 i32 i32 a dot product of signed or unsigned bytes

The table determines for which element types a kernel can be picked. Code generation follows it:
values of narrower types than the arithmetic's are widened when they are read, and results are
narrowed when they are stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import product

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block, SSAValue

from tessella.dialects.elements import attribute_of, element_of
from tessella.dialects.nn.core import NnOp, Tensor, shape_of
from tessella.dialects.sizes import dims
from tessella.support.elements import ELEMENTS
from tessella.support.errors import ShapeError
from tessella.targets.vectormath import supports

T = "T"
"""Placeholder in `rows` for each of the element types."""

NATIVE = tuple(e.name for e in ELEMENTS.values() if e.is_native)
"""The names of the element types with native code."""
FLOATS = tuple(name for name in NATIVE if ELEMENTS[name].is_float)
INTEGERS = tuple(name for name in NATIVE if ELEMENTS[name].is_integer)
INDICES = ("i64", "i32")


@dataclass(frozen=True)
class Elements:
    """One row of a kernel's table: the element types of the operands, the arithmetic and the
    results."""

    reads: tuple[str, ...]
    """The element type of each operand; the last one also serves all further operands."""
    computes: str
    """The element type of the accumulator and of all arithmetic."""
    writes: tuple[str, ...]
    """The element type of each result; the last one also serves all further results."""

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The element types read and written, without repetitions at the end: the key does not
        depend on the number of operands."""
        return _unrepeated(self.reads), _unrepeated(self.writes)

    @property
    def storage(self) -> str:
        """The element types read and written, as text: ``f16``, ``u8 i8 -> i32``."""
        reads, writes = self.key
        return " ".join(reads) if reads == writes else f"{' '.join(reads)} -> {' '.join(writes)}"

    @property
    def floats_read(self) -> tuple[str, ...]:
        """The distinct float types that are read."""
        return tuple(name for name in dict.fromkeys(self.reads) if ELEMENTS[name].is_float)


def _unrepeated(names: Sequence[str]) -> tuple[str, ...]:
    end = len(names)
    while end > 1 and names[end - 1] == names[end - 2]:
        end -= 1
    return tuple(names[:end])


Table = tuple[Elements, ...]


def rows(
    names: Iterable[str],
    reads: Sequence[str] = (T,),
    writes: Sequence[str] = (T,),
    computes: str | None = None,
) -> Table:
    """Return a table with a row for each element type of ``names``, which replaces ``T`` in
    ``reads`` and ``writes``.

    ``computes`` is the element type of the arithmetic. Without it, the arithmetic is in the row's
    element type, or in f32 for narrower floats.
    """

    def row(name: str) -> Elements:
        own = [tuple(name if x == T else x for x in part) for part in (reads, writes)]
        arithmetic = ELEMENTS[name].arithmetic if computes is None else computes
        return Elements(own[0], name if arithmetic == T else arithmetic, own[1])

    return tuple(map(row, names))


def has_code(name: str, functions: Iterable[str]) -> bool:
    """Return whether all ``functions``, ops of `math`, have vector code for an element type. True
    for types other than floats."""
    bits = ELEMENTS[ELEMENTS[name].arithmetic].bits
    return not ELEMENTS[name].is_float or all(supports(f, bits) for f in functions)


def with_code(*functions: str) -> Table:
    """Return a table with a row for each float type for which all ``functions``, ops of `math`,
    have vector code."""
    return rows(name for name in FLOATS if has_code(name, functions))


SAME = rows(NATIVE)
"""Table of kernels with one element type for operands and results."""
MOVED = rows(NATIVE, computes=T)
"""Table of kernels that move elements and do not compute with them."""
FLOATING = rows(FLOATS)
"""Table of kernels with one float type for operands and results."""
PRODUCTS = (
    *SAME,
    *(
        Elements((*pair, *bias), "i32", ("i32",))
        for pair in product(("u8", "i8"), repeat=2)
        for bias in ((), ("i32",))
    ),
)
"""Table of products: of operands of one element type, and of bytes summed in i32, with or without a
bias."""
GATHERED = tuple(row for index in INDICES for row in rows(NATIVE, (T, index), computes=T))
"""Table of gathers: the operands are the data and the indices."""
SCATTERED = tuple(row for index in INDICES for row in rows(NATIVE, (T, index, T)))
"""Table of scatters: the operands are the data, the indices, and the updates that are aggregated
into the data."""


def elements_of(op: NnOp, precision: str | None = None) -> Elements | None:
    """Return the element types that an op reads, computes with and writes, if the floats that it
    reads are stored in ``precision``; None if the op does not accept them.

    The arithmetic is that of NumPy's kernels. Without a precision, the element types are those of
    the operands and results.
    """
    reads = [element_of(value.type).name for value in op.operands]
    writes = [element_of(value.type).name for value in op.results]
    stored = [precision if precision and ELEMENTS[x].is_float else x for x in reads]
    if stored != reads:
        found = _inferred(op, stored)
        if found is None:
            return None
        reads, writes = stored, found
    return Elements(tuple(reads), _computed(reads, writes), tuple(writes))


def _computed(reads: Sequence[str], writes: Sequence[str]) -> str:
    """Return the element type in which NumPy computes."""
    numbers = [name for name in (*reads, *writes) if ELEMENTS[name].kind != "boolean"]
    floats = [name for name in numbers if ELEMENTS[name].is_float]
    return ELEMENTS[next(iter((*floats, *numbers, "bool")))].arithmetic


def _inferred(op: NnOp, reads: Sequence[str]) -> list[str] | None:
    """Return the element types of an op's results if it reads the element types ``reads``; None if
    the op does not accept them."""
    block = Block(arg_types=map(_of_element, op.operands, reads))
    copy = op.clone(dict(zip(op.operands, block.args, strict=True)))
    try:
        return [element_of(type).name for type in copy.infer()]
    except ShapeError:
        return None


def _of_element(value: SSAValue, name: str) -> Tensor:
    return TensorType(attribute_of(name), dims(shape_of(value)))
