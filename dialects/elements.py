"""The table of element types in the IR: the type attribute of each ``Element``."""

from __future__ import annotations

from typing import Any, cast, get_args

import numpy as np
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    IntegerType,
    MemRefType,
    Signedness,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, ParametrizedAttribute, TypeAttribute
from xdsl.irdl import irdl_attr_definition, param_def

from tessella.runtime.elements import DTYPES
from tessella.support.elements import ELEMENTS, Element
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product


@irdl_attr_definition
class StringType(ParametrizedAttribute, TypeAttribute):
    """The type of a string."""

    name = "nn.string"


@irdl_attr_definition
class NamedElementType(ParametrizedAttribute, TypeAttribute):
    """An element type that MLIR lacks, `!nn.element<"acme4">`."""

    name = "nn.element"

    element: StringAttr = param_def()


_FLOATS: dict[str, Attribute] = {kind.name: kind() for kind in get_args(AnyFloat)}


def _attribute(element: Element) -> Attribute:
    match element.kind:
        case "float":
            return _FLOATS.get(element.name) or _named(element)
        case "signed" if element.name == f"i{element.bits}":
            return IntegerType(element.bits)
        case "unsigned" if element.name == f"u{element.bits}":
            return IntegerType(element.bits, Signedness.UNSIGNED)
        case "boolean":
            return IntegerType(1)
        case "complex":
            return ComplexType(cast(AnyFloat, _FLOATS[f"f{element.bits // 2}"]))
        case "string":
            return StringType()
        case _:
            return _named(element)


def _named(element: Element) -> Attribute:
    return NamedElementType(StringAttr(element.name))


_ATTRIBUTES = {name: _attribute(element) for name, element in ELEMENTS.items()}
_BY_ATTRIBUTE = {attribute: ELEMENTS[name] for name, attribute in _ATTRIBUTES.items()}


def attribute_of(name: str) -> Attribute:
    """Return the type attribute of the element type called ``name``."""
    return _ATTRIBUTES[name]


def find_element(type: Attribute) -> Element | None:
    """Return the ``Element`` that describes a scalar type, or the element type of a shaped type;
    None for any other type."""
    kind = type.__class__  # faster than isinstance, which would be most of a pass's calls
    is_shaped = kind is TensorType or kind is MemRefType
    return _BY_ATTRIBUTE.get(cast(TensorType, type).element_type if is_shaped else type)


def element_of(type: Attribute) -> Element:
    """Return the ``Element`` that describes a scalar type, or the element type of a shaped type.
    Raises ShapeError if there is none."""
    found = find_element(type)
    if found is None:
        raise ShapeError(f"no tensor is made of {type}", expected=f"one of {', '.join(ELEMENTS)}")
    return found


def dtype_of(type: Attribute) -> np.dtype[Any]:
    """Return the NumPy dtype of an element type, or of the element type of a shaped type. Raises
    ShapeError if ``ELEMENTS`` does not list the type."""
    return DTYPES[element_of(type).name]


def elements_in(type: TensorType | MemRefType) -> Size:
    """Return the number of elements of a shaped type."""
    return product([extent.data for extent in type.shape.data])


def bytes_of(type: TensorType | MemRefType) -> Size:
    """Return the bytes that the elements of a shaped type take in memory."""
    return element_of(type).bytes(elements_in(type))


def is_float(type: Attribute) -> bool:
    """Return whether a type is a floating-point element type."""
    found = find_element(type)
    return found is not None and found.is_float


def part_of(type: Attribute) -> Attribute:
    """Return the element type of the real and imaginary parts of a complex element type, and any
    other type unchanged."""
    return type.element_type if isinstance(type, ComplexType) else type


def complex_of(type: Attribute) -> Attribute | None:
    """Return the complex element type with real and imaginary parts of the given type; None if
    there is none."""
    made = (other for other in _BY_ATTRIBUTE if isinstance(other, ComplexType))
    return next((other for other in made if other.element_type == type), None)


def is_unsigned(type: Attribute) -> bool:
    """Return whether a type is an unsigned integer type."""
    found = find_element(type)
    return found is not None and found.kind == "unsigned"
