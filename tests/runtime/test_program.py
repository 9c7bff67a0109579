"""Programs of steps, without a compiler."""

from __future__ import annotations

import numpy as np

from tessella.runtime.program import Constant, HostStep, Program, TensorSpec
from tessella.runtime.sharing import packed


def reshaped(*constants: np.ndarray) -> Program:
    """A program that reshapes its value 0, which is an input or a constant."""
    step = HostStep("nn.reshape", "r", (0,), (1,), {"shape": (2, 3)})
    inputs = 0 if constants else 1
    specs = [TensorSpec(array.shape, array.dtype) for array in constants]
    slots = {i: Constant(i, spec) for i, spec in enumerate(specs)}
    return Program(inputs, (step,), (1,), slots, packed(constants))


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
