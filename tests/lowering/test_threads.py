"""Kernels that are divided between threads: the same bits for any number, and in any order."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pytest
from onnx import helper

import tessella
from bench.array_cases import CASES, Modules
from bench.cases import attention
from tessella.dialects.tile import KernelOp
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.options import make_options
from tessella.frontends.compile import open_source
from tessella.frontends.onnx import OnnxSource
from tessella.passes import insert_barriers
from tessella.runtime.arena import Workspace
from tessella.runtime.native_steps import NativeStep
from tessella.runtime.pool import POOL
from tessella.runtime.program import Program
from tessella.support.conditions import UndecidedSizeError
from tessella.support.decisions import known
from tests import emulated
from tests.frontends.onnx.models import model, value
from tests.frontends.onnx.test_recurrent import GATES
from tests.generators.nn_programs import OPEN
from tests.generators.nn_programs import program as drawn_program
from tests.generators.scans import body, loop, make, scan
from tests.models import load_model, lowered_for, random_inputs
from tests.native import RUNNABLE, Array, normal
from tests.sampling import seeds, sized
from tests.turns import take_turns

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
ORDERS = [(0, 1), (1, 0), (2, 1, 0), (3, 0, 4, 1, 2)]
ARRAYS = sized(list(CASES), {"distances-1000x1000x64", "logistic-gradient-100000x100"})


@pytest.fixture(autouse=True)
def no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs are those of the thresholds that tests set."""
    monkeypatch.setenv("TESSELLA_CACHE", "off")


def check_bits(
    program: Program,
    arrays: Sequence[Array],
    monkeypatch: pytest.MonkeyPatch,
    orders: Sequence[Sequence[int]] = ORDERS,
) -> None:
    """Assert that threads in turns compute what one does, in memory that holds NaNs at first; and
    so do those of the pool, at once."""
    alone = [y.tobytes() for y in program.run(arrays)]
    for order in orders:
        with monkeypatch.context() as patch:
            take_turns(patch, order)
            workspace = Workspace()
            workspace.arena(1 << 20)
            workspace._arena.fill(255)
            program.workspaces.release()
            program.workspaces.free.append(workspace)
            in_turns = program.run(arrays, len(order))
        assert [y.tobytes() for y in in_turns] == alone, order
        at_once = program.run(arrays, len(order))
        assert [y.tobytes() for y in at_once] == alone, f"{len(order)} threads at once"


def test_small_models_wake_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """A call takes no longer than on one thread."""
    monkeypatch.setattr(POOL, "team", lambda threads, code: pytest.fail("the pool has been asked"))
    model = tessella.compile(DIGITS, threads=2)
    (image,) = model.inputs
    model(np.zeros([d if isinstance(d, int) else 1 for d in image.shape], np.float32))


