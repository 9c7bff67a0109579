"""Arithmetic on LLVM values with Python's operators, so that formulas read as formulas."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tessella.codegen.lltypes import LLType, LLValue, constant
from tessella.codegen.minmax import minmax
from tessella.codegen.writer import Writer

_FLOAT_OPS = {"+": "fadd", "-": "fsub", "*": "fmul", "/": "fdiv"}
_INT_OPS = {"+": "add", "-": "sub", "*": "mul"}


@dataclass(frozen=True, eq=False)
class Lanes:
    """An LLVM value of floats, integers or masks. Each Python operator on it writes one
    instruction."""

    w: Writer
    value: LLValue

    @property
    def type(self) -> LLType:
        """The value's LLVM type."""
        return self.value.type

    def like(self, number: float) -> Lanes:
        """Return a constant of this value's type."""
        return Lanes(self.w, constant(self.type, number))

    def _with(self, opcode: str, other: Lanes | float) -> Lanes:
        right = other if isinstance(other, Lanes) else self.like(other)
        return Lanes(self.w, self.w.binary(opcode, self.value, right.value))

    def _arithmetic(self, sign: str, other: Lanes | float) -> Lanes:
        return self._with((_FLOAT_OPS if self.type.is_float else _INT_OPS)[sign], other)

    def __add__(self, other: Lanes | float) -> Lanes:
        return self._arithmetic("+", other)

    def __sub__(self, other: Lanes | float) -> Lanes:
        return self._arithmetic("-", other)

    def __mul__(self, other: Lanes | float) -> Lanes:
        return self._arithmetic("*", other)

    def __truediv__(self, other: Lanes | float) -> Lanes:
        return self._arithmetic("/", other)

    def __rsub__(self, other: float) -> Lanes:
        return self.like(other) - self

    def __rtruediv__(self, other: float) -> Lanes:
        return self.like(other) / self

    def __neg__(self) -> Lanes:
        return Lanes(self.w, self.w.push(self.type, f"fneg {self.value.typed}"))

    def __and__(self, other: Lanes | int) -> Lanes:
        return self._with("and", other)

    def __or__(self, other: Lanes | int) -> Lanes:
        return self._with("or", other)

    def __xor__(self, other: Lanes | int) -> Lanes:
        return self._with("xor", other)

    def __lshift__(self, other: int) -> Lanes:
        return self._with("shl", other)

    def __rshift__(self, other: int) -> Lanes:
        """Write an arithmetic right shift."""
        return self._with("ashr", other)

    def is_(self, predicate: str, other: Lanes | float) -> Lanes:
        """Write a comparison and return its mask: `x.is_("olt", 0.0)`, with the predicates of
        `fcmp` and `icmp`."""
        right = other if isinstance(other, Lanes) else self.like(other)
        opcode = f"{'fcmp' if self.type.is_float else 'icmp'} {predicate}"
        return Lanes(self.w, self.w.compare(opcode, self.value, right.value))

    def bits(self) -> Lanes:
        """Return the float's bits as an integer."""
        return Lanes(self.w, self.w.cast("bitcast", self.value, self.type.integer))

    def floats(self) -> Lanes:
        """Return the integer's bits as a float."""
        return self.cast("bitcast", f"f{self.type.bits}")

    def cast(self, opcode: str, element: str) -> Lanes:
        """Return the lanes converted to another element: `x.cast("fpext", "f64")`."""
        return Lanes(self.w, self.w.cast(opcode, self.value, self.type.of(element)))

    def intrinsic(self, name: str, *others: Lanes) -> Lanes:
        """Return `llvm.NAME` of this value and other operands."""
        return Lanes(self.w, self.w.intrinsic(name, self.value, *(o.value for o in others)))

    def abs(self) -> Lanes:
        """Return the value without its sign."""
        return self.intrinsic("fabs")

    def sqrt(self) -> Lanes:
        """Return the correctly rounded square root; NaN below zero."""
        return self.intrinsic("sqrt")

    def with_sign_of(self, other: Lanes) -> Lanes:
        """Return this value with the sign of ``other``."""
        return self.intrinsic("copysign", other)

    def at_least(self, bound: float) -> Lanes:
        """Return the larger one of this value and the bound; NaN stays NaN."""
        return Lanes(self.w, minmax(self.w, "maximumf", self.value, self.like(bound).value))

    def at_most(self, bound: float) -> Lanes:
        """Return the smaller one of this value and the bound; NaN stays NaN."""
        return Lanes(self.w, minmax(self.w, "minimumf", self.value, self.like(bound).value))


def fma(a: Lanes, b: Lanes | float, c: Lanes | float) -> Lanes:
    """Return a * b + c, with one rounding where the machine can."""
    right = b if isinstance(b, Lanes) else a.like(b)
    added = c if isinstance(c, Lanes) else a.like(c)
    if a.w.target.fused_multiply_add:
        return a.intrinsic("fma", right, added)
    return a * right + added


def where(condition: Lanes, a: Lanes | float, b: Lanes | float) -> Lanes:
    """Return ``a`` in lanes where the condition is true, else ``b``. At least one of the two must
    be ``Lanes``, which gives a Python number its type."""
    like = a if isinstance(a, Lanes) else b
    assert isinstance(like, Lanes)
    first = a if isinstance(a, Lanes) else like.like(a)
    second = b if isinstance(b, Lanes) else like.like(b)
    return Lanes(condition.w, condition.w.select(condition.value, first.value, second.value))


def polynomial(x: Lanes, coefficients: Sequence[float]) -> Lanes:
    """Return c0 + c1 x + c2 x^2 + ..., by Horner's rule: the fewest instructions.

    The chain of dependent instructions is long, but loops over many elements run several chains at
    once.
    """
    result = x.like(coefficients[-1])
    for coefficient in reversed(coefficients[:-1]):
        result = fma(result, x, coefficient)
    return result
