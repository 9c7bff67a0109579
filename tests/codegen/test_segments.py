"""Segments: calls of kernels, weights, the arena, copies."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Callable
from time import sleep
from typing import Any

import numpy as np
import pytest

from tessella.codegen import stamps
from tessella.codegen.emit import emit
from tessella.codegen.link import link
from tessella.codegen.llvm import assembly, optimize_and_emit
from tessella.runtime.events import AFTER, CLOCK, END, Scale, Stream
from tessella.runtime.image import Library
from tessella.runtime.native_steps import SEGMENT
from tessella.support.clock import now
from tessella.support.errors import InternalError, InvalidModelError
from tessella.targets import Target, get, native
from tests.codegen.harness import Array, parse

SOURCE = """
rt.kernel @add(%a: memref<100xf32>, %b: memref<100xf32>) outs(%c: memref<100xf32>)
    threads(%thread, %threads) {
  %0 = arith.constant 0 : index
  %n = arith.constant 100 : index
  %1 = arith.constant 1 : index
  scf.for %i = %0 to %n step %1 {
    %x = memref.load %a[%i] : memref<100xf32>
    %y = memref.load %b[%i] : memref<100xf32>
    %z = arith.addf %x, %y : f32
    memref.store %z, %c[%i] : memref<100xf32>
  }
  %context = rt.context : memref<16xi64>
  %seven = arith.constant 7 : i64
  memref.store %seven, %context[%1] : memref<16xi64>
  rt.return
}
rt.segment @"seg ment"(%a: memref<100xf32>, %b: memref<100xf32>)
    outs(%o: memref<100xf32>, %p: memref<100xf32>) threads(%i, %n)
    attributes {arena_bytes = 1024 : i64} {
  %v = rt.weight @"first.w" slot 1 : memref<100xf32>
  %w = rt.weight @second slot 0 : memref<100xf32>
  %t = rt.arena 128 : memref<100xf32>
  rt.call @add(%a, %w) outs(%t)
    threads(%i, %n)
  rt.call @add(%t, %v) outs(%o)
    threads(%i, %n)
  "memref.copy"(%b, %p) : (memref<100xf32>, memref<100xf32>) -> ()
  rt.return
}
"""


def _aligned(count: int) -> Array:
    """Zeros that start at a multiple of 64 bytes."""
    raw = np.zeros(count + 16, np.float32)
    start = -raw.ctypes.data % 64 // 4
    return raw[start : start + count]


def _runner(library: Library, name: str, arena_bytes: int) -> Callable[..., None]:
    """A function of the first five arguments of a segment."""
    function = SEGMENT(library.address(name))

    def run(contexts: int, inputs: Any, outputs: Any, weights: Any, arena: int) -> None:
        tables = (
            0 if each is None else ctypes.addressof(each) for each in (inputs, outputs, weights)
        )
        arguments = (ctypes.c_int64 * 7)(contexts, *tables, arena, arena + arena_bytes, 0)
        function(ctypes.addressof(arguments))

    return run


def _pointers(*arrays: Array) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))


def test_a_segment_runs_its_kernels(target: Target) -> None:
    module = parse(SOURCE)
    module.verify()
    texts = emit(module, target)
    library = Library(link({n: optimize_and_emit(text, target) for n, text in texts.items()}))
    rng = np.random.default_rng(0)
    a, b, v, w = (rng.normal(size=100).astype(np.float32) for _ in range(4))
    arena, context = _aligned(256), np.zeros(16, np.int64)
    o, p = np.zeros(100, np.float32), np.zeros(100, np.float32)
    run = _runner(library, "seg ment", 256 * 4)
    data = (_pointers(a, b), _pointers(o, p), _pointers(w, v), arena.ctypes.data)
    run(context.ctypes.data, *data)
    np.testing.assert_array_equal(o, a + w + v)
    np.testing.assert_array_equal(p, b)
    np.testing.assert_array_equal(arena[32:132], a + w)
    assert context[1] == 7


@pytest.mark.parametrize("counter", [True, False])
@pytest.mark.parametrize("room", [1, 6, 100])
def test_a_segment_writes_events_if_its_context_has_room_for_them(room: int, counter: bool) -> None:
    target = native()
    texts = emit(parse(SOURCE), target)
    library = Library(link({n: optimize_and_emit(text, target) for n, text in texts.items()}))
    a, b, v, w, o, p = (np.full(100, number, np.float32) for number in (1, 2, 3, 4, 0, 0))
    arena, context = _aligned(256), np.zeros(16, np.int64)
    stream = Stream(context, room, counter=counter)
    run = _runner(library, "seg ment", 256 * 4)
    data = (_pointers(a, b), _pointers(o, p), _pointers(w, v), arena.ctypes.data)
    before = now()
    run(context.ctypes.data, *data)
    after = now()
    np.testing.assert_array_equal(o, a + w + v)
    (events,) = stream.written()
    assert events["number"].tolist() == [0, 1, 2, END, CLOCK, AFTER][:room]
    assert stream.is_full == (room <= 6)
    if room < 6:
        return
    ticks = events["time"][[0, 1, 2, 3, 5]].tolist()
    assert ticks == sorted(ticks)
    assert before < events["time"][4] < after
    assert counter or ticks[3] <= events["time"][4] <= ticks[4]


@pytest.mark.parametrize("counter", [True, False])
def test_ticks_are_converted_to_the_clock(counter: bool) -> None:
    target = native()
    texts = emit(parse(SOURCE), target)
    library = Library(link({n: optimize_and_emit(text, target) for n, text in texts.items()}))
    a, b, v, w, o, p = (np.full(100, number, np.float32) for number in (1, 2, 3, 4, 0, 0))
    arena, context = _aligned(256), np.zeros(16, np.int64)
    stream = Stream(context, 100, counter=counter)
    run = _runner(library, "seg ment", 256 * 4)
    data = (_pointers(a, b), _pointers(o, p), _pointers(w, v), arena.ctypes.data)
    around: list[tuple[int, int]] = []
    for _ in range(10):
        before = now()
        run(context.ctypes.data, *data)
        around.append((before, now()))
        sleep(0.01)
    (events,) = stream.written()
    times = Scale.of([events]).nanoseconds(events["time"]).reshape(10, 6)
    for (before, after), (*began, end, _, _) in zip(around, times.tolist(), strict=True):
        assert [before - 1000, *began, end] == sorted([before - 1000, *began, end])
        assert end <= after + 1000


@pytest.mark.parametrize("target, read", [("avx2", "rdtsc"), ("neon", "CNTVCT_EL0")])
def test_events_read_the_counter_of_the_processor(target: str, read: str) -> None:
    texts = emit(parse(SOURCE), get(target))
    assert read in assembly(texts[stamps.NAME], get(target))
    assert read not in assembly(texts["seg ment"], get(target))


@pytest.mark.parametrize("calls", [10, 1000])
def test_a_long_segment(calls: int) -> None:
    """LLVM does not optimise a phase of calls alone."""
    pair = """  rt.call @add(%t, %v) outs(%u) threads(%i, %n)
  rt.call @add(%u, %v) outs(%t) threads(%i, %n)
