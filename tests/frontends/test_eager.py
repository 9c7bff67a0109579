"""Ops called on arrays: each against NumPy and against the choice in a graph; arguments, errors."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import BoolAttr, TensorType
from xdsl.irdl import base, irdl_op_definition, operand_def, prop_def, result_def

import tessella
from tessella import ops
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import (
    ByRank,
    Defaults,
    NnOp,
    Tensor,
    to_attribute,
    to_python,
    type_of,
)
from tessella.driver.build.build import Built, lower
from tessella.driver.build.pipeline import CheckedOptions
from tessella.driver.explain.explain import explain
from tessella.driver.options import make_options
from tessella.driver.specialise.programs import ProgramTable
from tessella.frontends.eager import EagerOp
from tessella.frontends.eager import op as eager
from tessella.runtime.elements import dtype_name
from tessella.runtime.explanation import Explanation
from tessella.runtime.host import KERNELS
from tessella.runtime.host_steps import HostStep
from tessella.runtime.program import Program
from tessella.runtime.texts import STRING
from tessella.support.errors import ExecutionError, InputError, OptionError, ShapeError
from tests.dialects.oracle import run
from tests.native import GraphBuilder, calls, normal
from tests.op_examples import COMPUTING, Example

Array = npt.NDArray[Any]


X = normal(2, 3, 5, 4)
CONV: dict[str, Any] = {
    "strides": (2, 1), "pads": (1, 0, 1, 1), "dilations": (1, 1), "groups": 1,
}  # fmt: skip


def kinds() -> dict[str, type[NnOp]]:
    """The ops that compute, by their names in Python."""
    found = [op for op in nn.Nn.operations if issubclass(op, NnOp)]
    names = {
        op: op.name.removeprefix("nn.")
        for op in found
        if op.get_irdl_definition().operands and not issubclass(op, nn.FindingOp | nn.ScanOp)
    }
    keywords = {"and", "or", "not"}
    return {name + "_" * (name in keywords): op for op, name in names.items()}


def function(example: Example) -> EagerOp:
    """The op of an example as a function of arrays."""
    (name,) = (name for name, kind in kinds().items() if kind is example.op)
    return getattr(ops, name)


def call(example: Example, *operands: Array) -> list[Array]:
    """The results, as a list."""
    results = function(example)(*operands, **example.python_settings)
    return list(results) if isinstance(results, tuple) else [results]


def alone(example: Example, operands: Sequence[Array]) -> Explanation:
    """The explanation of a graph of the op alone, as a model's is made."""
    g = GraphBuilder(**{f"x{i}": x for i, x in enumerate(operands)})
    op = example.op.make(list(g.inputs.values()), node=None, **example.settings)
    g.main.body.block.add_op(op)
    return explain(lower(g.graph(*op.results), make_options(), stop="placed").stages)


def close(found: Iterable[Array], wanted: Iterable[Array]) -> None:
    for y, expected in zip(found, wanted, strict=True):
        assert (y.dtype, y.shape) == (expected.dtype, expected.shape)
        if y.dtype == STRING:
            assert y.tolist() == expected.tolist()
        else:
            np.testing.assert_allclose(y, expected, rtol=1e-4, atol=1e-5)


def test_the_ops_are_those_of_the_dialect() -> None:
    assert dir(ops) == sorted(kinds())


@pytest.mark.sweep
@pytest.mark.parametrize("example", COMPUTING.values(), ids=COMPUTING)
def test_every_op_as_numpy_and_as_in_a_graph(
    example: Example, monkeypatch: pytest.MonkeyPatch
) -> None:
    operands, programs = example.arrays(), loaded(monkeypatch)
    before = [x.copy() for x in operands]
    results = call(example, *operands)

    close(results, run(example.op, *operands, **example.settings))
    close(operands, before)
    assert not any(np.may_share_memory(y, x) for y in results for x in operands)

    (entry,) = alone(example, operands).ops
    (eagerly,) = function(example).explain(*operands, **example.python_settings).ops
    assert eagerly == entry
    (program,) = programs
    assert [isinstance(s, HostStep) for s in program.steps] == [entry["kernel"] == "host"]


