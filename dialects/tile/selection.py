"""The common base of statements that select values of rows."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

from typing_extensions import TypeVar
from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import Attribute, Block, Data, Region, SSAValue
from xdsl.irdl import IRDLOperation, prop_def
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.sizes import SizeOp, size_def, size_of
from tessella.dialects.tile.access import Access
from tessella.dialects.tile.attributes import AccessAttr, Index, IndicesAttr
from tessella.dialects.tile.bodies import SCALAR_DIALECTS, IndexOp, YieldOp, yielded
from tessella.dialects.tile.operands import verify_arguments
from tessella.support.conditions import always
from tessella.support.sizes import Size, product


class SelectionOp(IRDLOperation):
    """Base of the statements that select values of rows.

    They are never in shared loops. Threads may divide the rows.
    """

    @property
    def reads(self) -> tuple[SSAValue, ...]:
        """The tensors that the statement reads elements of."""
        return tuple(self.operands)

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The tensors that the statement reads, followed by its results."""
        return (*self.reads, *self.results)

    @property
    def bodies(self) -> tuple[Region, ...]:
        """The scalar bodies of the statement."""
        return ()

    @property
    def points(self) -> Size:
        """The number of values from which the statement selects."""
        raise NotImplementedError

    @property
    def units(self) -> Size:
        """The number of units that threads can divide: rows, or groups of rows."""
        return 1

    @property
    def parallel(self) -> int | None:
        """The grain by which threads divide the units; None if they do not divide them."""
        return None

    def divide(self, units: int) -> None:
        """Set the grain by which threads divide the units."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True)
class RowSchedule:
    """The schedule of a selection of rows."""

    lanes: int
    """The number of values of a row, or of adjacent rows, that one instruction processes."""
    parallel: int | None = None
    """The grain by which threads divide the rows, or groups of rows; None if they do not divide
    them."""

    def text(self, detail: str = "") -> str:
        """Return the schedule as text. ``detail`` is additional text for one kind of selection."""
        parallel = "" if self.parallel is None else f" parallel {self.parallel}"
        return f"lanes {self.lanes}{detail}{parallel}"

    def __str__(self) -> str:
        return self.text()


S_co = TypeVar("S_co", bound=RowSchedule, covariant=True)


class RowScheduleAttr(Data[S_co]):
    """Base of the schedules of selections."""

    def print_parameter(self, printer: Printer) -> None:
        printer.print_string(f"<{self.data}>")

    def dividing(self, units: int) -> Self:
        """Return the schedule in which threads divide the rows, or groups of rows, in multiples of
        ``units``."""
        return type(self)(replace(self.data, parallel=units))


def parse_lanes(parser: AttrParser) -> int:
    """Parse the number of lanes: `lanes 8`."""
    parser.parse_keyword("lanes")
    return parser.parse_integer()


def parse_parallel(parser: AttrParser) -> int | None:
    """Parse the grain of threads: `parallel 4`. None if the next word is not `parallel`."""
    found = parser.parse_optional_keyword("parallel")
    return None if found is None else parser.parse_integer()


class RowsOp(SelectionOp):
    """Base of selections with rows along free indices and a row's values along a reduced index."""

    indices = prop_def(IndicesAttr)
    accesses = prop_def(ArrayAttr[AccessAttr])
    """The accesses of the operands. In a sort, the access of both results follows."""
    first = size_def()

    @property
    def count(self) -> Size:
        """The maximum number of values that are selected of each row."""
        return size_of(self.first)

    @property
    def access_list(self) -> tuple[Access, ...]:
        return tuple(access.data for access in self.accesses)

    @property
    def index_list(self) -> tuple[Index, ...]:
        return self.indices.parts

    @property
    def ranges(self) -> Mapping[str, Size]:
        """The ranges of the indices by name."""
        return self.indices.ranges

    @property
    def free(self) -> tuple[Index, ...]:
        """The free indices, which enumerate the rows, outermost first."""
        return tuple(index for index in self.index_list if not index.reduced)

    @property
    def along(self) -> Index:
        """The reduced index, which enumerates the values of a row."""
        return next(index for index in self.index_list if index.reduced)

    @property
    def rows(self) -> Size:
        """The number of rows."""
        return product(index.range for index in self.free)

    @property
    def points(self) -> Size:
        return self.rows * self.along.range

    @property
    def units(self) -> Size:
        return self.rows

    @property
    def parallel(self) -> int | None:
        schedule = self.row_schedule
        return None if schedule is None else schedule.data.parallel

    def divide(self, units: int) -> None:
        schedule = self.row_schedule
        assert schedule is not None
        self.properties["schedule"] = schedule.dividing(units)

    @property
    def row_schedule(self) -> RowScheduleAttr[RowSchedule] | None:
        """The schedule of the selection; None if it has none."""
        raise NotImplementedError

    def verify_rows(self, count: Size) -> None:
        """Raise VerifyException unless the indices are valid, and ``count`` is at most the number
        of values in a row.

        One index must be reduced, and each must be declared once.
        """
        if sum(index.reduced for index in self.index_list) != 1:
            raise VerifyException(f"{self.name}: expected one index after the bar, that of a row")
        if len({index.name for index in self.index_list}) != len(self.index_list):
            raise VerifyException(f"{self.name}: an index is declared twice")
        if always(count < 0) or always(count > self.along.range):
            raise VerifyException(
                f"{self.name}: expected the first 0 to {self.along.range} values of a row, found "
                f"{count}"
            )

    def verify_body(
        self, block: Block, expected: Sequence[Attribute], indices: Container[str]
    ) -> Attribute:
        """Return the type that a scalar body yields.

        Raises VerifyException unless the body takes arguments of the types ``expected``, contains
        only ops on scalars, and names only the indices ``indices``.
        """
        verify_arguments(self.name, block, expected)
        for op in block.ops:
            known = isinstance(op, IndexOp | SizeOp | YieldOp)
            if not known and op.dialect_name() not in SCALAR_DIALECTS:
                raise VerifyException(f"{self.name}: {op.name} does not belong into a body")
            if isinstance(op, IndexOp) and op.index.data not in indices:
                raise VerifyException(f"tile.index: the index {op.index.data} is not declared")
        return yielded(block).type
