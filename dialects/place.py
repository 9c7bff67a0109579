"""The `place` dialect: where a tensor lives, and the conversions between places.

`#place.at<x86, f32, nhwc>` is the encoding of a tensor type; the type's shape stays logical. A
device may define further fields of its places: `#place.at<acme, f32, nhwc, {memory = "local"}>`.

    %1 = place.relayout %0 : tensor<1x3x8x8xf32, #place.at<x86, f32, nchw>>
      -> tensor<1x3x8x8xf32, #place.at<x86, f32, nhwc>>
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from html import escape
from typing import ClassVar

from xdsl.context import Context
from xdsl.dialects.builtin import DictionaryAttr, NoneAttr, StringAttr, TensorType, UnitAttr
from xdsl.ir import Attribute, Data, Dialect, ParametrizedAttribute, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    base,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    param_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import ParseError, VerifyException

from tessella.dialects.elements import attribute_of, element_of, find_element
from tessella.dialects.layout import (
    ANY_LAYOUT,
    IMAGE,
    NCHW,
    SPARSE,
    Layout,
    Piece,
    is_layout_name,
    layout_words,
    unknown_layout,
)
from tessella.runtime.devices import Fields, device_names, emits, fields_of, kind_of
from tessella.support.elements import ELEMENTS
from tessella.support.errors import OptionError
from tessella.targets.table import FAMILIES

PRECISIONS = (*ELEMENTS, "any")
_ANY = StringAttr("any")


def known_devices() -> tuple[str, ...]:
    """Return the names that a place may give for a device: CPUs, registered devices, `host`,
    `any`."""
    return ("host", *FAMILIES, *device_names(), "any")


def is_device(name: str) -> bool:
    """Return whether a place may name this device. A device other than the CPU may have a number
    from 1 on, as in ``opencl:1``; the device without a number is number 0."""
    kind, colon, number = name.partition(":")
    if not colon:
        return kind in known_devices()
    is_number = number.isascii() and number.isdecimal() and number[0] != "0"
    return kind in device_names() and is_number


def is_apart(name: str) -> bool:
    """Return whether a device has its own memory. The host and CPUs share one memory."""
    return name not in ("host", *FAMILIES, "any")


@irdl_attr_definition
class LayoutAttr(Data[Layout]):
    """A layout within a place: `nchw`, `nhwc`, `nchw16c`, `any`, `packed<[0 floordiv 32, 1, 0 mod
    32]>`."""

    name = "place.layout"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Layout:
        name = parser.parse_identifier(" a layout")
        if not is_layout_name(name):
            parser.raise_error(
                f"expected a layout ({layout_words()}), found {unknown_layout(name)}"
            )
        if name != "packed":
            return Layout(name)
        with parser.in_angle_brackets():
            pieces = parser.parse_comma_separated_list(
                parser.Delimiter.SQUARE, lambda: _parse_piece(parser)
            )
        if not pieces:
            parser.raise_error("expected the pieces of a packed layout")
        return Layout("packed", tuple(pieces))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(str(self.data))


def _parse_piece(parser: AttrParser) -> Piece:
    dim = parser.parse_integer(allow_negative=False)
    div = _parse_divisor(parser) if parser.parse_optional_keyword("floordiv") else 1
    mod = _parse_divisor(parser) if parser.parse_optional_keyword("mod") else 0
    return Piece(dim, div, mod)


def _parse_divisor(parser: AttrParser) -> int:
    divisor = parser.parse_integer(allow_negative=False)
    if divisor < 1:
        parser.raise_error("expected a divisor of at least 1")
    return divisor


@irdl_attr_definition
class PlaceAttr(ParametrizedAttribute):
    """The location of a tensor: device, precision, layout, and the fields that the device defines,
    `#place.at<x86, f32, nhwc>`. A field that a place does not name is `any`."""

    name = "place.at"

    device: StringAttr = param_def()
    precision: StringAttr = param_def()
    layout_attr: LayoutAttr = param_def()
    named_fields: DictionaryAttr = param_def()

    @classmethod
    def get(
        cls,
        device: str,
        precision: str,
        layout: Layout = ANY_LAYOUT,
        fields: Fields | None = None,
    ) -> PlaceAttr:
        """Return the place with these parts, from a cache. ``fields`` are sorted; None stands for
        the default of each field of the device."""
        return _place(device, precision, layout, _defaults(device) if fields is None else fields)

    @property
    def layout(self) -> Layout:
        return self.layout_attr.data

    @property
    def fields(self) -> Fields:
        """The values of the fields that the place names."""
        return fields_in(self.named_fields) if self.named_fields.data else ()

    @property
    def with_defaults(self) -> PlaceAttr:
        """This place, with the default of each field that it does not name."""
        own = PlaceAttr.get(self.device.data, self.precision.data, self.layout)
        return self.resolved(own)

    def replaced(self, *, precision: str = "", layout: Layout | None = None) -> PlaceAttr:
        """Return the place with another precision or layout."""
        return PlaceAttr.get(
            self.device.data,
            precision or self.precision.data,
            self.layout if layout is None else layout,
            self.fields,
        )

    def permits_fields(self, other: PlaceAttr) -> bool:
        """Return whether all fields of this place, such as ``memory``, have the same values in the
        other place, at the same device."""
        return set(self.fields) <= set(other.fields)

    def accepts(self, other: PlaceAttr) -> bool:
        """Return whether the other place matches this one. A part that is `any` here matches
        all."""
        return self == other or self.resolved(other) == other

    def resolved(self, other: PlaceAttr) -> PlaceAttr:
        """Return this place, with `any` parts taken from the other."""
        return PlaceAttr.get(
            other.device.data if self.device.data == "any" else self.device.data,
            other.precision.data if self.precision.data == "any" else self.precision.data,
            other.layout if self.layout == ANY_LAYOUT else self.layout,
            self._fields_resolved(other),
        )

    def _fields_resolved(self, other: PlaceAttr) -> Fields:
        """Return the fields of this place, with the missing ones taken from the other. A place at
        another device has none of them, so that they are the defaults."""
        at, elsewhere = self.device.data, other.device.data
        if elsewhere == "any":
            return self.fields
        known = other.fields if at in ("any", elsewhere) else _defaults(at)
        return tuple(sorted({**dict(known), **dict(self.fields)}.items()))

    @classmethod
    def parse_parameters(cls, parser: AttrParser) -> Sequence[Attribute]:
        with parser.in_angle_brackets():
            device = parser.parse_identifier(" a device")
            if parser.parse_optional_punctuation(":") is not None:
                device += f":{parser.parse_integer(allow_boolean=False, allow_negative=False)}"
            parser.parse_punctuation(",")
            precision = parser.parse_identifier(" a precision")
            parser.parse_punctuation(",")
            layout = LayoutAttr(LayoutAttr.parse_parameter(parser))
            fields = dict[str, Attribute]()
            if parser.parse_optional_punctuation(","):
                fields = parser.parse_optional_dictionary_attr_dict()
        named = {name: value for name, value in sorted(fields.items()) if value != _ANY}
        return StringAttr(device), StringAttr(precision), layout, DictionaryAttr(named)

    def print_parameters(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.device.data}, {self.precision.data}, {self.layout}")
            if self.named_fields.data:
                printer.print_string(", ")
                printer.print_attribute(self.named_fields)

    def verify(self) -> None:
        if not is_device(self.device.data):
            raise VerifyException(
                f"expected a device ({', '.join(known_devices())}), found {self.device.data!r}"
            )
        if self.precision.data not in PRECISIONS:
            raise VerifyException(
                f"expected a precision ({', '.join(PRECISIONS)}), found {self.precision.data!r}"
            )
        if len(self.fields) < len(self.named_fields.data):
            raise VerifyException(
                f"expected strings as the fields of a place, found {self.named_fields}"
            )
        wrong = unknown_field(self.device.data, map("=".join, self.fields))
        if wrong is not None:
            raise VerifyException(f"expected {wrong[1]}, found {wrong[0]!r}")

    def __str__(self) -> str:
        fields = ("=".join(field) for field in self.fields)
        return "/".join((self.device.data, self.precision.data, str(self.layout), *fields))

    def _repr_html_(self) -> str:
        """Return the text as HTML, which notebooks show."""
        return f"<code>{escape(str(self))}</code>"


@lru_cache(maxsize=1024)
def _place(device: str, precision: str, layout: Layout, fields: Fields) -> PlaceAttr:
    named = DictionaryAttr({name: StringAttr(value) for name, value in fields if value != "any"})
    return PlaceAttr(StringAttr(device), StringAttr(precision), LayoutAttr(layout), named)


def fields_in(named: DictionaryAttr | None) -> Fields:
    """Return the fields of a place that an attribute holds, as pairs of name and value; none
    without an attribute."""
    found = () if named is None else named.data.items()
    return tuple((name, value.data) for name, value in found if isinstance(value, StringAttr))


def _defaults(device: str) -> Fields:
    """Return the default of each field of a device, sorted by name."""
    if not is_apart(device):
        return ()
    return tuple(sorted((name, field.default) for name, field in fields_of(device).items()))


def unknown_field(device: str, texts: Iterable[str]) -> tuple[str, str] | None:
    """Return the first of ``texts`` that is not a valid ``name=value`` of a field of the device's
    places, with a description of the valid ones; None if all texts are valid."""
    found = fields_of(device).items()
    known = [f"{name}={value}" for name, each in found for value in (*each.values, "any")]
    wrong = next((text for text in texts if text not in known), None)
    if wrong is None:
        return None
    return wrong, f"one of {', '.join(known)}" if known else f"no field: {device} defines none"


def parse_place(text: str) -> PlaceAttr:
    """Parse a place in users' syntax: ``x86/f32/nhwc``. Omitted parts are ``any``.

    A layout is ``nchw``, ``nhwc``, ``nchw16c`` (or another block), ``image``, ``any``, or the
    digits of an order: ``packed<[0 floordiv 4, 1, 0 mod 4]>``. The fields that a device defines
    follow by name: ``acme/f32/nhwc/memory=local``. Raises OptionError for an unknown device,
    precision, layout or field.
    """
    if not isinstance(text, str):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise OptionError(
            "a place is a text",
            expected="device/precision/layout, such as 'x86/f32/nhwc'",
            found=f"{text!r} of type {type(text).__name__}",
        )
    first, *others = text.split("/")
    is_first = first.endswith(":0") and kind_of(first) in device_names()
    parts = [kind_of(first) if is_first else first, *others]
    count = next((i for i, part in enumerate(parts) if i and "=" in part), len(parts))
    parts, fields = parts[:count], parts[count:]
    if len(parts) > 3:
        raise OptionError(
            "a place has too many parts", expected="device/precision/layout", found=repr(text)
        )
    known = ((is_device, known_devices()), (PRECISIONS.__contains__, PRECISIONS))
    for part, (is_known, names) in zip(parts, known, strict=False):
        if not is_known(part):
            raise OptionError(
                f"unknown part {part!r} in the place {text!r}",
                expected=f"one of {', '.join(names)}",
            )
    device, precision, layout = (*parts, "any", "any")[:3]
    order = _parse_layout(layout, text)
    return PlaceAttr.get(device, precision, order, _parsed_fields(device, fields, text))


def _parsed_fields(device: str, texts: Sequence[str], place: str) -> Fields:
    """Return the fields that a place names. Raises OptionError for an unknown field or value, and
    for a field that is named twice."""
    wrong = unknown_field(device, texts)
    if wrong is not None:
        part, expected = wrong
        raise OptionError(f"unknown part {part!r} in the place {place!r}", expected=expected)
    given = {name: value for name, _, value in (text.partition("=") for text in texts)}
    if len(given) < len(texts):
        raise OptionError(
            "a place names a field twice", expected="one value of each field", found=repr(place)
        )
    return tuple(sorted(given.items()))


@lru_cache(256)
def _parse_layout(text: str, place: str) -> Layout:
    try:
        layout = LayoutAttr.parse_parameter(Parser(Context(), text))
    except ParseError:
        layout = None
    if layout is None or "".join(str(layout).split()) != "".join(text.split()):
        raise OptionError(
            f"unknown part {text!r} in the place {place!r}",
            expected=f"one of {layout_words()}",
            found=unknown_layout(text),
            hint="convert a sparse array to a dense one" if text in SPARSE else None,
        )
    rank = max((piece.dim + 1 for piece in layout.pieces), default=0)
    if layout.pieces and not layout.is_order(rank):
        raise OptionError(
            f"the layout of the place {place!r} is not a memory order",
            expected="digits that spell the index of each dimension, "
            "such as packed<[0 floordiv 4, 1, 0 mod 4]>",
        )
    return layout


def precision_of(element_type: Attribute) -> str:
    """Return the name of the precision of tensors with this element type, such as ``f32``, ``u8``
    or ``bool``."""
    return element_of(element_type).name


def place_of(type: Attribute) -> PlaceAttr | None:
    """Return the place of a tensor type; None if the type has no place yet, or is not a tensor
    type."""
    if isinstance(type, TensorType) and isinstance(type.encoding, PlaceAttr):
        return type.encoding
    return None


@lru_cache(maxsize=1024)
def placed(type: TensorType, place: PlaceAttr) -> TensorType:
    """Return the tensor type at a place. Its element type is that of the place's precision, or is
    unchanged if the precision is ``any``."""
    precision = place.precision.data
    element = type.element_type if precision == "any" else attribute_of(precision)
    return TensorType(element, type.shape, place)


def verify_place(type: Attribute) -> None:
    """Raise VerifyException if the element type of a tensor type differs from the precision of its
    place, or if the place has no value for a field that its device defines. The precision `any`
    permits every element type."""
    place = place_of(type)
    if place is None:
        return
    assert isinstance(type, TensorType)
    element = find_element(type)
    if element is None or place.precision.data not in (element.name, "any"):
        raise VerifyException(
            f"expected elements of the place's precision {place.precision.data}, found {type}"
        )
    if is_apart(place.device.data) and place != place.with_defaults:
        names = ", ".join(fields_of(place.device.data))
        raise VerifyException(f"expected a value of each field ({names}), found {type}")


def logical(type: TensorType) -> TensorType:
    """Return a tensor type without its place."""
    if isinstance(type.encoding, NoneAttr):
        return type
    return TensorType(type.element_type, type.shape)


class _Conversion(IRDLOperation):
    """Base of the ops that move a tensor to another place. Each op changes one part of the place,
    ``CHANGES``, and keeps the shape. The fields of a place count as a part of its device."""

    source = operand_def(base(TensorType))
    res = result_def(base(TensorType))
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($res)"

    CHANGES: ClassVar[str] = ""

    def __init__(self, source: SSAValue, to: PlaceAttr) -> None:
        assert isinstance(source.type, TensorType)
        super().__init__(operands=[source], result_types=[placed(source.type, to)])

    def verify_(self) -> None:
        source, res = self.source.type, self.res.type
        assert isinstance(source, TensorType)
        assert isinstance(res, TensorType)
        if source.shape != res.shape:
            raise VerifyException(
                f"{self.name}: expected the shape {source.get_shape()}, found {res.get_shape()}"
            )
        verify_place(source)
        verify_place(res)
        start, end = place_of(source), place_of(res)
        if start is None or end is None:
            raise VerifyException(
                f"{self.name}: expected tensors with a place, found {source}, {res}"
            )
        changed = {
            "device": (start.device, start.fields) != (end.device, end.fields),
            "precision": start.precision != end.precision,
            "layout": start.layout != end.layout,
        }
        wrong = [part for part, differs in changed.items() if differs != (part == self.CHANGES)]
        if wrong:
            raise VerifyException(
                f"{self.name} changes the {self.CHANGES} alone: from {start} to {end} "
                f"the {wrong[0]} {'differs' if changed[wrong[0]] else 'stays'}"
            )


@irdl_op_definition
class CopyOp(_Conversion):
    """A copy of a tensor to the memory of another device, or to a place on the same device with
    other fields (such as another memory space). With `once`, the tensor is a constant, and one copy
    serves all calls of the program."""

    name = "place.copy"
    CHANGES: ClassVar[str] = "device"
    assembly_format = "(`once` $once^)? $source attr-dict `:` type($source) `->` type($res)"

    once = opt_prop_def(UnitAttr)


@irdl_op_definition
class CastOp(_Conversion):
    """A conversion of a tensor to another precision. Its elements are converted as `nn.cast`
    does."""

    name = "place.cast"
    CHANGES: ClassVar[str] = "precision"


@irdl_op_definition
class RelayoutOp(_Conversion):
    """A conversion of a tensor to another layout."""

    name = "place.relayout"
    CHANGES: ClassVar[str] = "layout"


Step = tuple[type[CopyOp | CastOp | RelayoutOp], PlaceAttr]
"""The class of a conversion op, and the place that the conversion leads to."""


def conversion_steps(start: PlaceAttr, end: PlaceAttr) -> tuple[Step, ...]:
    """Return the conversions from one place to another, in the order in which they run; empty
    between equal places.

    The host and devices without generated kernels can only copy, so conversions of precision and
    layout run on the other device. A value is narrowed before it is copied or relaid out, and
    widened afterwards. Textures stay on their device: two devices exchange row-major memory, with
    the default of each field.
    """
    return _steps(start, end)


@lru_cache(maxsize=1024)
def _steps(start: PlaceAttr, end: PlaceAttr) -> tuple[Step, ...]:
    if start.device == end.device:
        return tuple(_on_one_device(start, end.resolved(start)))
    precision, layout = _in_transit(start, end)
    here = PlaceAttr.get(start.device.data, precision, layout)
    there = PlaceAttr.get(end.device.data, precision, layout)
    arrived = _on_one_device(there, end.resolved(there))
    return (*_on_one_device(start, here), (CopyOp, there), *arrived)


def _on_one_device(start: PlaceAttr, end: PlaceAttr) -> Iterator[Step]:
    narrow = min(start.precision.data, end.precision.data, key=_bits)
    device, place = start.device.data, start
    # blocks that do not nest share no digits: the intermediate layout is row-major
    orders = [end.layout] if start.layout.nests(end.layout) else [NCHW, end.layout]
    converts = (start.precision, start.layout) != (end.precision, end.layout)
    # kernels convert tensors with the default of each field
    fields = _defaults(device) if converts else end.fields
    for kind, step in (
        (CopyOp, PlaceAttr.get(device, start.precision.data, start.layout, fields)),
        (CastOp, PlaceAttr.get(device, narrow, start.layout, fields)),
        *((RelayoutOp, PlaceAttr.get(device, narrow, order, fields)) for order in orders),
        (CastOp, PlaceAttr.get(device, end.precision.data, end.layout, fields)),
        (CopyOp, end),
    ):
        if step != place:
            yield kind, step
        place = step


def _bits(precision: str) -> int:
    return ELEMENTS[precision].bits


def _converts(name: str) -> bool:
    """Return whether a device has code for conversions of precision and layout."""
    return name in FAMILIES or emits(name)


def _in_transit(start: PlaceAttr, end: PlaceAttr) -> tuple[str, Layout]:
    """Return the precision and layout in which a value is copied between devices."""
    for place in (start, end):
        if not _converts(place.device.data):
            return place.precision.data, place.layout
    narrow = min(start.precision.data, end.precision.data, key=_bits)
    alike = start.layout == end.layout and start.layout != IMAGE
    return narrow, start.layout if alike else NCHW


Place = Dialect("place", [CopyOp, CastOp, RelayoutOp], [LayoutAttr, PlaceAttr])
