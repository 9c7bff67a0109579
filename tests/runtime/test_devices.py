"""Programs on a device with a memory of its own, without a compiler."""

from __future__ import annotations

import gc
from collections.abc import Generator

import numpy as np
import pytest

from tessella.runtime.device_steps import HOST, CopyStep, DeviceCall, DeviceStep, Operand
from tessella.runtime.devices import BUILT_IN, Array, Memory, Slice, Source, device
from tessella.runtime.program import Program
from tessella.runtime.sharing import packed
from tessella.runtime.specs import Constant, TensorSpec
from tessella.support.errors import ExecutionError, OptionError, PluginError, ResourceError
from tessella.support.plugins import DEVICES, Plugin
from tests.bare_device import LIMIT, BareDevice

X = np.arange(6, dtype=np.float32)
SPEC = TensorSpec((6,), np.dtype(np.float32))
SIZE = X.nbytes


@pytest.fixture
def bare(monkeypatch: pytest.MonkeyPatch) -> Generator[BareDevice]:
    """The device `bare`, which has no memory in use at the end."""
    monkeypatch.setitem(BUILT_IN, "bare", Plugin("test", "bare", "tests.bare_device:BARE", DEVICES))
    found = device("bare")
    assert isinstance(found, BareDevice)
    found.built_texts.clear()
    found._built.clear()
    yield found
    gc.collect()
    assert found.used == 0


def quadrupled(text: str = "double", *, once: bool = False) -> Program:
    """A program that doubles a value twice on the device, with an arena in between."""
    between = Operand("arena", 64, SIZE)
    calls = (
        DeviceCall("k", ("first",), (Operand("value", 0, SIZE), between)),
        DeviceCall("k", ("second",), (between, Operand("value", 1, SIZE))),
    )
    steps = (
        CopyStep(HOST, "bare", (0,), (1,), SPEC, once),
        DeviceStep("bare", {"k": Source(text)}, calls, 128, (1,), (2,), (SPEC,)),
        CopyStep("bare", HOST, (2,), (3,), SPEC),
    )
    constants = {0: Constant(0, SPEC)} if once else {}
    return Program(int(not once), steps, (3,), constants, packed([X] if once else []))


def test_values_go_to_the_device_and_back(bare: BareDevice) -> None:
    program = quadrupled()
    for factor in (1, 3):
        np.testing.assert_array_equal(program.run([factor * X])[0], 4 * factor * X)
    assert bare.built_texts == ["double"]
    assert bare.used == 2 * SIZE + 128
    out = np.empty_like(X)
    assert program.run([X], out=[out])[0] is out
    np.testing.assert_array_equal(out, 4 * X)
    program.release()


def test_constants_are_copied_once(bare: BareDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    program, written = quadrupled(once=True), list[Slice]()

    def write(to: Slice, array: Array) -> None:
        written.append(to)
        BareDevice.write(bare, to, array)

    monkeypatch.setattr(bare, "write", write)
    for _ in range(3):
        np.testing.assert_array_equal(program.run([])[0], 4 * X)
    assert len(written) == 1
    program.release()


def test_an_exception_of_the_device_names_the_node(bare: BareDevice) -> None:
    program = quadrupled("halve")
    with pytest.raises(ExecutionError, match="the device 'bare' raised KeyError") as caught:
        program.run([X])
    assert caught.value.where == "node 'first'"
    program.release()


def test_memory_runs_out(bare: BareDevice) -> None:
    with pytest.raises(ResourceError, match="no memory left"):
        Memory(bare, LIMIT + 1)


def test_a_copy_within_the_device(bare: BareDevice) -> None:
    memory = Memory(bare, 2 * SIZE)
    bare.write(memory.slice(0, SIZE), X)
    bare.copy(memory.slice(0, SIZE), memory.slice(SIZE, SIZE))
    found = np.empty_like(X)
    bare.read(memory.slice(SIZE, SIZE), found)
    np.testing.assert_array_equal(found, X)


def test_a_device_that_is_missing(bare: BareDevice, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OptionError, match="there is no device 'bear'") as caught:
        device("bear")
    assert caught.value.hint == "did you mean 'bare'?"
    monkeypatch.setitem(BUILT_IN, "odd", Plugin("test", "odd", "tests.bare_device:LIMIT", DEVICES))
    with pytest.raises(PluginError, match="not a device"):
        device("odd")
