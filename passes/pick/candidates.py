"""Which kernels can run an op at the places that were asked for, and why the others cannot.

The candidates of an op are the kernels of the first of three steps that has one whose predicate
holds:

1. `exact`: a kernel at one of the places;
2. `layout`: a kernel at the device and precision of one of the places, in any layout;
3. `host`: a NumPy kernel, which every op has.

The last two are fallbacks. `host` after another place adds nothing: NumPy is always the last
fallback. The precision of an op's values changes only where a place names the one of the kernel, or
where the places at a CPU all name others, and no kernel has one of those: then generated kernels
read and write the first of them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import TensorType
from xdsl.ir import Block

from tessella.dialects.elements import attribute_of
from tessella.dialects.layout import ANY_LAYOUT, NCHW, Layout
from tessella.dialects.nn.core import NnOp, Tensor, is_float, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, precision_of
from tessella.dialects.tile import ContractOp
from tessella.dialects.tile.split import unreadable
from tessella.kernels.registry import CPU, CPUS, Kernel, kernels_of, layouts_among
from tessella.passes.pick.cost_key import exact_key
from tessella.passes.pick.places import requested
from tessella.passes.pick.scratch import scratch_kernel
from tessella.support.elements import ELEMENTS, FLOATS
from tessella.support.errors import ShapeError

STEPS = ("exact", "layout", "host")


@dataclass(frozen=True)
class Site:
    """A kernel at one of its devices, in one of its layouts; without a layout, in each that all
    operands share."""

    kernel: Kernel
    device: str
    layout: Layout | None
    precision: str | None = None
    """The precision that the op's floats are stored in; without one, they stay as they are."""

    def place(self, op: NnOp, precision: str | None = None) -> PlaceAttr:
        """Where the kernel runs an op; ``precision`` is that in which the op computes, which is
        found where it is not given."""
        own = self.kernel.precision or self.precision or precision or computing_precision(op)
        own = own or precision_of(tensor_type(op.results[0]).element_type)
        return PlaceAttr.get(self.device, own, self.layout or ANY_LAYOUT)


@dataclass(frozen=True)
class Candidate:
    """A kernel that can run an op, and the places at which it would."""

    site: Site
    place: PlaceAttr
    wants: tuple[PlaceAttr, ...]
    """Of each operand, then of each result."""
    step: str
    rank: int = 0
    """The number of the first place that was asked for and that the kernel serves."""

    @property
    def kernel(self) -> Kernel:
        return self.site.kernel

    @property
    def fallback(self) -> str | None:
        return self.step if self.step != "exact" else None


@dataclass(frozen=True)
class Rejection:
    """A kernel that is out, where it would run, and why, in a sentence."""

    site: Site
    place: PlaceAttr
    reason: str
    able: bool = False
    """Whether it could run the op, and others go first."""

    def __str__(self) -> str:
        return f"{self.site.kernel.name} at {self.place}: {self.reason}"


@dataclass(frozen=True)
class Candidates:
    """The kernels that can run an op, with their step, and those that are out."""

    ranks: Mapping[Site, int]
    """The number of the first place that each serves."""
    step: str
    rejected: Sequence[Rejection]

    def placed(self, op: NnOp, layouts: Mapping[str, Sequence[Layout]]) -> list[Candidate]:
        """The kernels with their places: one that runs in any layout is there in each that is in
        play at its device."""
        ranked, precision = _has_layouts(op), computing_precision(op)
        result: list[Candidate] = []
        for site, rank in self.ranks.items():
            shared = layouts.get(site.device, ()) if ranked else ()
            orders = (site.layout,) if site.layout else shared or (NCHW,)
            result += [candidate(site, op, order, self.step, rank, precision) for order in orders]
        return result


@dataclass(frozen=True)
class Request:
    """The places that were asked for, and the CPU that `any` device stands for."""

    places: Sequence[PlaceAttr]
    arch: str
    fallback: bool = True
    """Whether kernels at other places are candidates too."""

    def candidates(self, op: NnOp) -> Candidates:
        """The candidates of an op."""
        wanted, precision = requested(self.places), computing_precision(op)
        by_step: dict[str, dict[Site, int]] = {step: {} for step in STEPS}
        rejected: list[Rejection] = []
        for site in self._sites(op, wanted, precision):
            step, rank, reason = _step(site, wanted, site.precision or precision)
            reason = reason or site.kernel.applies(op) or _unreadable(site, op)
            if step != "exact" and not self.fallback:
                reason = reason or f"a fallback ({step}), and those are refused"
            if reason is None:
                by_step[step][site] = rank
            else:
                rejected.append(Rejection(site, site.place(op, precision), reason))
        chosen = next((step for step in STEPS if by_step[step]), STEPS[-1])
        rejected += [
            Rejection(
                site,
                site.place(op, precision),
                f"a fallback ({step}) that is not needed",
                True,
            )
            for step in STEPS[STEPS.index(chosen) + 1 :]
            for site in by_step[step]
        ]
        return Candidates(by_step[chosen], chosen, rejected)

    def _sites(self, op: NnOp, wanted: Sequence[PlaceAttr], own: str | None) -> Iterator[Site]:
        """The op's kernels where they could run. One for every CPU is there for each CPU that is
        asked for, or for this machine's where none is."""
        asked = [self.arch if p.device.data == "any" else p.device.data for p in wanted]
        cpus = [device for device in dict.fromkeys(asked) if device in CPUS]
        stored = {device: _stored_precision(op, own, device, wanted) for device in cpus}
        for kernel in kernels_of(op):
            casts = kernel.precision is None and kernel.lower is not None
            for device in (cpus or [self.arch]) if kernel.device == CPU else [kernel.device]:
                precision = stored.get(device) if casts else None
                for layout in _layouts(kernel, op, wanted):
                    yield Site(kernel, device, layout, precision)


