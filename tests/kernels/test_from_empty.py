"""Each op with a symbol, whose range begins at 0, for one of its sizes: native code agrees with the
NumPy kernels, also for the sizes 0 and 1."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

from tessella.dialects import nn
from tessella.dialects.graph import Graph, finish_main, make_main
from tessella.dialects.interpret import interpret
from tessella.dialects.nn.core import NnOp, tensor, type_of
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.sizes import declare_symbols
from tessella.driver.build.build import build
from tessella.driver.options import make_options
from tessella.runtime.program import Program
from tessella.runtime.texts import STRING
from tessella.runtime.weights import WeightStore
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import ExecutionError, ShapeError
from tessella.support.sizes import MOST, Symbol
from tests.native import Array
from tests.op_examples import COMPUTING, EXAMPLES, Example

DIFFERENT: Mapping[type[NnOp], str] = {
    nn.ArgMaxOp: "an axis without elements",
    nn.ArgMinOp: "an axis without elements",
    nn.AvgPoolOp: "an image smaller than the window",
    nn.ConvOp: "an image smaller than the window",
    nn.ConvTransposeOp: "an image or a kernel without elements",
    nn.GroupNormOp: "the norm of no elements",
    nn.GroupedMatmulOp: "no groups",
    nn.GroupedOuterOp: "no groups",
    nn.LayerNormOp: "the norm of no elements",
    nn.MaxPoolOp: "an image smaller than the window",
    nn.MaxRoiPoolOp: "an image without elements",
    nn.ResizeOp: "an image without elements",
    nn.RoiAlignOp: "an image without elements",
    nn.SliceOp: "a slice that leaves its operand",
    nn.TopkOp: "more elements than the axis has",
    nn.TreeEnsembleOp: "no features, or no trees",
}
"""Ops that raise an error or need another program if some size is 0 or 1, with the reason."""


def cases() -> Iterator[tuple[str, int]]:
    """Examples, and their sizes that become a symbol: a few of the elementwise ops, which are
    alike."""
    sizes = {
        name: sorted({n for x in example.operands for n in x.shape})
        for name, example in COMPUTING.items()
    }
    elementwise = [op for op in EXAMPLES if issubclass(op, ElementwiseOp)]
    for name, example in COMPUTING.items():
        if example.op not in elementwise:
            yield from ((name, n) for n in sizes[name])
        elif example.op in elementwise[::9]:
            yield name, sizes[name][0]


def graph_of(example: Example, size: int, symbol: Symbol) -> Graph:
    """The op with a symbol in place of each dimension of this size."""
    types = [type_of(x) for x in example.arrays()]
    opened = [
        tensor(t.element_type, [symbol.size if n == size else n for n in t.get_shape()])
        for t in types
    ]
    main = make_main([f"x{i}" for i in range(len(types))], opened)
    op = example.op.make([*main.body.block.args], **example.settings)
    main.body.block.add_op(op)
    finish_main(main, [f"y{i}" for i in range(len(op.results))], op.results)
    module = ModuleOp([main])
    declare_symbols(module, [symbol] if not isinstance(symbol.size, int) else [])
    return Graph(module, WeightStore())


def resized(x: Array, size: int, n: int) -> Array:
    """Elements of an array, with other sizes in place of this size."""
    shape = [n if m == size else m for m in x.shape]
    return np.require(np.resize(x, shape).astype(x.dtype), None, ["C", "A"])


def compiled(example: Example, symbol: Symbol, size: int) -> Program | None:
    """The program for all values of a symbol; None if a decision depends on it."""
    try:
        return build(graph_of(example, size, symbol), make_options(threads=1)).program
    except (UndecidedSizeError, ShapeError):
        return None


@pytest.mark.sweep
@pytest.mark.parametrize("name, size", list(cases()))
def test_sizes_begin_at_0(name: str, size: int) -> None:
    example = COMPUTING[name]
    program = compiled(example, Symbol("n", 0, MOST), size)
    if program is None:
        never = example.op in DIFFERENT or compiled(example, Symbol("n", 2, MOST), size) is None
        assert never, "the sizes can begin at 2, but not at 0"
        return
    for n in (0, 1, 2, size, 33):
        inputs = [resized(x, size, n) for x in example.arrays()]
        named = {f"x{i}": x for i, x in enumerate(inputs)}
        try:
            with np.errstate(all="ignore"):
                expected = interpret(graph_of(example, size, Symbol("n", n, n)), named)
        except ExecutionError:  # an index is out of range
            with pytest.raises(ExecutionError):
                program.run(inputs)
            continue
        for y, wanted in zip(program.run(inputs), expected, strict=True):
            assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
            if y.dtype == STRING:
                assert y.tolist() == wanted.tolist()
            else:
                np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
