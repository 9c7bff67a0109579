"""NumPy functions on sequences (lists of arrays) and optionals: steps after a graph break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import cast

import numpy as np

from tessella.runtime.values import Array, Value
from tessella.support.errors import ExecutionError, ShapeError

Run = Callable[[Sequence[Value]], Sequence[Value]]


def construct(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return a sequence of these arrays."""
    return [list(inputs)]


def nothing(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return an optional without an element."""
    del inputs
    return [None]


def identity(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return the operand."""
    return [inputs[0]]


def insert(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return a sequence with an element inserted before a position; without a position, at the
    end."""
    sequence, element, position = _three(inputs)
    at = len(sequence) if position is None else _position(position, len(sequence), past_end=True)
    return [[*sequence[:at], element, *sequence[at:]]]


def erase(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return a sequence without the element at a position; without a position, without the last
    element."""
    sequence, position, _ = _three(inputs)
    at = _position(np.array(-1) if position is None else position, len(sequence))
    return [[*sequence[:at], *sequence[at + 1 :]]]


def at(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return the element of a sequence at a position."""
    sequence, position = inputs
    return [sequence[_position(position, len(_listed(sequence)))]]


def length(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return the number of elements of a sequence."""
    return [np.array(len(_listed(inputs[0])), np.int64)]


def concat(inputs: Sequence[Value], *, axis: int, is_new: bool) -> Sequence[Value]:
    """Return one array of a sequence's elements, concatenated along an axis, or stacked along a new
    axis if ``is_new``."""
    elements = _listed(inputs[0])
    if not elements:
        raise ShapeError("an empty sequence has no type to make an array of")
    return [(np.stack if is_new else np.concatenate)(elements, axis)]


def split(inputs: Sequence[Value], *, axis: int, keeps: bool) -> Sequence[Value]:
    """Return a sequence of the parts of an array along an axis: parts of equal size, parts of
    listed sizes, or single elements. Single elements lack the axis unless ``keeps``."""
    x, sizes, _ = _three(inputs)
    size = x.shape[axis]
    if sizes is None and not keeps:
        return [[np.take(x, i, axis) for i in range(size)]]
    ends = np.cumsum(part_sizes(size, np.array(1) if sizes is None else sizes))
    return [
        [np.ascontiguousarray(part) for part in np.split(x, ends[:-1], axis)] if len(ends) else []
    ]


def part_sizes(size: int, sizes: Array) -> Sequence[int]:
    """Return the sizes of the parts into which a dimension of ``size`` elements is split: as listed
    in ``sizes``, or all equal to the scalar ``sizes`` except the last. Raises ShapeError for
    sizes that do not fit."""
    listed: list[int] = sizes.reshape(-1).tolist()
    if any(part < (1 if sizes.ndim == 0 else 0) for part in listed):
        raise ShapeError(
            "sizes of parts are not positive",
            expected=">= 1 for one size of all parts, >= 0 for a list",
            found=str(listed),
        )
    if sizes.ndim == 0:
        listed = [min(listed[0], size - start) for start in range(0, size, listed[0])]
    if sum(listed) != size:
        raise ShapeError("the parts are not the whole", expected=str(size), found=str(listed))
    return listed


def has_element(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return whether an optional has an element."""
    return [np.array(bool(inputs) and inputs[0] is not None)]


def get_element(inputs: Sequence[Value]) -> Sequence[Value]:
    """Return the element of an optional. Raises ExecutionError if it has none."""
    if inputs[0] is None:
        raise ExecutionError("an optional has no element")
    return [inputs[0]]


def for_each(inputs: Sequence[Value], bodies: Sequence[Run], *, outputs: int) -> Sequence[Value]:
    """Run a body for each element of a sequence, and of other sequences of that length.

    Operands that are not sequences are loop-invariant. Returns a sequence for each of the first
    ``outputs`` results of the body.
    """
    count = len(_listed(inputs[0]))
    if any(isinstance(x, list) and len(cast(list[Value], x)) != count for x in inputs):
        raise ShapeError("sequences have different lengths")
    rows = [bodies[0]([x[i] if isinstance(x, list) else x for x in inputs]) for i in range(count)]
    return [[row[i] for row in rows] for i in range(outputs)]


def _three(inputs: Sequence[Value]) -> Sequence[Value]:
    return [*inputs, None, None][:3]


def _listed(sequence: Value) -> Sequence[Array]:
    if not isinstance(sequence, list):
        raise ExecutionError("this is not a sequence", found=type(sequence).__name__)
    return cast(list[Array], sequence)


def _position(position: Array, count: int, *, past_end: bool = False) -> int:
    """Return a position counted from the front; a negative position counts from the back. Raises
    ExecutionError if it is out of range."""
    return position_of(int(position.reshape(-1)[0]), count, past_end=past_end)


def position_of(number: int, count: int, *, past_end: bool = False) -> int:
    """Return a position counted from the front; a negative ``number`` counts from the back. Raises
    ExecutionError if it is out of range."""
    last = count if past_end else count - 1
    if not -count <= number <= last:
        raise ExecutionError(
            "a position is outside of its sequence",
            expected=f"in [{-count}, {last}]",
            found=str(number),
        )
    return number + count if number < 0 else number


SEQUENCES: Mapping[str, Callable[..., Sequence[Value]]] = {
    "sequence": construct,
    "nothing": nothing,
    "identity": identity,
    "sequence_insert": insert,
    "sequence_erase": erase,
    "sequence_at": at,
    "sequence_length": length,
    "concat_from_sequence": concat,
    "split_to_sequence": split,
    "optional_has_element": has_element,
    "optional_get_element": get_element,
    "sequence_map": for_each,
}
