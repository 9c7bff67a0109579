"""The rule for which ops of a function may be narrowed. A narrowed op runs on floats with fewer
bits than the model has, because a requested place names them, although another requested place
accepts the floats unchanged.

Ops that sum products may be narrowed: their sums stay wide, and they take most of the time. Ops
that carry values from one product to the next may be narrowed too: elementwise ops, ops that move
elements, and maxima. All other ops keep their precision: norms, softmax and sums, ops on the inputs
before the first product, and ops after the last product. Sums are computed in the arithmetic of the
wide element.

Narrowing to an element of the same range, such as f32 to bf16, does not overflow. An element of a
smaller range, such as f16, is a candidate only if its place is listed before all places that accept
the floats unchanged.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, OpResult, SSAValue

from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import NnOp, is_float, tensor_type
from tessella.dialects.nn.elementwise import CastOp, ElementwiseOp, is_conversion
from tessella.dialects.nn.fused import FusedOp, outside
from tessella.dialects.nn.traits import ChoosesElements, MovesElements, SumsProducts
from tessella.dialects.place import CastOp as PlaceCastOp
from tessella.dialects.place import CopyOp, RelayoutOp
from tessella.support.elements import ELEMENTS


def narrowed(precision: str, floats: Collection[str]) -> bool:
    """Return whether a precision stores all these floats in fewer bits and computes in the same
    arithmetic as they do."""
    to = ELEMENTS[precision]
    return all(
        to.bits < own.bits and to.arithmetic == own.name
        for own in map(ELEMENTS.__getitem__, floats)
    )


def keeps_range(precision: str, floats: Collection[str]) -> bool:
    """Return whether a precision covers the range of all these floats."""
    exponent = ELEMENTS[precision].exponent
    return all(ELEMENTS[name].exponent == exponent for name in floats)


@dataclass(frozen=True)
class Narrowing:
    """The function's ops and their producers, from which it follows which ops may store their
    floats in fewer bits.

    The answers are the same before and after kernels are picked, places assigned and groups formed.
    """

    ops: tuple[NnOp, ...] = ()
    """The ops of the function, in program order."""
    makers: Mapping[NnOp, tuple[NnOp | None, ...]] = field(
        default_factory=dict[NnOp, tuple[NnOp | None, ...]]
    )
    """The producer of each operand of an op; None for an input of the function."""

    def why_wide(self, op: NnOp) -> str | None:
        """Return why an op is not narrowed; None if it may be."""
        if op.has_trait(SumsProducts):
            return None
        if not _carries(op):
            return "only products, and what carries values between them, are narrowed"
        if None in self.makers.get(op, ()) and isinstance(op, ElementwiseOp):
            return "it reads an input, which keeps its digits"
        if op not in self._behind:
            return "no product comes before it"
        return None if op in self._before else "no product follows it"

    @cached_property
    def _behind(self) -> set[NnOp]:
        """The ops that read results of products, directly or through ops that move, select or map
        values."""
        found: set[NnOp] = set()
        for op in self.ops:
            if any(_gives(maker, found) for maker in self.makers[op]):
                found.add(op)
        return found

    @cached_property
    def _before(self) -> set[NnOp]:
        """The ops that compute operands of products, directly or through ops that move, select or
        map values."""
        found: set[NnOp] = set()
        for op in reversed(self.ops):
            if _gives(op, found):
                found |= {maker for maker in self.makers[op] if maker is not None}
        return found


NOTHING_NARROWED = Narrowing()


def _gives(op: NnOp | None, found: Collection[NnOp]) -> bool:
    """Return whether an op's result comes from a product: the op is one, or it is in ``found`` and
    only carries values on."""
    return op is not None and (op.has_trait(SumsProducts) or (_carries(op) and op in found))


def _carries(op: NnOp) -> bool:
    """Return whether an op carries values from one product to the next: it moves or selects them,
    or computes each one from a few others."""
    moves = op.has_trait(ChoosesElements) or op.get_trait(MovesElements) is not None
    integers = any(element_of(value.type).is_integer for value in op.operands)
    computes = isinstance(op, ElementwiseOp) and not (isinstance(op, CastOp) or integers)
    return (moves or computes) and all(
        is_float(tensor_type(result).element_type) for result in op.results
    )


def narrowing_of(function: FuncOp) -> Narrowing:
    """Return the ``Narrowing`` of a function, which tells the ops that may be narrowed."""
    ops = tuple(op for op in function.walk() if isinstance(op, NnOp))
    return Narrowing(ops, {op: tuple(_makers(op.operands)) for op in ops})


def _makers(values: Iterable[SSAValue]) -> Iterator[NnOp | None]:
    """Yield the producers of values, ignoring groups and conversions."""
    for value in values:
        source = outside(value)
        match source.owner:
            case PlaceCastOp() | RelayoutOp() | CopyOp() as op:
                yield from _makers([op.source])
            case FusedOp() as group if isinstance(source, OpResult):
                yield from _makers([group.yielded.values[source.index]])
            case NnOp() as op if is_conversion(op):
                yield from _makers(op.operands)
            case NnOp() as op:
                yield op
            case Block():
                yield None
            case _:
                pass
