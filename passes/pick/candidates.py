"""The kernels that can run an op at the requested places, and why the others cannot.

The candidates of an op are the kernels of the first of these steps in which a kernel applies:

1. `exact`: a kernel at one of the places;
2. `layout`: a kernel at the device, precision and fields of one of the places, in any layout;
3. `fields`: a kernel at the device and precision of one of the places, with any fields;
4. the name of a device that the requested ones fall to (``kernels/devices.py``), such as the CPU: a
   kernel there, in the op's own precision and any layout, if no place names the device or `host`;
5. `host`: a NumPy kernel, which every op has.

All but the first are fallbacks. `host` after a place at a CPU adds nothing: NumPy is always the
last fallback.

The precision of a place permits kernels that read or write that element for the op. Ops that read
no floats run at all precisions, as the model determines how integers are stored. The floats that an
op reads keep their precision if a place at the kernel's device permits it and the kernel reads it.
Otherwise they are stored in the first precision that a place names and the kernel reads. If a place
permits their own precision, that precision must be wider.

If the floats keep their precision, two other precisions are candidates too, if a place names them:
for f16 and bf16 the element that they are computed in, which loses nothing; and a narrower element,
for the ops that may be narrowed (``narrowing.py``).
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from tessella.dialects.layout import ANY_LAYOUT, NCHW, Layout
from tessella.dialects.nn.core import NnOp, is_float, shape_of, tensor_type
from tessella.dialects.nn.traits import RunsFunction
from tessella.dialects.place import PlaceAttr, precision_of
from tessella.dialects.tile.split import unreadable
from tessella.kernels.devices import rules_of
from tessella.kernels.elements import Elements, elements_of
from tessella.kernels.registry import (
    CPU,
    CPUS,
    Kernel,
    kernels_of,
    layouts_among,
    why_unreadable,
)
from tessella.passes.pick.cost_key import exact_key
from tessella.passes.pick.device_cost import why_not_on_device
from tessella.passes.pick.narrowing import NOTHING_NARROWED, Narrowing, keeps_range, narrowed
from tessella.passes.pick.pins import Pin, pin_of
from tessella.passes.pick.places import requested
from tessella.passes.pick.scratch import scratch_kernel
from tessella.passes.pick.switches import NO_SWITCHES, Switches, names_of
from tessella.support.conditions import UndecidedSizeError
from tessella.support.elements import ELEMENTS, FLOATS, widens

HOST = "host"
AT_DEVICE = ("exact", "layout", "fields")
"""The steps of the search for candidates whose kernels run at the device and precision of a
requested place."""
NO_KERNEL = 5
"""The distance from the requested places of an op without a kernel."""


@dataclass(frozen=True)
class Site:
    """A kernel at one of its devices and in one of its layouts. If ``layout`` is None, the kernel
    runs in any layout that all its operands and results have in common."""

    kernel: Kernel
    device: str
    layout: Layout | None
    precision: str | None = None
    """The precision in which the floats that the op reads are stored; None keeps their own."""

    def place(self, op: NnOp) -> PlaceAttr:
        """Return the place where the kernel runs an op."""
        own = self.precision or main_precision(op)
        return self.kernel.place(self.device, own, self.layout or ANY_LAYOUT)


@dataclass(frozen=True)
class Candidate:
    """A kernel that can run an op, with the places (device, element type, layout) of the operands
    and results."""

    site: Site
    place: PlaceAttr
    wants: tuple[PlaceAttr, ...]
    """The places (device, element type, layout) that the kernel requires for each operand, then for
    each result."""
    step: str
    rank: int = 0
    """The index of the first requested place that the kernel serves."""

    @property
    def kernel(self) -> Kernel:
        return self.site.kernel

    @property
    def fallback(self) -> str | None:
        return self.step if self.step != "exact" else None


@dataclass(frozen=True)
class Rejection:
    """A kernel that may not run an op, with the place where it would run, and the reason as a
    sentence."""

    site: Site
    place: PlaceAttr
    reason: str
    able: bool = False
    """True if the kernel could run the op, but others take precedence."""

    def __str__(self) -> str:
        return f"{self.site.kernel.name} at {self.place}: {self.reason}"


@dataclass(frozen=True)
class Candidates:
    """The kernels that can run an op, with the step of the search that found them (such as `exact`
    or `layout`), and the rejected kernels."""

    ranks: Mapping[Site, int]
    """For each kernel, the index of the first requested place that it serves."""
    step: str
    rejected: Sequence[Rejection]
    layout: Layout | None = None
    """The layout that the op is pinned to; None if it is free."""

    @property
    def distance(self) -> int:
        """How far the kernels that can run the op are from the requested places: 0 at one of them,
        1 with another layout, 2 with other fields that a device defines, such as a memory space, 3
        on another device, 4 in NumPy, and ``NO_KERNEL`` if there is no kernel."""
        if not self.ranks:
            return NO_KERNEL
        return {**{step: i for i, step in enumerate(AT_DEVICE)}, HOST: 4}.get(self.step, 3)

    def placed(self, op: NnOp, layouts: Mapping[str, Sequence[Layout]]) -> list[Candidate]:
        """Return the candidates, each with the places of its operands and results, in the order of
        the requested places.

        A kernel that runs in any layout is returned once for each of the device's ``layouts``.
        """
        ranked = _has_layouts(op)
        result: list[Candidate] = []
        for site, rank in sorted(self.ranks.items(), key=lambda entry: entry[1]):
            shared = layouts.get(site.device, ()) if ranked else ()
            free = (self.layout,) if self.layout else shared or (NCHW,)
            orders = (site.layout,) if site.layout else free
            result += [candidate(site, op, order, self.step, rank) for order in orders]
        return result


@dataclass(frozen=True)
class Request:
    """The places that the user requests, and the CPU architecture that the device `any` stands
    for."""

    places: Sequence[PlaceAttr]
    arch: str
    fallback: bool = True
    """True if kernels at other places are candidates too."""
    switches: Switches = NO_SWITCHES
    narrowing: Narrowing = NOTHING_NARROWED
    is_split: bool = False
    """True if the op is pinned to a layout that splits a dimension. A kernel for any layout serves
    the pin only if its statements work with this layout."""

    @cached_property
    def falls(self) -> tuple[str, ...]:
        """The devices on which ops run that have no kernel at the requested ones, in order. The
        last one is `host`, which runs every op in NumPy.

        If the user names `host` or `any`, it is the only one.
        """
        named = list(dict.fromkeys(place.device.data for place in self.places))
        if HOST in named or "any" in named:
            return (HOST,)
        rules = (to for device in named for to in rules_of(device).falls_to)
        listed = dict.fromkeys(self.arch if to == CPU else to for to in rules)
        return (*(to for to in listed if to not in (*named, HOST)), HOST)

    def candidates(self, op: NnOp) -> Candidates:
        """Return the candidates of an op. If the user has pinned the op, the pin replaces the
        requested places or names the only kernel."""
        pin = pin_of(op)
        if pin is None:
            return self._candidates(op, None)
        if pin.place is None:
            return self._candidates(op, pin.kernel)
        has_layout = pin.place.layout != ANY_LAYOUT
        is_split = pin.place.layout.is_split and _has_layouts(op)
        asked = replace(self._pinned_to(pin.place), is_split=is_split)
        found = asked._candidates(op, pin.kernel)
        others = self._elsewhere(op, pin, {*found.ranks, *(r.site for r in found.rejected)})
        return replace(
            found,
            rejected=[*found.rejected, *others],
            layout=pin.place.layout if found.step == "exact" and has_layout else None,
        )

    def _pinned_to(self, place: PlaceAttr) -> Request:
        """Return the request for an op that the user has pinned to a place: for this place alone.

        If the place has no device, its `any` parts are those of the requested places.
        """
        device = place.device.data
        if device != "any":
            return replace(self, places=[place], fallback=False)
        return replace(self, places=list(dict.fromkeys(map(place.resolved, self.places))))

    def _elsewhere(self, op: NnOp, pin: Pin, known: Collection[Site]) -> Iterator[Rejection]:
        """Yield a rejection for each kernel at the requested places that the op's pin excludes."""
        sites = self._sites(op, requested(self.places), StoredElements(op))
        for site in dict.fromkeys(site for site, _ in sites):
            if site not in known:
                yield Rejection(site, site.place(op), f"the op is pinned to {pin}")

    def _candidates(self, op: NnOp, pinned: str | None) -> Candidates:
        """Return the candidates of an op. ``pinned`` is the name of the only kernel that may run
        it; None allows all."""
        wanted, storage = requested(self.places), StoredElements(op)
        steps = (*AT_DEVICE, *self.falls)
        by_step: dict[str, dict[Site, int]] = {step: {} for step in steps}
        rejected: list[Rejection] = []
        undecided: UndecidedSizeError | None = None
        for site, is_narrowed in self._sites(op, wanted, storage):
            step, rank, reason = self._step(site, wanted, storage)
            try:
                reason = reason or site.kernel.applies(op) or _unreadable(site, op)
                reason = reason or why_not_on_device(site.kernel, op, site.place(op))
            except UndecidedSizeError as error:
                undecided, reason = undecided or error, error.what
            reason = reason or self.switches.refusal(site.kernel)
            if pinned not in (None, site.kernel.name):
                reason = reason or f"the op is pinned to the kernel {pinned}"
            if is_narrowed:
                reason = reason or self.narrowing.why_wide(op)
            if step != "exact" and not self.fallback:
                reason = reason or f"a fallback ({step}), and those are refused"
            if reason is None:
                by_step[step][site] = rank
            else:
                rejected.append(Rejection(site, site.place(op), reason))
        chosen = next((step for step in steps if by_step[step]), HOST)
        preferred = self.switches.preference(site.kernel for site in by_step[chosen])
        if preferred is not None:
            others = [s for s in by_step[chosen] if preferred not in names_of(s.kernel)]
            reason = f"+{preferred} prefers others"
            rejected += [Rejection(site, site.place(op), reason, True) for site in others]
            for site in others:
                del by_step[chosen][site]
        if undecided is not None and all(site.device == "host" for site in by_step[chosen]):
            raise undecided  # with concrete sizes, a kernel may apply
        rejected += [
            Rejection(
                site,
                site.place(op),
                f"a fallback ({step}) that is not needed",
                True,
            )
            for step in steps[steps.index(chosen) + 1 :]
            for site in by_step[step]
        ]
        return Candidates(by_step[chosen], chosen, rejected)

    def _step(
        self, site: Site, wanted: Sequence[PlaceAttr], storage: StoredElements
    ) -> tuple[str, int, str | None]:
        step, rank, reason = _step(site, wanted, storage, self.falls)
        is_open = self.is_split and site.layout is None
        return "layout" if is_open and step == "exact" else step, rank, reason

    def _sites(
        self, op: NnOp, wanted: Sequence[PlaceAttr], storage: StoredElements
    ) -> Iterator[tuple[Site, bool]]:
        """Yield each kernel of the op at each device, layout and precision to consider, and whether
        it would store the op's floats in fewer bits although it could keep them.

        A kernel for every CPU counts for each requested CPU, or for this machine's if none is
        requested.
        """
        asked = [self.arch if p.device.data == "any" else p.device.data for p in wanted]
        cpus = [device for device in dict.fromkeys(asked) if device in CPUS]
        for kernel in kernels_of(op):
            for device in self._devices(kernel, asked, cpus):
                at = [p.precision.data for p in wanted if p.device.data in (device, "any")]
                first, others = storage.precisions(kernel, at)
                for layout in _layouts(kernel, op, wanted):
                    yield Site(kernel, device, layout, first), False
                    for p in others:
                        yield Site(kernel, device, layout, p), storage.narrows(p)

    def _devices(self, kernel: Kernel, asked: Sequence[str], cpus: Sequence[str]) -> Sequence[str]:
        """Return the devices at which a kernel is considered: the requested ones that it runs on.
        If there are none, these are its own device or, for a kernel of all CPUs, this machine's
        CPU."""
        if kernel.device != CPU:
            return [*filter(kernel.runs_on, dict.fromkeys(asked))] or [kernel.device]
        others = (name for name in dict.fromkeys(asked) if name not in CPUS)
        return [*(cpus or [self.arch]), *filter(kernel.runs_on, others)]


