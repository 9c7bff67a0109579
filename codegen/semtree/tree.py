"""The tree of a kernel for a device, after PlaidML's Semtree: memory, loops, barriers, loads and
stores.

A printer writes a tree in a language. The tree has one form for all of them:

    kernel k_matmul(global f32 p0, global f32 p1, global f32 p2), 4 groups of 256 work-items
      local f32 l0[264]
      ..
      for i_k_0 in 0 .. 64 step 8
        load input 0:
          for e in item .. 256 step 256
            l0[near] = p0[far]
        barrier
        ..

Types are names of elements (``support/elements.py``). The ops of expressions have the names of
MLIR's ops; a comparison's name ends in its predicate.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Literal, TypeAlias

from tessella.support.sizes import Expr, Size

FLOATS = ("f32", "f16")
"""The types of floats."""
INDEX = "i64"
"""The type of the values of indices in bodies."""
GROUP_ID, ITEM_ID = "device.group", "device.item"
"""The number of the work-group, and that of the work-item in it."""
CHECKED = "device.checked"
"""A coordinate, or 0 if it is not less than a size; the kernel then sets its word."""
BOTH = "device.and"
"""The conjunction of two conditions."""


@dataclass(frozen=True)
class Memory:
    """An array of elements: a tensor, or memory of a work-group or of a work-item."""

    name: str
    element: str
    space: Literal["global", "local", "private"]
    """`global`: a tensor; `local`: shared by the work-items of a group; `private`: registers of a
    work-item."""
    size: int = 0
    """The number of elements; 0 for a tensor."""

    def __getitem__(self, at: Int) -> Load:
        return Load(self, number(at))


@dataclass(frozen=True)
class Number:
    """An expression: a constant."""

    value: float
    type: str = "i32"


@dataclass(frozen=True)
class Name:
    """An expression: the value of a variable."""

    name: str
    type: str = "i32"


@dataclass(frozen=True)
class Load:
    """An expression: the value of an element of an array."""

    memory: Memory
    at: Expression

    @property
    def type(self) -> str:
        """The type of the element."""
        return self.memory.element


@dataclass(frozen=True)
class Apply:
    """An expression: an op applied to operands."""

    op: str
    operands: tuple[Expression, ...]
    type: str = "i32"


Expression: TypeAlias = Number | Name | Load | Apply
Int: TypeAlias = Expression | Size


@dataclass(frozen=True)
class Declare:
    """A statement that declares a variable, which is visible to the end of the block."""

    name: Name
    value: Expression
    changes: bool = False
    """True if assignments follow."""


@dataclass(frozen=True)
class Reserve:
    """A statement that declares an array in the work-item's private memory."""

    memory: Memory


@dataclass(frozen=True)
class Assign:
    """A statement that gives a variable a new value."""

    name: Name
    value: Expression


@dataclass(frozen=True)
class Store:
    """A statement that gives an element of an array a new value."""

    at: Load
    value: Expression


MOST_UNROLLED = 16
"""The most iterations of a loop that is unrolled. Larger bodies outgrow caches of instructions."""


@dataclass(frozen=True)
class Loop:
    """A loop from ``first`` to ``end``, exclusive."""

    index: Name
    first: Expression
    end: Expression
    step: int
    body: Block

    @property
    def is_unrolled(self) -> bool:
        """True for few iterations of a known number: without the loop, accumulators that it indexes
        are registers."""
        if not (isinstance(self.first, Number) and isinstance(self.end, Number)):
            return False
        return self.end.value - self.first.value <= MOST_UNROLLED * self.step


@dataclass(frozen=True)
class Guard:
    """Statements that run only if a condition holds, because they would access memory out of
    bounds otherwise."""

    condition: Expression
    body: Block


@dataclass(frozen=True)
class Branch:
    """A statement that runs one of two blocks, by a condition that is the same for the whole
    work-group."""

    condition: Expression
    body: Block
    otherwise: Block = ()


@dataclass(frozen=True)
class Section:
    """A block with a title, for readers of the kernel."""

    title: str
    body: Block


@dataclass(frozen=True)
class Barrier:
    """All work-items of the group wait for each other, and then see each other's local memory."""


@dataclass(frozen=True)
class Return:
    """A statement that ends the work-item."""