"""
    more = f"  %u = rt.arena 576 : memref<100xf32>\n{pair * (calls // 2)}"
    module = parse(SOURCE.replace('  "memref.copy"', f'{more}  "memref.copy"'))
    module.verify()
    target = native()
    texts = emit(module, target)
    (phase,) = re.findall(r"define internal void @.*|define dso_local void @.*", texts["seg ment"])
    assert "optnone" in phase
    library = Library(link({n: optimize_and_emit(text, target) for n, text in texts.items()}))
    a, b, v, w, o, p = (np.full(100, number, np.float32) for number in (1, 2, 3, 4, 0, 0))
    arena, context = _aligned(256), np.zeros(16, np.int64)
    run = _runner(library, "seg ment", 256 * 4)
    data = (_pointers(a, b), _pointers(o, p), _pointers(w, v), arena.ctypes.data)
    run(context.ctypes.data, *data)
    np.testing.assert_array_equal(arena[32:132], a + w + calls * v)


SUMS = """
rt.kernel @add(%a: memref<4xf32>, %b: memref<4xf32>) outs(%c: memref<4xf32>) threads(%i, %n) {
  %0 = arith.constant 0 : index
  %x = vector.load %a[%0] : memref<4xf32>, vector<4xf32>
  %y = vector.load %b[%0] : memref<4xf32>, vector<4xf32>
  %z = arith.addf %x, %y : vector<4xf32>
  vector.store %z, %c[%0] : memref<4xf32>, vector<4xf32>
  rt.return
}
rt.segment @step(%h: memref<4xf32>, %x: memref<4xf32>, %b: memref<4xf32>)
    outs(%k: memref<4xf32>, %y: memref<4xf32>) threads(%i, %n) attributes {arena_bytes = 64 : i64} {
  %t = rt.arena 0 : memref<4xf32>
  rt.call @add(%x, %b) outs(%t) threads(%i, %n)
  rt.call @add(%h, %t) outs(%k) threads(%i, %n)
  "memref.copy"(%k, %y) : (memref<4xf32>, memref<4xf32>) -> ()
  rt.return
}
rt.segment @sums(%h: memref<4xf32>, %x: memref<SIZExf32>, %b: memref<4xf32>)
    outs(%k: memref<4xf32>, %y: memref<SIZExf32>) threads(%i, %n)
    attributes {arena_bytes = 192 : i64} {
  %t = rt.arena 0 : memref<4xf32>
  %a = rt.arena 128 : memref<64xi8>
  rt.scan @step(%h, %x, %b) outs(%k, %y) scratch(%t, %a) threads(%i, %n)
    steps STEPS carried 1 scanned 1 backward BACKWARD
  rt.return
}
"""


@pytest.mark.parametrize("backward", [(), (0,), (1,), (0, 1)])
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_a_segment_runs_in_a_loop(steps: int, backward: tuple[int, ...]) -> None:
    text = SUMS.replace("SIZE", str(4 * steps)).replace("STEPS", str(steps))
    module = parse(text.replace("BACKWARD", str(list(backward))))
    module.verify()
    target = get("avx2")
    texts = emit(module, target)
    library = Library(link({n: optimize_and_emit(text, target) for n, text in texts.items()}))
    h, x, b = (np.arange(n, dtype=np.float32) for n in (4, 4 * steps, 4))
    k, y, arena = np.zeros(4, np.float32), np.zeros(4 * steps, np.float32), _aligned(48)
    run = _runner(library, "sums", 48 * 4)
    context = np.zeros(16, np.int64)
    data = (_pointers(h, x, b), _pointers(k, y), None, arena.ctypes.data)
    run(context.ctypes.data, *data)
    rows = x.reshape(steps, 4)
    expected = np.cumsum((rows[::-1] if 0 in backward else rows) + b, axis=0) + h
    np.testing.assert_array_equal(k, expected[-1])
    np.testing.assert_array_equal(
        y.reshape(steps, 4), expected[::-1] if 1 in backward else expected
    )
    np.testing.assert_array_equal(h, np.arange(4))


def test_a_weight_without_a_slot_is_refused() -> None:
    with pytest.raises(InvalidModelError, match=r"the weight @first\.w has no slot"):
        emit(parse(SOURCE.replace(" slot 1", "")), get("avx2"))


def test_the_thread_numbers_are_passed_on_as_they_are_written() -> None:
    before, _, after = SOURCE.rpartition("threads(%i, %n)")
    turned = f"{before}threads(%n, %i){after}"
    text = emit(parse(turned), get("avx2"))["seg ment"]
    assert text.count("(ptr %buffers, i64 %share, i64 %shares)") == 1
    assert text.count("(ptr %buffers, i64 %shares, i64 %share)") == 1


def test_copies_of_other_sizes_are_refused() -> None:
    broken = SOURCE.replace(
        '"memref.copy"(%b, %p) : (memref<100xf32>, memref<100xf32>)',
        "%q = rt.arena 640 : memref<8xf32>\n"
        '  "memref.copy"(%q, %p) : (memref<8xf32>, memref<100xf32>)',
    )
    with pytest.raises(InternalError, match="different sizes"):
        emit(parse(broken), get("avx2"))
