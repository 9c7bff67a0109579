"""Statements on tensors whose dimensions are split into digits keep their meaning."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.parser import Parser
from xdsl.rewriter import Rewriter

from tessella.codegen.emit import emit
from tessella.dialects.graph import CompileContext
from tessella.dialects.layout import Layout, Piece, pack, unpack
from tessella.dialects.nn.core import shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, placed, precision_of
from tessella.dialects.tile import ContractOp, Index, KernelOp, ReturnOp
from tessella.dialects.tile.flat import layout_of
from tessella.dialects.tile.split import _stretches, unreadable
from tessella.driver.stages.stage_file import stage_context
from tessella.lowering.pack_operands import PackOperandsPass
from tessella.lowering.tile_to_loops import ConvertTileToLoopsPass
from tessella.passes.tile_schedule import TileSchedulePass
from tessella.passes.tile_split_indices import TileSplitIndicesPass
from tessella.support.errors import InvalidModelError
from tessella.targets import Target
from tests.codegen.harness import RUNNABLE, call_text
from tests.generators.schedules import Fences
from tests.generators.tile_statements import statement
from tests.lowering import reference
from tests.native import Array
from tests.sampling import sampled

MOST = 1500
"""Ops of a kernel's loops."""
DIGITS = ((4,), (16,), (2,), (3,), (8, 2), (16, 4))
"""Widths of digits, of which several nest."""


def kernel_of(module: ModuleOp) -> KernelOp:
    return next(op for op in module.walk() if isinstance(op, KernelOp))


def contract_of(module: ModuleOp) -> ContractOp:
    return next(op for op in module.walk() if isinstance(op, ContractOp))


