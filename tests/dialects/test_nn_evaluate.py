"""Constant values: what is known, what is not, what is too much."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import f32, i64
from xdsl.ir import Block, SSAValue

from tessella.dialects import nn
from tessella.dialects.layout import NHWC, pack
from tessella.dialects.nn.core import tensor, type_of
from tessella.dialects.nn.evaluate import Constants, constant_value, evaluation_bytes
from tessella.dialects.place import PlaceAttr, placed
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import known_all
from tests.dialects.oracle import Array, sample

STORE = WeightStore()


def weight(array: Array, store: WeightStore = STORE) -> SSAValue:
    """A weight with this array."""
    return nn.WeightOp(store.add("w", array), type_of(array)).res


def splat(value: float, *shape: int) -> SSAValue:
    """A splat of type f32."""
    return nn.SplatOp(value, tensor(f32, shape)).res


def argument(*shape: int) -> SSAValue:
    """A value that is not known."""
    return Block(arg_types=[tensor(f32, shape)]).args[0]


def test_weights_are_shared() -> None:
    array = sample(0, (3, 4))
    found = constant_value(weight(array), STORE)
    assert found is not None
    assert np.shares_memory(found, array)


def test_a_weight_that_is_not_in_the_store() -> None:
    assert constant_value(nn.WeightOp("absent", tensor(f32, (1,))).res, WeightStore()) is None


def test_a_weight_at_a_place() -> None:
    array = sample(0, (2, 3, 4))
    store = WeightStore()
    type = placed(type_of(array), PlaceAttr.get("x86", "f32", NHWC))
    value = nn.WeightOp(store.add("w", pack(array, NHWC)), type).res
    np.testing.assert_array_equal(constant_value(value, store), array)


def test_splats_take_no_memory() -> None:
    found = constant_value(splat(0.5, 1000, 1000), STORE)
    assert found is not None
    assert found.strides == (0, 0)
    assert found.shape == (1000, 1000)
    assert found[7, 9] == 0.5


def test_a_splat_beyond_the_limit_is_read_in_part_only_by_none() -> None:
    huge = splat(0.5, 1 << 20, 1 << 20)
    assert constant_value(huge, STORE) is None
    part = nn.SliceOp.make([huge], starts=(0, 0), sizes=(1, 1), steps=(1, 1)).res
    assert constant_value(part, STORE) is None


def test_ops_on_constants() -> None:
    a, b = sample(0, (3, 4)), sample(1, (4,))
    total = nn.AddOp.make([weight(a), weight(b)])
    top = nn.TopkOp.make([total], k=2, axis=1, largest=True)
    values, indices = (constant_value(x, STORE) for x in top.results)
    np.testing.assert_array_equal(values, -np.sort(-(a + b), axis=1)[:, :2])
    np.testing.assert_array_equal(indices, np.argsort(-(a + b), axis=1)[:, :2])


@pytest.mark.parametrize("position", [0, 1])
def test_one_unknown_operand_makes_the_value_unknown(position: int) -> None:
    operands = [weight(sample(0, (2,))), argument(2)]
    value = nn.AddOp.make([operands[position], operands[1 - position]]).res
    assert constant_value(value, STORE) is None
    assert constant_value(nn.ReluOp.make([value]).res, STORE) is None


def test_ops_of_other_dialects_are_unknown() -> None:
    other = test.TestOp(result_types=[tensor(f32, (2,))]).results[0]
    assert constant_value(other, STORE) is None
    assert constant_value(nn.ReluOp.make([other]).res, STORE) is None


def test_an_index_out_of_range_is_left_to_the_run() -> None:
    index = weight(np.array([5]))
    value = nn.GatherOp.make([weight(sample(0, (3,))), index], axis=0).res
    constants = Constants(STORE)
    assert constants.value(value) is None
    assert constants.value(nn.ReluOp.make([value]).res) is None


def test_results_beyond_the_limit() -> None:
    row = weight(sample(0, (1, 1000)))
    value = nn.ExpandOp.make([row], shape=(1000, 1000)).res
    assert constant_value(value, STORE, limit=3_999_999) is None
    assert constant_value(value, STORE, limit=4_000_000) is not None


def test_a_small_result_of_a_large_one_is_too_much() -> None:
    row = weight(sample(0, (1, 1000)))
    large = nn.ExpandOp.make([row], shape=(1000, 1000)).res
    small = nn.SliceOp.make([large], starts=(0, 0), sizes=(1, 1), steps=(1, 1)).res
    assert constant_value(small, STORE, limit=1_000_000) is None
    assert constant_value(small, STORE, limit=5_000_000) is not None


def test_the_sum_of_the_work_counts() -> None:
    value = weight(sample(0, (100, 100)))
    for _ in range(20):
        value = nn.TransposeOp.make([value], perm=(1, 0)).res
    assert constant_value(value, STORE, limit=19 * 40_000) is None
    assert constant_value(value, STORE, limit=20 * 40_000) is not None


def test_padding_that_strides_skip_counts() -> None:
    far = (1 << 30) - 1
    x = splat(1, 1, 1, 4, 4)
    window: dict[str, Any] = {
        "kernel_shape": (1, 1), "strides": (far, far), "pads": (far,) * 4,
        "dilations": (1, 1), "ceil_mode": False,
    }  # fmt: skip
    assert constant_value(nn.MaxPoolOp.make([x], **window).res, STORE) is None


def test_a_product_that_takes_long_is_too_much() -> None:
    a = splat(1, 1, 1 << 22)
    matmul = nn.MatmulOp.make([a, a], transpose_b=True)
    assert constant_value(matmul.res, STORE) is None
    tall = splat(1, 2000, 2000)
    assert constant_value(nn.MatmulOp.make([tall, tall], transpose_b=False).res, STORE) is None


def test_each_channel_of_a_window_counts() -> None:
    """Windows reach no further than the channels do."""
    x = splat(1, 1, 4, 500, 500)
    sizes = (1, 2, 8, 1 << 40)
    ops = [nn.LrnOp.make([x], size=n, alpha=1.0, beta=1.0, bias=1.0) for n in sizes]
    one, two, all_channels, far = known_all(map(evaluation_bytes, ops))
    assert two - one >= 1_000_000
    assert all_channels == far == one + 7 * (two - one)


def test_the_limit_holds() -> None:
    x = weight(sample(0, (256, 256)))
    values: list[SSAValue] = [
        nn.ErfOp.make([x]).res,
        nn.SoftmaxOp.make([x], axis=1).res,
        nn.CumsumOp.make([x], axis=1, exclusive=True, reverse=True).res,
        nn.TopkOp.make([x], k=200, axis=1, largest=True).values,
        nn.TileOp.make([x], repeats=(2, 2)).res,
        nn.TransposeOp.make([x], perm=(1, 0)).res,
        nn.CastOp.make([x], to=i64).res,
        nn.LayerNormOp.make([x, splat(1, 256)], axis=1, epsilon=0.1).res,
        nn.GatherOp.make([x, weight(np.zeros(999, np.int32))], axis=0).res,
    ]
    for value in values:
        limit = 1 << 16
        while (found := constant_value(value, STORE, limit)) is None:
            limit *= 2
        del found
        tracemalloc.start()
        constant_value(value, STORE, limit)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak <= limit + 50_000, value.owner


def test_deep_chains() -> None:
    value = weight(np.ones((4,), np.float32))
    for _ in range(5000):
        value = nn.NegOp.make([value]).res
    found = constant_value(value, STORE)
    assert found is not None
    assert found.tolist() == [1, 1, 1, 1]
    unknown = argument(4)
    for _ in range(5000):
        unknown = nn.NegOp.make([unknown]).res
    assert constant_value(unknown, STORE) is None


def test_sharing_does_not_multiply_the_work() -> None:
    value = weight(np.ones((4,), np.float32))
    for _ in range(60):
        # 2 ** 60 paths, which would take years
        value = nn.MulOp.make([value, value]).res
    assert constant_value(value, STORE) is not None


def test_asking_for_every_value_of_a_graph() -> None:
    calls = 0
    run = nn.NegOp.evaluate

    def counted(op: nn.UnaryOp, *arrays: Array | None) -> list[Array]:
        nonlocal calls
        calls += 1
        return run(op, *arrays)

    values = [weight(np.ones((4,), np.float32))]
    for _ in range(300):
        values.append(nn.NegOp.make([values[-1]]).res)
    constants = Constants(STORE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(nn.NegOp, "evaluate", counted)
        for value in values:
            assert constants.value(value) is not None
    assert calls == 300


def test_large_values_are_not_kept() -> None:
    value = nn.TransposeOp.make([weight(sample(0, (512, 512)))], perm=(1, 0)).res
    constants = Constants(STORE)
    first = constants.value(value)
    assert first is not None
    assert constants.value(value) is not first


def test_a_cycle_is_unknown() -> None:
    first = nn.NegOp.make([weight(np.ones((4,), np.float32))])
    second = nn.NegOp.make([first])
    first.operands[0] = second.res
    constants = Constants(STORE)
    assert constants.value(second.res) is None
    assert constants.value(first.res) is None
