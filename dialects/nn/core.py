"""The base of all `nn` ops: construction from Python values, inference, places, evaluation.

An op is a class with operands and properties, ``infer`` (the types of its results) and an entry
of the same name in ``runtime.host.KERNELS`` (its NumPy reference semantics). Property values
convert to and from plain Python values, and the NumPy kernel takes them as keyword arguments of
the same names.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar, Self, cast

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import (
    ArrayAttr,
    BoolAttr,
    DenseArrayBase,
    Float32Type,
    FloatAttr,
    IndexType,
    IntAttr,
    IntegerAttr,
    IntegerType,
    StringAttr,
    SymbolRefAttr,
    TensorType,
    f64,
    i64,
)
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue, TypeAttribute
from xdsl.irdl import (
    IRDLOperation,
    PropertyDef,
    VerificationContext,
    opt_prop_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.assembly import (
    parse_operands,
    parse_settings,
    parse_types,
    print_operands,
    print_settings,
    print_types,
)
from tessella.dialects.elements import attribute_of, dtype_of, is_float
from tessella.dialects.place import PlaceAttr, logical, place_of, placed, verify_place
from tessella.dialects.sizes import SizeAttr, dims, size_attribute, sizes_attribute
from tessella.runtime import elements, host
from tessella.runtime.host.values import saturate
from tessella.support.conditions import UndecidedSizeError, decided
from tessella.support.decisions import decided_max, differs
from tessella.support.errors import InternalError, ShapeError
from tessella.support.sizes import Expr, Size, Symbol, bounds_of, product, symbols_of

Array = npt.NDArray[Any]
PyValue = (
    bool | Size | float | str | tuple[Size, ...] | tuple[float, ...] | np.dtype[Any] | Attribute
)
Tensor = TensorType[Attribute]


@dataclass(frozen=True)
class ByRank:
    """A default value of a property that depends on the rank of the op's first operand; ``text``
    describes it."""

    text: str
    of: Callable[[int], int | tuple[int, ...]]

    def __repr__(self) -> str:
        return self.text


Defaults = Mapping[str, PyValue | ByRank]

LAST_AXIS = ByRank("-1", lambda rank: max(rank - 1, 0))
"""A default value: the number of the last dimension of the first operand."""

_MAX_RANK = 64  # NumPy's limit
_MAX_ELEMENTS = 1 << 59  # elements of 8 bytes then fit into the address space
_MAX_SHOWN = 16
"""The maximum number of dimensions of a shape that an error message shows."""
_MOST_TYPES = 4096
"""The maximum number of cached tensor types. They are cached because xDSL verifies each new
type."""


def element_type(dtype: npt.DTypeLike) -> Attribute:
    """Return the element type of the IR for a NumPy dtype. Raises ShapeError if the IR has none."""
    element = elements.element_of(dtype)
    if element is None:
        raise ShapeError(
            f"no element type for {np.dtype(dtype).name}",
            expected=f"one of {', '.join(map(elements.dtype_name, elements.DTYPES.values()))}",
        )
    return attribute_of(element.name)


def tensor(element: Attribute, shape: Sequence[Size]) -> Tensor:
    """Return a tensor type without a place (device, precision and layout). Raises ShapeError for a
    shape that no array can have."""
    return _tensor(element, tuple(shape))


@lru_cache(_MOST_TYPES)
def _tensor(element: Attribute, shape: tuple[Size, ...]) -> Tensor:
    if len(shape) > _MAX_RANK or any(size < 0 for size in shape):
        raise ShapeError(
            "a tensor has an impossible shape",
            expected=f"at most {_MAX_RANK} dimensions, none of them negative",
            found=shown(shape),
        )
    # a size of 0 counts as 1, because NumPy limits the product of the other sizes even if the array
    # is empty
    if math.prod(bounds_of(size)[0] or 1 for size in shape) > _MAX_ELEMENTS:
        raise ShapeError(
            "a tensor is too large",
            expected=f"at most {_MAX_ELEMENTS} elements",
            found=shown(shape),
        )
    return TensorType(element, dims(shape))


def shown(shape: Sequence[Size]) -> str:
    """Format a shape for errors: `2x3`, `scalar`; a long one is truncated."""
    cut = ["..."] if len(shape) > _MAX_SHOWN else []
    return "x".join([*map(str, shape[:_MAX_SHOWN]), *cut]) or "scalar"


def type_of(array: Array) -> Tensor:
    """Return the tensor type of a NumPy array."""
    return tensor(element_type(array.dtype), array.shape)


def tensor_type(value: SSAValue | Attribute) -> Tensor:
    """Return the tensor type of a value, or the type itself. Raises InternalError for any other
    type."""
    # comparing classes is faster than isinstance, and passes call this function most
    kind = type(value)
    found = cast(SSAValue, value).type if kind is OpResult or kind is BlockArgument else value
    if type(found) is not TensorType:
        raise InternalError(f"expected a tensor, found {found}")
    return found


def shape_of(value: SSAValue | Attribute) -> tuple[Size, ...]:
    """Return the logical shape of a tensor value or tensor type."""
    return tuple([extent.data for extent in tensor_type(value).shape.data])


def _int64(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 63:
        raise ShapeError("a number does not fit into 64 bits", found=str(value))
    return value


def number(value: float, element: Attribute) -> FloatAttr | IntegerAttr:
    """Return a number as an attribute of a float, integer or `index` type. A number too large for
    the float type becomes infinite."""
    if is_float(element):
        return FloatAttr(float(saturate(value, dtype_of(element))), cast(Any, element))
    if isinstance(element, IntegerType):
        return IntegerAttr(int(value), element)
    if isinstance(element, IndexType):
        return IntegerAttr(int(value), element)
    raise InternalError(f"no number of type {element}")


def to_attribute(value: PyValue) -> Attribute:
    """Return a Python value as the value of a property. Raises ShapeError for an integer beyond 64
    bits."""
    if isinstance(value, Attribute):
        return value
    if isinstance(value, bool):
        return BoolAttr.from_bool(value)
    if isinstance(value, int):
        return IntegerAttr(_int64(value), i64)
    if isinstance(value, float):
        return FloatAttr(value, f64)
    if isinstance(value, str):
        return StringAttr(value)
    if isinstance(value, np.dtype):
        return element_type(value)
    if isinstance(value, Expr):
        return size_attribute(cast(Size, value))
    if any(isinstance(x, float) for x in value):
        return DenseArrayBase.from_list(f64, [float(x) for x in value])
    sizes = cast(Sequence[Size], value)
    return sizes_attribute([x if isinstance(x, Expr) else _int64(int(x)) for x in sizes])


def to_python(attribute: Attribute) -> Any:
    """Return the value of a property as a Python value. A type becomes its NumPy dtype."""
    match attribute:
        case IntegerAttr():
            value = attribute.value.data
            return bool(value) if attribute.type == IntegerType(1) else value
        case FloatAttr():
            return attribute.value.data
        case StringAttr() | IntAttr() | SizeAttr():
            return attribute.data
        case ArrayAttr():
            return tuple(map(to_python, attribute))
        case DenseArrayBase():
            return tuple(cast(Any, attribute).get_values())
        case SymbolRefAttr():
            return attribute.root_reference.data
        case TypeAttribute():
            return dtype_of(attribute)
        case _:
            raise InternalError(f"no Python value for the attribute {attribute}")


def _symbols_of(attribute: Attribute) -> frozenset[Symbol]:
    """Return the symbols that the value of a property depends on."""
    match attribute:
        case SizeAttr():
            return symbols_of([attribute.data])
        case ArrayAttr():
            return symbols_of(to_python(attribute))
        case _:
            return frozenset()


PIN = "pin"
"""The attribute of an op that says where, or by which kernel, it has to run."""
PICK = ("kernel", "places", "fallback")
"""The names of the properties that record which kernel was picked for an op. All other properties
are the op's settings."""


