"""What `nn.scan`, `tile.scan` and `rt.scan` share: what is carried, what is taken apart, and what
ends the loop."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, BoolAttr, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def

from tessella.runtime.scan import Loop
from tessella.support.sizes import Size

USUAL_STEPS = 16
"""Of a loop that only a condition ends, for costs."""


class LoopOp(IRDLOperation):
    """An op that runs a function of the module for each element of sequences, in order, or while a
    condition holds.

    Its operands are the first values of what is carried from step to step, the sequences, which are
    taken apart along their first dimension, and values that stay. The function takes the carried
    values, an element of each sequence, and the values that stay; it returns the next carried
    values, and an element of each sequence that the op returns after the last carried values.
    ``backward`` numbers the sequences, those that are taken and then those that are returned, that
    run from the last element to the first.

    The first value that a ``conditional`` loop carries is a scalar boolean. The function runs only
    while it is true: less often than there are elements, perhaps never. The elements of the steps
    that do not run are zeros in what the op returns. Such a loop needs no sequence; without one, it
    returns none.
    """

    carried = prop_def(IntegerAttr[I64])
    scanned = prop_def(IntegerAttr[I64])
    backward = prop_def(DenseArrayBase[I64])
    conditional = opt_prop_def(BoolAttr)

    @property
    def loop(self) -> Loop:
        """These as numbers."""
        carried, scanned = self.carried.value.data, self.scanned.value.data
        conditional = self.conditional is not None and bool(self.conditional.value.data)
        return Loop(carried, scanned, tuple(self.backward.get_values()), conditional)

    @property
    def steps(self) -> Size | None:
        """How often the function runs at most; None where only the condition says."""
        raise NotImplementedError

    @property
    def usual_steps(self) -> Size:
        """How often the function runs, for costs."""
        return USUAL_STEPS if self.steps is None else self.steps


def loop_properties(loop: Loop) -> dict[str, Attribute]:
    """The properties of an op with this loop."""
    conditional = {"conditional": BoolAttr.from_bool(True)} if loop.conditional else {}
    return {
        "carried": IntegerAttr(loop.carried, i64),
        "scanned": IntegerAttr(loop.scanned, i64),
        "backward": DenseArrayBase.from_list(i64, list(loop.backward)),
        **conditional,
    }


def why_invalid(loop: Loop, operands: int, results: int) -> str | None:
    """The reason why an op with so many operands and results cannot have a loop, as a sentence."""
    least = (1, 0) if loop.conditional else (0, 1)
    if loop.carried < least[0] or loop.carried + loop.scanned > operands:
        return "it needs an operand for all that it carries and scans"
    if loop.scanned < least[1]:
        return "it needs a sequence or a condition"
    if results < loop.carried:
        return "it returns less than it carries"
    if results > loop.carried and not loop.scanned:
        return "it returns a sequence of unknown length"
    numbers: Sequence[int] = loop.backward
    known = range(loop.scanned + results - loop.carried)
    if len(set(numbers)) != len(numbers) or not set(numbers) <= set(known):
        return f"backward lists numbers below {len(known)}, each once"
    return None
