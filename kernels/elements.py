"""The elements that kernels read, compute with and write.

A kernel declares a table of them, a row for each case:

    reads     computes  writes
    f32       f32       f32       a product of f32
    f16       f32       f16       one of f16, summed in f32
    u8 i8     i32       i32       one of bytes, as dot products have it, of any signs

The pick asks it which ops and places a kernel serves, and code is built by it: what is narrower
than the element of the arithmetic is widened when it is read, and a result is narrowed when it is
stored.
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
"""Stands for each element of a list, in `rows`."""

NATIVE = tuple(e.name for e in ELEMENTS.values() if e.is_native)
"""The elements that there is native code for."""
FLOATS = tuple(name for name in NATIVE if ELEMENTS[name].is_float)
INTEGERS = tuple(name for name in NATIVE if ELEMENTS[name].is_integer)
INDICES = ("i64", "i32")


@dataclass(frozen=True)
class Elements:
    """A row: the elements of a kernel's operands, of its arithmetic and of its results."""

    reads: tuple[str, ...]
    """Of each operand; the last one is that of all further operands too."""
    computes: str
    """Of the accumulator, and of all that is computed."""
    writes: tuple[str, ...]
    """Of each result, likewise."""

    @property
    def key(self) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """What is read and written, equal for all numbers of operands."""
        return _unrepeated(self.reads), _unrepeated(self.writes)

    @property
    def storage(self) -> str:
        """What is read and written, in words: ``f16``, ``u8 i8 -> i32``."""
        reads, writes = self.key
        return " ".join(reads) if reads == writes else f"{' '.join(reads)} -> {' '.join(writes)}"

    @property
    def floats_read(self) -> tuple[str, ...]:
        """The floats that are read, each once."""
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
    """A row for each of these elements, which stands where ``T`` is written.

    Without ``computes``, the arithmetic is in the element itself, or in f32 if it is a narrower
    float.
    """

    def row(name: str) -> Elements:
        own = [tuple(name if x == T else x for x in part) for part in (reads, writes)]
        arithmetic = ELEMENTS[name].arithmetic if computes is None else computes
        return Elements(own[0], name if arithmetic == T else arithmetic, own[1])

    return tuple(map(row, names))


def has_code(name: str, functions: Iterable[str]) -> bool:
    """Whether there is vector code of all these ops of `math` for an element: of floats, each op
    has its own."""
    bits = ELEMENTS[ELEMENTS[name].arithmetic].bits
    return not ELEMENTS[name].is_float or all(supports(f, bits) for f in functions)


def with_code(*functions: str) -> Table:
    """The table of kernels on floats of which there is vector code of all these ops."""
    return rows(name for name in FLOATS if has_code(name, functions))


SAME = rows(NATIVE)
"""Operands and results of one element."""
MOVED = rows(NATIVE, computes=T)
"""Elements that are moved, and not looked at."""
FLOATING = rows(FLOATS)
"""Operands and results of one float."""
PRODUCTS = (
    *SAME,
    *(
        Elements((*pair, *bias), "i32", ("i32",))
        for pair in product(("u8", "i8"), repeat=2)
        for bias in ((), ("i32",))
    ),
)
"""Products of operands of one element, and of bytes, added up in i32, with or without a bias."""
GATHERED = tuple(row for index in INDICES for row in rows(NATIVE, (T, index), computes=T))
"""Elements that indices pick."""
SCATTERED = tuple(row for index in INDICES for row in rows(NATIVE, (T, index, T)))
"""Elements that go to the places of indices, and are added up there."""


def elements_of(op: NnOp, precision: str | None = None) -> Elements | None:
    """The elements of an op where the floats that it reads are stored in a precision, and the
    arithmetic of NumPy's kernels; None where the op does not take them.

    Without a precision, they are those of the types.
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
    """The element that NumPy computes in."""
    numbers = [name for name in (*reads, *writes) if ELEMENTS[name].kind != "boolean"]
    floats = [name for name in numbers if ELEMENTS[name].is_float]
    return ELEMENTS[next(iter((*floats, *numbers, "bool")))].arithmetic


def _inferred(op: NnOp, reads: Sequence[str]) -> list[str] | None:
    """The elements of an op's results where it reads others."""
    block = Block(arg_types=map(_of_element, op.operands, reads))
    copy = op.clone(dict(zip(op.operands, block.args, strict=True)))
    try:
        return [element_of(type).name for type in copy.infer()]
    except ShapeError:
        return None


def _of_element(value: SSAValue, name: str) -> Tensor:
    return TensorType(attribute_of(name), dims(shape_of(value)))
