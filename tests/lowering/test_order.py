"""Statements that do not depend on each other stand in any order: the loops are the same, up to the
order of statements and buffers, and so are the bits of results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping
from random import Random

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import MemRefType, ModuleOp, StringAttr
from xdsl.ir import Block, Region

import tessella
from bench import cases
from tessella.dialects import rt
from tessella.dialects.nn.core import dtype_of
from tessella.dialects.printing import to_text
from tessella.dialects.sizes import declare_symbols, symbols_in
from tessella.dialects.structure import structure
from tessella.dialects.tile import CallOp, KernelOp, ReturnOp, SegmentOp
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.frontends.compile import open_source
from tessella.support.sizes import Symbol, value_of
from tessella.targets import native
from tests.fuzz.tile import NESTS
from tests.generators.nests import Nested
from tests.generators.open_sizes import CLOSED
from tests.generators.orders import shuffle
from tests.lowering.segments import Lowered, size_of
from tests.models import load_fixture
from tests.native import Array
from tests.sampling import sample, sized

ORDERS = 2
"""Orders of each kernel, if there are others than its own."""
DRAWN = 200
"""Kernels, of which one has to have other orders."""
SIZES = {"batch": 2, "seq": 23, "past": 5}


def network(model: onnx.ModelProto) -> ModuleOp:
    """The stage `tile` of a model, whose open dimensions are symbols."""
    source = open_source(model)
    shapes = {
        i.name: tuple(d if isinstance(d, int) else Symbol(d, 2, 512).size for d in i.shape)
        for i in source.inputs
    }
    return lower(source.graph(shapes), make_options(), stop="tile").stages["tile"]


def sums(x: Array) -> tuple[Array, Array]:
    """Sums over the rows of one array, each in blocks of rows."""
    return (x * x).sum(axis=0) - x.sum(axis=0), np.abs(x).max(axis=0)


def scaled(x: Array) -> Array:
    """Each row by its deviation, of which parts do not depend on each other."""
    low, high = x.min(axis=1, keepdims=True), x.max(axis=1, keepdims=True)
    return (x - x.mean(axis=1, keepdims=True)) / (high - low)


def function(of: Callable[[Array], object], *shape: int) -> ModuleOp:
    """The stage `tile` of a function of an array."""
    text = tessella.jit(of).lower(np.zeros(shape, np.float32)).as_text("tile")
    module = LocatedParser(stage_context(), text, "text").parse()
    assert isinstance(module, ModuleOp)
    return module


PROGRAMS: Mapping[str, Callable[[], ModuleOp]] = {
    "swin": lambda: network(load_fixture("swin")),
    "unet": lambda: network(load_fixture("unet")),
    "encoder of any length": lambda: network(load_fixture("encoder_open")),
    "vit of any batch": lambda: network(load_fixture("vit_open")),
    "attention by keys": lambda: network(cases.attention(1, 4096, 64)),
    "sums": lambda: function(sums, 60000, 64),
    "scaled": lambda: function(scaled, 4096, 1024),
}
"""Programs with kernels whose statements can stand in several orders."""


@pytest.mark.parametrize("name", sized([*PROGRAMS], quick=("vit of any batch", "sums", "scaled")))
def test_independent_statements_stand_in_any_order(name: str) -> None:
    module = PROGRAMS[name]()
    found = [(kernel, others) for kernel in kernels(module) if (others := orders(kernel))]
    assert found
    for kernel, others in found:
        first = alone(module, kernel)
        results = run(first)
        for other in others:
            again = alone(module, other)
            assert lines(again) == lines(first)
            for result, wanted in zip(run(again), results, strict=True):
                np.testing.assert_array_equal(result, wanted)


@pytest.mark.parametrize("seed", sample(range(32)))
def test_random_statements_stand_in_any_order(seed: int) -> None:
    """Against what the statements mean in the order in which they were drawn. Shared loops run as
    many times."""
    random = Random(seed)
    made = next(
        m
        for _ in range(DRAWN)
        if (m := random.choice(NESTS)(random, native(), CLOSED)) and orders(m.kernel)
    )
    loops = shared_loops(made)
    shuffle(made.kernel, random)
    made.module.verify()
    assert shared_loops(made) == loops
    made.check()


def shared_loops(made: Nested) -> int:
    """Return how many of the code's loops statements share."""
    texts = (to_text(op) for op in Lowered(made.module, made.target).loops.ops)
    return sum(len(re.findall(r"scf\.for %step", text)) for text in texts)


def kernels(module: ModuleOp) -> Iterable[KernelOp]:
    """The kernels of a program, of those that are alike one."""
    found: dict[Hashable, KernelOp] = {}
    for op in module.ops:
        if isinstance(op, KernelOp):
            copy = op.clone()
            copy.sym_name, copy.code, copy.nodes = StringAttr("k"), None, None
            found.setdefault(structure(copy), op)
    return found.values()


def orders(kernel: KernelOp) -> list[KernelOp]:
    """The kernel with its statements in other orders, each once."""
    texts: dict[str, KernelOp] = {}
    for seed in range(ORDERS):
        other = kernel.clone()
        shuffle(other, Random(seed))
        texts[to_text(other)] = other
    texts.pop(to_text(kernel), None)
    return list(texts.values())


def alone(module: ModuleOp, kernel: KernelOp) -> Lowered:
    """A program that runs one kernel of another program."""
    own = kernel.clone()
    own.arg_attrs = None  # which of its arguments are weights
    block = Block(arg_types=own.function_type.inputs)
    call = CallOp(own.sym_name.data, block.args, list(own.function_type.outputs))
    block.add_ops([call, ReturnOp(call.res)])
    program = ModuleOp([own, SegmentOp("s", own.function_type, Region(block))])
    declare_symbols(program, symbols_in(module))
    program.verify()
    return Lowered(program, native())


def run(lowered: Lowered) -> list[Array]:
    """The results of a program for arrays that are drawn."""
    rng = np.random.default_rng(0)
    arrays: list[Array] = []
    for value in lowered.segment.inputs:
        assert isinstance(value.type, MemRefType)
        drawn = rng.standard_normal(value_of(size_of(value), SIZES), np.float32) * 3
        arrays.append(drawn.astype(dtype_of(value.type.element_type)))
    return lowered.run(SIZES, arrays, 1, np.copy)


def lines(lowered: Lowered) -> Counter[str]:
    """Count the lines of the kernels on buffers, with value names removed. The buffers in a
    kernel's first line count one by one."""
    found = Counter[str]()
    for op in lowered.loops.ops:
        if isinstance(op, rt.KernelOp):
            head, *body = re.sub(r"%\w+", "%", to_text(op, wrap=False)).split("\n")
            found.update(re.findall(r"memref<\w+>|#rt.part<[^>]*>", head))
            found.update(line.strip() for line in body)
    return found