class NnOp(IRDLOperation):
    """Base of all ops of the `nn` dialect.

    ``%y = nn.softmax %x axis 1 {node = "softmax1"} : tensor<2x4xf32>``

    Settings are the properties that define the computation; the text omits settings with their
    default value. The properties of ``PICK`` record how the op is computed, once its kernel is
    picked: ``kernel`` (the kernel's name), ``places`` (the device, element type and layout of each
    operand, then of each result) until the types carry the places, and ``fallback`` if the kernel
    runs at none of the requested places. The text has the properties of ``PICK`` in the attribute
    dictionary, with the discardable attribute ``node`` (the name of the node that the op came
    from).
    """

    RESULTS: ClassVar[int] = 1
    DEFAULTS: ClassVar[Defaults] = {}
    """The default values of the properties that users and the text of the IR may omit. They are
    ONNX's default values if ONNX has the op.

    In memory, an op has all of its properties.
    """
    TRANSPOSES: ClassVar[str | None] = None
    """The name of the property that makes the op read its second operand transposed; None if it has
    none."""
    LEADING: ClassVar[str | None] = None
    """The name of the property that the text of the IR prints first, without its name; None if
    there is none."""

    picked_kernel = opt_prop_def(StringAttr, prop_name="kernel")
    picked_places = opt_prop_def(ArrayAttr[PlaceAttr], prop_name="places")
    picked_fallback = opt_prop_def(StringAttr, prop_name="fallback")

    @abstractmethod
    def infer(self) -> Sequence[Tensor]:
        """Return the types of the results, without places, inferred from the types of the operands
        and from the properties.

        Raises ShapeError if operands and properties do not match.
        """

    @classmethod
    def make(
        cls,
        operands: Sequence[SSAValue | Operation],
        *,
        node: str | None = None,
        **properties: PyValue | None,
    ) -> Self:
        """Return an op with inferred result types. Properties that are None are omitted.

        Raises ShapeError if operands and properties do not match.
        """
        attributes = {k: to_attribute(v) for k, v in properties.items() if v is not None}
        unknown = attributes.keys() - cls.setting_defs().keys()
        if unknown:
            raise InternalError(f"{cls.name} has no property {', '.join(sorted(unknown))}")
        for name, value in attributes.items():
            if isinstance(value, SizeAttr | ArrayAttr):
                cls._check_size(name, value)
        op = cls.create(
            operands=[SSAValue.get(value) for value in operands],
            result_types=[tensor(Float32Type(), [])] * cls.RESULTS,
            properties=attributes,
            attributes={"node": StringAttr(node)} if node else {},
        )
        try:
            op.infer_types()
        except (ShapeError, UndecidedSizeError):
            op.drop_all_references()
            raise
        return op

    @classmethod
    def setting_defs(cls) -> Mapping[str, PropertyDef]:
        """Return the definitions of the op's settings, by name."""
        properties = cls.get_irdl_definition().properties
        return {name: found for name, found in properties.items() if name not in PICK}

    @classmethod
    def _check_size(cls, name: str, value: SizeAttr | ArrayAttr) -> None:
        """Raise UndecidedSizeError if the value of a property is symbolic and the definition of the
        property requires numbers."""
        try:
            cls.setting_defs()[name].constr.verify(value, VerificationContext())
        except VerifyException as error:
            names = (symbol.name for symbol in _symbols_of(value))
            raise UndecidedSizeError(f"{cls.name}: {name} has to be a number", names) from error

    @classmethod
    def defaults(cls, rank: int) -> dict[str, Attribute]:
        """Return the default values of properties, for a first operand of this rank."""
        return {
            name: to_attribute(value.of(rank) if isinstance(value, ByRank) else value)
            for name, value in cls.DEFAULTS.items()
        }

    def print(self, printer: Printer) -> None:
        defaults = self._defaults_of(self.operands)
        given = self.properties
        order = self.setting_defs()
        shown = {k: given[k] for k in order if k in given and given[k] != defaults.get(k)}
        if self.LEADING is not None and self.LEADING in shown:
            printer.print_string(" ")
            printer.print_attribute(shown.pop(self.LEADING))
        print_operands(printer, self.operands)
        rest = print_settings(printer, shown)
        pick = {k: given[k] for k in PICK if k in given}
        printer.print_op_attributes({**rest, **self.attributes, **pick})
        print_types(printer, self.result_types)

    @classmethod
    def parse(cls, parser: Parser) -> Self:
        known = cls.get_irdl_definition().properties
        leading = {} if cls.LEADING is None else {cls.LEADING: parser.parse_attribute()}
        operands = parse_operands(parser)
        properties = {**leading, **parse_settings(parser, cls.setting_defs())}
        attributes = parser.parse_optional_attr_dict()
        properties |= {k: attributes.pop(k) for k in list(attributes) if k in known}
        return cls.create(
            operands=operands,
            result_types=parse_types(parser),
            properties={**cls._defaults_of(operands), **properties},
            attributes=attributes,
        )

    @classmethod
    def _defaults_of(cls, operands: Sequence[SSAValue]) -> dict[str, Attribute]:
        """Return the default values of properties for these operands; an empty dictionary if the
        first operand is not a tensor."""
        first = operands[0].type if operands else None
        return cls.defaults(first.get_num_dims()) if isinstance(first, TensorType) else {}

    def infer_types(self) -> None:
        """Set the types of the results to the inferred types. A result keeps its place."""
        for old, new in zip(tuple(self.results), self.infer(), strict=True):
            place = place_of(old.type)
            wanted = TensorType(new.element_type, dims(shape_of(new)), place) if place else new
            if old.type != wanted:
                Rewriter.replace_value_with_new_type(old, wanted)

    def place_results(self, places: Sequence[PlaceAttr]) -> None:
        """Set the places in the types of the results, and clear the property ``places``, which the
        types now make redundant."""
        for result, place in zip(self.results, places, strict=True):
            Rewriter.replace_value_with_new_type(result, placed(tensor_type(result), place))
        self.picked_places = None

    @property
    def contracted(self) -> Mapping[int, int]:
        """The dimension over which the op sums products, for each operand by its number; empty if
        the op does not sum products."""
        return {}

    @property
    def channels(self) -> Mapping[int, int]:
        """The channel dimension of each operand by its number, and of the result by the number -1;
        empty unless the op computes all channels in the same way.

        The time of the op is then proportional to the number of channels.
        """
        return {}

    @property
    def operations(self) -> Size:
        """The number of scalar operations, for cost estimates. By default, one operation for each
        element of the largest tensor."""
        return decided_max(*(product(shape_of(value)) for value in (*self.operands, *self.results)))

    @property
    def host_bytes(self) -> Size:
        """The bytes that the NumPy kernel allocates beyond operands and results, plus a weight in
        bytes for its multiplications and the iterations of its Python loops (`host_work.py`)."""
        return 0

    @property
    def settings(self) -> dict[str, Any]:
        """The settings as Python values, by name."""
        return {name: to_python(value) for name, value in self.setting_properties.items()}

    @property
    def setting_properties(self) -> dict[str, Attribute]:
        """The settings as attributes, by name."""
        return {name: value for name, value in self.properties.items() if name not in PICK}

    @property
    def symbols(self) -> frozenset[Symbol]:
        """The symbols that the op's types and properties depend on."""
        values = (*self.operands, *self.results)
        found = symbols_of(size for value in values for size in shape_of(value))
        return found.union(*map(_symbols_of, self.setting_properties.values()))

    def simplified(self) -> SSAValue | Sequence[NnOp] | None:
        """Return a cheaper replacement for the op that computes the same bits: an existing value,
        or new ops with the last op computing the result. None if there is none.

        Callers do not use a replacement of another type.
        """
        return None

    def evaluate(self, *arrays: Array | None) -> list[Array]:
        """Return the results for concrete operands, computed by the op's NumPy kernel."""
        return host.run(self.name, arrays, self.settings, list(map(dtype_of, self.result_types)))

    @property
    def node(self) -> str:
        """The name of the node that this op came from, or the op's own name."""
        attribute = self.attributes.get("node")
        return attribute.data if isinstance(attribute, StringAttr) else self.name

    @property
    def kernel(self) -> str | None:
        """The name of the picked kernel; None if none was picked."""
        return None if self.picked_kernel is None else self.picked_kernel.data

    @property
    def is_fixed(self) -> bool:
        """True if the op names a kernel, or has a pin that restricts where or by which kernel it
        runs. Passes then leave it as it is until kernels are picked."""
        return self.kernel is not None or PIN in self.attributes

    @property
    def places(self) -> tuple[PlaceAttr, ...] | None:
        """The places (device, element type and layout) that the picked kernel requires: one for
        each operand, then one for each result. None if there are none yet.

        The property ``picked_places`` holds them until the types of the values carry them.
        """
        if self.picked_places is not None:
            return self.picked_places.data
        values = (*self.operands, *self.results)
        found = [place for value in values if (place := place_of(value.type)) is not None]
        return tuple(found) if self.kernel is not None and len(found) == len(values) else None

    @property
    def fallback(self) -> str | None:
        """How the picked kernel deviates if it runs at none of the requested places: `layout`
        (another memory layout), `fields` (other device-defined parts of the place, such as a memory
        space), or the name of the device that it runs on. None if it runs at a requested place."""
        return None if self.picked_fallback is None else self.picked_fallback.data

    def pick(self, kernel: str, places: Sequence[PlaceAttr], fallback: str | None = None) -> None:
        """Record the picked kernel, the places of its operands and results, and the kind of
        fallback if it is one."""
        self.picked_kernel = StringAttr(kernel)
        self.picked_places = ArrayAttr(places)
        self.picked_fallback = None if fallback is None else StringAttr(fallback)

    def verify_(self) -> None:
        self._verify_places()
        self._verify_types()

    def _verify_types(self) -> None:
        for operand in self.operands:
            if any(decided(size < 0) for size in shape_of(operand)):
                raise VerifyException(
                    f"{self.name} ({self.node}): expected static shapes, found {operand.type}"
                )
        try:
            inferred = self.infer()
        except ShapeError as error:
            raise VerifyException(f"{self.name} ({self.node}): {error}") from error
        for i, (result, expected) in enumerate(zip(self.results, inferred, strict=True)):
            found = logical(tensor_type(result))
            if found != expected:
                raise VerifyException(
                    f"{self.name} ({self.node}): result {i}: expected {expected}, found {found}"
                )

    def _verify_places(self) -> None:
        wanted = self.places
        if wanted is None:
            return
        values = (*self.operands, *self.results)
        if len(wanted) != len(values):
            raise VerifyException(
                f"{self.name} ({self.node}): expected {len(values)} places, one for each operand "
                f"and result, found {len(wanted)}"
            )
        found = [place_of(value.type) for value in values]
        if not any(found):
            return  # a kernel was picked, but the values have no places yet
        for i, (value, place, at) in enumerate(zip(values, wanted, found, strict=True)):
            verify_place(value.type)
            if at is None or not place.accepts(at):
                count = len(self.operands)
                which = f"operand {i}" if i < count else f"result {i - count}"
                raise VerifyException(
                    f"{self.name} ({self.node}): {which} ({_described(value)}): the kernel "
                    f"{self.kernel} wants {place}, found {at or 'no place'}"
                )