@pytest.mark.sweep
@pytest.mark.parametrize("example", COMPUTING.values(), ids=COMPUTING)
def test_every_op_in_a_traced_function(example: Example) -> None:
    operands = example.arrays()
    step = tessella.jit(lambda *xs: function(example)(*xs, **example.python_settings))
    lowered = step.lower(*operands)
    results = run(example.op, *operands, **example.settings)
    assert f"{example.op.name} " in lowered.as_text()
    found = [(info.dtype, info.shape) for info in lowered.outputs]
    assert found == [(dtype_name(y.dtype), y.shape) for y in results]


def test_ops_and_numpy_in_a_traced_function() -> None:
    w = normal(6, 3, 3, 2)

    @tessella.jit
    def step(x: Array, shift: float) -> tuple[Array, Array]:
        y = ops.relu(ops.conv(x, w, None, **CONV) + shift)
        return ops.topk(ops.add(y, 1), k=2, axis=-1)

    y = np.maximum(ops.conv(X, w, **CONV) + np.float32(0.5), 0)
    close(step(X, 0.5), ops.topk(y + 1, k=2, axis=-1))
    with pytest.raises(ShapeError, match="test_eager"):
        tessella.jit(lambda x: ops.matmul(x, x))(normal(3, 4))
    with pytest.raises(InputError, match="b is missing"):
        tessella.jit(lambda x: ops.matmul(x))(normal(3, 4))


def loaded(monkeypatch: pytest.MonkeyPatch) -> list[Program]:
    """The programs that are made from now on, with an empty table."""
    programs: list[Program] = []

    def load(graph: Graph, options: CheckedOptions) -> Built:
        built = made(graph, options)
        programs.append(built.program)
        return built

    made = eager.compile_graph
    monkeypatch.setattr(eager, "compile_graph", load)
    monkeypatch.setattr(eager, "_TABLES", ProgramTable(eager.MAX_OPS))
    return programs


@irdl_op_definition
class HalveOp(NnOp):
    """x / 2; x / 4 if `twice`."""

    name = "nn.halve"
    DEFAULTS: ClassVar[Defaults] = {"twice": False}
    x = operand_def(base(TensorType))
    twice = prop_def(BoolAttr)
    res = result_def(base(TensorType))

    def infer(self) -> list[Tensor]:
        return [type_of(X)]


def test_an_op_that_is_new_to_the_dialect(monkeypatch: pytest.MonkeyPatch) -> None:
    def halve(x: Array, *, twice: bool) -> Array:
        return x / np.float32(4 if twice else 2)

    monkeypatch.setattr(nn, "Nn", type(nn.Nn)("nn", [*nn.Nn.operations, HalveOp]))
    monkeypatch.setitem(KERNELS, "nn.halve", halve)
    assert "halve" in dir(ops)
    op = ops.with_options().halve
    assert str(inspect.signature(op)) == "(x, *, twice: bool = False)"
    close([op(X), op(X, twice=True)], [X / 2, X / 4])


# ** operands **


@pytest.mark.sweep
@pytest.mark.parametrize(
    "dtype", ["float32", "float64", "bool", "int8", "int64", "uint8", "uint64"]
)
@pytest.mark.parametrize("shape", [(), (0,), (2, 0, 3), (3, 4)])
def test_dtypes_and_empty_arrays(dtype: str, shape: tuple[int, ...]) -> None:
    x = np.ones(shape, dtype)
    for y in (ops.reshape(x, shape=(1, *shape)), ops.where(True, x, x), ops.equal(x, x)):
        assert y.size == x.size
        assert not np.shares_memory(x, y)
        assert (y == 1).all()
    if x.ndim:
        close([ops.concat(x, x, x, axis=0)], [np.concatenate([x, x, x])])


