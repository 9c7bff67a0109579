"""What `nn.scan`, `tile.scan` and `rt.scan` share: what is carried, and what is taken apart."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, prop_def

from tessella.runtime.scan import Loop


class LoopOp(IRDLOperation):
    """An op that runs a function of the module for each element of sequences, in order.

    Its operands are the first values of what is carried from step to step, the sequences, which are
    taken apart along their first dimension, and values that stay. The function takes the carried
    values, an element of each sequence, and the values that stay; it returns the next carried
    values, and an element of each sequence that the op returns after the last carried values.
    ``backward`` numbers the sequences, those that are taken and then those that are returned, that
    run from the last element to the first.
    """

    carried = prop_def(IntegerAttr[I64])
    scanned = prop_def(IntegerAttr[I64])
    backward = prop_def(DenseArrayBase[I64])

    @property
    def loop(self) -> Loop:
        """The three as integers."""
        carried, scanned = self.carried.value.data, self.scanned.value.data
        return Loop(carried, scanned, tuple(self.backward.get_values()))


def loop_properties(loop: Loop) -> dict[str, Attribute]:
    """The properties of an op with this loop."""
    return {
        "carried": IntegerAttr(loop.carried, i64),
        "scanned": IntegerAttr(loop.scanned, i64),
        "backward": DenseArrayBase.from_list(i64, list(loop.backward)),
    }


def why_invalid(loop: Loop, operands: int, results: int) -> str | None:
    """The reason why an op with so many operands and results cannot have a loop, as a sentence."""
    if min(loop.carried, loop.scanned - 1) < 0 or loop.carried + loop.scanned > operands:
        return "it needs at least one sequence, and an operand for all that it carries and scans"
    if results < loop.carried:
        return "it returns less than it carries"
    numbers: Sequence[int] = loop.backward
    known = range(loop.scanned + results - loop.carried)
    if len(set(numbers)) != len(numbers) or not set(numbers) <= set(known):
        return f"backward lists numbers below {len(known)}, each once"
    return None