@pytest.mark.parametrize("name", ARRAYS)
def test_functions(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each function of the benchmarks, in half of the orders."""
    case = CASES[name]
    arrays = case.arguments(np.random.default_rng(0))
    function = functools.partial(case.function, Modules(np, tessella.erf))
    graph = tessella.jit(function).lower(*arrays)._program.graph()
    program = compile_graph(graph, make_options()).program
    # NumPy copies
    assert name == "copy-100M" or any(getattr(step, "shared", False) for step in program.steps)
    check_bits(program, arrays, monkeypatch, ORDERS[[*CASES].index(name) % 2 :: 2])


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("target", RUNNABLE)
@pytest.mark.parametrize("seed", seeds(40))
def test_programs(target: str, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also with sizes that a run tells: threads divide as many rows as there are then."""
    random = Random(seed)
    drawn = drawn_program(random, np.float32, 4, exact=False, symbols=OPEN if seed % 2 else None)
    try:
        program = compile_graph(drawn.graph(), make_options(target=target)).program
    except UndecidedSizeError:
        pytest.skip("it can only be compiled for numbers")
    for size in (2, 19) if drawn.symbols else (0,):
        made = drawn.at({symbol.name: size + i for i, symbol in enumerate(drawn.symbols)})
        check_bits(program, list(made.inputs.values()), monkeypatch)


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("seed", seeds(40))
def test_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps wait for steps before them, too."""
    proto, feeds = loop(Random(seed), size=300)
    graph = OnnxSource(proto).graph({name: array.shape for name, array in feeds.items()})
    check_bits(compile_graph(graph, make_options()).program, list(feeds.values()), monkeypatch)


def _layer(op: str, hidden: int) -> Program:
    """A bidirectional layer, for three steps and a batch of two."""
    shapes = {name: array.shape for name, array in _layer_inputs(op, hidden).items()}
    node = helper.make_node(op, list(shapes), ["Y"], hidden_size=hidden, direction="bidirectional")
    proto = model(
        [node],
        [value(name, shape) for name, shape in shapes.items()],
        [value("Y", [None] * 4)],
    )
    return compile_graph(OnnxSource(proto).graph(shapes), make_options()).program


def _layer_inputs(op: str, hidden: int) -> dict[str, Array]:
    rows = GATES[op] * hidden
    return {
        "X": normal(3, 2, 24),
        "W": normal(2, rows, 24, seed=1),
        "R": normal(2, rows, hidden, seed=2),
        "B": normal(2, 2 * rows, seed=3),
    }


@pytest.mark.sweep
@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("op, hidden", [*((op, 300) for op in GATES), ("GRU", 1300)])
def test_recurrent_layers(op: str, hidden: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the loop of a wide GRU, threads have memory of their own if the values between statements
    are larger than a cache."""
    program = _layer(op, hidden)
    (step,) = program.steps
    assert isinstance(step, NativeStep)
    assert step.shared
    check_bits(program, list(_layer_inputs(op, hidden).values()), monkeypatch)


@pytest.mark.usefixtures("divide_all")
def test_a_step_waits_for_the_one_before(monkeypatch: pytest.MonkeyPatch) -> None:
    nodes = make(
        ("MatMul", "h0 matrix", "a"), ("Add", "a x0", "b"), ("Tanh", "b", "k0"), ("Neg", "x0", "y0")
    )
    proto, feeds = scan(body(nodes, 1, 1, 1, 300), 6, 300)
    graph = OnnxSource(proto).graph({name: array.shape for name, array in feeds.items()})
    check_bits(compile_graph(graph, make_options()).program, list(feeds.values()), monkeypatch)
    monkeypatch.setattr(insert_barriers, "STEPS", 1)
    graph = OnnxSource(proto).graph({name: array.shape for name, array in feeds.items()})
    program = compile_graph(graph, make_options()).program
    with pytest.raises(AssertionError):
        check_bits(program, list(feeds.values()), monkeypatch)


def test_heads_and_rows_are_one_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads begin anywhere in the rows of a head, but not in the last ones, which overlap those
    before them."""
    model = attention(3, 700, 16)
    source, feeds = open_source(model), random_inputs(model)
    kernels = lowered_for(model).stages["tile"].ops
    (nest,) = (op.nest.data for op in kernels if isinstance(op, KernelOp) and op.nest is not None)
    heads, rows = nest.loops
    assert nest.divided == (0, 1)
    assert heads.step == 1
    assert known(rows.extent) % rows.step
    graph = source.graph({name: array.shape for name, array in feeds.items()})
    program = compile_graph(graph, make_options()).program
    check_bits(program, [feeds[value.name] for value in source.inputs], monkeypatch)


def _squared(a: Array, b: Array) -> Array:
    return ((a - b) ** 2).sum()


def _standardised(a: Array, b: Array) -> Array:
    return (a - a.mean(axis=0)) / (b.std(axis=0) + 1)


def _softmax(a: Array, b: Array) -> Array:
    e = np.exp(a - a.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True) + b


def _smoothed(a: Array, b: Array) -> Array:
    """The second sum reads neighbours of what the same step of shared loops has made."""
    e = np.tanh(a) * b
    e = e[1:] + 2 * e[:-1]
    return np.exp(e[2:] + e[:-2])


@pytest.mark.sweep
@pytest.mark.parametrize("function", [_squared, _standardised, _softmax, _smoothed])
def test_functions_of_arrays(
    function: Callable[[Array, Array], Array], monkeypatch: pytest.MonkeyPatch
) -> None:
    a, b = normal(3000, 400), normal(3000, 400, seed=1)
    alone = tessella.jit(function, threads=1)(a, b)
    for order in ORDERS:
        with monkeypatch.context() as patch:
            turns = take_turns(patch, order)
            together = tessella.jit(function, threads=len(order))(a, b)
        assert turns.runs
        assert together.tobytes() == alone.tobytes(), order


def test_a_missing_barrier_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    """The turns find what a barrier is for."""
    model = load_model("two fires")
    source, feeds = open_source(model), random_inputs(model)
    monkeypatch.setattr("tessella.passes.hazards.Hazards.conflict", lambda self, uses: None)
    graph = source.graph({name: array.shape for name, array in feeds.items()})
    program = compile_graph(graph, make_options()).program
    with pytest.raises(AssertionError):
        check_bits(program, [feeds[value.name] for value in source.inputs], monkeypatch)


@pytest.mark.usefixtures("divide_all")
@pytest.mark.parametrize("seed", seeds(24))
def test_programs_for_aarch64(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """On emulated cores, which change after any number of instructions."""
    drawn = drawn_program(Random(seed), np.float32, 4)
    arrays = list(drawn.inputs.values())
    expected = compile_graph(drawn.graph(), make_options()).program.run(arrays)
    with monkeypatch.context() as patch:
        program = emulated.compiled(drawn.graph(), seed, patch)
        for threads in (1, 2, 3):
            for y, wanted in zip(program.run(arrays, threads), expected, strict=True):
                np.testing.assert_array_equal(y, wanted, strict=True)
