"""Loops and branches over subprograms: steps after a graph break."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tessella.runtime.values import Array, Value
from tessella.support.errors import ExecutionError, InvalidModelError, ShapeError

Run = Callable[[Sequence[Value]], Sequence[Value]]
"""A function that runs a body on the values that the step passes to it."""

Declared = Sequence[tuple[np.dtype[Any] | None, tuple[int, ...]]]
"""Declared dtype and shape of each value that the iterations of a loop return: None for an unknown
dtype, 0 for an unknown size."""

FIRST_ROOM, GROWTH = 16, 4
"""Iterations of a loop's first chunk, and the factor by which chunks grow."""
MOST_BYTES = 1 << 26
"""Limit on the bytes that the iterations of a chunk return, unless the chunk is as short as the
first."""

_TRUE = np.array(True)


def branch(inputs: Sequence[Value], bodies: Sequence[Run]) -> Sequence[Value]:
    """Run one of two bodies and return its results: the second body if the condition,
    ``inputs[0]``, is true, otherwise the first."""
    return bodies[int(_truth(inputs[0]))](())


def loop(inputs: Sequence[Value], bodies: Sequence[Run], *, declared: Declared) -> Sequence[Value]:
    """Run a loop (ONNX's Loop) until its condition is false or its trip count is reached.

    ``inputs`` are the trip count, the condition and the initial carried values; the first two may
    be None. Returns the carried values, and the other results of all iterations, stacked.
    """
    (trips, go), state = [*inputs, None, None][:2], list(inputs[2:])
    count, going = len(state), go is None or _truth(go)
    rows: list[Sequence[Value]] = []
    while going and (trips is None or len(rows) < trips.reshape(-1)[0]):
        again, *made = bodies[0]([np.array(len(rows), np.int64), _TRUE, *state])
        going, state = _truth(again), made[:count]
        rows.append(made[count:])
    return [*state, *_stacked(declared, rows)]


def chunks(
    inputs: Sequence[Value], bodies: Sequence[Run], *, appended: Sequence[tuple[int, int]]
) -> Sequence[Value]:
    """Run a loop with a native body in chunks of iterations. Return its carried values, and the
    other results of all iterations.

    ``appended`` lists the carried values to which iterations only append, each by its number and
    the axis. The body takes the iteration numbers of a chunk, whether the loop continues, and its
    other carried values. With a trip count, it also takes, after the condition, whether another
    iteration may follow each one. The body returns whether the loop continues, the next iteration
    number, the carried values, and per-iteration elements, the elements of ``appended`` last.
    """
    (trips, go), state = [*inputs, None, None][:2], list(inputs[2:])
    grown = [state[number] for number, _ in appended]
    for number, _ in reversed(appended):
        del state[number]
    limit = None if trips is None else trips.reshape(-1)[0]
    going = (go is None or _truth(go)) and (limit is None or limit > 0)
    count, start, room = len(state), 0, FIRST_ROOM
    pieces: list[Sequence[Array]] = []
    while going or not pieces:
        numbers = np.arange(start, start + room)
        more = [] if limit is None else [numbers + 1 < limit]
        again, following, *made = bodies[0]([numbers, np.array(going), *more, *state])
        state, rows = made[:count], made[count:]
        pieces.append([row[: int(following) - start] for row in rows])
        going, start = _truth(again), int(following)
        room = _room(room, [numbers, *rows])
    results = list(map(_joined, zip(*pieces, strict=True)))
    own = len(results) - len(appended)
    for (number, axis), first, rows in zip(appended, grown, results[own:], strict=True):
        state.insert(number, _appended(first, rows, axis))
    return [*state, *results[:own]]


def _room(room: int, rows: Sequence[Array]) -> int:
    """Return the number of iterations of the next chunk, after a chunk of ``room`` iterations that
    returned ``rows``."""
    bytes_of_step = sum(row.nbytes for row in rows) // room
    return max(FIRST_ROOM, min(room * GROWTH, MOST_BYTES // max(1, bytes_of_step)))


def _joined(pieces: Sequence[Array]) -> Array:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def _appended(first: Array, rows: Array, axis: int) -> Array:
    """Append the rows of iterations to an array along an axis."""
    moved = np.moveaxis(rows, 0, axis)
    steps, size = moved.shape[axis : axis + 2]
    piece = moved.reshape(*moved.shape[:axis], steps * size, *moved.shape[axis + 2 :])
    return np.concatenate([first, piece], axis)


def scan(
    inputs: Sequence[Value],
    bodies: Sequence[Run],
    *,
    scanned: int,
    axes: Sequence[int],
    backward: Sequence[int],
    declared: Declared,
    output_axes: Sequence[int],
    output_backward: Sequence[int],
) -> Sequence[Value]:
    """Run the body for each element of the sequences along their axes (ONNX's Scan).

    The last ``scanned`` inputs are the sequences; the others are the initial carried values.
    Nonzero values in ``backward`` and ``output_backward`` reverse a sequence or a result. Returns
    the carried values, and the other results of all iterations, stacked.
    """
    carried = len(inputs) - scanned
    state, sequences = inputs[:carried], inputs[carried:]
    taken = [np.moveaxis(x, axis, 0) for x, axis in zip(sequences, axes, strict=True)]
    taken = [_ordered(x, each) for x, each in zip(taken, backward, strict=True)]
    if len({len(x) for x in taken}) != 1:
        raise ShapeError("sequences of a Scan have different lengths")
    rows: list[Sequence[Value]] = []
    for elements in zip(*taken, strict=True):
        made = bodies[0]([*state, *elements])
        state = list(made[:carried])
        rows.append(made[carried:])
    results = _stacked(declared, rows)
    results = [_ordered(y, each) for y, each in zip(results, output_backward, strict=True)]
    moved = [np.moveaxis(y, 0, axis) for y, axis in zip(results, output_axes, strict=True)]
    return [*state, *map(np.ascontiguousarray, moved)]


def _ordered(array: Array, direction: int) -> Array:
    return array[::-1] if direction else array


def _stacked(declared: Declared, rows: Sequence[Sequence[Value]]) -> list[Array]:
    """Stack the values that the iterations returned, one array for each result; without iterations,
    return empty arrays of the declared types."""
    if not rows:
        return [_none(dtype, sizes) for dtype, sizes in declared]
    columns = list(zip(*rows, strict=True))
    if any(len({array.shape for array in column}) > 1 for column in columns):
        raise ShapeError("the iterations of a loop return different shapes")
    return [np.stack(column) for column in columns]


def _none(dtype: np.dtype[Any] | None, sizes: Sequence[int]) -> Array:
    if dtype is None:
        raise InvalidModelError("a loop without steps returns what has no type")
    return np.zeros((0, *sizes), dtype)


def _truth(condition: Array) -> bool:
    if condition.size != 1:
        raise ExecutionError("a condition must be one boolean", found=str(condition.shape))
    return bool(condition.any())


CONTROL: Mapping[str, Callable[..., Sequence[Value]]] = {
    "branch": branch,
    "chunks": chunks,
    "loop": loop,
    "scan": scan,
}
