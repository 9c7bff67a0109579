"""The division of kernels' work among the threads of a call.

%first, %stop = rt.share 3072 by 64 of %thread, %threads
rt.barrier %threads
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from itertools import pairwise

from xdsl.dialects.builtin import IndexType
from xdsl.ir import Data, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.assembly import parse_operand
from tessella.dialects.sizes import opt_size_def, parse_number, size_attribute, size_def, size_of
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_zero, known
from tessella.support.sizes import Size, ceil_div


@dataclass(frozen=True)
class Share:
    """The division of `0 .. extent` among threads. The extent consists of ``ranges`` consecutive
    ranges of equal size.

    The parts of all threads are contiguous, in thread order, and cover the extent. They begin at
    multiples of the grain within a range. If the grain does not divide a range, the remainder and
    the grain before it belong to one thread, as tiles may overlap there.
    """

    extent: Size
    grain: Size
    ranges: Size = 1

    @property
    def range(self) -> Size:
        """The number of values in one range."""
        return self.extent // self.ranges

    @property
    def units(self) -> Size:
        """The number of grains in a range, the last one perhaps partial."""
        return ceil_div(self.range, self.grain)

    @property
    def last(self) -> Size:
        """The number of the last grain of a range at which a thread's part can begin."""
        whole, rest = divmod(self.range, self.grain)
        return decided_max(0, whole if decided_zero(rest) else whole - 1)

    def begin(self, thread: int, threads: int) -> int:
        """Return the first value of a thread's part."""
        units, grain = known(self.units), known(self.grain)
        number, unit = divmod(thread * units * known(self.ranges) // threads, units)
        return number * known(self.range) + min(unit, known(self.last)) * grain

    def largest(self, threads: int) -> int:
        """Return the number of values in the largest part, if ``threads`` threads divide the
        extent."""
        starts = [self.begin(thread, threads) for thread in range(threads + 1)]
        return max(stop - start for start, stop in pairwise(starts))


@irdl_op_definition
class ShareOp(IRDLOperation):
    """The part of `0 .. extent` that a thread runs, from `%first` to `%stop`, exclusive: `%first,
    %stop = rt.share 100 by 16 of %thread, %threads`.

    For 8 ranges of 512: `rt.share 4096 by 100 in 8 of %thread, %threads`.
    """

    name = "rt.share"
    extent = size_def()
    grain = size_def()
    ranges = opt_size_def()
    thread = operand_def(IndexType)
    threads = operand_def(IndexType)
    first = result_def(IndexType)
    stop = result_def(IndexType)
    traits = traits_def(Pure())

    def __init__(self, share: Share, thread: SSAValue, threads: SSAValue) -> None:
        ranges = size_attribute(share.ranges) if share.ranges != 1 else None
        super().__init__(
            operands=[thread, threads],
            properties={
                "extent": size_attribute(share.extent),
                "grain": size_attribute(share.grain),
                "ranges": ranges,
            },
            result_types=[IndexType(), IndexType()],
        )

    @property
    def share(self) -> Share:
        """The division of the extent among all threads."""
        ranges = 1 if self.ranges is None else size_of(self.ranges)
        return Share(size_of(self.extent), size_of(self.grain), ranges)

    def verify_(self) -> None:
        share = self.share
        if decided(share.extent < 0) or decided(share.grain < 1):
            raise VerifyException("rt.share: expected an extent of 0 or more, and a grain")
        if decided(share.ranges < 1) or share.extent % share.ranges != 0:
            raise VerifyException("rt.share: expected ranges of equal size")

    def print(self, printer: Printer) -> None:
        share = self.share
        ranges = f" in {share.ranges:d}" if share.ranges != 1 else ""
        printer.print_string(f" {share.extent:d} by {share.grain:d}{ranges} of ")
        printer.print_list([self.thread, self.threads], printer.print_operand)
        printer.print_op_attributes(self.attributes)

    @classmethod
    def parse(cls, parser: Parser) -> ShareOp:
        share = _parse_share(parser)
        parser.parse_keyword("of")
        thread = parse_operand(parser)
        parser.parse_punctuation(",")
        op = cls(share, thread, parse_operand(parser))
        op.attributes.update(parser.parse_optional_attr_dict())
        return op


def _parse_share(parser: AttrParser) -> Share:
    extent = parse_number(parser)
    parser.parse_keyword("by")
    grain = parse_number(parser)
    ranges = parser.parse_optional_keyword("in")
    return Share(extent, grain, 1 if ranges is None else parse_number(parser))


@irdl_op_definition
class BarrierOp(IRDLOperation):
    """An op that waits until all threads of the call have arrived: `rt.barrier %threads`.

    Their earlier writes are visible to all threads afterwards.
    """

    name = "rt.barrier"
    threads = operand_def(IndexType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$threads attr-dict"

    def __init__(self, threads: SSAValue) -> None:
        super().__init__(operands=[threads])


class Kind(Enum):
    """The kinds of access to a buffer by the threads of a call."""

    ALONE = "alone"
    """The first thread accesses all elements of the buffer."""
    OWN = "own"
    """Each thread accesses its own buffer."""
    ANY = "any"
    """It is not known which elements of the buffer each thread accesses."""
    SHARED = "shared"
    """Each thread accesses only the elements of its part of an index."""


@dataclass(frozen=True)
class Part:
    """The elements of a buffer that a thread accesses.

    If the kind is ``SHARED``, the buffer consists of consecutive blocks of ``period`` bytes. Each
    thread accesses the same part of each block, as `rt.share` divides the block, in pieces of
    ``grain`` bytes within ``ranges`` ranges.
    """

    kind: Kind
    period: Size = 0
    grain: Size = 0
    ranges: Size = 1

    @staticmethod
    def shared(share: Share) -> Part:
        """Return the part of a buffer that threads access if they divide each block as ``share``
        does. Its numbers are in bytes.

        If the grain divides a range, the division is the same as that of a single range.
        """
        one = share.ranges == 1 or share.range % share.grain == 0
        ranges = 1 if one else share.ranges
        return Part(Kind.SHARED, share.extent, share.grain, ranges)

    @property
    def share(self) -> Share:
        """The division of one block of ``period`` bytes among threads."""
        return Share(self.period, self.grain, self.ranges)

    def __str__(self) -> str:
        if self.kind is not Kind.SHARED:
            return self.kind.value
        ranges = f" in {self.ranges:d}" if self.ranges != 1 else ""
        return f"{self.kind.value} {self.period:d} by {self.grain:d}{ranges}"

    def agrees(self, other: Part) -> bool:
        """Return whether two descriptions of the accesses to one buffer assign each element to the
        same thread."""
        return self == other and self.kind is not Kind.ANY


ALONE, OWN, ANY = (Part(kind) for kind in (Kind.ALONE, Kind.OWN, Kind.ANY))


@irdl_attr_definition
class PartAttr(Data[Part]):
    """The attribute of a ``Part``: `#rt.part<alone>`, `#rt.part<own>`, `#rt.part<any>`,
    `#rt.part<shared 3072 by 256>`, or `#rt.part<shared 3072 by 100 in 2>`."""

    name = "rt.part"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Part:
        with parser.in_angle_brackets():
            kind = Kind(parser.expect(lambda: _kind(parser), f"expected one of {_KINDS}"))
            if kind is not Kind.SHARED:
                return Part(kind)
            share = _parse_share(parser)
            return Part(kind, share.extent, share.grain, share.ranges)

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")


_KINDS = ", ".join(kind.value for kind in Kind)


def _kind(parser: AttrParser) -> str | None:
    return next((k.value for k in Kind if parser.parse_optional_keyword(k.value)), None)
