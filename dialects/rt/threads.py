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
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException


@dataclass(frozen=True)
class Share:
    """How threads divide `0 .. extent`, which is so many ranges one after the other.

    The parts of all threads are the whole, in the order of the threads. They begin at multiples of
    the grain within a range. If it does not divide a range, the remainder and the grain before it
    belong to one thread, as tiles may overlap there.
    """

    extent: int
    grain: int
    ranges: int = 1

    @property
    def range(self) -> int:
        """The extent of one."""
        return self.extent // self.ranges

    @property
    def units(self) -> int:
        """How many grains a range has, the last one perhaps in part."""
        return -(-self.range // self.grain)

    @property
    def last(self) -> int:
        """The last grain of a range at which a part can begin."""
        whole, rest = divmod(self.range, self.grain)
        return max(0, whole - (1 if rest else 0))

    def begin(self, thread: int, threads: int) -> int:
        """Where the part of one of so many threads begins."""
        number, unit = divmod(thread * self.units * self.ranges // threads, self.units)
        return number * self.range + min(unit, self.last) * self.grain

    def largest(self, threads: int) -> int:
        """The size of the largest part of so many threads."""
        starts = [self.begin(thread, threads) for thread in range(threads + 1)]
        return max(stop - start for start, stop in pairwise(starts))


@irdl_op_definition
class ShareOp(IRDLOperation):
    """The part of `0 .. extent` that a thread runs: `%first, %stop = rt.share 100 by 16 of %thread,
    %threads`; of 8 ranges of 512, `rt.share 4096 by 100 in 8 of %thread, %threads`."""

    name = "rt.share"
    extent = prop_def(IntegerAttr[I64])
    grain = prop_def(IntegerAttr[I64])
    ranges = opt_prop_def(IntegerAttr[I64])
    thread = operand_def(IndexType)
    threads = operand_def(IndexType)
    first = result_def(IndexType)
    stop = result_def(IndexType)
    traits = traits_def(Pure())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$extent `by` $grain (`in` $ranges^)? `of` $thread `,` $threads attr-dict"

    def __init__(self, share: Share, thread: SSAValue, threads: SSAValue) -> None:
        ranges = IntegerAttr(share.ranges, i64) if share.ranges != 1 else None
        super().__init__(
            operands=[thread, threads],
            properties={
                "extent": IntegerAttr(share.extent, i64),
                "grain": IntegerAttr(share.grain, i64),
                "ranges": ranges,
            },
            result_types=[IndexType(), IndexType()],
        )

    @property
    def share(self) -> Share:
        """How all threads divide it."""
        ranges = 1 if self.ranges is None else self.ranges.value.data
        return Share(self.extent.value.data, self.grain.value.data, ranges)

    def verify_(self) -> None:
        share = self.share
        if share.extent < 0 or share.grain < 1:
            raise VerifyException("rt.share: expected an extent of 0 or more, and a grain")
        if share.ranges < 1 or share.extent % share.ranges:
            raise VerifyException("rt.share: expected ranges of equal size")


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
    the same part of each block, as `rt.share` divides it, in pieces of ``grain`` bytes of so many
    ranges.
    """

    kind: Kind
    period: int = 0
    grain: int = 0
    ranges: int = 1

    @staticmethod
    def shared(share: Share) -> Part:
        """A thread's share of each block, in bytes. Whole grains in each range are the same
        division as of one range."""
        ranges = share.ranges if share.range % share.grain else 1
        return Part(Kind.SHARED, share.extent, share.grain, ranges)

    @property
    def share(self) -> Share:
        """Of a block."""
        return Share(self.period, self.grain, self.ranges)

    def __str__(self) -> str:
        if self.kind is not Kind.SHARED:
            return self.kind.value
        ranges = f" in {self.ranges}" if self.ranges != 1 else ""
        return f"{self.kind.value} {self.period} by {self.grain}{ranges}"

    def agrees(self, other: Part) -> bool:
        """Whether no element that a thread touches is another thread's, if both parts are of the
        same buffer."""
        return self == other and self.kind is not Kind.ANY


ALONE, OWN, ANY = (Part(kind) for kind in (Kind.ALONE, Kind.OWN, Kind.ANY))


@irdl_attr_definition
class PartAttr(Data[Part]):
    """`#rt.part<alone>`, `#rt.part<own>`, `#rt.part<any>`, `#rt.part<shared 3072 by 256>`, or
    `#rt.part<shared 3072 by 100 in 2>`."""

    name = "rt.part"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Part:
        with parser.in_angle_brackets():
            kind = Kind(parser.expect(lambda: _kind(parser), f"expected one of {_KINDS}"))
            if kind is not Kind.SHARED:
                return Part(kind)
            period = parser.parse_integer(allow_negative=False)
            parser.parse_keyword("by")
            grain, ranges = parser.parse_integer(allow_negative=False), 1
            if parser.parse_optional_keyword("in") is not None:
                ranges = parser.parse_integer(allow_negative=False)
            return Part(kind, period, grain, ranges)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


_KINDS = ", ".join(kind.value for kind in Kind)


def _kind(parser: AttrParser) -> str | None:
    return next((k.value for k in Kind if parser.parse_optional_keyword(k.value)), None)