def test_arrays_in_any_order_of_memory() -> None:
    wide = normal(6, 8)
    frozen = normal(3, 4)
    frozen.flags.writeable = False
    odd = np.frombuffer(b"\0" + normal(3, 4).tobytes(), np.uint8)[1:].view(np.float32)
    views = [wide[::2, ::2], wide[:4, :3].T, wide[2::-1, :4], np.asfortranarray(normal(3, 4)),
             frozen, odd.reshape(3, 4), normal(3, 4).astype(">f4"), np.ma.array(normal(3, 4)),
             np.broadcast_to(normal(4), (3, 4))]  # fmt: skip
    for x in views:
        close([ops.add(x, x)], [np.asarray(x + x, np.float32)])
        close([ops.reshape(x, shape=(2, 6))], [np.asarray(x, np.float32).reshape(2, 6)])


def test_a_result_is_never_an_input() -> None:
    for dtype in ("float32", "uint8"):
        x = np.ones((2, 3), dtype)
        same = [
            ops.reshape(x, shape=(2, 3)), ops.reshape(x, shape=(3, 2)), ops.cast(x, to=dtype),
            ops.transpose(x, perm=(0, 1)), ops.expand(x, shape=(2, 3)), ops.concat(x, axis=0),
            ops.slice(x, starts=(0, 0), sizes=(1, 3)), ops.tile(x, repeats=(1, 1)),
        ]  # fmt: skip
        for y in same:
            assert y.flags.writeable
            assert not np.shares_memory(x, y)


@pytest.mark.sweep
@pytest.mark.parametrize("dtype", ["float32", "float64", "int8", "int64", "uint8"])
@pytest.mark.parametrize("number", [2, True, 2.5])
def test_numbers_as_numpy(dtype: str, number: float) -> None:
    x = np.asarray([1, 2, 3], dtype)
    wanted = x * number
    if wanted.dtype == x.dtype:
        close([ops.mul(x, number), ops.mul(number, x)], [wanted, wanted])
    else:
        with pytest.raises(ShapeError, match="element types differ"):
            ops.mul(x, number)


def test_numbers_by_themselves_and_where_a_dtype_is_asked_for() -> None:
    x = normal(3, 4)
    close([ops.add(1, 2), ops.add(1.0, 2.0)], [np.asarray(3), np.asarray(3.0)])
    close([ops.gather(x, 1), ops.gather(x, -1)], [x[1], x[-1]])
    close([ops.where(x > 0, x, 0), ops.where(True, 0.5, x)], [np.where(x > 0, x, 0), x * 0 + 0.5])
    close([ops.add(x, np.float32(1))], [x + 1])
    y = np.asarray(1, np.uint64)
    close([ops.add(y, 2**63)], [y + np.uint64(2**63)])


