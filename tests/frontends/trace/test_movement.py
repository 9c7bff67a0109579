"""Shapes, orders, joining, and indexing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella
from tessella.support.errors import ExecutionError, ShapeError
from tests.frontends.trace.checks import agrees, array, shapes
from tests.sampling import sampled

MOVES: dict[str, Callable[[Any], Any]] = {
    "reshape": lambda x: x.reshape(12, 5),
    "reshape to a computed size": lambda x: x.reshape((4, -1)) + np.reshape(x, (4, -1)),
    "flat": lambda x: x.ravel() + x.flatten() + np.ravel(x) + np.reshape(x, -1),
    "transposes": lambda x: x.T + x.transpose(2, 1, 0) + x.transpose((2, 1, 0)) + np.transpose(x),
    "swapped matrices": lambda x: x.mT + np.swapaxes(x, 1, 2) + x.swapaxes(-1, 1),
    "moved axes": lambda x: np.moveaxis(x, (0, 1), (-1, 0)) + np.moveaxis(x, -1, 1).T,
    "expand_dims": lambda x: np.expand_dims(x, (0, -1)),
    "squeeze": lambda x: x[:, None].squeeze(1) + np.squeeze(x[None]),
    "broadcast_to": lambda x: np.broadcast_to(x[0, 0], (2, 3, 5)),
    "concatenate": lambda x: np.concatenate([x, 2 * x], axis=1),
    "concatenate with a constant": lambda x: np.concatenate([x, np.ones((3, 1, 5))], 1),
    "concatenate flat": lambda x: np.concatenate((x, x), None),
    "stack": lambda x: np.stack([x, x + 1], -1)[..., 0] + np.stack([x, x])[1],
    "flip": lambda x: np.flip(x) + np.flip(x, 1),
    "tile": lambda x: np.tile(x, (2, 1, 1, 2)),
    "tile by a number": lambda x: np.tile(x, 2),
    "copy": lambda x: x.copy() + np.copy(x),
    "alike": lambda x: np.zeros_like(x) + np.full_like(x, 3) + np.ones_like(x, dtype=np.int32),
    "facts": lambda x: x * x.size + x.ndim - len(x) + np.shape(x)[2] * np.ndim(x) - np.size(x),
    "vector times matrix": lambda x: x[0, 0] @ x[0].T,
    "matrix times vector": lambda x: x @ np.ones(5, np.float32),
    "vector times vector": lambda x: x[0, 0] @ x[1, 2],
    "broadcast matrices": lambda x: np.ones((2, 3, 4, 4), np.float32) @ x,
    "dot": lambda x: np.dot(x, x[0, 0]) + x.dot(x[0].T)[:, :, 0],
}

INDICES: dict[str, Callable[[Any], Any]] = {
    "one": lambda x: x[1],
    "from the end": lambda x: x[-1, :, 2],
    "backwards": lambda x: x[::-1],
    "steps": lambda x: x[1:, ..., ::2],
    "new axes": lambda x: x[..., None] * x[:, None, 1:3, ::-2][:, 0, :1, :1, None],
    "nothing": lambda x: x[5:],
    "no columns": lambda x: x[:, :0],
    "an element": lambda x: x[0, 0, 0],
    "everything": lambda x: x[...] + x[()],
    "negative bounds": lambda x: x[-2:-1, None, ..., None, 1],
    "a list": lambda x: x[[0, 2]],
    "an inner list": lambda x: x[:, [1, 0, 3]],
    "an array": lambda x: x[np.array([[0, 1], [2, 0]])],
    "an array and a new axis": lambda x: x[..., [0, 4], None],
    "a number before a list": lambda x: x[1, [0, 2]],
    "a list before a number": lambda x: x[[1, 2], 0],
    "an empty list": lambda x: x[:, []],
    "indices from the end": lambda x: x[np.array([-1, -3])],
    "NumPy numbers": lambda x: x[np.uint8(1)] + x[np.array(1)],
    "take": lambda x: np.take(x, [0, 2], axis=1) + x.take([0, 2], 1),
    "take of all": lambda x: x.take([[0, 59], [3, -1]]),
    "along an axis": lambda x: np.take_along_axis(x, x.argmax(-1, keepdims=True), -1),
    "along an axis, broadcast": lambda x: np.take_along_axis(x, np.zeros((1, 4, 2), int), -1),
}


@pytest.mark.sweep
@pytest.mark.parametrize("function", MOVES.values(), ids=MOVES)
def test_moves(function: Callable[[Any], Any]) -> None:
    agrees(function, array((3, 4, 5)))


@pytest.mark.sweep
@pytest.mark.parametrize("function", INDICES.values(), ids=INDICES)
def test_indices(function: Callable[[Any], Any]) -> None:
    agrees(function, array((3, 4, 5)))


@settings(max_examples=sampled(30))
@given(data=st.data(), shape=shapes)
def test_any_index(data: st.DataObject, shape: tuple[int, ...]) -> None:
    keys: list[Any] = []
    for size in shape[: data.draw(st.integers(0, len(shape)))]:
        bounds = st.none() | st.integers(-6, 6)
        steps = st.none() | st.sampled_from([-2, -1, 1, 2, 3])
        part = st.builds(slice, bounds, bounds, steps) | st.none()
        keys.append(data.draw(part | st.integers(-size, size - 1) if size else part))
    agrees(lambda x: x[tuple(keys)], array(shape))


def test_indices_that_are_arguments() -> None:
    x = array((3, 4, 5))
    agrees(lambda x, i: x[i], x, np.array([[2, 0], [1, -1]]))
    agrees(lambda x, i: x[:, i], x, np.array([0, 3], np.uint8))
    agrees(lambda x, i: x[0, :, i], x, np.array(2))
    agrees(lambda x, i: x[i], x, 2)
    agrees(lambda x, i: tessella.take(x, i, axis=1), x, np.array([3, 0]))


def test_an_index_out_of_range() -> None:
    x = array((3, 4))
    with pytest.raises(ShapeError, match=r"(?s)axis 1 is out of range.*\[-4, 4\)"):
        tessella.jit(lambda x: x[0, 4])(x)
    with pytest.raises(ExecutionError, match=r"(?s)out of range.*test_movement.py:\d+"):
        tessella.jit(lambda x, i: x[i])(x, np.array([7]))


@pytest.mark.parametrize(
    "index, what",
    [
        (lambda x: x[x > 0], "integers, slices, None"),
        (lambda x: x[True], "integers, slices, None"),
        (lambda x: x[1.5], "integers, slices, None"),
        (lambda x: x[[0, 1], [1, 0]], "one array at a time"),
        (lambda x: x[0, :, [0, 1]], "with other axes between"),
        (lambda x: x[0, 0, 0, 0], "too many indices"),
        (lambda x: x[..., ...], "too many indices"),
    ],
)
def test_wrong_indices(index: Callable[[Any], Any], what: str) -> None:
    with pytest.raises(ShapeError, match=what):
        tessella.jit(index)(array((2, 3, 4)))


PAIRS: dict[str, tuple[Callable[..., Any], Callable[..., Any]]] = {
    "reshape": (lambda x: tessella.reshape(x, (-1, 2)), lambda x: x.reshape(-1, 2)),
    "transpose": (lambda x: tessella.transpose(x, (1, 0, 2)), lambda x: x.transpose(1, 0, 2)),
    "concatenate": (
        lambda x: tessella.concatenate([x, x], axis=-1),
        lambda x: np.concatenate([x, x], -1),
    ),
    "stack": (lambda x: tessella.stack([x, x], axis=1), lambda x: np.stack([x, x], 1)),
    "expand_dims": (lambda x: tessella.expand_dims(x, 0), lambda x: x[None]),
    "squeeze": (lambda x: tessella.squeeze(x[:1]), lambda x: x[0]),
    "broadcast_to": (
        lambda x: tessella.broadcast_to(x, (2, *x.shape)),
        lambda x: np.stack([x, x]),
    ),
    "matmul": (lambda x: tessella.matmul(x, x.swapaxes(1, 2)), lambda x: x @ x.swapaxes(1, 2)),
    "take": (lambda x: tessella.take(x, [0, 1], 1), lambda x: x[:, [0, 1]]),
    "astype": (lambda x: tessella.astype(x, "int32"), lambda x: x.astype("int32")),
    "clip": (lambda x: tessella.clip(x, 0, 1.5), lambda x: np.clip(x, 0, 1.5)),
    "maximum": (lambda x: tessella.maximum(x, 0), lambda x: np.maximum(x, 0)),
    "minimum": (lambda x: tessella.minimum(x, x[0]), lambda x: np.minimum(x, x[0])),
}


@pytest.mark.parametrize("function, reference", PAIRS.values(), ids=PAIRS)
@pytest.mark.parametrize("dtype", ["float32", "int16"])
def test_public_functions(
    function: Callable[..., Any], reference: Callable[..., Any], dtype: str
) -> None:
    agrees(function, array((2, 3, 4), dtype), reference=reference)


@pytest.mark.parametrize("dtype", [None, "float64", "int8"])
def test_new_arrays(dtype: str | None) -> None:
    options: dict[str, Any] = {} if dtype is None else {"dtype": dtype}
    floats = dtype or "float32"
    assert tessella.zeros((2, 3), **options).dtype == floats
    assert tessella.ones(3, **options).dtype == floats
    assert tessella.full((2,), 1.5, **options).dtype == floats
    assert tessella.full((2,), 1, **options).dtype == (dtype or "int64")
    assert tessella.arange(3, **options).dtype == (dtype or "int64")
    assert tessella.arange(0.0, 1.0, 0.25, **options).dtype == floats
    agrees(
        lambda x: x + tessella.arange(1, 4) * tessella.ones(3) - tessella.full(3, 2), array((3,))
    )
