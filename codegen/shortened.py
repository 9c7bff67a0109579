"""Vectors of i64 by way of i32, if all lanes fit, as they nearly always do: for what no instruction
does with vectors of i64."""

from __future__ import annotations

from collections.abc import Callable

from tessella.codegen.lltypes import I1, Value, constant
from tessella.codegen.writer import Writer


def shortened(w: Writer, value: Value, *, signed: bool) -> tuple[Value, Value]:
    """The lanes as signed i32, and which of them are the same numbers."""
    short = w.cast("trunc", value, value.type.of("i32"))
    fits = w.compare("icmp eq", w.cast("sext", short, value.type), value)
    if not signed:  # what is negative as i32 is a large number
        fits = w.binary("and", fits, w.compare("icmp sge", short, constant(short.type, 0)))
    return short, fits


def if_all(
    w: Writer, condition: Value, narrow: Callable[[], Value], wide: Callable[[], Value]
) -> Value:
    """A value that is made in one way if a condition holds in all lanes, else in another."""
    every = w.call(I1, f"llvm.vector.reduce.and.{condition.type.mangled}", condition)
    names = w.label("narrow"), w.label("wide"), w.label("done")
    w.line(f"br {every.typed}, label %{names[0]}, label %{names[1]}, !prof !0")
    made: list[tuple[Value, str]] = []
    for name, make in zip(names[:2], (narrow, wide), strict=True):
        w.start(name)
        made.append((make(), w.block))
        w.line(f"br label %{names[2]}")
    w.start(names[2])
    found = ", ".join(f"[ {value.text}, %{block} ]" for value, block in made)
    to = made[0][0].type
    return w.push(to, f"phi {to.text} {found}")
