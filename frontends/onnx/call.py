"""A converter's view of one node: its operands as `nn` values, its attributes, and an emitter."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NoReturn

import numpy as np

from tessella.dialects import nn
from tessella.dialects.nn.core import PyValue
from tessella.dialects.nn.evaluate_sizes import holds_sizes
from tessella.dialects.sizes import is_static
from tessella.frontends.emitter import Value, where
from tessella.frontends.onnx.build import (
    Array,
    Builder,
    read_by,
)
from tessella.frontends.onnx.cut import CutError
from tessella.frontends.onnx.held import Held, Known
from tessella.frontends.onnx.model import Node, NodeGraph, Tensor
from tessella.runtime.elements import widened
from tessella.runtime.host import run
from tessella.support.conditions import UndecidedSizeError
from tessella.support.decisions import known, known_all
from tessella.support.errors import (
    InvalidModelError,
    ShapeError,
    UnknownValueError,
    Unsupported,
    UnsupportedError,
)
from tessella.support.sizes import Size


def front_axis(axis: int, rank: int) -> int:
    """Return a nonnegative axis for one that may count from the back. Raises ShapeError for an axis
    out of range."""
    if not -rank <= axis < rank:
        raise ShapeError(
            "an axis is out of range", expected=f"in [-{rank}, {rank})", found=f"{axis}"
        )
    return axis % rank


@dataclass(frozen=True, eq=False)
class Call:
    """A node that is being converted."""

    node: Node
    inputs: tuple[Known | None, ...]
    """The operands; None for an absent one."""
    build: Builder
    defaults: Mapping[str, Any]
    input_names: Sequence[str]
    """The argument names of the function under construction."""
    branch: Callable[[NodeGraph, Sequence[Known]], list[Known | None]]
    """A function that emits the nodes of a graph attribute at the current position.

    It takes the values of the graph's inputs, and returns those of its outputs. Raises
    InvalidModelError.
    """
    _read: set[str] = field(default_factory=set[str])
    """The attributes that the converter has read."""

    # operands

    @property
    def x(self) -> Value:
        """The first operand."""
        return self.operand(0)

    def optional(self, index: int) -> Value | None:
        """Return the operand at an index; None if it is absent."""
        value = self.inputs[index] if index < len(self.inputs) else None
        if isinstance(value, Held):
            raise InvalidModelError(f"input {index} is not a tensor", where=self.node.where)
        return value

    def operand(self, index: int) -> Value:
        """Return the operand at an index. Raises InvalidModelError if it is absent."""
        value = self.optional(index)
        if value is None:
            raise InvalidModelError(
                f"input {index} is left out, but not optional",
                where=self.node.where,
                expected=f"a value as input {index}",
                found="none",
            )
        return value

    def operands(self, first: int = 0) -> list[Value]:
        """Return all operands from ``first`` on, none of which may be absent."""
        return [self.operand(i) for i in range(first, len(self.inputs))]

    # attributes

    def given(self, name: str) -> Any:
        """Return the attribute's value in the node; None if the node does not have the
        attribute."""
        self._read.add(name)
        return self.node.attributes.get(name)

    def attribute(self, name: str) -> Any:
        """Return the attribute's value in the node, or else its default; None if it has neither."""
        value = self.given(name)
        return self.defaults.get(name) if value is None else value

    def _typed(self, name: str, kind: type | tuple[type, ...], default: Any) -> Any:
        value = self.attribute(name)
        if value is None:
            value = default
        if value is None or not isinstance(value, kind):
            raise InvalidModelError(
                f"attribute {name!r} is missing or of the wrong kind", where=self.node.where
            )
        return value

    def integer(self, name: str, default: int | None = None) -> int:
        """Return the value of an integer attribute. Raises InvalidModelError if it is missing or of
        another type."""
        return self._typed(name, int, default)

    def number(self, name: str, default: float | None = None) -> float:
        """Return the value of a floating-point attribute. Raises InvalidModelError if it is missing
        or of another type."""
        return self._typed(name, float, default)

    def text(self, name: str, default: str | None = None) -> str:
        """Return the value of a string attribute. Raises InvalidModelError if it is missing or of
        another type."""
        return self._typed(name, str, default)

    def choice(self, name: str, *values: str) -> str:
        """Return the value of a string attribute, which must be one of ``values``; the first of
        them is the default."""
        value = self.text(name, values[0])
        if value not in values:
            raise InvalidModelError(
                f"attribute {name!r} does not have this value",
                where=self.node.where,
                expected=f"one of {', '.join(values)}",
                found=repr(value),
            )
        return value

    def integers(self, name: str) -> tuple[int, ...] | None:
        """Return the value of an attribute that lists integers; None if it is absent and has no
        default."""
        value = self.attribute(name)
        return None if value is None else tuple(self._typed(name, (tuple, list), None))

    def numbers(self, name: str) -> tuple[float, ...] | None:
        """Return the value of an attribute that lists floating-point numbers; None if it is absent
        and has no default."""
        value = self.attribute(name)
        return None if value is None else tuple(self._typed(name, (tuple, list), None))

    def graph(self, name: str) -> NodeGraph:
        """Return the value of an attribute that is a graph. Raises InvalidModelError if it is
        missing."""
        return self._typed(name, NodeGraph, None)

    def tensor(self, name: str) -> Tensor | None:
        """Return the value of an attribute that is a tensor; None if it is absent."""
        return None if self.attribute(name) is None else self._typed(name, Tensor, None)

    def flag(self, name: str, default: bool = False) -> bool:
        """Return the value of an integer attribute as a boolean. Raises InvalidModelError unless it
        is 0 or 1."""
        value = self.integer(name, int(default))
        if value not in (0, 1):
            raise InvalidModelError(
                f"attribute {name!r} is not a boolean", expected="0 or 1", found=str(value)
            )
        return bool(value)

    def meaningless(self, *names: str) -> None:
        """Declare that attributes have no effect on this node."""
        self._read.update(names)

    def check_read(self) -> None:
        """Raise UnsupportedError if the converter has not read an attribute whose value differs
        from its default."""
        for name, value in self.node.attributes.items():
            if name not in self._read and value != self.defaults.get(name):
                self.unsupported(f"attribute {name!r} is not supported here")

    def replaced(self, inputs: Mapping[int, Value | None] | None = None, **attributes: Any) -> Call:
        """Return this call with other operands and attributes; None removes an operand or an
        attribute."""
        values = dict(enumerate(self.inputs)) | dict(inputs or {})
        every = {**self.node.attributes, **attributes}
        given = {name: value for name, value in every.items() if value is not None}
        return replace(
            self,
            node=replace(self.node, attributes=given),
            inputs=tuple(values.get(i) for i in range(max(values, default=-1) + 1)),
        )

    # values known at import

    def static(self, index: int, what: str) -> Array:
        """Return the elements of an operand. Raises UnknownValueError, which calls the operand
        ``what``, if they are not known at import."""
        value = self.operand(index)
        array = self.build.static(value)
        if array is None:
            raise self.unknown(value, what)
        return array

    def found(
        self, op: type[nn.FindingOp], *operands: Value, most: Sequence[Size], **settings: PyValue
    ) -> list[Value]:
        """Return the results of an op whose sizes depend on values: at most ``most``.

        The results are constants if the values of all operands are known. Raises CutError in a
        graph inside of another one, whose symbols would end with an iteration.
        """
        arrays = [self.build.static(value) for value in operands]
        if not any(array is None for array in arrays):
            return [*map(self.constant, run(op.name, arrays, {**settings, "sizes": ()}))]
        if self.build.block is not self.build.root:
            raise CutError(self.node)
        sizes = tuple(map(self.build.define, most))
        return [*self.build.emit(op, *operands, sizes=sizes, **settings)]

    def trimmed(self, x: Value, count: Value) -> Value:
        """Return the first ``count`` slices of ``x`` along its first dimension. Raises CutError as
        ``found`` does."""
        return self.found(nn.TrimOp, x, count, most=x.shape[:1])[0]

    def unknown(self, value: Value, what: str) -> UnknownValueError:
        """Return the error for a value that is not known at import, which messages call ``what``.

        Raises UndecidedSizeError for a value that symbols alone determine.
        """
        found, symbols = read_by(value)
        if symbols and not found:
            raise UndecidedSizeError(f"{what} depends on sizes", (s.name for s in symbols))
        read = [argument.index for argument in found if argument.block is self.build.root]
        names = [self.input_names[index] for index in read]
        return UnknownValueError(what, names, where=self.node.where)

    def static_sizes(self, index: int, what: str) -> tuple[Size, ...]:
        """Return the elements of an integer operand of any shape, which may be symbolic."""
        array = self.static(index, what)
        if array.dtype.kind not in "iuO":
            raise ShapeError(f"{what} must hold integers", found=array.dtype.name)
        return tuple(array.reshape(-1).tolist())

    def static_ints(self, index: int, what: str) -> tuple[int, ...]:
        """Return the elements of an integer operand. Raises UndecidedSizeError for a symbolic
        one."""
        return known_all(self.static_sizes(index, what))

    def static_element(self, index: int, what: str) -> float | Size:
        """Return the element of an operand that has one element, which may be symbolic. Raises
        ShapeError for more elements."""
        array = self.static(index, what)
        if array.size != 1:
            raise ShapeError(
                f"{what} is not a single number", expected="1 element", found=f"{array.size}"
            )
        return widened(array).reshape(-1).tolist()[0]

    def static_number(self, index: int, what: str) -> int | float:
        """Return the element of an operand that has one element. Raises UndecidedSizeError for a
        symbolic element."""
        element = self.static_element(index, what)
        return element if isinstance(element, float) else known(element)

    def static_int(self, index: int, what: str) -> int:
        """Return the element of an operand that has one element, an integer. Raises
        UndecidedSizeError for a symbolic element."""
        return known(self.static_size(index, what))

    def static_size(self, index: int, what: str) -> Size:
        """Return the element of an operand that has one element, an integer or a symbolic size.
        Raises ShapeError for a float."""
        element = self.static_element(index, what)
        if isinstance(element, float):
            raise ShapeError(f"{what} must be an integer", found=str(element))
        return element

    def listed_sizes(self, index: int, what: str) -> tuple[Size, ...] | None:
        """Return the elements of an integer operand, which may be symbolic; None if it is
        absent."""
        return None if self.optional(index) is None else self.static_sizes(index, what)

    def listed_ints(self, index: int, what: str) -> tuple[int, ...] | None:
        """Return the elements of an integer operand; None if it is absent.

        Raises UndecidedSizeError for a symbolic element.
        """
        return None if self.optional(index) is None else self.static_ints(index, what)

    # emission

    def constant(self, array: Array) -> Value:
        """Return a tensor with the elements of an array."""
        return self.build.constant(array)

    def positions(self, count: Size, axis: int, rank: int) -> Value:
        """Return a tensor with the positions 0, 1, 2... along ``axis``. It has ``rank`` dimensions;
        all others have size 1."""
        shape = [count if d == axis else 1 for d in range(rank)]
        if not is_static(shape):
            return self.build.emit(nn.IotaOp, count=count)[0].reshape(shape)
        [number] = self.build.limited(count)
        return self.constant(np.arange(number).reshape(known_all(shape)))

    # checks

    def axis(self, value: Value, default: int | None = None) -> int:
        """Return the attribute ``axis`` as a nonnegative dimension of ``value``. Raises ShapeError
        if it is out of range."""
        return front_axis(self.integer("axis", default), value.rank)

    def checked(self, value: Value, low: Size, high: Size, what: str) -> Value:
        """Return a value of rank 1, after a check that its elements are in [low, high].

        For a computed value, a gather makes the check: it reads out of range where an element is.
        Raises InvalidModelError for an element that is known at import.
        """
        known = self.build.static(value)
        if known is None or holds_sizes(known) or not is_static([low, high]):
            is_inside = (value >= low) & (value <= high)
            count = value.shape[0]
            return value.gather(where(is_inside, self.positions(count, 0, 1), count), 0)
        wrong = known[~((known >= low) & (known <= high))]
        if wrong.size:
            raise InvalidModelError(
                f"{what} is out of range", expected=f"in [{low}, {high}]", found=str(wrong[0])
            )
        return value

    def check_ranks(self, *ranks: int) -> None:
        """Raise ShapeError unless the present operands have these ranks, in order."""
        for index, rank in enumerate(ranks):
            value = self.optional(index)
            if value is not None and value.rank != rank:
                raise ShapeError(
                    f"input {index} has the wrong rank", expected=str(rank), found=str(value.type)
                )

    def unsupported(self, reason: str) -> NoReturn:
        """Raise UnsupportedError for this node, with a reason."""
        raise UnsupportedError([Unsupported(self.node.title, self.node.name, reason)])
