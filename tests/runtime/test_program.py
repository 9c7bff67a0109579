"""Programs of steps, without a compiler."""

from __future__ import annotations

import ctypes
import signal
from types import FrameType

import numpy as np
import pytest

from tessella.runtime import host
from tessella.runtime.host_steps import HostStep
from tessella.runtime.program import _SEGMENT, NativeStep, Program
from tessella.runtime.sharing import packed
from tessella.runtime.specs import Constant, TensorSpec
from tests.native import Placed


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


def test_native_code_gets_all_elements_of_a_splat() -> None:
    """A splat is one element in memory, which NumPy repeats by strides of 0."""

    def copy(context: int, inputs: int, outputs: int, *rest: int) -> None:
        source, target = (ctypes.c_void_p.from_address(p).value for p in (inputs, outputs))
        assert source is not None
        assert target is not None
        ctypes.memmove(target, source, 6 * 4)

    function = _SEGMENT(copy)
    entry = ctypes.cast(function, ctypes.c_void_p).value
    assert entry is not None
    spec = TensorSpec((2, 3), np.dtype(np.float32))
    # the bytes after the element are another weight
    weights = packed([np.full(1, 3, np.float32), np.arange(64, dtype=np.float32)])
    step = NativeStep("copy", 0, (0,), (1,), (spec,))
    program = Program(0, (step,), (1,), {0: Constant(0, spec)}, weights, code=Placed(entry))
    (y,) = program.run([])
    np.testing.assert_array_equal(y, np.full((2, 3), 3, np.float32))


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
