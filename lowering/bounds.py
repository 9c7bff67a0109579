"""Bounds of loops over reduced indices, limited to the values that satisfy the constraints."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from xdsl.ir import SSAValue
from xdsl.ir.affine import AffineExpr

from tessella.dialects.tile.flat import Constraint
from tessella.lowering.point import Point
from tessella.lowering.values import BlockEmitter, Pos
from tessella.support.sizes import Expr, Size


@dataclass(frozen=True)
class LoopBounds:
    """Computes the first and the last values of loops over a statement's reduced indices, from its
    constraints."""

    emitter: BlockEmitter
    constraints: Sequence[Constraint]
    """The constraints that bound loops."""
    ranges: Mapping[str, Size]
    rows: str | None
    """The index of the register tile's rows."""

    def of(self, name: str, extent: Size, point: Point) -> tuple[Pos, Pos]:
        """Return the bounds of a loop over ``extent`` values of a reduced index."""
        start, stop = Pos(), Pos(None, extent)
        for c in self.constraints:
            if c.form.coefficient(name):
                start = self.emitter.max(start, self._first(c, name, point))
                stop = self.emitter.min(stop, self._end(c, name, point))
        return start, stop

    def of_rows(
        self, c: Constraint, name: str, point: Point, rows: Sequence[int], active: Sequence[int]
    ) -> tuple[Pos, Pos]:
        """Return the bounds of a loop over the values of a reduced index for which the rows
        ``active`` of a tile are in bounds and its other rows are not."""
        e, first, last = self.emitter, active[0], active[-1]
        start = e.max(Pos(), self._first(c, name, point, first))
        stop = e.min(Pos(None, self.ranges[name]), self._end(c, name, point, last))
        if first > rows[0]:
            stop = e.min(stop, self._first(c, name, point, first - 1))
        if last < rows[-1]:
            start = e.max(start, self._end(c, name, point, last + 1))
        return start, stop

    def _first(self, c: Constraint, name: str, point: Point, row: int = 0) -> Pos:
        """Return the first value of a reduced index that satisfies a constraint, at a row."""
        scale, constant, rest = self._others(c, name, point, row)
        if rest is None:
            return Pos(None, -(constant // scale))
        value, k = rest
        form, value = self._form(value, -k, -constant)
        return Pos(self.emitter.apply(form.ceil_div(scale), [value]))

    def _end(self, c: Constraint, name: str, point: Point, row: int = 0) -> Pos:
        """Return one past the last value of a reduced index that satisfies a constraint, at a
        row."""
        scale, constant, rest = self._others(c, name, point, row)
        last = c.extent - 1 - constant
        if rest is None:
            return Pos(None, last // scale + 1)
        value, k = rest
        form, value = self._form(value, -k, last)
        return Pos(self.emitter.apply(form // scale + 1, [value]))

    def _form(self, value: SSAValue, k: int, constant: Size) -> tuple[AffineExpr, SSAValue]:
        """Return ``k * value + constant`` as an affine expression, and the value of the
        expression's only dimension."""
        if isinstance(constant, Expr):
            return AffineExpr.dimension(0), self.emitter.linear([(value, k)], constant)
        return AffineExpr.dimension(0) * k + constant, value

    def _others(
        self, c: Constraint, name: str, point: Point, row: int
    ) -> tuple[int, Size, tuple[SSAValue, int] | None]:
        """Return the terms of a constraint's affine expression: the coefficient of the reduced
        index ``name``, the constant, and the other variable with its coefficient (None if there is
        no other variable)."""
        others = [(point.indices[n], k) for n, k in c.form.terms if n != name]
        constant = c.form.constant + sum(k * pos.constant for pos, k in others)
        constant += row * c.form.coefficient(self.rows or "")
        terms = [(pos.ssa, k) for pos, k in others if pos.ssa is not None]
        return c.form.coefficient(name), constant, terms[0] if terms else None
