"""Pick a kernel for every op, statically, by place.

    %y = nn.conv %x, %w {...}
    ->
    %y = nn.conv %x, %w {kernel = "conv", places = [#place.at<x86, f32, nhwc>, ...], ...}

For each op the places are tried in the user's order; the first kernel registered at a place whose
predicate holds is taken. A kernel whose layout is `any` takes the layout that its operands
already have. The types stay as they are:
``insert-conversions`` gives every value its place.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass

from tessella import kernels
from tessella.dialects.layout import ANY_LAYOUT, NCHW, Layout
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp, is_float, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, parse_place, precision_of
from tessella.kernels.registry import Kernel, kernels_of
from tessella.passes.base import functions, is_constant
from tessella.support.errors import Unsupported, UnsupportedError


def computing_precision(op: NnOp) -> str | None:
    """The precision of the op's floating-point values, or None where it has none."""
    for value in (*op.results, *op.operands):
        element = tensor_type(value).element_type
        if is_float(element):
            return precision_of(element)
    return None


def matches(kernel: Kernel, place: PlaceAttr, precision: str | None) -> bool:
    """Whether a kernel serves a place for an op that computes in this precision."""
    wanted = place.precision.data
    return (
        kernel.target == place.target.data
        and (precision is None or wanted in ("any", precision))
        and (precision is None or kernel.precision in ("any", precision))
        and (ANY_LAYOUT in (kernel.layout, place.layout) or kernel.layout == place.layout)
    )


@dataclass(frozen=True)
class PickKernelsPass(ModulePass):
    """Name a kernel, and the places it wants, on every op of the `nn` dialect."""

    name = "pick-kernels"

    places: tuple[str, ...] = ("x86/f32/nhwc", "x86/f32", "x86", "host")

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        kernels.load()
        places = [parse_place(text) for text in self.places]
        missing: list[Unsupported] = []
        for function in functions(op):
            layouts: dict[SSAValue, Layout] = {}
            for inner in function.body.block.ops:
                if isinstance(inner, NnOp) and not isinstance(inner, ConstantOp):
                    missing += self._pick(inner, places, layouts)
        if missing:
            raise UnsupportedError(missing)

    def _pick(
        self, op: NnOp, places: list[PlaceAttr], layouts: dict[SSAValue, Layout]
    ) -> list[Unsupported]:
        precision = computing_precision(op)
        reasons: list[str] = []
        candidates = kernels_of(op)
        refused = [kernel.applies(op) for kernel in candidates]
        for place in places:
            for kernel, reason in zip(candidates, refused, strict=True):
                if not matches(kernel, place, precision):
                    continue
                if reason is None:
                    wanted = kernel.wants(op, flowing_layout(op, layouts))
                    op.pick(kernel.name, wanted)
                    for result, at in zip(op.results, wanted[len(op.operands) :], strict=True):
                        layouts[result] = at.layout
                    return []
                reasons.append(f"{kernel.name} at {kernel.target}: {reason}")
        return [
            Unsupported(
                op.name,
                op.node,
                "; ".join(dict.fromkeys(reasons)) or "no kernel at the places given",
            )
        ]


def flowing_layout(op: NnOp, layouts: dict[SSAValue, Layout]) -> Layout:
    """The layout that the op's operands of the result's rank already have: that of the first
    computed one."""
    rank = max(len(shape_of(result)) for result in op.results)
    for value in op.operands:
        if not is_constant(value) and len(shape_of(value)) == rank and value in layouts:
            return layouts[value]
    return NCHW
