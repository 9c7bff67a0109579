"""The static pick by grade: op by op, the kernel with the highest score (``grade.py``), however
much time it takes.

Of equal scores, the kernel registered first wins. A kernel that runs in any layout takes the layout
of its operands.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW, Layout
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, precision_of
from tessella.kernels.elements import elements_of
from tessella.passes.base import is_constant
from tessella.passes.pick.candidates import Candidate, Candidates, Site, candidate
from tessella.passes.pick.grade import Grade, grade


def pick_by_grade(
    found: Mapping[NnOp, Candidates],
    places: Sequence[PlaceAttr],
    arguments: Mapping[SSAValue, PlaceAttr],
) -> dict[NnOp, Candidate]:
    """Return the candidate of each op with the highest score. ``places`` are results of
    ``valid_place``; ``arguments`` maps the function's arguments to their places."""
    layouts = {x: place.layout for x, place in arguments.items() if place.layout != NCHW}
    chosen: dict[NnOp, Candidate] = {}
    for op, entry in found.items():
        site = max(entry.ranks, key=lambda s: site_grade(s, op, places).score)
        layout, rank = flowing_layout(op, layouts), entry.ranks[site]
        layout = NCHW if layout.is_split else layout
        pick = candidate(site, op, layout, entry.step, rank)
        for result, at in zip(op.results, pick.wants[len(op.operands) :], strict=True):
            layouts[result] = at.layout
        chosen[op] = pick
    return chosen


def site_grade(site: Site, op: NnOp, places: Sequence[PlaceAttr]) -> Grade:
    """Return the grade of a kernel for an op, at the place where it would run."""
    found = elements_of(op)
    precision = site.precision if site.kernel.row(found) is None else None
    wants = site.kernel.wants(op, site.device, NCHW, precision)
    match = all(
        want.precision.data in ("any", precision_of(tensor_type(value).element_type))
        for want, value in zip(wants, (*op.operands, *op.results), strict=True)
    )
    return grade(site.place(op), places, values_match=match)


def flowing_layout(op: NnOp, layouts: Mapping[SSAValue, Layout]) -> Layout:
    """Return the layout of an op's first operand with a known layout and the rank of the result;
    row-major if there is none."""
    rank = max(len(shape_of(result)) for result in op.results)
    for value in op.operands:
        if not is_constant(value) and len(shape_of(value)) == rank and value in layouts:
            return layouts[value]
    return NCHW