class StoredElements:
    """The element types of an op's operands and results, if its floats are stored as they are or in
    another precision."""

    def __init__(self, op: NnOp) -> None:
        self._op = op
        self._known: dict[str | None, Elements | None] = {}
        self.is_of_a_function = op.has_trait(RunsFunction)
        """True if the op runs a function: the precision is then that of the function's ops."""

    def elements(self, precision: str | None) -> Elements | None:
        """Return the element types that the op reads and writes if its floats are stored in a
        precision; None if the op does not accept them."""
        if precision not in self._known:
            self._known[precision] = elements_of(self._op, precision)
        return self._known[precision]

    def precisions(self, kernel: Kernel, asked: Sequence[str]) -> tuple[str | None, list[str]]:
        """Return the precision in which a kernel stores the op's floats, and alternatives.

        The precision is one of the requested ones, or None to keep the op's own.
        """
        own = self.elements(None)
        if own is None or kernel.elements is None or not own.floats_read:
            return None, []
        permitted = not asked or _permits(asked, own)
        if permitted and kernel.row(own) is not None:
            return None, self._others(kernel, asked, own)
        if not all(ELEMENTS[name].is_native for name in own.floats_read):
            return None, []  # no code casts them
        # If the op's own elements may stay, no other kernel is worth losing digits for.
        named = (p for p in asked if p in FLOATS and (not permitted or _holds(p, own)))
        return next((p for p in named if kernel.row(self.elements(p)) is not None), None), []

    def _others(self, kernel: Kernel, asked: Sequence[str], own: Elements) -> list[str]:
        """Return the precisions in which a kernel can store the op's floats instead of their own
        one, which is possible too."""
        if self.is_of_a_function:
            return []
        named = (p for p in dict.fromkeys(asked) if p in FLOATS)
        return [
            p
            for p in named
            if (_is_arithmetic_of(p, own) or _may_narrow(p, asked, own))
            and kernel.row(self.elements(p)) is not None
        ]

    def narrows(self, precision: str) -> bool:
        """Return whether a precision stores the op's floats in fewer bits."""
        own = self.elements(None)
        return own is not None and narrowed(precision, own.floats_read)