def test_another_number_is_no_other_program(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, x = loaded(monkeypatch), normal(3)
    close([ops.add(x, 1.0), ops.add(x, 2.5)], [x + 1, x + np.float32(2.5)])
    assert len(programs) == 1


def test_optional_operands_and_names() -> None:
    x, w, b = normal(1, 3, 5, 5), normal(4, 3, 3, 3), normal(4)
    bare, biased = ops.conv(x, w), ops.conv(x, w, b)
    close([ops.conv(x, w, None), ops.conv(x=x, w=w)], [bare, bare])
    close([ops.conv(x, w, b=b), ops.conv(b=b, x=x, w=w, groups=1)], [biased, biased])
    close([bare + b[:, None, None]], [biased])
    q, k, v, mask = normal(5, 4), normal(7, 4), normal(7, 3), normal(5, 7)
    close([ops.attention(q, k, v, mask * 0, scale=0.5)], [ops.attention(q, k, v, scale=0.5)])


# ** settings **


def test_settings_convert() -> None:
    x = normal(3, 4)
    close([ops.softmax(x, axis=np.int32(-1))], [ops.softmax(x)])
    close([ops.reduce_sum(x, axes=-2)], [x.sum(0)])
    close([ops.reduce_sum(x, axes=[0, -1], keepdims=np.True_)], [x.sum(keepdims=True)])
    close([ops.clip(x, low=0)], [np.maximum(x, 0)])
    close([ops.cast(x, to="int32"), ops.cast(x, to=np.int32)], [x.astype(np.int32)] * 2)
    close([ops.transpose(x, perm=None)], [x.T.copy()])


def test_settings_that_compare_equal_and_are_not(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, x = loaded(monkeypatch), np.ones(1, np.float32)
    signs = [
        np.signbit(ops.pad(x, low=(1,), high=(0,), value=value))[0] for value in (0.0, -0.0, 0.0)
    ]
    assert signs == [False, True, False]
    for _ in range(3):
        assert np.isnan(ops.pad(x, low=(1,), high=(0,), value=float("nan"))[0])
    assert len(programs) == 3


def test_the_order_of_settings_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    programs, x = loaded(monkeypatch), normal(3, 4)
    ops.topk(x, k=2, axis=0)
    ops.topk(x, axis=0, k=2)
    assert len(programs) == 1


# ** errors **

M = normal(3, 4)
ERRORS: list[tuple[type[Exception], str, Callable[[], Any]]] = [
    (AttributeError, r"no op 'matmull'; did you mean 'matmul'\?", lambda: ops.matmull),
    (AttributeError, r"no op 'weight'", lambda: ops.weight),
    (InputError, r"b is missing[^$]*a, b", lambda: ops.matmul(M)),
    (InputError, r"b is missing", lambda: ops.matmul(M, None)),
    (InputError, r"3 operands", lambda: ops.matmul(M, M, M)),
    (InputError, r"\[b\][^$]*4 operands", lambda: ops.conv(M, M, M, M)),
    (InputError, r"a is given twice", lambda: ops.matmul(M, M, a=M)),
    (InputError, r"'b' is not an array[^$]*of type list", lambda: ops.matmul(M, [1.0])),
    (InputError, r"'inputs\[1\]' is not an array", lambda: ops.concat(M, "x", axis=0)),
    (InputError, r"no element type for float128[^$]*x\.astype", lambda: ops.abs(np.longdouble(1))),
    (InputError, r"no element type for complex256", lambda: ops.abs(np.ones(2, np.clongdouble))),
    (InputError, r"300 out of bounds", lambda: ops.add(np.ones(2, np.int8), 300)),
    (ShapeError, r"do not broadcast[^$]*tessella\.ops\.add", lambda: ops.add(M, M.T)),
    (ShapeError, r"inner sizes differ", lambda: ops.matmul(M, M)),
    (ShapeError, r"there are no operands", lambda: ops.concat(axis=0)),
    (ShapeError, r"axis is out of range", lambda: ops.softmax(M, axis=2)),
    (ShapeError, r"64 bits", lambda: ops.tile(M, repeats=(2**64, 1))),
    (ShapeError, r"too large", lambda: ops.expand(M, shape=(2**60, 3, 4))),
    (OptionError, r"no setting 'alfa'[^$]*did you mean 'alpha'\?", lambda: ops.elu(M, alfa=1.0)),
    (OptionError, r"expected: no settings", lambda: ops.abs(M, axis=0)),
    (OptionError, r"needs the setting 'k'", lambda: ops.topk(M)),
    (OptionError, r"needs the setting 'k'", lambda: ops.topk(M, k=None)),
    (OptionError, r"expected: bool\s+found: 1 of", lambda: ops.matmul(M, M, transpose_b=1)),
    (OptionError, r"expected: int\s+found: 0\.5", lambda: ops.softmax(M, axis=0.5)),
    (OptionError, r"expected: float\s+found: 'x'", lambda: ops.elu(M, alpha="x")),
    (OptionError, r"expected: tuple\[int", lambda: ops.reshape(M, shape="ab")),
    (OptionError, r"'to' has the wrong type", lambda: ops.cast(M, to="word")),
    (ExecutionError, r"out of range", lambda: ops.gather(M, 3)),
]  # fmt: skip


@pytest.mark.parametrize("error, message, make", ERRORS)
def test_errors(error: type[Exception], message: str, make: Callable[[], Any]) -> None:
    for _ in range(2):  # a call that failed leaves nothing behind
        with pytest.raises(error, match=message):
            make()


# ** what is kept **


def test_the_table_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = loaded(monkeypatch)
    monkeypatch.setattr(eager, "_TABLES", ProgramTable(2))
    a, b, c = (np.ones((1,) * rank, np.float32) for rank in (1, 2, 3))
    for x in (a, b, a, c, a, b):
        close([ops.add(x, x)], [x + x])
    assert len(programs) == 4  # b was dropped for c, as a was used later


def test_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = loaded(monkeypatch)
    inputs = [normal(n, n) for n in (2, 3, 5)]
    start, failed = threading.Barrier(6), list[BaseException]()

    def work(first: int) -> None:
        try:
            start.wait()
            for i in range(first, first + 60):
                x = inputs[i % 3]
                close([ops.matmul(x, x), ops.add(x, 1.0)], [x @ x, x + 1])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert len(programs) <= 2 * len(inputs)


def test_few_programs_for_many_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    programs = loaded(monkeypatch)
    for n in (5, 20, 40, 50, 7, 5):
        x = normal(n, 3)
        close([ops.add(x, x), ops.softmax(x, axis=0)], [x + x, run(nn.SoftmaxOp, x, axis=0)[0]])
    assert len(programs) == 2 * 3  # the first size, few rows and many


def test_sizes_that_must_be_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(monkeypatch)
    for n in (6, 12, 24):
        x = normal(n)
        close(
            [ops.reshape(x, shape=(2, n // 2)), ops.add(x[:, None], x)],
            [x.reshape(2, -1), np.add.outer(x, x)],
        )
    for x, y in ((normal(20), normal(20)), (normal(30), normal(30)), (normal(30), normal(1))):
        close([ops.add(x, y)], [x + y])
    with pytest.raises(ShapeError, match="do not broadcast"):
        ops.add(normal(30), normal(31))


def test_the_overhead_of_a_warm_call() -> None:
    """The number of functions that a warm call runs; `bench.calls` measures the time."""
    x = normal(4, 4)
    for op in (ops.add, ops.matmul):
        op(x, x)
        assert calls(lambda op=op: op(x, x)) < 60


# ** reading **


def test_signatures_and_documentation() -> None:
    assert str(inspect.signature(ops.conv)) == (
        "(x, w, b=None, *, strides: tuple[int, ...] = ones, pads: tuple[int, ...] = zeros, "
        "dilations: tuple[int, ...] = ones, groups: int = 1, sums: numpy.dtype | None = None)"
    )
    assert str(inspect.signature(ops.concat)) == "(*inputs, axis: int)"
    assert repr(ops.and_) == "tessella.ops.and_"
    for name, kind in kinds().items():
        text = getattr(ops, name).__doc__
        assert text.startswith(f"{name}(")
        assert inspect.getdoc(kind) in text


@pytest.mark.parametrize("name", kinds())
def test_defaults_are_values_of_the_properties(name: str) -> None:
    kind = kinds()[name]
    properties = kind.setting_defs()
    assert kind.DEFAULTS.keys() <= properties.keys()
    for setting, value in kind.DEFAULTS.items():
        given = value.of(4) if isinstance(value, ByRank) else value
        attribute = to_attribute(given)
        assert properties[setting].constr.verifies(attribute)
        assert to_python(attribute) == given


def test_bytes_have_sums_of_32_bits() -> None:
    a, b = np.full((2, 300), 255, np.uint8), np.full((300, 3), -128, np.int8)
    found = ops.matmul(a, b, sums=np.int32)
    assert found.dtype == np.int32
    np.testing.assert_array_equal(found, a.astype(np.int32) @ b.astype(np.int32))
    with pytest.raises(ShapeError, match="no sums of this element"):
        ops.matmul(a, b, sums=np.float32)


def test_stages() -> None:
    lowered = ops.matmul.lower(M, M, transpose_b=True)
    assert "nn.matmul" in lowered.as_text("nn")
    assert 'kernel = "matmul"' in lowered.as_text("placed")
    (y,) = lowered.compile().run(None, {"x0": M, "x1": M})
    close([y], [M @ M.T])


def test_the_package_lists_the_ops() -> None:
    assert "ops" in dir(tessella)
