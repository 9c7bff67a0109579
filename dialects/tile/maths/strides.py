"""The stride table of a normal form: every tensor's address as a linear form of the indices.

It is PlaidML 0.7's `FlatContraction`. For ``O[n, x, y, co] = +(D[n, x+i-1, y+j-1, ci] * K[i, j, co,
ci])`` on 32 images of 224 x 224 x 64 it prints as

             Range         O         D         K
      ci        64         0         1         1
      co        64         1         0        64
       i         3         0     14336     12288
       j         3         0        64      4096
       n        32   3211264   3211264         0
       x       224     14336     14336         0
       y       224        64        64         0
     off                   0    -14400         0
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tessella.dialects.layout import NCHW
from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.flat import FlatAccess, flatten_access
from tessella.dialects.tile.maths.intervals import Constraint
from tessella.dialects.tile.maths.normalize import Normal


@dataclass(frozen=True)
class StrideTable:
    """Addresses in elements, and what limits the points of the box."""

    names: tuple[str, ...]
    """The indices in alphabetical order."""
    ranges: tuple[int, ...]
    tensors: tuple[str, ...]
    """The output's name, then the inputs'."""
    accesses: tuple[FlatAccess, ...]
    constraints: tuple[tuple[Linear, int], ...]
    """``form <= bound`` for forms without a constant."""

    def __str__(self) -> str:
        rows = [["", "Range", *self.tensors]]
        for name, extent in zip(self.names, self.ranges, strict=True):
            rows.append([name, str(extent), *(str(a.stride(name)) for a in self.accesses)])
        rows.append(["off", "", *(str(a.offset) for a in self.accesses)])
        return "\n".join("  ".join(cell.rjust(8) for cell in row) for row in rows)


def stride_table(
    normal: Normal, shapes: Sequence[Sequence[int]], tensors: Sequence[str]
) -> StrideTable:
    """The table of a normal form, for row-major tensors of these shapes and names."""
    ranges = {x.name: x.range for x in sorted(normal.indices, key=lambda index: index.name)}
    pairs = zip(normal.accesses, shapes, strict=True)
    accesses = tuple(flatten_access(access, shape, NCHW) for access, shape in pairs)
    sides = (side for constraint in normal.constraints for side in _sides(constraint))
    kept = tuple((form, bound) for form, bound in sides if form.bounds(ranges)[1] > bound)
    return StrideTable(tuple(ranges), tuple(ranges.values()), tuple(tensors), accesses, kept)


def _sides(constraint: Constraint) -> Iterator[tuple[Linear, int]]:
    """``0 <= form < extent`` as ``form <= bound``, twice."""
    form, extent = constraint
    moving = form - form.constant
    yield moving * -1, form.constant
    yield moving, extent - 1 - form.constant
