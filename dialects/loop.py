"""Loops: the common parts of `nn.scan`, `tile.scan` and `rt.scan`.

They are carried values, sequences, and the condition that ends the loop.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import I64, BoolAttr, DenseArrayBase, IntegerAttr, i64
from xdsl.ir import Attribute
from xdsl.irdl import IRDLOperation, opt_prop_def, prop_def

from tessella.runtime.scan import Loop
from tessella.support.sizes import Size

USUAL_STEPS = 16
"""The assumed number of iterations of a loop without a trip count, for cost estimates."""


class LoopOp(IRDLOperation):
    """A loop that runs a function of the module for each element of sequences, or while a condition
    is true.

    The operands are the initial carried values, the sequences, which are split along their first
    dimension, and loop-invariant values. ``carried`` and ``scanned`` are the numbers of carried
    values and of sequences. The function takes the carried values, an element of each sequence, and
    the invariant values; it returns the next carried values, and an element of each output
    sequence. The op returns the last carried values, followed by the output sequences.

    ``backward`` lists the sequences that run from the last element to the first: it numbers the
    input sequences first and the output sequences after them.

    The first carried value of a ``conditional`` loop is a scalar boolean. The function runs only
    while that value is true, perhaps fewer times than there are elements, perhaps never. Elements
    of iterations that do not run are zeros in the output sequences. A conditional loop need not
    have input sequences; without them, it has no output sequences.
    """

    carried = prop_def(IntegerAttr[I64])
    scanned = prop_def(IntegerAttr[I64])
    backward = prop_def(DenseArrayBase[I64])
    conditional = opt_prop_def(BoolAttr)

    @property
    def loop(self) -> Loop:
        """The decoded loop signature."""
        carried, scanned = self.carried.value.data, self.scanned.value.data
        conditional = self.conditional is not None and bool(self.conditional.value.data)
        return Loop(carried, scanned, tuple(self.backward.get_values()), conditional)

    @property
    def steps(self) -> Size | None:
        """The maximum number of iterations; None if only the loop's condition limits it."""
        raise NotImplementedError

    @property
    def usual_steps(self) -> Size:
        """The number of iterations that cost estimates assume."""
        return USUAL_STEPS if self.steps is None else self.steps


def loop_properties(loop: Loop) -> dict[str, Attribute]:
    """Return the properties that encode a loop signature, for the constructor of a loop op."""
    conditional = {"conditional": BoolAttr.from_bool(True)} if loop.conditional else {}
    return {
        "carried": IntegerAttr(loop.carried, i64),
        "scanned": IntegerAttr(loop.scanned, i64),
        "backward": DenseArrayBase.from_list(i64, list(loop.backward)),
        **conditional,
    }


def why_invalid(loop: Loop, operands: int, results: int) -> str | None:
    """Return why an op with this number of operands and results cannot have the loop signature
    ``loop``, as a sentence; None if it can."""
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
