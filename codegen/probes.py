"""Loops that saturate one resource of a core, as LLVM IR text. They are run to measure a machine.

Every probe is `void NAME(ptr from, ptr to, i64 bytes, i64 repeats)`. Memory probes process
``bytes`` of one or both buffers, a multiple of `block_bytes`, ``repeats`` times; `add_memory` also
reads as many bytes after those of ``from``. Arithmetic probes iterate ``repeats`` times; they read
a vector and write `result_bytes`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tessella.codegen.emit_vector import fused_multiply_add
from tessella.codegen.lltypes import I64, LLType, LLValue, constant, vector
from tessella.codegen.module_text import module_text
from tessella.codegen.writer import Writer
from tessella.targets import Target

BLOCK = 16
"""Vectors that one iteration of a memory loop moves."""

CHAIN = 16
"""Dependent operations in one iteration of a chain."""

BESIDE = CHAIN // 2
"""Multiply-adds in an iteration of the integer chain, beside its operations: half of the number
that one FMA port can execute in that time."""


def probe_texts(target: Target) -> dict[str, str]:
    """Return the LLVM module of every probe, by the name of its function."""
    arithmetic = {name: _arithmetic(target, name) for name in _ARITHMETIC}
    return arithmetic | {name: _memory(target, name) for name in _MEMORY}


def block_bytes(target: Target) -> int:
    """Return the bytes that one iteration of a memory loop moves."""
    return BLOCK * target.vector_bytes


def accumulators(target: Target) -> int:
    """Return the number of independent multiply-adds in one iteration of `multiply_adds`.

    Their accumulators occupy nearly all registers.
    """
    return target.vector_registers - 4


def result_bytes(target: Target) -> int:
    """Return an upper bound on the bytes that an arithmetic probe writes."""
    return target.vector_registers * target.vector_bytes


def _vector(target: Target) -> LLType:
    return vector("f32", target.lanes(32))


def _function(target: Target, name: str, body: Sequence[str], w: Writer) -> str:
    header = f"define void @{name}(ptr %from, ptr %to, i64 %bytes, i64 %repeats) #0 {{"
    return module_text(target, [header, *body, "  ret void", "}", *w.helpers.values()])


# ** arithmetic **


def _multiply_adds(w: Writer, carried: Sequence[LLValue], factor: LLValue) -> list[LLValue]:
    """Write one independent multiply-add for each value: the loop measures throughput."""
    return [fused_multiply_add(w, value, factor, factor) for value in carried]


def _chain(w: Writer, carried: Sequence[LLValue], factor: LLValue) -> list[LLValue]:
    """Write a chain of dependent multiply-adds: the loop measures latency."""
    value = carried[0]
    for _ in range(CHAIN):
        value = fused_multiply_add(w, value, factor, factor)
    return [value]


def _integer_chain(w: Writer, carried: Sequence[LLValue], factor: LLValue) -> list[LLValue]:
    """Write a chain of dependent one-cycle integer operations, with enough vector operations beside
    it to hold the core at its clock frequency under vector load.

    The operands are registers: some cores execute additions of constants while renaming registers.
    """
    number, step, *values = carried
    for i in range(CHAIN):
        number = w.binary("xor" if i % 2 else "add", number, step)
    return [number, step, *_multiply_adds(w, values, factor)]


_Turn = Callable[[Writer, Sequence[LLValue], LLValue], list[LLValue]]
"""Function that writes one iteration: it maps the carried values and a factor to the next carried
values."""

_Carried = Callable[[Target], list[LLType]]
"""Function that returns the types of the values that a loop carries."""

_ARITHMETIC: dict[str, tuple[_Turn, _Carried]] = {
    "multiply_adds": (_multiply_adds, lambda target: [_vector(target)] * accumulators(target)),
    "multiply_add_chain": (_chain, lambda target: [_vector(target)]),
    "integer_chain": (_integer_chain, lambda target: [I64, I64, *[_vector(target)] * BESIDE]),
}


def _arithmetic(target: Target, name: str) -> str:
    write_turn, types_of = _ARITHMETIC[name]
    w = Writer(target)
    types = types_of(target)
    w.start("entry")
    factor, *initial = (
        w.push(type, f"load {type.text}, ptr %from, align 4") for type in (_vector(target), *types)
    )
    w.line("br label %turn")
    w.start("turn")
    carried = [LLValue(type, f"%carried{i}") for i, type in enumerate(types)]
    place = len(w.lines)
    results = write_turn(w, carried, factor)
    w.lines[place:place] = [
        "  %count = phi i64 [ 0, %entry ], [ %counted, %turn ]",
        *(
            f"  {phi.text} = phi {phi.type.text} [ {a.text}, %entry ], [ {b.text}, %turn ]"
            for phi, a, b in zip(carried, initial, results, strict=True)
        ),
    ]
    _end_of_loop(w, "turn", "count", "counted", 1, "repeats", "done")
    for i, value in enumerate(results):
        at = w.gep("%to", _vector(target).text, constant(I64, i))
        w.line(f"store {value.typed}, ptr {at}, align 4")
    return _function(target, name, w.lines, w)


def _end_of_loop(
    w: Writer, block: str, number: str, following: str, step: int, bound: str, done: str
) -> None:
    """Write the back edge: advance by ``step`` until the bound is reached."""
    w.line(f"%{following} = add nuw i64 %{number}, {step}")
    w.line(f"%more.{block} = icmp ult i64 %{following}, %{bound}")
    w.line(f"br i1 %more.{block}, label %{block}, label %{done}")
    w.start(done)


# ** memory **


def _read(w: Writer, type: LLType, source: str, _: str) -> None:
    w.push(type, f"load volatile {type.text}, ptr {source}, align {type.memory_bytes}")


def _write(w: Writer, type: LLType, _: str, target: str) -> None:
    w.line(f"store volatile {type.text} zeroinitializer, ptr {target}, align {type.memory_bytes}")


def _copy(w: Writer, type: LLType, source: str, target: str) -> None:
    align = f"align {type.memory_bytes}"
    value = w.push(type, f"load volatile {type.text}, ptr {source}, {align}")
    w.line(f"store volatile {value.typed}, ptr {target}, {align}")


def _add(w: Writer, type: LLType, source: str, target: str) -> None:
    """Write the addition of one vector from each of two buffers, the second of which follows the
    first in memory."""
    align = f"align {type.memory_bytes}"
    other = w.gep(source, "i8", LLValue(I64, "%bytes"))
    first, second = (
        w.push(type, f"load volatile {type.text}, ptr {address}, {align}")
        for address in (source, other)
    )
    w.line(f"store volatile {w.binary('fadd', first, second).typed}, ptr {target}, {align}")


_MEMORY: dict[str, Callable[[Writer, LLType, str, str], None]] = {
    "read_memory": _read,
    "write_memory": _write,
    "copy_memory": _copy,
    "add_memory": _add,
}
"""The functions that write the accesses of a memory probe to one vector, by the probe's name. The
accesses are volatile, so that LLVM keeps all loads and calls no C library function."""


def _memory(target: Target, name: str) -> str:
    w = Writer(target)
    w.start("entry")
    w.line("br label %pass")
    w.start("pass")
    w.line("%count = phi i64 [ 0, %entry ], [ %counted, %passed ]")
    w.line("br label %block")
    w.start("block")
    w.line("%at = phi i64 [ 0, %pass ], [ %following, %block ]")
    for i in range(BLOCK):
        index = w.binary("add", LLValue(I64, "%at"), constant(I64, i * target.vector_bytes))
        _MEMORY[name](w, _vector(target), w.gep("%from", "i8", index), w.gep("%to", "i8", index))
    _end_of_loop(w, "block", "at", "following", block_bytes(target), "bytes", "passed")
    _end_of_loop(w, "pass", "count", "counted", 1, "repeats", "done")
    return _function(target, name, w.lines, w)
