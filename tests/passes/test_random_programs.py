"""Random programs before and after passes, by the interpreter."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from xdsl.passes import ModulePass

from tessella.dialects.interpret import interpret
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.fold_batch_norm import FoldBatchNormPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.passes.fuse_patterns import FusePatternsPass
from tessella.passes.infer_shapes import InferShapesPass
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.pick_kernels import PickKernelsPass
from tests.generators.nn_programs import programs
from tests.generators.nn_sketch import Program
from tests.native import Array
from tests.passes.harness import apply
from tests.sampling import sampled

EXACT = ("fc", "transposed-operand", "channel-shuffle", "batched-transpose", "relu", "clip")
"""Patterns that only name what is there."""

SAME_BITS: dict[str, Sequence[ModulePass]] = {
    "infer": [InferShapesPass()],
    "fold": [FoldConstantsPass()],
    "fold little": [FoldConstantsPass(limit=64)],
    "eliminate": [EliminateIdentitiesPass()],
    "fuse exactly": [FusePatternsPass(only=EXACT)],
    "place": [PickKernelsPass(), InsertConversionsPass(), FuseElementwisePass()],
    "place on the host": [PickKernelsPass(places=("host",)), InsertConversionsPass()],
}
"""Passes that change neither a number nor the sign of a zero."""

NN = [
    InferShapesPass(),
    FoldConstantsPass(),
    EliminateIdentitiesPass(),
    FusePatternsPass(),
    FoldBatchNormPass(),
    FoldConstantsPass(),
    EliminateIdentitiesPass(),
]


def results(program: Program, passes: Sequence[ModulePass] = ()) -> list[Array]:
    return interpret(apply(program.graph(), *passes), program.inputs)


@pytest.mark.parametrize("name", SAME_BITS)
@settings(max_examples=sampled(40))
@given(program=programs() | programs(np.int64) | programs(exact=False))
def test_bits(name: str, program: Program) -> None:
    for y, wanted in zip(results(program, SAME_BITS[name]), results(program), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_array_equal(np.signbit(y), np.signbit(wanted))


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.float64])
@settings(max_examples=sampled(60))
@given(data=st.data())
def test_numbers(dtype: npt.DTypeLike, data: st.DataObject) -> None:
    """Scales move into weights, which is exact on small integers."""
    program = data.draw(programs(dtype))
    for y, wanted in zip(results(program, NN), results(program), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_array_equal(y, wanted)
