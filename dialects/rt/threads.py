"""What divides the work of kernels between the threads of a call.

%first, %stop = rt.share 3072 by 64 of %thread, %threads
rt.barrier %threads
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from xdsl.dialects.builtin import I64, IndexType, IntegerAttr, i64
from xdsl.ir import Data, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


def largest_share(extent: int, grain: int, threads: int) -> int:
    """The most of an extent that `rt.share` gives to one of so many threads."""
    units, last = _units(extent, grain), _last(extent, grain)
    starts = [min(thread * units // threads, last) * grain for thread in range(threads)]
    return max(stop - start for start, stop in pairwise((*starts, extent)))


def _units(extent: int, grain: int) -> int:
    return -(-extent // grain)


def _last(extent: int, grain: int) -> int:
    whole, rest = divmod(extent, grain)
    return max(0, whole - (1 if rest else 0))


@irdl_op_definition
class ShareOp(IRDLOperation):
    """The part of `0 .. extent` that a thread runs: `%first, %stop = rt.share 100 by 16 of %thread,
    %threads`.

    The parts of all threads are the whole range, in the order of the threads. They begin at
    multiples of the grain. If it does not divide the extent, the remainder and the grain before it
    belong to one thread, as tiles may overlap there.
    """

    name = "rt.share"
    extent = prop_def(IntegerAttr[I64])
    grain = prop_def(IntegerAttr[I64])
    thread = operand_def(IndexType)
    threads = operand_def(IndexType)
    first = result_def(IndexType)
    stop = result_def(IndexType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$extent `by` $grain `of` $thread `,` $threads attr-dict"

    def __init__(self, extent: int, grain: int, thread: SSAValue, threads: SSAValue) -> None:
        super().__init__(
            operands=[thread, threads],
            properties={"extent": IntegerAttr(extent, i64), "grain": IntegerAttr(grain, i64)},
            result_types=[IndexType(), IndexType()],
        )

    @property
    def units(self) -> int:
        """How many grains there are, the last one perhaps in part."""
        return _units(self.extent.value.data, self.grain.value.data)

    @property
    def last(self) -> int:
        """The last grain at which a part can begin."""
        return _last(self.extent.value.data, self.grain.value.data)

    def verify_(self) -> None:
        if self.extent.value.data < 0 or self.grain.value.data < 1:
            raise VerifyException("rt.share: expected an extent of 0 or more, and a grain")


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """Wait until all threads of the call are here: `rt.barrier %threads`. What they wrote before
    can be read after it."""

    name = "rt.barrier"
    threads = operand_def(IndexType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$threads attr-dict"

    def __init__(self, threads: SSAValue) -> None:
        super().__init__(operands=[threads])


class Kind(Enum):
    """Who touches which elements of a buffer."""

    ALONE = "alone"
    """The first thread all of them."""
    OWN = "own"
    """Each thread those of a buffer of its own."""
    ANY = "any"
    """Each thread some, which are not known."""
    SHARED = "shared"
    """Each thread those of its part of an index, and no others."""


@dataclass(frozen=True)
class Part:
    """The elements of a buffer that a thread touches.

    Those of a shared index lie in blocks of ``period`` bytes, one after the other. Each thread has
    the same part of each block, as `rt.share` divides it, in pieces of ``grain`` bytes.
    """

    kind: Kind
    period: int = 0
    grain: int = 0

    def __str__(self) -> str:
        sizes = f" {self.period} by {self.grain}" if self.kind is Kind.SHARED else ""
        return self.kind.value + sizes

    def agrees(self, other: Part) -> bool:
        """Whether no element that a thread touches is another thread's, if both parts are of the
        same buffer."""
        return self == other and self.kind is not Kind.ANY


ALONE, OWN, ANY = (Part(kind) for kind in (Kind.ALONE, Kind.OWN, Kind.ANY))


@irdl_attr_definition
class PartAttr(Data[Part]):
    """`#rt.part<alone>`, `#rt.part<own>`, `#rt.part<any>`, or `#rt.part<shared 3072 by 256>`."""

    name = "rt.part"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Part:
        with parser.in_angle_brackets():
            kind = Kind(parser.expect(lambda: _kind(parser), f"expected one of {_KINDS}"))
            if kind is not Kind.SHARED:
                return Part(kind)
            period = parser.parse_integer(allow_negative=False)
            parser.parse_keyword("by")
            return Part(kind, period, parser.parse_integer(allow_negative=False))

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


_KINDS = ", ".join(kind.value for kind in Kind)


def _kind(parser: AttrParser) -> str | None:
    return next((k.value for k in Kind if parser.parse_optional_keyword(k.value)), None)
