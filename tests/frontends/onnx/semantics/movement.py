"""Ops that move elements, to and from tensors without elements and beyond the ends."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product
from typing import Any

import numpy as np

from tests.frontends.onnx.semantics.case import Array, Case
from tests.native import normal

_MOST, _LEAST = 2**63 - 1, -(2**63)


def _ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


_SLICES: Sequence[tuple[int, int, int, int]] = (
    *((_MOST, _LEAST, 1, -1), (0, _MOST, 1, 2), (-100, 100, 1, 3), (4, 2, 1, 1), (2, 2, 0, 1)),
    *((-1, _LEAST, -1, -2), (100, -100, 1, -1), (0, 5, 1, _MOST), (4, 0, 1, _LEAST)),
    *((5, 9, 1, 1), (-6, 2, 1, 1), (0, 0, 1, -1), (4, -6, 1, -1)),
)
"""Starts, ends, axes and steps."""
_PADS: Sequence[tuple[str, Sequence[int]]] = (
    *(("constant", (1, 0, 2, 1)), ("reflect", (2, 4, 2, 4)), ("reflect", (7, 11, 9, 13))),
    *(("edge", (2, 3, 1, 0)), ("wrap", (4, 7, 9, 11))),
)


def _triangle(take: Callable[[Array, int], Array]) -> Callable[[Array, Array], Array]:
    """NumPy's triangle, whose diagonal is an ``int32``."""
    return lambda x, k: take(x, max(int(k), -9))


def _slices() -> Iterator[Case]:
    x = normal(3, 5)
    for numbers in _SLICES:
        yield Case("Slice", [x, *map(_ints, numbers)], fixed=(1, 2, 3, 4))
    yield Case("Slice", [normal(0, 5), _ints(1), _ints(3)], fixed=(1, 2))
    for mode, pads in _PADS:
        yield Case("Pad", [x, _ints(*pads)], {"mode": mode}, fixed=(1,))
    cropped = lambda x, pads: np.pad(x[:, :-2], ((0, 1), (2, 0)))  # noqa: E731
    yield Case("Pad", [x, _ints(0, 2, 1, -2)], fixed=(1,), wanted=cropped)
    yield Case("Pad", [normal(0, 2), _ints(1, 0, 2, 0), np.array(3.0, np.float32)], fixed=(1,))
    yield Case("Pad", [normal(0, 2), _ints(0, 1, 0, 2)], {"mode": "edge"}, fixed=(1,))
    yield Case("Pad", [normal(1, 2), _ints(3, 0, 2, 0)], {"mode": "reflect"}, fixed=(1,))
    for sizes in ((0, 2), (6, 2), (2, 8)):
        yield Case("CenterCropPad", [x, _ints(*sizes)], fixed=(1,))
    for size, upper in product((_LEAST, -3, 0, 4, 100), (0, 1)):
        wanted = _triangle(np.triu if upper else np.tril)
        yield Case("Trilu", [x, np.array(size)], {"upper": upper}, fixed=(1,), wanted=wanted)
    for k in (-100, -1, 2, 100):
        yield Case("EyeLike", [x], {"k": k})
    yield Case("EyeLike", [normal(0, 3)])
    yield Case("ReverseSequence", [normal(4, 3), _ints(0, 4, 1)])
    yield Case("ReverseSequence", [normal(0, 3), _ints(0, 0, 0)])


