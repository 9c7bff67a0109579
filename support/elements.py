"""The table of element types: everything the compiler knows about them.

Numbers that NumPy lacks are stored as unsigned integers of their width. Numbers of fewer than 8
bits are packed, the first one in the lowest bits of a byte.

Rows of plugins follow those of tessella (``support/plugins.py``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, overload

from tessella.support import plugins
from tessella.support.plugins import Plugin
from tessella.support.sizes import Size

Kind = Literal["float", "signed", "unsigned", "boolean", "complex", "string"]

Specials = Literal["ieee", "fn", "fnuz", "none"]
"""The codes, or bit patterns, of a float that are not finite numbers, by the suffixes that MLIR and
``ml_dtypes`` use:

- ieee: the largest exponent encodes infinities and NaNs
- fn: the largest code is NaN, and there are no infinities
- fnuz: the code of -0 is NaN, and there are no infinities
- none: every code is a finite number
"""


@dataclass(frozen=True)
class Element:
    """The type of a tensor's elements: ``f32``, ``u8``, ``bool``."""

    name: str
    """The element's name, as in the precision of a place."""

    bits: int
    """Width in memory, in bits."""

    kind: Kind
    dtype: str
    """The NumPy dtype of the storage."""

    llvm: str
    """The LLVM type of a value in a register.

    bf16 is an integer in LLVM code, as LLVM moves values of type ``bfloat`` by calls of library
    functions.
    """

    foreign: str = ""
    """The name of the dtype in the package ``ml_dtypes``, for elements that NumPy lacks."""

    exponent: int = 0
    """Width of a float's exponent, in bits."""

    specials: Specials = "ieee"
    """The codes of a float that are not finite numbers."""

    signed: bool = True
    """True if a float has a sign, 0 and denormal numbers. A float without them is a power of two:
    its code is its exponent."""

    narrow: bool = False
    """True if the element is for storage only: arithmetic on it runs in f32."""

    onnx: int = 0
    """The number of the element type in ONNX's ``TensorProto``; 0 if ONNX lacks it."""

    is_native: bool = True
    """True if native code exists for the element type. NumPy converts elements of other types."""

    @property
    def is_float(self) -> bool:
        return self.kind == "float"

    @property
    def is_integer(self) -> bool:
        return self.kind in ("signed", "unsigned")

    @property
    def is_complex(self) -> bool:
        return self.kind == "complex"

    @property
    def is_real(self) -> bool:
        """True for the numbers and booleans that an attribute of the IR can hold."""
        return self.kind not in ("complex", "string")

    @property
    def is_tagged(self) -> bool:
        """True if NumPy lacks the element type: the dtype of an array then contains the type's
        name, as the storage dtype alone has another meaning."""
        return bool(self.foreign)

    @property
    def public(self) -> str:
        """The public name of the dtype: NumPy's, that of ``ml_dtypes``, or ``string``."""
        return self.name if self.kind == "string" else self.foreign or self.dtype

    @property
    def arithmetic(self) -> str:
        """The name of the element type in which kernels compute and accumulate, unless they declare
        another one."""
        return "f32" if self.narrow else self.name

    @property
    def fraction(self) -> int:
        """Width of a float's fraction, in bits."""
        return self.bits - self.signed - self.exponent

    @property
    def bias(self) -> int:
        """The bias of a float's exponent."""
        return (1 << (self.exponent - 1)) - (self.specials != "fnuz")

    @property
    def codes(self) -> int:
        """The number of codes of finite floats without a sign bit; they begin at 0."""
        ones = (1 << (self.bits - self.signed)) - 1
        if self.specials == "ieee":
            return ones & -(1 << self.fraction)
        return ones if self.specials == "fn" else ones + 1

    @property
    def epsilon(self) -> float:
        """The distance from 1 to the next larger float."""
        return 2.0**-self.fraction

    @property
    def least_normal(self) -> float:
        """The least positive normal number."""
        return 2.0 ** (self.signed - self.bias)

    @property
    def largest(self) -> float:
        """The largest finite number."""
        return self.normal(self.codes - 1)

    def normal(self, code: int) -> float:
        """Return the number of a code without a sign bit that is not denormal."""
        exponent, fraction = divmod(code, 1 << self.fraction)
        return (1.0 + fraction * self.epsilon) * 2.0 ** (exponent - self.bias)

    @property
    def size(self) -> int:
        """Bytes of one element that is not packed."""
        return self.bytes(1)

    @overload
    def bytes(self, count: int) -> int: ...
    @overload
    def bytes(self, count: Size) -> Size: ...
    def bytes(self, count: Size) -> Size:
        """Return the bytes in memory of ``count`` elements."""
        return -(-count * self.bits // 8)


def _integer(bits: int, kind: Kind, onnx: int) -> Element:
    name = ("int" if kind == "signed" else "uint") + str(bits)
    known = (f"{'i' if kind == 'signed' else 'u'}{bits}", bits, kind)
    if bits >= 8:
        return Element(*known, name, f"i{bits}", onnx=onnx)
    return Element(*known, "uint8", f"i{bits}", name, onnx=onnx, is_native=False)


def _small_float(
    name: str, foreign: str, exponent: int, specials: Specials, onnx: int, *, signed: bool = True
) -> Element:
    bits = int(name[1])
    storage = (name, bits, "float", "uint8", f"i{bits}", foreign)
    facts = (exponent, specials, signed)
    return Element(*storage, *facts, narrow=True, onnx=onnx, is_native=False)


_BUILT_IN = (
    Element("f64", 64, "float", "float64", "double", exponent=11, onnx=11),
    Element("f32", 32, "float", "float32", "float", exponent=8, onnx=1),
    Element("f16", 16, "float", "float16", "half", exponent=5, narrow=True, onnx=10),
    Element("bf16", 16, "float", "uint16", "i16", "bfloat16", exponent=8, narrow=True, onnx=16),
    _small_float("f8E4M3FN", "float8_e4m3fn", 4, "fn", 17),
    _small_float("f8E4M3FNUZ", "float8_e4m3fnuz", 4, "fnuz", 18),
    _small_float("f8E5M2", "float8_e5m2", 5, "ieee", 19),
    _small_float("f8E5M2FNUZ", "float8_e5m2fnuz", 5, "fnuz", 20),
    _small_float("f8E8M0FNU", "float8_e8m0fnu", 8, "fn", 24, signed=False),
    _small_float("f4E2M1FN", "float4_e2m1fn", 2, "none", 23),
    _integer(64, "signed", 7),
    _integer(32, "signed", 6),
    _integer(16, "signed", 5),
    _integer(8, "signed", 3),
    _integer(4, "signed", 22),
    _integer(2, "signed", 26),
    _integer(64, "unsigned", 13),
    _integer(32, "unsigned", 12),
    _integer(16, "unsigned", 4),
    _integer(8, "unsigned", 2),
    _integer(4, "unsigned", 21),
    _integer(2, "unsigned", 25),
    Element("bool", 8, "boolean", "bool", "i1", onnx=9),
    Element("c128", 128, "complex", "complex128", "", onnx=15, is_native=False),
    Element("c64", 64, "complex", "complex64", "", onnx=14, is_native=False),
    Element("string", 128, "string", "T", "", onnx=8, is_native=False),
)


def _plugged(taken: Mapping[str, Element]) -> Iterator[Element]:
    """Yield the elements of plugins. Raises PluginError for an invalid one."""
    names = {*taken, *(element.public for element in taken.values()), "any"}
    for plugin in plugins.plugins(plugins.ELEMENTS):
        element: object = plugin.load()
        if not isinstance(element, Element) or element.name != plugin.name:
            raise plugin.error(
                "no such element",
                expected=f"a tessella.support.elements.Element with the name {plugin.name!r}",
                found=repr(element),
            )
        _check(plugin, element)
        if {element.name, element.public} & names:
            raise plugin.error(f"the element {plugin.name!r} or its dtype already exists")
        names |= {element.name, element.public}
        yield element


def _check(plugin: Plugin, element: Element) -> None:
    """Raise PluginError for an element that NumPy arrays cannot store or convert."""
    is_whole = element.exponent in range(2, element.bits - element.signed + 1)
    facts = {
        "a name of letters and digits": re.fullmatch(r"[A-Za-z]\w*", element.name) is not None,
        "a float or an integer": element.is_float or element.is_integer,
        "1, 2, 4 or 8 bits, stored as uint8": element.bits in (1, 2, 4, 8)
        and element.dtype == "uint8",
        "an exponent that leaves bits for the fraction": is_whole or element.is_integer,
        "a public name in the field 'foreign'": element.is_tagged,
        "narrow=True for a float, and for no integer": element.narrow == element.is_float,
        "is_native=False, as no code exists for it": not element.is_native,
    }
    for expected, holds in facts.items():
        if not holds:
            raise plugin.error(
                "the element cannot be stored", expected=expected, found=repr(element)
            )


_OWN = {element.name: element for element in _BUILT_IN}
_TABLE = (*_BUILT_IN, *_plugged(_OWN))

ELEMENTS = {element.name: element for element in _TABLE}
"""The element types by name: floats before integers, wide before narrow, those of plugins last."""

FLOATS = tuple(element.name for element in _TABLE if element.is_float)


def widens(start: str, end: str) -> bool:
    """Return whether ``end`` represents all numbers of ``start``; both are floats, both integers,
    or both complex."""
    a, b = ELEMENTS[start], ELEMENTS[end]
    if a.is_float and b.is_float:
        has_digits = a.fraction <= b.fraction and a.exponent <= b.exponent
        return a.bits < b.bits and has_digits and a.signed <= b.signed and b.specials != "fnuz"
    kinds = (a.kind, b.kind) == ("unsigned", "signed") or (a.kind == b.kind)
    return kinds and a.bits < b.bits