def _may_narrow(precision: str, asked: Sequence[str], found: Elements) -> bool:
    """Return whether the requested precisions permit an op's floats to be stored in the narrower
    ``precision``.

    If ``precision`` has a smaller range than the floats, the user must have listed it before all
    precisions that represent the floats unchanged.
    """
    floats = found.floats_read
    preferred = asked[: asked.index(precision)]
    return narrowed(precision, floats) and (
        keeps_range(precision, floats) or not _permits(preferred, found)
    )


def _is_arithmetic_of(precision: str, found: Elements) -> bool:
    """Return whether all floats that an op reads are of types for storage only, such as bf16, whose
    arithmetic is in this precision."""
    read = [ELEMENTS[name] for name in found.floats_read]
    return all(each.narrow and each.arithmetic == precision for each in read)


def _holds(precision: str, found: Elements) -> bool:
    """Return whether a precision represents all floats read."""
    return all(widens(name, precision) for name in found.floats_read)


def _permits(asked: Sequence[str], found: Elements) -> bool:
    """Return whether requested precisions permit an op with these element types: it reads no
    floats, or reads or writes one of the precisions."""
    return not found.floats_read or any(p in ("any", *found.reads, *found.writes) for p in asked)


def _layouts(kernel: Kernel, op: NnOp, wanted: Sequence[PlaceAttr]) -> Sequence[Layout | None]:
    """Return the layouts in which a kernel could run an op.

    Layouts that split a dimension are tried only if a place requests them.
    """
    split = [p.layout for p in wanted if p.layout.is_split and _has_layouts(op)]
    return (*layouts_among(kernel, split), *(() if kernel.layouts else (None,)))