def _described(value: SSAValue) -> str:
    """Return a description of a value for errors: its name, or the name of the op that
    produces it."""
    owner = value.owner
    maker = f"from {owner.name}" if isinstance(owner, Operation) else "a block's argument"
    return f"%{value.name_hint}" if value.name_hint else maker


def broadcast_shapes(
    shapes: Mapping[str, Sequence[Size]] | Sequence[Sequence[Size]],
) -> tuple[Size, ...]:
    """Return the NumPy broadcast of shapes.

    Raises ShapeError if they do not broadcast, and UndecidedSizeError if that depends on symbols'
    values.
    """
    values = list(shapes.values()) if isinstance(shapes, Mapping) else list(shapes)
    rank = max((len(s) for s in values), default=0)
    result: list[Size] = []
    for axis in range(rank):
        extents = {s[axis - rank + len(s)] for s in values if axis - rank + len(s) >= 0} - {1}
        if len(extents) > 1:
            for a, b in pairwise((1, *extents)):
                differs(a, b)
            raise ShapeError(
                "shapes do not broadcast",
                found=" and ".join(map(shown, values)),
                expected="equal sizes, or 1, in each dimension counted from the last",
            )
        result.append(extents.pop() if extents else 1)
    return tuple(result)


def shapes_differ(a: Sequence[Size], b: Sequence[Size]) -> bool:
    """Return whether two shapes differ. Raises UndecidedSizeError if that depends on symbols'
    values."""
    return len(a) != len(b) or any(differs(x, y) for x, y in zip(a, b, strict=True))


def normalise_axis(axis: int, rank: int) -> int:
    """Return the number of an axis counted from the front; a negative ``axis`` counts from the
    back. Raises ShapeError if it is out of range."""
    if not -rank <= axis < max(rank, 1):
        raise ShapeError(
            "an axis is out of range", expected=f"in [-{rank}, {rank})", found=str(axis)
        )
    return axis % rank if rank else 0