def _layouts(kernel: Kernel, op: NnOp, wanted: Sequence[PlaceAttr]) -> Sequence[Layout | None]:
    """The layouts in which a kernel could run an op: those that split a dimension are tried where a
    place asks for them."""
    split = [p.layout for p in wanted if p.layout.is_split and _has_layouts(op)]
    return (*layouts_among(kernel, split), *(() if kernel.layouts else (None,)))


def _stored_precision(
    op: NnOp, own: str | None, device: str, places: Sequence[PlaceAttr]
) -> str | None:
    """The precision that an op's floats are cast to at a CPU, as no place takes their own."""
    if own is None:
        return None
    asked = [p.precision.data for p in places if p.device.data in (device, "any")]
    special = {k.precision for k in kernels_of(op) if k.runs_on(device)} - {None}
    if own in asked or "any" in asked or special.intersection(asked):
        return None
    named = (p for p in asked if p in FLOATS and ELEMENTS[p].is_native)
    return next((p for p in named if _can_store(op, p)), None)


def _can_store(op: NnOp, precision: str) -> bool:
    """Whether an op on floats of another precision has results of that precision."""
    element = attribute_of(precision)

    def stored(type: Tensor) -> Tensor:
        return TensorType(element, type.get_shape()) if is_float(type.element_type) else type

    block = Block(arg_types=[stored(tensor_type(value)) for value in op.operands])
    copy = op.clone(dict(zip(op.operands, block.args, strict=True)))
    try:
        found = [type.element_type for type in copy.infer()]
    except ShapeError:
        return False
    return found == [stored(tensor_type(result)).element_type for result in op.results]


def computing_precision(op: NnOp) -> str | None:
    """The precision of the op's floating-point values, or None where it has none."""
    for value in (*op.results, *op.operands):
        element = tensor_type(value).element_type
        if is_float(element):
            return precision_of(element)
    return None


def _step(
    site: Site, places: Sequence[PlaceAttr], precision: str | None
) -> tuple[str, int, str | None]:
    """The step at which a kernel serves the places, and which of them; or why it does not."""
    reason = f"no place asks for {site.device}"
    in_any_layout: int | None = None
    for rank, place in enumerate(places):
        if place.device.data not in (site.device, "any"):
            continue
        wrong = _wrong_precision(site.kernel, place, precision)
        if wrong is None:
            if site.layout is None or place.layout in (ANY_LAYOUT, site.layout):
                return "exact", rank, None
            in_any_layout = rank if in_any_layout is None else in_any_layout
        else:
            reason = wrong
    if in_any_layout is not None:
        return "layout", in_any_layout, None
    return "host", len(places), None if site.device == "host" else reason


def _wrong_precision(kernel: Kernel, place: PlaceAttr, precision: str | None) -> str | None:
    """Why a kernel does not serve a place's precision for an op that computes in ``precision``."""
    own, wanted = kernel.precision, place.precision.data
    if precision is None:
        return None if own is None or own in FLOATS else f"it computes in {own}"
    if own in (None, precision):
        fits = wanted in ("any", precision)
        return None if fits else f"it computes in {precision}, and {place} asks for {wanted}"
    if own in FLOATS and wanted == own:
        return None
    return f"it computes in {own}, the op in {precision}" + (
        f", and no place names {own}" if own in FLOATS else ""
    )


def _unreadable(site: Site, op: NnOp) -> str | None:
    """Why the statements of a kernel do not fit a layout that splits dimensions."""
    if site.layout is None or not site.layout.is_split or site.kernel.lower is None:
        return None
    scratch = scratch_kernel(exact_key(op), op, site.kernel, site.device, site.layout)
    statements = (s for s in scratch.body.block.ops if isinstance(s, ContractOp))
    return next((reason for s in statements if (reason := unreadable(s)) is not None), None)


def _has_layouts(op: NnOp) -> bool:
    """Whether a tensor of the op has more than one layout: low ranks are row-major."""
    return any(len(shape_of(value)) >= 3 for value in (*op.results, *op.operands))


def candidate(
    site: Site, op: NnOp, layout: Layout, step: str, rank: int, precision: str | None = None
) -> Candidate:
    """A kernel for an op; ``layout`` counts where it runs in any, ``precision`` as in ``Site``."""
    place = site.place(op, precision)
    if site.layout is None:
        place = PlaceAttr.get(place.device.data, place.precision.data, layout)
    wants = site.kernel.wants(op, site.device, place.layout, site.precision)
    return Candidate(site, place, tuple(wants), step, rank)


def layouts_in_play(found: Mapping[NnOp, Candidates]) -> dict[str, list[Layout]]:
    """By device: row-major, and the layouts that kernels of tensors of rank 3 and more ask for."""
    layouts: dict[str, list[Layout]] = {}
    for op, entry in found.items():
        ranked = _has_layouts(op)
        for site in entry.ranks:
            known = layouts.setdefault(site.device, [NCHW])
            if not ranked or site.layout is None or site.layout.is_split:
                continue
            if site.layout not in known:
                known.append(site.layout)
    return layouts
