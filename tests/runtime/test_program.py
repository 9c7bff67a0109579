"""Programs of steps, without a compiler."""

from __future__ import annotations

import ctypes
import signal
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import FrameType

import numpy as np
import pytest

from tessella.runtime import host
from tessella.runtime.host_steps import HostStep
from tessella.runtime.native_steps import SEGMENT, NativeStep
from tessella.runtime.pool import CONTEXT
from tessella.runtime.program import Program, Step
from tessella.runtime.sharing import packed
from tessella.runtime.specs import Constant, TensorSpec
from tessella.runtime.symbols import DefinedSymbol, Dimension
from tessella.runtime.trim_steps import TrimStep
from tessella.support.errors import ExecutionError
from tessella.support.sizes import Size, Symbol
from tests.native import Array, Placed


def reshaped(*constants: np.ndarray) -> Program:
    """A program that reshapes its value 0, which is an input or a constant."""
    step = HostStep("nn.reshape", "r", (0,), (1,), {"shape": (2, 3)})
    inputs = 0 if constants else 1
    specs = [TensorSpec(array.shape, array.dtype) for array in constants]
    slots = {i: Constant(i, spec) for i, spec in enumerate(specs)}
    return Program(inputs, (step,), (1,), slots, packed([*constants]))


def test_a_view_of_an_input_is_not_a_result() -> None:
    x = np.arange(6)
    (y,) = reshaped().run([x])
    y[:] = 0
    np.testing.assert_array_equal(x, np.arange(6))


def test_a_view_of_a_constant_is_not_a_result() -> None:
    program = reshaped(np.arange(6))
    (first,) = program.run([])
    first[:] = 0
    (second,) = program.run([])
    np.testing.assert_array_equal(second, np.arange(6).reshape(2, 3))


def _copied(arguments: int) -> None:
    """A segment that copies 24 bytes."""
    _, *tables = (ctypes.c_int64 * 3).from_address(arguments)
    source, target = (ctypes.c_void_p.from_address(p).value for p in tables)
    assert source is not None
    assert target is not None
    ctypes.memmove(target, source, 6 * 4)


COPIED = SEGMENT(_copied)
THREES = TensorSpec((2, 3), np.dtype(np.float32))


def splat(*others: Step) -> Program:
    """A program that copies its value 0, a splat of threes, in native code to its result 1."""
    entry = ctypes.cast(COPIED, ctypes.c_void_p).value
    assert entry is not None
    # the bytes after the element are another weight
    weights = packed([np.full(1, 3, np.float32), np.arange(64, dtype=np.float32)])
    steps = NativeStep("copy", 0, (0,), (1,), (THREES,)), *others
    results = tuple(i for step in steps for i in step.outputs)
    return Program(0, steps, results, {0: Constant(0, THREES)}, weights, code=Placed(entry))


def test_native_code_gets_all_elements_of_a_splat() -> None:
    """A splat is one element in memory, which NumPy repeats by strides of 0."""
    (y,) = splat().run([])
    np.testing.assert_array_equal(y, np.full((2, 3), 3, np.float32))


def test_a_view_of_a_splat_that_native_code_reads_is_not_a_result() -> None:
    program = splat(HostStep("nn.reshape", "r", (0,), (2,), {"shape": (3, 2)}))
    for _ in range(2):
        copy, view = program.run([])
        assert copy.tolist() == [[3] * 3] * 2
        assert view.tolist() == [[3] * 2] * 3
        view[:] = 0


