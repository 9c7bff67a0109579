"""The static pick by grade: op by op, the kernel with the highest score; see ``grade.py``.

Of equal scores the kernel that was registered first is taken. A kernel that does with any layout
takes the one that flows in.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW, Layout
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, precision_of
from tessella.kernels.registry import Kernel
from tessella.passes.base import is_constant
from tessella.passes.pick.candidates import Candidate, Serving, candidate, place_for
from tessella.passes.pick.grade import Grade, grade


def pick_by_grade(
    served: Mapping[NnOp, Serving], places: Sequence[PlaceAttr]
) -> dict[NnOp, Candidate]:
    """The candidate of each op; ``places`` are those of ``valid_place``."""
    layouts: dict[SSAValue, Layout] = {}
    chosen: dict[NnOp, Candidate] = {}
    for op, serving in served.items():
        kernel = max(serving.kernels, key=lambda k: kernel_grade(k, op, places).score)
        layout, rank = flowing_layout(op, layouts), serving.ranks[kernel]
        pick = candidate(kernel, op, layout, serving.step, rank)
        for result, at in zip(op.results, pick.wants[len(op.operands) :], strict=True):
            layouts[result] = at.layout
        chosen[op] = pick
    return chosen


def kernel_grade(kernel: Kernel, op: NnOp, places: Sequence[PlaceAttr]) -> Grade:
    """The grade of a kernel for an op."""
    values = (*op.operands, *op.results)
    match = all(
        want.precision.data == precision_of(tensor_type(value).element_type)
        for want, value in zip(kernel.wants(op, NCHW), values, strict=True)
    )
    return grade(place_for(kernel, op), places, values_match=match)


def flowing_layout(op: NnOp, layouts: Mapping[SSAValue, Layout]) -> Layout:
    """The layout that the op's operands of the result's rank already have: that of the first
    computed one."""
    rank = max(len(shape_of(result)) for result in op.results)
    for value in op.operands:
        if not is_constant(value) and len(shape_of(value)) == rank and value in layouts:
            return layouts[value]
    return NCHW
