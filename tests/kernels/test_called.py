"""Python functions, and functions of shared libraries, as rivals of generated kernels."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Generator
from ctypes.util import find_library
from typing import Any

import numpy as np
import pytest

from tessella import ops
from tessella.dialects import nn
from tessella.dialects.layout import NHWC
from tessella.dialects.nn.core import NnOp
from tessella.driver.compile import compile_source
from tessella.driver.model.model import Model
from tessella.kernels import registry
from tessella.kernels.elements import rows
from tessella.kernels.registry import CPU, Kernel, called
from tessella.runtime import host
from tessella.runtime.library import c_function, row_major
from tessella.support.errors import ExecutionError, InternalError, LibraryError, OptionError
from tests.native import Array, FixedSource, GraphBuilder, normal

Function = Callable[..., Any]
Register = Callable[..., None]


@pytest.fixture
def register() -> Generator[Register]:
    """Registers a function for `nn.matmul` for the length of a test."""

    def add(function: Function, cost: float = 1e-9, **options: Any) -> None:
        called(nn.MatmulOp, "mine", cost=lambda op, target: cost, **options)(function)

    try:
        yield add
    finally:
        kernels = registry._KERNELS["nn.matmul"]
        kernels[:] = [kernel for kernel in kernels if kernel.name != "mine"]
        host.KERNELS.pop("nn.matmul/mine", None)


def product(n: int = 8) -> Model:
    """relu(relu(x) w + x), with a weight."""

    def make() -> Any:
        g = GraphBuilder(x=normal(n, n))
        x = g.op(nn.ReluOp, [g.inputs["x"]])
        y = g.op(nn.MatmulOp, [x, g.weight(normal(n, n, seed=1))], transpose_b=False)
        return g.graph(g.op(nn.ReluOp, [g.op(nn.AddOp, [y, g.inputs["x"]])]))

    return compile_source(FixedSource(make))


def expected(n: int = 8, sign: float = 1.0) -> Array:
    x = normal(n, n)
    return np.maximum(sign * np.maximum(x, 0) @ normal(n, n, seed=1) + x, 0)


def entry(model: Model) -> Any:
    (found,) = (e for e in model.explain().ops if e["op"] == "nn.matmul")
    return found


def negative(a: Array, b: Array, *, transpose_b: bool) -> Array:
    """A product that is wrong: so one sees that it ran."""
    assert not transpose_b
    return -(a @ b)


def test_it_runs_between_native_segments_at_their_places(register: Register) -> None:
    register(negative)
    model = product()
    found = entry(model)
    assert (found["kernel"], found["place"], found["fallback"]) == ("mine", "x86/f32/nchw", None)
    assert found["runner_up"]["kernel"] == "matmul"
    np.testing.assert_allclose(model(normal(8, 8)), expected(sign=-1.0), rtol=1e-5, atol=1e-5)


def test_its_cost_decides(register: Register) -> None:
    register(negative, cost=1.0)
    model = product()
    assert entry(model)["kernel"] == "matmul"
    np.testing.assert_allclose(model(normal(8, 8)), expected(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "options",
    [{"elements": rows(["f64"])}, {"applies": lambda op: "never"}],
    ids=["elements", "predicate"],
)
def test_its_elements_and_predicate_decide(register: Register, options: Any) -> None:
    register(negative, **options)
    assert entry(product())["kernel"] == "matmul"


def test_it_serves_no_op_with_a_property_that_it_does_not_take(register: Register) -> None:
    register(negative)
    product = ops.matmul(np.ones((2, 3), np.uint8), np.ones((3, 2), np.int8), sums=np.int32)
    np.testing.assert_array_equal(product, np.full((2, 2), 3, np.int32))


def test_results_of_another_shape_are_an_error_before_native_code_reads_them(
    register: Register,
) -> None:
    register(lambda a, b, **_: (a @ b)[:-1])
    with pytest.raises(ExecutionError, match="other shapes") as caught:
        product()(normal(8, 8))
    assert (caught.value.expected, caught.value.found) == ("(8, 8)", "(7, 8)")


def test_results_of_another_type_are_converted(register: Register) -> None:
    register(lambda a, b, **_: a.astype(np.float64) @ b)
    np.testing.assert_allclose(product()(normal(8, 8)), expected(), rtol=1e-5, atol=1e-5)


def test_what_it_raises_names_the_node(register: Register) -> None:
    def broken(*_: Array, **__: bool) -> Array:
        raise ZeroDivisionError("no luck")

    register(broken)
    with pytest.raises(ExecutionError, match=r"nn\.matmul/mine.*ZeroDivisionError: no luck"):
        product()(normal(8, 8))


def test_it_has_no_layouts_and_no_lowering() -> None:
    def cost(op: NnOp, target: object) -> float:
        return 1.0

    with pytest.raises(InternalError, match=r"mine of nn\.matmul calls f"):
        Kernel("mine", nn.MatmulOp, CPU, (NHWC,), cost=cost, function="f")


def test_it_takes_the_properties_of_the_op(register: Register) -> None:
    def without(a: Array, b: Array) -> Array:
        return a @ b

    def another(a: Array, b: Array, *, transpose_b: bool, transpose_a: bool) -> Array:
        return a @ b

    def demanding(a: Array, b: Array, *, transpose_b: bool, sums: object) -> Array:
        return a @ b

    for function in (without, another, demanding):
        with pytest.raises(OptionError, match="other keywords than the op") as caught:
            register(function)
        assert caught.value.expected == "transpose_b, sums=None"
    assert "nn.matmul/mine" not in host.KERNELS


# ** functions of shared libraries **

LIBM = find_library("m") or "libm.so.6"


def test_a_function_of_a_library() -> None:
    cosine = c_function(LIBM, ["no_such", "cosf"], [ctypes.c_float], ctypes.c_float)
    assert cosine(1.0) == pytest.approx(np.cos(1.0), rel=1e-6)


def test_what_is_missing_is_said() -> None:
    with pytest.raises(LibraryError, match="cannot be loaded") as caught:
        c_function("/no/such.so", ["f"], [])
    assert "/no/such.so" in str(caught.value)
    with pytest.raises(LibraryError, match="lacks the function") as caught:
        c_function(LIBM, ["one", "two"], [])
    assert caught.value.expected == "one or two"


def test_arrays_for_functions_of_c() -> None:
    x = np.broadcast_to(np.float32(2), (3, 4))
    assert row_major(x, np.float32).strides == (16, 4)
    assert (row_major(x, np.float32) == 2).all()
    with pytest.raises(LibraryError, match="other elements") as caught:
        row_major(x, np.float64)
    assert (caught.value.expected, caught.value.found) == ("float64", "float32")


def test_what_costs_more_with_the_ops_around_it_says_so(register: Register) -> None:
    """A product that is faster by itself, but takes the sum and the activation out of registers."""
    generated = entry(product())["estimate"]
    register(negative, cost=0.9 * generated)
    found = entry(product())
    [mine] = (each for each in found["rejected"] if each["kernel"] == "mine")
    assert found["kernel"] == "matmul"
    assert mine["reason"].endswith("and costs more together with the ops around it")
