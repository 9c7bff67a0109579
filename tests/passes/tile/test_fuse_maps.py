"""Statements that maps cannot be fused with, as another value would be read or written."""

from __future__ import annotations

import numpy as np
import pytest
from xdsl.parser import Parser

from tessella.dialects.graph import CompileContext
from tessella.dialects.interpret import Interpreter
from tessella.dialects.tile import KernelOp
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.tile_fuse_maps import TileFuseMapsPass
from tessella.runtime.weights import WeightStore
from tests.native import Array, normal


def statement(name: str, text: str, body: str, shape: str) -> str:
    """A statement on f32 whose body is an expression of one or two operands."""
    return f"%{name} = tile.contract {text} {{\n{body}\n}} : tensor<{shape}xf32>"


SAME = "^bb0(%v: f32):\n tile.yield %v : f32"
EXP = "^bb0(%v: f32):\n %w = math.exp %v : f32\n tile.yield %w : f32"
ADD = "^bb0(%v: f32, %u: f32):\n %w = arith.addf %v, %u : f32\n tile.yield %w : f32"
TAKE = """^bb0(%v: f32):
 %i = tile.index "i"
 %u = tile.extract %r[%i] : tensor<4xf32> -> f32
 %w = arith.mulf %v, %u : f32
 tile.yield %w : f32"""

ALL = statement("r", "= [i: 4] (%x[i]) -> [i]", EXP, "4")
OVER = statement("s", "= [i: 2] (%x[i]) init %r -> [i + 2]", SAME, "4")
"""Writes over a half of what the first one wrote."""
ROWS = "+ [i: 4 | k: 3] (%a[i, k]"

CASES = {
    "a map of what is overwritten, in a sum": (
        [
            ALL,
            statement("m", "= [i: 4] (%r[i]) -> [i]", EXP, "4"),
            OVER,
            statement("t", "+ [| i: 4] (%m[i]) -> []", SAME, ""),
        ],
        {"s": "4x", "t": ""},
    ),
    "a map after a sum of what is overwritten": (
        [
            ALL,
            statement("m", f"{ROWS}, %r[i]) -> [i]", ADD, "4"),
            OVER,
            statement("t", "= [d: 4] (%m[d], %x[d]) -> [d]", ADD, "4"),
        ],
        {"s": "4x", "t": "4x"},
    ),
    "a map after a sum of elements that are overwritten": (
        [
            ALL,
            statement("m", f"{ROWS}) -> [i]", TAKE, "4"),
            OVER,
            statement("t", "= [d: 4] (%m[d], %x[d]) -> [d]", ADD, "4"),
        ],
        {"s": "4x", "t": "4x"},
    ),
    "a map after a sum that reads, by number, what the map writes over": (
        [
            ALL,
            statement("m", f"{ROWS}) -> [i]", TAKE, "4"),
            statement("t", "= [d: 4] (%m[d]) init %r -> [d]", EXP, "4"),
        ],
        {"t": "4x"},
    ),
    "a map into a larger tensor than its producer would leave": (
        [
            "%e = tile.empty : tensor<8xf32>",
            statement("f", "= [i: 4] (%x[i]) init %e -> [i + 4]", SAME, "8"),
            statement("m", "+ [i: 6 | k: 3] (%b[i, k]) -> [i]", SAME, "4"),
            statement("t", "= [d: 4] (%m[d]) init %f -> [d]", EXP, "8"),
        ],
        {"t": "8x"},
    ),
    "a map after one whose points leave the tensor": (
        [
            statement("m", "= [i: 6] (%b[i, 0]) -> [i]", SAME, "4"),
            statement("t", "= [d: 4] (%m[d], %x[d]) -> [d]", ADD, "4"),
        ],
        {"t": "4x"},
    ),
    "a map of one row, of which the producer has three": (
        [
            statement("m", "= [i: 4, k: 3] (%a[i, k]) -> [i, k]", SAME, "4x1"),
            statement("t", "= [d: 4] (%m[d, 0]) -> [d]", EXP, "4"),
        ],
        {"t": "4x"},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_results_stay(name: str) -> None:
    lines, results = CASES[name]
    types = ", ".join(f"tensor<{shape}f32>" for shape in results.values())
    values = ", ".join(f"%{result}" for result in results)
    arguments = "%x: tensor<4xf32>, %a: tensor<4x3xf32>, %b: tensor<6x3xf32>"
    text = "\n".join(
        [
            f"tile.kernel @k({arguments}) -> ({types}) {{",
            *(line.replace("tensor<xf32>", "tensor<f32>") for line in lines),
            f"tile.return {values} : {types}\n}}",
        ]
    )
    module = Parser(stage_context(), text).parse_module()
    module.verify()
    (kernel,) = (op for op in module.body.block.ops if isinstance(op, KernelOp))
    feeds = [normal(4), normal(4, 3), normal(6, 3)]
    wanted = run(kernel, feeds)
    TileFuseMapsPass("avx2").apply(CompileContext(), module)
    module.verify()
    for found, expected in zip(run(kernel, feeds), wanted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def run(kernel: KernelOp, feeds: list[Array]) -> list[Array]:
    return Interpreter(WeightStore()).block(kernel.body.block, feeds)