def random_digits(random: Random, rank: int) -> Layout:
    """A layout that splits one or two dimensions."""
    pieces: list[Piece] = []
    split = random.sample(range(rank), min(rank, random.randint(1, 2)))
    for dim in range(rank):
        widths = random.choice(DIGITS) if dim in split else ()
        steps = (*widths, 1)
        pieces.append(Piece(dim, div=steps[0]))
        pieces += [Piece(dim, b, a // b) for a, b in pairwise(steps)]
    return Layout("packed", tuple(random.sample(pieces, len(pieces))))


def test_a_digit_of_one_value_is_no_index() -> None:
    (stretch,) = _stretches(Index("i", 4), (4,))
    assert [(index.name, index.range) for index in stretch.indices] == [("i_1", 4)]
    assert str(stretch.value) == "i_1"


def set_layout(value: SSAValue, layout: Layout) -> None:
    type = tensor_type(value)
    place = PlaceAttr.get("x86", precision_of(type.element_type), layout)
    Rewriter.replace_value_with_new_type(value, placed(type, place))


def loops_of(module: ModuleOp) -> ModuleOp:
    loops = module.clone()
    ConvertTileToLoopsPass().apply(CompileContext(), loops)
    loops.verify()
    return loops


def run(
    module: ModuleOp, loops: ModuleOp, target: Target, arrays: list[Array], before: Array
) -> Array:
    """The kernel's result, where its memory held something before."""
    kernel = kernel_of(module)
    last = kernel.body.block.last_op
    assert isinstance(last, ReturnOp)
    layouts = [layout_of(v) for v in (*kernel.body.block.args, *last.values)]
    fences = Fences()
    memory = [
        fences.place(pack(a, layout)) for a, layout in zip([*arrays, before], layouts, strict=True)
    ]
    assert not call_text(emit(loops, target)["k"], target, *memory).any(), "a check failed"
    fences.check()
    return unpack(memory[-1], layouts[-1], before.shape)


def lowered(module: ModuleOp, target: Target) -> ModuleOp:
    """The module with indices split and schedules, verified after each step."""
    name = target.name
    for step in (TileSplitIndicesPass(name), TileSchedulePass(name), PackOperandsPass()):
        step.apply(CompileContext(), module)
        module.verify()
    return module


@pytest.mark.parametrize("target", RUNNABLE, ids=lambda t: t.name)
@settings(
    max_examples=sampled(10),
    deadline=None,
    suppress_health_check=[
        HealthCheck.too_slow,
        HealthCheck.data_too_large,
        HealthCheck.filter_too_much,
    ],
)
@given(random=st.randoms(use_true_random=False))
def test_any_statement_on_digits(target: Target, random: Random) -> None:
    drawn = statement(random)
    module = drawn.parse()
    op, kernel = contract_of(module), kernel_of(module)
    values: list[SSAValue] = list(kernel.body.block.args)
    arguments = dict(zip(values, drawn.arrays.values(), strict=True))
    wanted = reference.run(op, arguments, drawn.before)
    for value in (*values, op.res):
        if shape_of(value) and random.random() < 0.6:
            layout = random_digits(random, len(shape_of(value)))
            if op.init is not None and value is op.res:
                set_layout(op.init, layout)
            set_layout(value, layout)
    kernel.update_type()
    assume(unreadable(op) is None)
    note(str(module))
    lowered(module, target)
    loops = loops_of(module)
    assume(sum(1 for _ in loops.walk()) <= MOST)
    note(str(module))
    result = run(module, loops, target, list(drawn.arrays.values()), drawn.before)
    np.testing.assert_array_equal(result, wanted)


def product(a: str, b: str, out: str, *, m: int = 9, n: int = 37, k: int = 22) -> str:
    """A product of matrices at these layouts."""
    types = [
        f"tensor<{rows}x{columns}xf32, #place.at<x86, f32, {layout}>>"
        for rows, columns, layout in ((m, k, a), (k, n, b), (m, n, out))
    ]
    return f"""
    tile.kernel @k(%a: {types[0]}, %b: {types[1]}) -> ({types[2]}) {{
      %r = tile.contract + [m: {m}, n: {n} | k: {k}] (%a[m, k], %b[k, n]) -> [m, n] {{
      ^bb0(%x: f32, %y: f32):
        %p = arith.mulf %x, %y : f32
        tile.yield %p : f32
      }} : {types[2]}
      tile.return %r : {types[2]}
    }}"""


def parse(text: str) -> ModuleOp:
    return Parser(stage_context(), text).parse_module()


@pytest.mark.parametrize("target", RUNNABLE[:2], ids=lambda t: t.name)
@pytest.mark.parametrize("k", [4, 22])
@pytest.mark.parametrize(
    "a, b, out",
    [
        ("nchw", "packed<[0 floordiv 4, 1, 0 mod 4]>", "nchw"),
        ("packed<[1 floordiv 4, 0, 1 mod 4]>", "packed<[0 floordiv 4, 1, 0 mod 4]>", "nchw"),
        ("nchw", "packed<[0 floordiv 4, 1, 0 mod 4]>", "packed<[1 floordiv 16, 0, 1 mod 16]>"),
        (
            "packed<[0 floordiv 8, 1, 0 floordiv 2 mod 4, 0 mod 2]>",
            "packed<[1 floordiv 16, 0 floordiv 4, 1 mod 16, 0 mod 4]>",
            "packed<[0 floordiv 8, 1 floordiv 16, 0 mod 8, 1 mod 16]>",
        ),
    ],
)  # fmt: skip
def test_products(target: Target, k: int, a: str, b: str, out: str) -> None:
    """The layouts are those of VNNI operands, and nested blocks."""
    rng = np.random.default_rng(k)
    x, y = (rng.integers(-3, 4, shape).astype(np.float32) for shape in ((9, k), (k, 37)))
    module = lowered(parse(product(a, b, out, k=k)), target)
    before = np.full((9, 37), np.nan, np.float32)
    result = run(module, loops_of(module), target, [x, y], before)
    np.testing.assert_array_equal(result, x @ y)


@pytest.mark.parametrize(
    "access, layout, reason",
    [
        ("x + 1", "packed<[0 floordiv 4, 0 mod 4]>", "x + 1 does not fall into digits of 4"),
        ("3*x", "packed<[0 floordiv 4, 0 mod 4]>", "3*x does not fall into digits of 4"),
    ],
)
def test_what_does_not_fall_into_digits(access: str, layout: str, reason: str) -> None:
    type = f"tensor<40xf32, #place.at<x86, f32, {layout}>>"
    module = parse(f"""
    tile.kernel @k(%a: {type}) -> (tensor<12xf32>) {{
      %r = tile.contract = [x: 12] (%a[{access}]) -> [x] {{
      ^bb0(%v: f32):
        tile.yield %v : f32
      }} : tensor<12xf32>
      tile.return %r : tensor<12xf32>
    }}""")
    found = unreadable(contract_of(module))
    assert found is not None
    assert reason in found
    with pytest.raises(InvalidModelError, match="does not fit the layouts"):
        lowered(module, RUNNABLE[0])
