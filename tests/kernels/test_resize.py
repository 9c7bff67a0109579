"""Native resizes by any factor against NumPy's kernel, which is tested against ONNX's."""

from __future__ import annotations

from typing import Any

import pytest

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.movement import COORDINATES, NEAREST_MODES
from tessella.driver.compile import compile_source
from tests.native import EVERYWHERE, FixedSource, GraphBuilder, check_op, normal

SHAPES = [
    ((1, 3, 6, 5), (1, 3, 9, 11)),
    ((2, 17, 7, 4), (2, 17, 3, 9)),
    ((1, 35, 5, 8), (1, 35, 5, 20)),
    ((4, 9), (4, 31)),
    ((1, 2, 3, 4, 5), (1, 2, 5, 3, 11)),
    ((1, 20, 6, 6), (1, 20, 1, 1)),
]

by_target = pytest.mark.parametrize("target", EVERYWHERE)
by_shape = pytest.mark.parametrize("old, new", SHAPES, ids=str)


def _settings(old: tuple[int, ...], new: tuple[int, ...]) -> dict[str, Any]:
    return {"sizes": new, "scales": tuple(b / a for a, b in zip(old, new, strict=True))}


@pytest.mark.sweep
@by_target
@by_shape
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_linear(target: str, coordinates: str, old: tuple[int, ...], new: tuple[int, ...]) -> None:
    settings: dict[str, Any] = _settings(old, new) | {
        "coordinates": coordinates,
        "nearest_mode": "floor",
    }
    check_op(nn.ResizeOp, [normal(*old)], target=target, mode="linear", **settings)


@pytest.mark.sweep
@by_target
@by_shape
@pytest.mark.parametrize("rounding", NEAREST_MODES)
@pytest.mark.parametrize("coordinates", COORDINATES)
def test_nearest(
    target: str, coordinates: str, rounding: str, old: tuple[int, ...], new: tuple[int, ...]
) -> None:
    settings: dict[str, Any] = _settings(old, new) | {
        "coordinates": coordinates,
        "nearest_mode": rounding,
    }
    x = normal(*old)
    check_op(nn.ResizeOp, [x], target=target, mode="nearest", rtol=0, atol=0, **settings)


@pytest.mark.parametrize("layout", ["nchw", "nhwc"])
def test_runs_in_the_layout_that_is_asked_for(layout: str) -> None:
    x, settings = normal(1, 24, 5, 7), _settings((1, 24, 5, 7), (1, 24, 8, 9))
    settings |= {"mode": "linear", "coordinates": "half_pixel", "nearest_mode": "floor"}

    def make() -> Graph:
        g = GraphBuilder(x=x)
        return g.graph(g.op(nn.ResizeOp, [g.inputs["x"]], **settings))

    place = f"{targets.native().arch}/f32/{layout}"
    (op,) = compile_source(FixedSource(make), places=[place]).explain().ops
    assert (op["place"], op["fallback"]) == (place, None)


@by_target
@pytest.mark.parametrize("width", [3, 8, 21, 67])
@pytest.mark.parametrize("factor", [2, 3, 4, 5])
@pytest.mark.parametrize("element", ["float32", "uint8", "float64", "int16"])
def test_nearest_by_whole_factors(target: str, width: int, factor: int, element: str) -> None:
    """Rows that repeat elements are interleaved in registers, up to a factor of four."""
    old, new = (2, 3, 5, width), (2, 3, 5 * factor, width * factor)
    settings: dict[str, Any] = _settings(old, new) | {
        "coordinates": "asymmetric",
        "nearest_mode": "floor",
    }
    x = (normal(*old) * 50).astype(element)
    check_op(nn.ResizeOp, [x], target=target, mode="nearest", rtol=0, atol=0, **settings)