Nested: TypeAlias = Loop | Guard | Branch | Section
"""The statements that contain others."""
Statement: TypeAlias = Declare | Reserve | Assign | Store | Barrier | Return | Nested
Block: TypeAlias = tuple[Statement, ...]


@dataclass(frozen=True)
class Kernel:
    """A kernel, and the size of its launch."""

    name: str
    tensors: tuple[Memory, ...]
    """The inputs and the outputs, and the word of a kernel that checks coordinates."""
    local: tuple[Memory, ...]
    body: Block
    groups: Size
    items: int
    """The number of work-items of a group."""
    sizes: Mapping[Name, Size] = field(default_factory=dict[Name, Size])
    """The symbolic sizes that are arguments after the tensors, by their names in the kernel."""
    notes: tuple[str, ...] = ()
    """Lines about the choice of the tiles."""


WORD = Memory("word", "i32", "global")
"""The word that a kernel sets to 1 where a coordinate is out of range."""


# ** expressions **


def number(value: Int) -> Expression:
    """Return an integer, or a size that is an argument of the kernel, as an expression."""
    if isinstance(value, Expr):
        return Name(str(value))
    return Number(value) if isinstance(value, int) else value


def constant(value: float, type: str) -> Number:
    """Return a constant of a type."""
    return Number(float(value) if type in FLOATS else int(value), type)


def add(*terms: Int) -> Expression:
    """Return a sum. Constants are added up and are the last term."""
    flat = [number(term) for term in terms]
    constant = sum(int(term.value) for term in flat if isinstance(term, Number))
    others: list[Expression] = [term for term in flat if not isinstance(term, Number)]
    if constant or not others:
        others.append(Number(constant))
    return reduce(lambda a, b: _integer("arith.addi", a, b), others)


def times(a: Int, b: Int) -> Expression:
    """Return the product of two values."""
    left, right = number(a), number(b)
    if isinstance(left, Number) and isinstance(right, Number):
        return Number(int(left.value) * int(right.value))
    if Number(1) in (left, right):
        return right if left == Number(1) else left
    return _integer("arith.muli", left, right)


def difference(a: Int, b: Expression) -> Expression:
    """Return the difference of two values."""
    return _integer("arith.subi", number(a), b)


def quotient(a: Expression, b: Int) -> Expression:
    """Return the quotient of two values that are not negative."""
    return a if b == 1 else _integer("arith.divsi", a, number(b))


def remainder(a: Expression, b: Int) -> Expression:
    """Return the remainder of the division of two values that are not negative."""
    return Number(0) if b == 1 else _integer("arith.remsi", a, number(b))


def least(a: Expression, b: Int) -> Expression:
    """Return the lesser of two values."""
    return _integer("arith.minsi", a, number(b))


def clamped(value: Expression, last: Int) -> Expression:
    """Return the nearest value from 0 to ``last``."""
    return _integer("arith.maxsi", least(value, last), Number(0))


def compare(predicate: str, a: Expression, b: Int) -> Expression:
    """Return the comparison of two integers, by a predicate of `arith.cmpi`."""
    return Apply(f"arith.cmpi.{predicate}", (a, number(b)), "bool")


def every(conditions: Iterable[Expression]) -> Expression | None:
    """Return the conjunction of conditions; None if there are none."""
    found = list(conditions)
    return reduce(lambda a, b: Apply(BOTH, (a, b), "bool"), found) if found else None


def _integer(op: str, a: Expression, b: Expression) -> Expression:
    return Apply(op, (a, b), INDEX if INDEX in (a.type, b.type) else "i32")


# ** statements **


def divided(name: Name, by: Int) -> Block:
    """Return a block that divides a variable by a value, in place; empty if the value is 1."""
    return () if by == 1 else (Assign(name, quotient(name, by)),)


def guarded(conditions: Iterable[Expression], body: Sequence[Statement]) -> Block:
    """Return statements that run only if all conditions hold."""
    condition = every(conditions)
    return (*body,) if condition is None else (Guard(condition, (*body,)),)


def unguarded(block: Block) -> Block:
    """Return a block without its guards, for points that are all within bounds."""
    found: list[Statement] = []
    for statement in block:
        match statement:
            case Guard():
                found += unguarded(statement.body)
            case Loop() | Section():
                found.append(replace(statement, body=unguarded(statement.body)))
            case _:
                found.append(statement)
    return (*found,)