def main_precision(op: NnOp) -> str:
    """Return the precision of the floats that an op reads. If it reads none, it is that of the
    floats that the op writes, or else of its first result."""
    elements = (tensor_type(value).element_type for value in (*op.operands, *op.results))
    first = next(filter(is_float, elements), None)
    return precision_of(first or tensor_type(op.results[0]).element_type)


def _step(
    site: Site, places: Sequence[PlaceAttr], storage: StoredElements, falls: Sequence[str]
) -> tuple[str, int, str | None]:
    """Return, for a kernel, the step of the search in which it is a candidate, such as `exact`; the
    index of the first place that it serves; and the reason why it serves none, or None.

    ``falls`` are the devices on which ops run that have no kernel at the requested ones.
    """
    reason = f"no place asks for {site.device}"
    at_device: dict[str, int] = {}
    for rank, place in enumerate(places):
        if place.device.data not in (site.device, "any"):
            continue
        wrong = _wrong_precision(site, place, storage)
        if wrong is None:
            at_device.setdefault(_differing(site, place), rank)
        else:
            reason = wrong
    for step in AT_DEVICE:
        if step in at_device:
            return step, at_device[step], None
    if site.device not in falls:
        return HOST, len(places), reason
    found = storage.elements(site.precision)
    readable = site.kernel.row(found) is not None
    return site.device, len(places), None if readable else why_unreadable(site.kernel, found)


