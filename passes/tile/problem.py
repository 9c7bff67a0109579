"""A statement for which a schedule is searched, with data that all candidate schedules share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from tessella.dialects.place import PlaceAttr
from tessella.dialects.sizes import is_static
from tessella.dialects.tile import ContractOp, Dot, KernelOp, Schedule
from tessella.dialects.tile.flat import Flat, flatten
from tessella.dialects.tile.merge import with_places
from tessella.dialects.tile.reach import Reach, reaches
from tessella.dialects.tile.summed import SummedProduct
from tessella.passes.tile.model import CostModel, in_numbers
from tessella.passes.tile.packing import argument_of, packed_places
from tessella.passes.tile.plan import plan_accesses
from tessella.support.sizes import Size, expression
from tessella.targets import Target

Places = Mapping[int, PlaceAttr]
"""The layouts and element types that a schedule requires for packed operands, by operand number."""


@dataclass(frozen=True)
class Problem:
    """A statement of a kernel for which a schedule is searched, and the machine that the schedule
    is for."""

    op: ContractOp
    kernel: KernelOp
    target: Target
    shared: bool = False
    """True if constants are packed in panels that programs for any number of rows share."""
    _models: dict[tuple[tuple[int, PlaceAttr], ...], CostModel] = field(
        default_factory=dict[tuple[tuple[int, PlaceAttr], ...], CostModel]
    )
    _packed: dict[tuple[str, int, tuple[bool, ...], Dot | None, bool], Places] = field(
        default_factory=dict[tuple[str, int, tuple[bool, ...], Dot | None, bool], Places]
    )

    @cached_property
    def reaches(self) -> Mapping[str | None, Reach]:
        """The indices that an iteration of shared loops does not run over their whole ranges, each
        with the last value that an iteration reaches."""
        return {**reaches(self.op)}

    @cached_property
    def product(self) -> SummedProduct | None:
        """The product that the statement sums."""
        return self.op.summed

    @cached_property
    def plain(self) -> Flat[int]:
        """The flattened statement with its operands' current layouts, and numbers in place of
        symbolic sizes."""
        return self.model({}).flat

    def model(self, places: Places) -> CostModel:
        """Return the cost model of the statement with operands in the layouts of ``places``, in
        which more indices may merge.

        Indices merge before symbolic sizes are replaced by numbers: schedules must name the indices
        that the lowering has, for all values of the symbols.
        """
        key = tuple(places.items())
        if key not in self._models:
            flat = self._flat_with(places)
            sizes = in_numbers(self.op, flat)
            self._models[key] = CostModel(self.op, sizes, self.target, self.product)
        return self._models[key]

    @cached_property
    def symbolic(self) -> Mapping[str | None, Size]:
        """The symbolic ranges, by index."""
        indices = self._flat.indices
        return {i.name: i.range for i in indices if expression(i.range) is not None}

    def fits(self, s: Schedule, places: Places) -> bool:
        """Return whether the accesses of a schedule can be lowered for all values of the symbols,
        if operands have the layouts of ``places``. Costs only consider usual values."""
        if not self._has_symbols:
            return True
        plan = plan_accesses(self.op, self._flat_with(places), s.vector, s.rows, s.dot)
        return plan.misfit(s) is None

    @cached_property
    def _has_symbols(self) -> bool:
        strides = (x for access in self._flat.accesses for x in access.strides.values())
        return not is_static((*self._flat.ranges.values(), *strides))

    def _flat_with(self, places: Places) -> Flat:
        return with_places(self.op, places) if places else self._flat

    @cached_property
    def _flat(self) -> Flat:
        """The flattened statement with its operands' current layouts."""
        return flatten(self.op)

    def shares_panels(self, vector: str, lanes: int) -> bool:
        """Return whether vectors along the index ``vector`` read constants packed in panels that
        other programs, for other numbers of rows, also use."""
        if not self.shared or self.op.is_map or vector in self.plain.reduced:
            return False
        arguments = (argument_of(self.op, self.kernel, i) for i in self.packed(vector, None, lanes))
        return any(a is not None and self.kernel.is_constant(a.index) for a in arguments)

    def packed(
        self,
        vector: str,
        rows: str | None,
        width: int,
        dot: Dot | None = None,
        *,
        copying: bool = False,
    ) -> Places:
        """Return the layouts and element types that register tiles of this width require for
        operands, by operand number.

        With ``copying``, operands that tiles could read in place are packed in panels, too.
        """
        by_row = tuple(rows is not None and a.stride(rows) != 0 for a in self.plain.accesses)
        key = vector, width, by_row, dot, copying
        if key not in self._packed:
            # The last panel of a symbolic range has a remainder that no tile covers.
            panels = width if vector not in self.symbolic else None
            self._packed[key] = packed_places(
                *(self.op, self.kernel, self.plain, vector, rows, panels, dot), copying=copying
            )
        return self._packed[key]
