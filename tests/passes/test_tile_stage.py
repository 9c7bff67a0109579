"""Invariants of all statements and calls at the `tile` stage, in random programs."""

from __future__ import annotations

from collections.abc import Iterator
from random import Random

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import BlockArgument

from tessella import targets
from tessella.dialects.nn import WeightOp
from tessella.dialects.nn.core import dtype_of, tensor_type
from tessella.dialects.place import place_of
from tessella.dialects.tile import CallOp, ContractOp, KernelOp, Schedule
from tessella.dialects.tile.flat import Flat, flatten
from tessella.dialects.tile.functions import weight_of
from tessella.driver.build.build import StagedProgram, lower
from tessella.driver.options import make_options
from tessella.passes.tile.plan import Access, plan_accesses
from tessella.support.decisions import known
from tessella.targets import Target
from tests.generators.nn_programs import program
from tests.sampling import seeds

Statement = tuple[ContractOp, Schedule, Flat]


def statements(module: ModuleOp) -> Iterator[Statement]:
    for op in module.walk():
        if isinstance(op, ContractOp):
            assert op.schedule is not None
            yield op, op.schedule.data, flatten(op)


@pytest.mark.parametrize("target", ["avx512", "avx2", "sse", "neon"])
@pytest.mark.parametrize("seed", seeds(40))
def test_programs(target: str, seed: int) -> None:
    drawn = program(Random(seed), np.float32, 4, exact=seed % 2 == 0)
    lowered = lower(drawn.graph(), make_options(target=target), stop="tile")
    check_schedules(lowered.stages["tile"], targets.get(target))
    check_panels(lowered.stages["tile"])
    check_calls(lowered)


def check_schedules(module: ModuleOp, machine: Target) -> None:
    for op, s, flat in statements(module):
        assert sorted(s.order) == sorted(flat.free)
        assert sorted(s.reduction) == sorted(flat.reduced)
        assert s.rows is None or (s.rows in flat.free and s.rows != s.vector)
        assert 1 <= s.row_tile <= (flat.ranges[s.rows] if s.rows else 1)
        if s.vector is None:
            assert (s.lanes, s.vectors) == (1, 1)
            continue
        assert s.vector in flat.ranges
        smallest = min(dtype_of(tensor_type(v)).itemsize for v in (*op.operands, op.res))
        assert s.lanes == machine.lanes(64 if smallest == 8 else 32)
        # no vector but the last one of a row is partly empty
        assert (s.vectors - 1) * s.lanes < known(flat.ranges[s.vector])
        accumulators = s.row_tile * s.vectors
        assert op.is_map or accumulators < machine.vector_registers
        plan = plan_accesses(op, flat, s.vector, s.rows)
        assert plan.misfit(s) is None
        assert plan.sums_lanes == (s.vector in flat.reduced)
        written = Access.INTERLEAVED if plan.interleaves else Access.CONTIGUOUS
        assert plan.result.access == (Access.BROADCAST if plan.sums_lanes else written)
        assert Access.GATHER not in {o.access for o in plan.operands}
        for a, o in zip(flat.accesses, plan.operands, strict=True):
            near = o.access in (Access.CONTIGUOUS, Access.PACKED)
            assert near == (a.lane_stride(s.vector) == 1)
            assert (o.access is Access.BROADCAST) == (a.lane_stride(s.vector) == 0)


def check_panels(module: ModuleOp) -> None:
    """They are as wide as tiles."""
    for op, s, _ in statements(module):
        for value, forms in zip(op.inputs, op.input_accesses, strict=True):
            place = place_of(value.type)
            for piece in place.layout.pieces if place is not None else ():
                if piece.mod:
                    assert isinstance(value, BlockArgument)
                    assert piece.mod == s.width
                    assert forms[piece.dim].single == s.vector


def check_calls(lowered: StagedProgram) -> None:
    """They agree with kernels in types and in what is a weight. The store holds what is named, and
    no more."""
    module = lowered.stages["tile"]
    kernels = {op.sym_name.data: op for op in module.walk() if isinstance(op, KernelOp)}
    called: set[str] = set()
    for op in module.walk():
        if isinstance(op, CallOp):
            kernel = kernels[op.callee_name]
            called.add(op.callee_name)
            assert [v.type for v in op.arguments] == list(kernel.function_type.inputs)
            assert [v.type for v in op.res] == list(kernel.function_type.outputs)
            for i, value in enumerate(op.arguments):
                assert weight_of(value) is not None or not kernel.is_constant(i)
    assert called == set(kernels)
    named = {op.symbol.root_reference.data for op in module.walk() if isinstance(op, WeightOp)}
    assert set(lowered.weights) == named