def _joins() -> Iterator[Case]:
    none, x = normal(0, 3), normal(2, 3)
    yield Case("Concat", [none, x, none], {"axis": 0})
    yield Case("Concat", [normal(2, 0), x], {"axis": -1})
    yield Case("Concat", [normal(2, 0), normal(2, 0)], {"axis": 0})
    yield Case("Split", [normal(4, 3), _ints(0, 4, 0)], {"axis": 0}, fixed=(1,), outputs=3)
    for shape, count in (((5, 3), 3), ((0, 3), 2), ((4, 3), 3)):
        yield Case("Split", [normal(*shape)], {"axis": 0, "num_outputs": count}, outputs=count)
    for repeats in ((0, 2), (1, 1), (0, 0)):
        yield Case("Tile", [x, _ints(*repeats)], fixed=(1,))
    yield Case("Tile", [none, _ints(2, 2)], fixed=(1,))
    for shape in ((0,), (2, 0, 3), (1,), (2, 1, 1), ()):
        yield Case("Expand", [normal(1, 1), _ints(*shape)], fixed=(1,))
    yield Case("Expand", [none, _ints(1, 1)], fixed=(1,))
    yield Case("Expand", [normal(0, 1), _ints(0, 4)], fixed=(1,))
    for op in ("DepthToSpace", "SpaceToDepth"):
        for shape in ((0, 4, 2, 4), (2, 4, 0, 4)):
            yield Case(op, [normal(*shape)], {"blocksize": 2})


def _shapes() -> Iterator[Case]:
    none, scalar = normal(2, 0, 3), np.array(1.0, np.float32)
    for x, shape, zeros in ((normal(0, 4), (0, 0), 1), (normal(0, 4), (3, 0), 1)):
        yield Case("Reshape", [x, _ints(*shape)], {"allowzero": zeros}, fixed=(1,))
    for x, shape in ((scalar, ()), (normal(1, 1), ()), (scalar, (-1,)), (normal(0), (0,))):
        yield Case("Reshape", [x, _ints(*shape)], fixed=(1,))
    for axis in range(-3, 4):
        yield Case("Flatten", [normal(2, 3, 4)], {"axis": axis})
    yield Case("Flatten", [none], {"axis": 1})
    yield Case("Squeeze", [normal(1, 0, 1)])
    yield Case("Squeeze", [normal(1, 0, 1), _ints(-1)], fixed=(1,))
    yield Case("Squeeze", [scalar])
    yield Case("Unsqueeze", [normal(0, 2), _ints(-1, 0)], fixed=(1,))
    yield Case("Unsqueeze", [scalar, _ints(1, 0)], fixed=(1,))
    yield Case("Transpose", [none])
    yield Case("Transpose", [scalar])
    yield Case("Identity", [none])
    for start, end in ((-9, 99), (2, 1), (-1, 3)):
        yield Case("Shape", [none], {"start": start, "end": end})
    yield Case("Size", [none])
    yield Case("Size", [scalar])


def _made() -> Iterator[Case]:
    ranges: list[tuple[Any, ...]] = [(0, 5, 1), (5, 0, -2), (0, 5, -1), (3, 3, 1)]
    ranges += [(0.0, 1.0, 0.1), (1.0, 0.0, -0.3), (0.0, 1.0, -0.5)]
    for numbers in ranges:
        dtype = np.float32 if isinstance(numbers[0], float) else np.int64
        yield Case("Range", [np.array(n, dtype) for n in numbers], fixed=(0, 1, 2))
    wide = [np.array(n, np.int64) for n in (_LEAST, _MOST, 2**62)]
    yield Case("Range", wide, fixed=(0, 1, 2))
    for shape in ((0,), (), (2, 0), (3,)):
        yield Case("ConstantOfShape", [np.array(shape, np.int64)], fixed=(0,))
    for op, n, periodic in product(
        ("HannWindow", "HammingWindow", "BlackmanWindow"), (0, 5), (0, 1)
    ):
        yield Case(op, [np.array(n)], {"periodic": periodic}, fixed=(0,), epsilon=1e-5)


def _found() -> Iterator[Case]:
    x = normal(3, 4)
    for axis, size, shape in ((0, 0, (0, 3)), (1, 2, (3, 4)), (0, 3, (3, 4)), (0, 0, (3, 4))):
        condition = np.arange(size) % 2 == 1
        yield Case("Compress", [normal(*shape), condition], {"axis": axis}, fixed=(1,))
    yield Case("Compress", [x, np.array([False, True])], fixed=(1,))


def cases() -> Iterator[Case]:
    """All moves."""
    yield from _slices()
    yield from _joins()
    yield from _shapes()
    yield from _made()
    yield from _found()
