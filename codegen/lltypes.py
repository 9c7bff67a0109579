"""LLVM's types and values as text, and the translation of xDSL's types and constants to them."""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ContainerType, IndexType, IntegerType, VectorType
from xdsl.ir import Attribute

from tessella.dialects.elements import find_element
from tessella.runtime.elements import DTYPES, converted
from tessella.support.elements import ELEMENTS
from tessella.support.errors import InternalError

_FLOATS = {e.name: (e.llvm, e.bits) for e in ELEMENTS.values() if e.is_float and e.is_native}
"""LLVM's name and width of each float type with native code."""


@dataclass(frozen=True, eq=False)
class LLType:
    """A scalar or one-dimensional vector type of LLVM. `scalar` and `vector` create each type only
    once, so that types can be compared by `is`."""

    element: str
    """The element's short name: `f32`, `i64`, `i1`."""

    lanes: int
    """Lanes of a vector; 0 for a scalar."""

    bits: int
    """Bits of one element."""

    is_float: bool
    text: str
    """LLVM's spelling: `<16 x float>`."""

    mangled: str
    """The suffix of overloaded intrinsics: `v16f32`."""

    scalar_text: str
    """LLVM's spelling of the element: `float`."""

    @property
    def scalar(self) -> LLType:
        """The element's type."""
        return vector(self.element, 0)

    @property
    def memory_bytes(self) -> int:
        """Bytes of one element in a buffer; an i1 takes one."""
        return max(1, self.bits // 8)

    def of(self, element: str) -> LLType:
        """Return the type with the same lanes and another element."""
        return vector(element, self.lanes)

    @property
    def mask(self) -> LLType:
        """The type of a mask with the same lanes: i1."""
        return vector("i1", self.lanes)

    @property
    def integer(self) -> LLType:
        """The type of integers with the same lanes and bits."""
        return vector(f"i{self.bits}", self.lanes)


@functools.cache
def vector(element: str, lanes: int) -> LLType:
    """Return the type of a vector of ``lanes`` elements, or of a scalar if ``lanes`` is 0."""
    is_float = element in _FLOATS
    name, bits = _FLOATS[element] if is_float else (element, int(element[1:]))
    text = f"<{lanes} x {name}>" if lanes else name
    suffix = name if name[0] == "i" else element
    mangled = f"v{lanes}{suffix}" if lanes else suffix
    return LLType(element, lanes, bits, is_float, text, mangled, name)


def scalar(element: str) -> LLType:
    """Return the scalar type with a short name: `f32`, `i64`."""
    return vector(element, 0)


I1 = scalar("i1")
I64 = scalar("i64")


class LLValue(NamedTuple):
    """An LLVM value: a register, or a constant as text."""

    type: LLType
    text: str

    @property
    def typed(self) -> str:
        """The value as an operand that states its type: `i64 %v3`."""
        return f"{self.type.text} {self.text}"

    @property
    def is_constant(self) -> bool:
        """True if the value is a constant, and not a register."""
        return self.text[0] != "%"


_TYPES: dict[Attribute, LLType] = {}


def type_of(attribute: Attribute) -> LLType:
    """Return the LLVM type of a scalar or one-dimensional vector type of the `loops` stage."""
    found = _TYPES.get(attribute)
    if found is None:
        found = _TYPES[attribute] = _translate(attribute)
    return found


def _translate(attribute: Attribute) -> LLType:
    if isinstance(attribute, VectorType):
        shape = attribute.get_shape()
        if len(shape) == 1 and not any(attribute.get_scalable_dims()):
            return vector(type_of(attribute.element_type).element, shape[0])
    elif isinstance(attribute, IndexType):
        return I64
    elif isinstance(attribute, IntegerType):
        return scalar(f"i{attribute.bitwidth}")
    elif not isinstance(attribute, ContainerType) and (element := find_element(attribute)):
        return scalar(element.name if element.name in _FLOATS else element.llvm)
    raise InternalError(
        f"type {attribute} has no LLVM type",
        expected="index, an integer, f16, bf16, f32, f64, or a one-dimensional vector of them",
    )


def float_constant(element: str, value: float) -> str:
    """Return a float, rounded to the element's type, as LLVM's hexadecimal constant, which is
    exact."""
    if element == "f64":
        return f"0x{_bits('<d', value):016X}"
    if element == "f32":
        return f"0x{_bits('<d', round_to_f32(value)):016X}"
    if element == "f16":
        return f"0xH{_bits16('<e', value):04X}"
    return str(int(converted(np.asarray(value, np.float64), DTYPES[element])[element]))


def round_to_f32(value: float) -> float:
    """Return the nearest f32; infinity for values beyond the largest."""
    try:
        return struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return math.copysign(math.inf, value)


def int_constant(lltype: LLType, value: int) -> str:
    """Return an integer, wrapped to the bits of its type, as LLVM writes it."""
    if lltype.bits == 1:
        return "true" if value & 1 else "false"
    value &= (1 << lltype.bits) - 1
    return str(value - (1 << lltype.bits) if value >> (lltype.bits - 1) else value)


def constant(lltype: LLType, value: float) -> LLValue:
    """Return a number as a constant of a type; each lane of a vector has that number."""
    if lltype.is_float:
        text = float_constant(lltype.element, value)
    else:
        text = int_constant(lltype, int(value))
    return splat(lltype, text)


def vector_constant(lltype: LLType, values: Sequence[float]) -> LLValue:
    """Return a constant vector of floats with these numbers in its lanes."""
    texts = (f"{lltype.scalar_text} {float_constant(lltype.element, v)}" for v in values)
    return LLValue(lltype, f"<{', '.join(texts)}>")


def splat(lltype: LLType, text: str) -> LLValue:
    """Return a constant with the scalar constant ``text`` in every lane of the type."""
    return LLValue(lltype, f"splat ({lltype.scalar_text} {text})" if lltype.lanes else text)


def _bits(code: str, value: float) -> int:
    return int.from_bytes(struct.pack(code, value), "little")


def _bits16(code: str, value: float) -> int:
    try:
        return _bits(code, value)
    except OverflowError:
        return _bits(code, math.copysign(math.inf, value))


def quote(name: str) -> str:
    """Return a symbol as LLVM writes it: in quotes, because names from models may hold any
    character."""
    escaped = "".join(
        c if c.isascii() and c.isprintable() and c not in '"\\' else _escape(c) for c in name
    )
    return f'"{escaped}"'


def _escape(character: str) -> str:
    return "".join(f"\\{byte:02X}" for byte in character.encode())
