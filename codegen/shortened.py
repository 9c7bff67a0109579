"""i64 vectors processed as i32 if all lanes fit, as they nearly always do.

The code is for operations without i64 vector instructions.
"""

from __future__ import annotations

from collections.abc import Callable

from tessella.codegen.lltypes import I1, LLValue, constant
from tessella.codegen.writer import Writer


def shortened(w: Writer, value: LLValue, *, signed: bool) -> tuple[LLValue, LLValue]:
    """Return the lanes as signed i32, and a mask of the lanes that fit."""
    short = w.cast("trunc", value, value.type.of("i32"))
    fits = w.compare("icmp eq", w.cast("sext", short, value.type), value)
    if not signed:  # A negative i32 comes from a large unsigned number.
        fits = w.binary("and", fits, w.compare("icmp sge", short, constant(short.type, 0)))
    return short, fits


def if_all(
    w: Writer, condition: LLValue, narrow: Callable[[], LLValue], wide: Callable[[], LLValue]
) -> LLValue:
    """Write a branch: ``narrow`` computes a value if ``condition`` is true in all lanes, otherwise
    ``wide``. Returns the value."""
    every = w.call(I1, f"llvm.vector.reduce.and.{condition.type.mangled}", condition)
    names = w.label("narrow"), w.label("wide"), w.label("done")
    w.line(f"br {every.typed}, label %{names[0]}, label %{names[1]}, !prof !0")
    made: list[tuple[LLValue, str]] = []
    for name, make in zip(names[:2], (narrow, wide), strict=True):
        w.start(name)
        made.append((make(), w.block))
        w.line(f"br label %{names[2]}")
    w.start(names[2])
    found = ", ".join(f"[ {value.text}, %{block} ]" for value, block in made)
    to = made[0][0].type
    return w.push(to, f"phi {to.text} {found}")