def test_what_a_signal_handler_raises_in_a_kernel_of_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is not taken for an error of the kernel."""

    class DeadlineError(Exception):
        pass

    def handler(number: int, frame: FrameType | None) -> None:
        raise DeadlineError

    def interrupted(*_: object) -> None:
        signal.raise_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, handler)
    monkeypatch.setattr(host, "run", interrupted)
    try:
        with pytest.raises(DeadlineError):
            reshaped().run([np.arange(6)])
    finally:
        signal.signal(signal.SIGUSR1, before)


K, ROOM = Symbol("k", 0, 1 << 20), Symbol("room", 1, 1 << 20)


def defining(
    kernel: str,
    *later: Step,
    most: Size = ROOM.size,
    constants: Mapping[int, Constant] | None = None,
    weights: Sequence[Array] = (),
    code: Placed | None = None,
) -> Program:
    """A program of a step that defines the size k of its result, and later steps."""
    spec = TensorSpec((K.size,), np.dtype(np.int64))
    first = HostStep(kernel, "finds", (0,), (1,), {}, (spec,))
    symbols = Dimension(ROOM, 0, 0), DefinedSymbol(K, 1, 0, most)
    return Program(1, (first, *later), (2,), constants or {}, weights, code=code, symbols=symbols)


@pytest.fixture
def positive(monkeypatch: pytest.MonkeyPatch) -> str:
    """A kernel that returns the positive elements."""
    monkeypatch.setitem(host.KERNELS, "positive", lambda x: x[x > 0])
    return "positive"


def test_a_step_defines_a_size_that_later_steps_read(positive: str) -> None:
    shape = {"shape": (2, K.size)}
    spec = TensorSpec((2, K.size), np.dtype(np.int64))
    program = defining(positive, HostStep("nn.expand", "e", (1,), (2,), shape, (spec,)))
    for x in ([1, -2, 3], [-1], [5, 6, 7], [1, -2, 3]):
        (y,) = program.run([np.array(x)])
        np.testing.assert_array_equal(y, [[each for each in x if each > 0]] * 2)


def test_native_code_reads_a_size_that_a_step_defines(positive: str) -> None:
    def write(arguments: int) -> None:
        """Store the values of the symbols into the last two elements of the result."""
        contexts, _, outputs = (ctypes.c_int64 * 3).from_address(arguments)

        def pointer(address: int) -> int:
            return ctypes.c_int64.from_address(address).value

        room, k = (ctypes.c_int64 * 2).from_address(pointer(contexts + 8 * CONTEXT.index("sizes")))
        target = (ctypes.c_int64 * (k + 2)).from_address(pointer(outputs))
        target[k:] = [room, k]

    function = SEGMENT(write)
    entry = ctypes.cast(function, ctypes.c_void_p).value
    assert entry is not None
    spec = TensorSpec((K.size + 2,), np.dtype(np.int64))
    step = NativeStep("write", 64 * K.size, (1,), (2,), (spec,))
    program = defining(positive, step, code=Placed(entry))
    for x in ([1, -2, 3], [-1], [5, 6, 7]):
        (y,) = program.run([np.array(x)])
        k = sum(each > 0 for each in x)
        assert (y.shape, [*y[-2:]]) == ((k + 2,), [len(x), k])


def test_a_constant_has_a_size_that_a_step_defines(positive: str) -> None:
    spec = TensorSpec((K.size,), np.dtype(np.int64))
    add = HostStep("nn.add", "a", (1, 3), (2,), {}, (spec,))
    weights = packed([np.full(1, 10)])
    program = defining(positive, add, constants={3: Constant(0, spec)}, weights=weights)
    for x in ([1, -2, 3], [-1], [4]):
        np.testing.assert_array_equal(program.run([np.array(x)])[0], [n + 10 for n in x if n > 0])


def test_a_defined_size_is_within_its_bounds(positive: str) -> None:
    program = defining(positive, HostStep("nn.neg", "n", (1,), (2,), {}), most=ROOM.size - 1)
    assert len(program.run([np.array([1, 0])])[0]) == 1
    with pytest.raises(ExecutionError, match="from 0 to 1\n  found: 2"):
        program.run([np.array([1, 2])])


def test_a_kernel_returns_as_many_results_as_its_step_has(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(host.KERNELS, "halves", lambda x: (x[:1], x[1:]))
    for outputs in ((1,), (1, 2, 3)):
        program = Program(1, (HostStep("halves", "h", (0,), outputs, {}),), outputs, {}, ())
        message = f"{len(outputs)} of any shape\n  found: .1,., .2,."
        with pytest.raises(ExecutionError, match=message):
            program.run([np.arange(3)])


def test_a_result_that_no_later_step_reads_defines_a_size(positive: str) -> None:
    program = replace(defining(positive), results=(1, 1))
    for _ in range(2):
        first, second = program.run([np.array([1, 0, 2])])
        first[:] = 0
        np.testing.assert_array_equal(second, [1, 2])


def test_a_call_that_fails_drops_its_workspace(monkeypatch: pytest.MonkeyPatch) -> None:
    """The next call begins in new memory: steps may have left anything in the old one."""

    def positive(x: Array) -> Array:
        if (x < 0).any():
            raise ExecutionError("negative")
        return x

    monkeypatch.setitem(host.KERNELS, "positive", positive)
    program = Program(1, (HostStep("positive", "p", (0,), (1,), {}),), (1,), {}, [])
    for x, left in [(1, 1), (-1, 0), (2, 1)]:
        if left:
            assert program.run([np.array(x)])[0] == x
        else:
            with pytest.raises(ExecutionError, match="negative"):
                program.run([np.array(x)])
        assert len(program.workspaces.free) == left


def test_values_that_only_segments_read() -> None:
    """A step in NumPy may return a view of what it reads, and callers modify results."""
    first = NativeStep("write", 0, (), (0,), (THREES,))
    second = NativeStep("write", 0, (0,), (1,), (THREES,))
    view = HostStep("nn.reshape", "r", (0,), (2,), {"shape": (3, 2)})
    cut = TrimStep("c", 0, 3, 2, TensorSpec((K.size, 3), np.dtype(np.float32)))
    for steps, results, inner in [
        ((first, second), (1,), {0}),
        ((first, second), (0, 1), set[int]()),
        ((first, second, view), (1, 2), set[int]()),
        ((first, cut, second), (1,), {0, 2}),
        ((first, cut, second), (1, 2), set[int]()),
    ]:
        assert Program(0, steps, results, {}, []).inner == inner
