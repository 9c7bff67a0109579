"""Which kernels can run an op at the places that were asked for, and why the others cannot.

An op is served by the first of three steps that has a kernel whose predicate holds:

1. `exact`: a kernel at one of the places;
2. `layout`: a kernel at the target and precision of one of the places, in any layout;
3. `host`: the NumPy kernel, which every op has.

The last two are fallbacks. `host` among the places, behind another one, is what the third step says
anyway: it makes NumPy no equal of the places before it. The precision in which an op computes
changes only where a place names the precision of the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tessella.dialects.layout import ANY_LAYOUT, NCHW, Layout
from tessella.dialects.nn.core import NnOp, is_float, shape_of, tensor_type
from tessella.dialects.place import FLOATS, PlaceAttr, precision_of
from tessella.kernels.registry import Kernel, kernels_of

STEPS = ("exact", "layout", "host")


@dataclass(frozen=True)
class Candidate:
    """A kernel that can run an op, and the places at which it would."""

    kernel: Kernel
    place: PlaceAttr
    wants: tuple[PlaceAttr, ...]
    """Of each operand, then of each result."""
    step: str
    rank: int = 0
    """The number of the first place that was asked for and that the kernel serves."""

    @property
    def fallback(self) -> str | None:
        return self.step if self.step != "exact" else None


@dataclass(frozen=True)
class Rejection:
    """A kernel that is out, where it would run, and why, in a sentence."""

    kernel: Kernel
    place: PlaceAttr
    reason: str
    able: bool = False
    """Whether it could run the op, and others go first."""

    def __str__(self) -> str:
        return f"{self.kernel.name} at {self.place}: {self.reason}"


@dataclass(frozen=True)
class Serving:
    """The kernels of an op that are in, with their step, and those that are out."""

    ranks: Mapping[Kernel, int]
    """The kernels, and the number of the first place that each serves."""
    step: str
    rejected: Sequence[Rejection]

    @property
    def kernels(self) -> list[Kernel]:
        return list(self.ranks)


def requested(places: Sequence[PlaceAttr]) -> list[PlaceAttr]:
    """The places without those on the host, unless the host is what is asked for first."""
    if places and places[0].target.data == "host":
        return list(places)
    return [place for place in places if place.target.data != "host"]


def computing_precision(op: NnOp) -> str | None:
    """The precision of the op's floating-point values, or None where it has none."""
    for value in (*op.results, *op.operands):
        element = tensor_type(value).element_type
        if is_float(element):
            return precision_of(element)
    return None


def place_for(kernel: Kernel, op: NnOp, precision: str | None = None) -> PlaceAttr:
    """The kernel's place for an op: `any` as precision is that in which the op computes, which is
    found where it is not given."""
    if kernel.precision != "any":
        return kernel.place
    own = precision or computing_precision(op)
    own = own or precision_of(tensor_type(op.results[0]).element_type)
    return PlaceAttr.get(kernel.target, own, kernel.layout)


def serving(op: NnOp, places: Sequence[PlaceAttr], *, fallback: bool = True) -> Serving:
    """The kernels that can run an op, of the first step that has any (of `exact` alone without
    ``fallback``)."""
    wanted, precision = requested(places), computing_precision(op)
    by_step: dict[str, dict[Kernel, int]] = {step: {} for step in STEPS}
    rejected: list[Rejection] = []
    for kernel in kernels_of(op):
        step, rank, reason = _step(kernel, wanted, precision)
        reason = reason or kernel.applies(op)
        if step != "exact" and not fallback:
            reason = reason or f"a fallback ({step}), and those are refused"
        if reason is None:
            by_step[step][kernel] = rank
        else:
            rejected.append(Rejection(kernel, place_for(kernel, op, precision), reason))
    chosen = next((step for step in STEPS if by_step[step]), STEPS[-1])
    rejected += [
        Rejection(
            kernel,
            place_for(kernel, op, precision),
            f"a fallback ({step}) that is not needed",
            True,
        )
        for step in STEPS[STEPS.index(chosen) + 1 :]
        for kernel in by_step[step]
    ]
    return Serving(by_step[chosen], chosen, rejected)


def _step(
    kernel: Kernel, places: Sequence[PlaceAttr], precision: str | None
) -> tuple[str, int, str | None]:
    """The step at which a kernel serves the places, and which of them; or why it does not."""
    reason = f"no place asks for {kernel.target}"
    in_any_layout: int | None = None
    for rank, place in enumerate(places):
        if place.target.data not in (kernel.target, "any"):
            continue
        wrong = _wrong_precision(kernel, place, precision)
        if wrong is None:
            if ANY_LAYOUT in (kernel.layout, place.layout) or kernel.layout == place.layout:
                return "exact", rank, None
            in_any_layout = rank if in_any_layout is None else in_any_layout
        else:
            reason = wrong
    if in_any_layout is not None:
        return "layout", in_any_layout, None
    return "host", len(places), None if kernel.target == "host" else reason


def _wrong_precision(kernel: Kernel, place: PlaceAttr, precision: str | None) -> str | None:
    """Why a kernel does not serve a place's precision for an op that computes in ``precision``."""
    own, wanted = kernel.precision, place.precision.data
    if precision is None:
        return None if own == "any" or own in FLOATS else f"it computes in {own}"
    if own in ("any", precision):
        fits = wanted in ("any", precision)
        return None if fits else f"it computes in {precision}, and {place} asks for {wanted}"
    if own in FLOATS and wanted == own:
        return None
    return f"it computes in {own}, the op in {precision}" + (
        f", and no place names {own}" if own in FLOATS else ""
    )


def candidates(
    op: NnOp, served: Serving, layouts: Mapping[str, Sequence[Layout]]
) -> list[Candidate]:
    """The serving kernels with their places: one that does with any layout is there in each layout
    that is in play at its target."""
    ranked, precision = _has_layouts(op), computing_precision(op)
    result: list[Candidate] = []
    for kernel, rank in served.ranks.items():
        orders = [kernel.layout]
        if kernel.layout == ANY_LAYOUT:
            orders = list(layouts.get(kernel.target, ())) if ranked else []
        result += [
            candidate(kernel, op, layout, served.step, rank, precision)
            for layout in orders or [NCHW]
        ]
    return result


def _has_layouts(op: NnOp) -> bool:
    """Whether a tensor of the op has more than one layout: low ranks are row-major."""
    return any(len(shape_of(value)) >= 3 for value in (*op.results, *op.operands))


def candidate(
    kernel: Kernel, op: NnOp, layout: Layout, step: str, rank: int, precision: str | None = None
) -> Candidate:
    """A kernel for an op, in a layout where its own is `any`; for the precision see
    ``place_for``."""
    place = place_for(kernel, op, precision)
    if place.layout == ANY_LAYOUT:
        place = PlaceAttr.get(place.target.data, place.precision.data, layout)
    return Candidate(kernel, place, tuple(kernel.wants(op, layout)), step, rank)


def layouts_in_play(served: Mapping[NnOp, Serving]) -> dict[str, list[Layout]]:
    """By target: row-major, and the layouts that kernels of tensors of rank 3 and more ask for."""
    layouts: dict[str, list[Layout]] = {}
    for op, serving in served.items():
        ranked = _has_layouts(op)
        for kernel in serving.kernels:
            known = layouts.setdefault(kernel.target, [NCHW])
            if ranked and kernel.layout not in (ANY_LAYOUT, *known):
                known.append(kernel.layout)
    return layouts
