"""Random programs: compiled code gives what the trying of all points gives."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from tessella import tile
from tests.frontends.tile import points
from tests.frontends.tile.checks import same
from tests.generators.tile_programs import Sketch, long_sketches, sketches
from tests.native import RUNNABLE
from tests.sampling import sampled


def agrees(sketch: Sketch, target: str | None = None) -> None:
    """Assert that the compiled program and the points agree, to the bit."""
    with np.errstate(all="ignore"):
        wanted = list(points.run(sketch.source, *sketch.arrays).values())
    got = tile(sketch.source, target=target)(*sketch.arrays)
    for result, want in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        same(result, want)


@settings(max_examples=sampled(100))
@given(sketches)
def test_random_programs(sketch: Sketch) -> None:
    agrees(sketch)


@settings(max_examples=sampled(30))
@given(long_sketches)
def test_longer_tensors(sketch: Sketch) -> None:
    agrees(sketch)


@pytest.mark.skipif("avx2" not in RUNNABLE, reason="this machine does not run it")
@settings(max_examples=sampled(40))
@given(sketches)
def test_other_vectors(sketch: Sketch) -> None:
    agrees(sketch, "avx2")
