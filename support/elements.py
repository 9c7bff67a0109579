"""The table of elements: all that the compiler knows about what tensors are made of.

Elements that NumPy lacks are stored as unsigned integers of their width, those below 8 bits several
in a byte, the first one in the lowest bits.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, overload

from tessella.support.sizes import Size

Kind = Literal["float", "signed", "unsigned", "boolean"]


@dataclass(frozen=True)
class Element:
    """What a tensor is made of: ``f32``, ``u8``, ``bool``."""

    name: str
    """Its name as the precision of a place."""

    bits: int
    """Bits of one element in memory."""

    kind: Kind
    dtype: str
    """The NumPy dtype of the storage."""

    llvm: str
    """LLVM's type of a value in a register; bf16 is an integer to it, as LLVM calls library
    functions where it moves a ``bfloat`` about."""

    foreign: str = ""
    """The name of the dtype that the package ``ml_dtypes`` has for an element that NumPy lacks."""

    exponent: int = 0
    """Bits of a float's exponent."""

    infinite: bool = True
    """Whether a float has infinities. Without them, the largest exponent is one of numbers, and the
    greatest fraction of it is NaN."""

    narrow: bool = False
    """Whether values of this element are only stored: arithmetic with them is in f32."""

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def is_tagged(self) -> bool:
        """Whether the storage dtype means something else to NumPy."""
        return bool(self.foreign)

    @property
    def is_native(self) -> bool:
        """Whether there is native code for values of this element: f8 and what is smaller than a
        byte can only be stored, and converted by NumPy."""
        return self.bits > 8 or (self.bits == 8 and not self.is_float)

    @property
    def arithmetic(self) -> str:
        """The name of the element in which values of this one are computed and accumulated, where
        a kernel does not say otherwise."""
        return "f32" if self.narrow else self.name

    @property
    def fraction(self) -> int:
        """Bits of a float after the point."""
        return self.bits - 1 - self.exponent

    @property
    def bias(self) -> int:
        """What is added to a float's exponent when it is stored."""
        return (1 << (self.exponent - 1)) - 1

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next greater float."""
        return 2.0**-self.fraction

    @property
    def least_normal(self) -> float:
        """The least positive float of full precision."""
        return 2.0 ** (1 - self.bias)

    @property
    def largest(self) -> float:
        """The largest finite float."""
        if not self.infinite:
            return (2.0 - 2.0 * self.epsilon) * 2.0 ** (self.bias + 1)
        return (2.0 - self.epsilon) * 2.0**self.bias

    @property
    def size(self) -> int:
        """Bytes of one element, which is not packed with others."""
        return self.bytes(1)

    @overload
    def bytes(self, count: int) -> int: ...
    @overload
    def bytes(self, count: Size) -> Size: ...
    def bytes(self, count: Size) -> Size:
        """Bytes in memory of so many elements."""
        return -(-count * self.bits // 8)


def _tagged_integer(name: str, bits: int, kind: Kind) -> Element:
    foreign = ("int" if kind == "signed" else "uint") + str(bits)
    return Element(name, bits, kind, "uint8", f"i{bits}", foreign)


_TABLE = (
    Element("f64", 64, "float", "float64", "double", exponent=11),
    Element("f32", 32, "float", "float32", "float", exponent=8),
    Element("f16", 16, "float", "float16", "half", exponent=5, narrow=True),
    Element("bf16", 16, "float", "uint16", "i16", "bfloat16", exponent=8, narrow=True),
    Element("f8E4M3FN", 8, "float", "uint8", "i8", "float8_e4m3fn", 4, infinite=False, narrow=True),
    Element("f8E5M2", 8, "float", "uint8", "i8", "float8_e5m2", exponent=5, narrow=True),
    *(Element(f"i{n}", n, "signed", f"int{n}", f"i{n}") for n in (64, 32, 16, 8)),
    _tagged_integer("i4", 4, "signed"),
    _tagged_integer("i2", 2, "signed"),
    *(Element(f"u{n}", n, "unsigned", f"uint{n}", f"i{n}") for n in (64, 32, 16, 8)),
    _tagged_integer("u4", 4, "unsigned"),
    _tagged_integer("u2", 2, "unsigned"),
    Element("bool", 8, "boolean", "bool", "i1"),
)

ELEMENTS = {element.name: element for element in _TABLE}
"""The elements by name, floats first, wide ones before narrow ones."""

FLOATS = tuple(element.name for element in _TABLE if element.is_float)


def widens(start: str, end: str) -> bool:
    """Whether an element has all numbers of another, smaller one: both floats, or integers."""
    a, b = ELEMENTS[start], ELEMENTS[end]
    kinds = (a.kind, b.kind) == ("unsigned", "signed") or (a.kind == b.kind)
    return kinds and a.bits < b.bits