def _differing(site: Site, place: PlaceAttr) -> str:
    """Return how a kernel differs from a place of its device: in the parts that the device defines
    (`fields`), in the layout (`layout`), or not at all (`exact`)."""
    if not place.permits_fields(site.kernel.place(site.device, "any", ANY_LAYOUT)):
        return "fields"
    return "exact" if site.layout is None or place.layout in (ANY_LAYOUT, site.layout) else "layout"


def _wrong_precision(site: Site, place: PlaceAttr, storage: StoredElements) -> str | None:
    """Return why a kernel's element types do not suit a place and an op, as a sentence; None if
    they do."""
    if storage.is_of_a_function and site.device != "host":
        return None
    found = storage.elements(site.precision)
    if found is None or site.kernel.row(found) is None:
        return why_unreadable(site.kernel, found)
    if _permits([place.precision.data], found):
        return None
    return f"it reads {found.storage}, and {place} asks for {place.precision.data}"


def _unreadable(site: Site, op: NnOp) -> str | None:
    """Return why a kernel's statements do not work with a layout that splits dimensions; None if
    they do."""
    if site.layout is None or not site.layout.is_split or site.kernel.lower is None:
        return None
    scratch = scratch_kernel(exact_key(op), op, site.kernel, site.place(op))
    return next((reason for s in scratch.statements if (reason := unreadable(s)) is not None), None)


def _has_layouts(op: NnOp) -> bool:
    """Return whether an operand or result of the op has a rank for which there are several layouts.
    Tensors of low rank are always row-major."""
    return any(len(shape_of(value)) >= 3 for value in (*op.results, *op.operands))


def candidate(site: Site, op: NnOp, layout: Layout, step: str, rank: int) -> Candidate:
    """Return a kernel as a candidate for an op. A kernel for any layout runs in ``layout``."""
    place = site.place(op)
    if site.layout is None:
        place = place.replaced(layout=layout)
    wants = site.kernel.wants(op, site.device, place.layout, site.precision)
    return Candidate(site, place, tuple(wants), step, rank)


def contested(options: Mapping[NnOp, Sequence[Candidate]]) -> set[NnOp]:
    """Return the ops that several kernels can run."""
    return {op for op, listed in options.items() if len({c.kernel for c in listed}) > 1}


def layouts_in_play(
    found: Mapping[NnOp, Candidates], arguments: Sequence[PlaceAttr] = ()
) -> dict[str, list[Layout]]:
    """Return, for each device, the layouts in which its kernels are considered: row-major, the
    layouts of a function's ``arguments``, and those that kernels require for tensors of rank 3 and
    more."""
    layouts: dict[str, list[Layout]] = {}
    for place in arguments:
        known = layouts.setdefault(place.device.data, [NCHW])
        if place.layout not in known and not place.layout.is_split:
            known.append(place.layout)
    for op, entry in found.items():
        ranked = _has_layouts(op)
        for site in entry.ranks:
            known = layouts.setdefault(site.device, [NCHW])
            if not ranked or site.layout is None or site.layout.is_split:
                continue
            if site.layout not in known:
                known.append(site.layout)
    return layouts
