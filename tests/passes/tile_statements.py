"""Statements of the `tile` stage for tests of the tile-size search."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.parser import Parser

from tessella.dialects.tile import ContractOp
from tessella.driver.stages.stage_file import stage_context

RELU = """, {
  ^bb0(%o: f32):
    %zero = arith.constant 0.0 : f32
    %positive = arith.cmpf ogt, %o, %zero : f32
    %r = arith.select %positive, %o, %zero : f32
    tile.yield %r : f32
  }"""


def contraction(
    indices: str,
    inputs: Sequence[tuple[str, str]],
    out: tuple[str, str],
    *,
    relu: bool = False,
    aggregation: str = "+",
) -> ContractOp:
    """A sum of products of f32: each tensor is (access, shape), such as ("[m, k]", "16x8").

    The tensors are called A, B, .., the result O.
    """
    names = "ABCD"[: len(inputs)]
    types = [f"tensor<{shape}xf32>" for _, shape in inputs]
    arguments = ", ".join(f"%{name}: {type}" for name, type in zip(names, types, strict=True))
    accesses = ", ".join(f"%{name}{a}" for name, (a, _) in zip(names, inputs, strict=True))
    product = "%x0"
    steps: list[str] = []
    for i in range(1, len(inputs)):
        steps.append(f"%p{i} = arith.mulf {product}, %x{i} : f32")
        product = f"%p{i}"
    scalars = ", ".join(f"%x{i}: f32" for i in range(len(inputs)))
    newline = "\n"
    post = "post ()" if relu else ""
    text = f"""
    tile.kernel @kernel({arguments}) -> (tensor<{out[1]}xf32>) {{
      %O = tile.contract {aggregation} [{indices}] ({accesses}) {post} -> {out[0]} {{
      ^bb0({scalars}):
        {newline.join(steps)}
        tile.yield {product} : f32
      }}{RELU if relu else ""} : tensor<{out[1]}xf32>
      tile.return %O : tensor<{out[1]}xf32>
    }}"""
    module = Parser(stage_context(), text).parse_module()
    module.verify()
    return next(op for op in module.walk() if isinstance(op, ContractOp))


def article() -> ContractOp:
    """The convolution of PlaidML's article on kernel generation."""
    return contraction(
        "n: 32, x: 224, y: 224, co: 64 | i: 3, j: 3, ci: 64",
        [("[n, x + i - 1, y + j - 1, ci]", "32x224x224x64"), ("[i, j, co, ci]", "3x3x64x64")],
        ("[n, x, y, co]", "32x224x224x64"),
        relu=True,
    )
