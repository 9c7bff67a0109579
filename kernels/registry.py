"""The kernel registry: the kernels of each op, with their places (device, element types and
layouts), costs and lowerings.

One declaration registers a kernel. ``@native`` registers a generated kernel, which runs on every
CPU:

    @native(nn.ConvOp, "conv", NHWC, NCHW)
    def conv(k: KernelBuilder, op: nn.ConvOp, x: SSAValue, w: SSAValue,
             b: SSAValue | None = None) -> SSAValue: ...

A device with an emitter, which writes kernels of the stage `tile` in the device's language
(``passes/emitter.py``), runs generated kernels too. ``register`` takes any other kernel, such as
one whose source is in the language of a device:

    register(Kernel("add", nn.AddOp, "acme", (NCHW,), rows(["f32"]), cost=seconds, source=text))

A kernel without code can be picked and printed, but not built.

Every op has a kernel `host`, its NumPy semantics, without a declaration. ``@host`` adds another
NumPy kernel beside it. ``@called`` adds a Python function at the places of generated kernels, such
as a call of a library's function (``runtime.library``).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, wraps
from inspect import signature
from typing import Any

from xdsl.ir import SSAValue
from xdsl.irdl import OptPropertyDef

from tessella.dialects.layout import (
    ANY_LAYOUT,
    BLOCKED,
    NCHW,
    Layout,
    is_layout_name,
    layout_words,
    unknown_layout,
)
from tessella.dialects.nn.core import NnOp, shape_of
from tessella.dialects.place import PlaceAttr, is_apart, parse_place, unknown_field
from tessella.kernels.cost import Cost, KernelWork
from tessella.kernels.elements import NATIVE, SAME, Elements, Table, elements_of
from tessella.kernels.host_cost import host_seconds
from tessella.runtime import host as host_functions
from tessella.runtime.devices import Source, device_names, emits, kind_of
from tessella.runtime.host import HostKernel
from tessella.runtime.host import kernel as host_function
from tessella.support.errors import InternalError, InvalidModelError, OptionError
from tessella.targets.table import FAMILIES

CPU = "cpu"
"""The device of kernels that run on every CPU."""
CPUS = tuple(FAMILIES)
"""The names of the devices that are CPUs."""

HOST_KERNEL = "host"
VIEW_KERNEL = "view"
"""The kernel of ops whose result is the operand's memory under another shape."""
LOOP_KERNEL = "loop"
"""The kernel of an `nn.scan` with a native function."""
NOT_FUSED = (VIEW_KERNEL, LOOP_KERNEL)
"""Names of the kernels that emit no statements, so that no other op can be fused with them."""

Lowering = Callable[..., SSAValue | Sequence[SSAValue]]
"""``lower(builder, op, *operands)`` adds the op's statements to a ``KernelBuilder`` and returns its
results."""
Predicate = Callable[[Any], str | None]


def always(op: NnOp) -> str | None:
    """Return None, as a predicate does for an op to which the kernel applies."""
    return None


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: its op, devices and layouts, predicate, cost and code."""

    name: str
    """The kernel's name, unique among the kernels of the op. An op names its picked kernel by
    it."""
    op: type[NnOp]
    device: str
    """The device of the kernel's places; ``CPU`` stands for each of ``CPUS``."""
    layouts: tuple[Layout, ...] = ()
    """The layouts in which the kernel runs; empty for any layout that all operands share.

    ``BLOCKED`` stands for each layout with channels in blocks that a requested place names.
    """
    elements: Table | None = None
    """The element types that the kernel reads, computes with and writes; None for all that the op
    accepts, with the arithmetic of NumPy's kernels."""
    applies: Predicate = always
    """Predicate that returns a sentence that says why the kernel does not apply to an op; None if
    it applies."""
    cost: Cost | None = None
    """The cost function; None for the tile model's estimate of the lowering."""
    lower: Lowering | None = None
    """The lowering to statements. A kernel without a lowering cannot be built, unless it is a
    Python function."""
    operands: Mapping[int, PlaceAttr | Layout] = field(
        default_factory=dict[int, PlaceAttr | Layout]
    )
    """The places (device, precision and layout) of single operands (by number) or results (by
    ``-1``, ``-2``...) that differ from the place at which the kernel runs.

    A layout stands for a place with that layout at the kernel's device. `any` in a place means that
    an operand keeps its device, precision, layout or field and is not converted; a result takes the
    kernel's.
    """
    function: str | None = None
    """The name in ``runtime.host.KERNELS`` of the Python function that computes the kernel on
    row-major arrays.

    For a host kernel, None means the op's own function.
    """
    source: Callable[[Any], Source] | None = None
    """A function that returns the kernel of an op in the language of the device; None if the kernel
    has no source text."""
    method: str | None = None
    """The name of the algorithm, such as `winograd`, or of the library, such as `blas`: the option
    ``kernels`` turns all kernels of a method off, or prefers them."""
    work: Callable[[Any], KernelWork] | None = None
    """Function that returns a lower bound on the lowering's work, if one is known: a kernel with a
    bound above the best estimate is not lowered."""
    fields: Mapping[str, str] = field(default_factory=dict[str, str])
    """The values of the device-defined fields (such as a memory space) of the kernel's places.
    Fields that are not listed have their defaults."""

    def __post_init__(self) -> None:
        if self.cost is None and self.lower is None:
            raise InternalError(f"the kernel {self.name} of {self.op.name} has no cost")
        if self.function is not None and (self.lower is not None or self.layouts != (NCHW,)):
            raise InternalError(
                f"the kernel {self.name} of {self.op.name} calls {self.function}",
                expected="the layout nchw alone, and no lowering",
            )
        if self.fields and self.source is None:
            raise InternalError(
                f"the kernel {self.name} of {self.op.name} has fields",
                expected="a kernel with source text: other kernels run at the defaults",
            )

    @property
    def is_called(self) -> bool:
        """True if the kernel is a Python function, which a program calls between its native
        segments."""
        return self.device == "host" or self.function is not None

    def place(self, device: str, precision: str, layout: Layout) -> PlaceAttr:
        """Return the place with this device, precision and layout, and with the kernel's values of
        the device-defined fields."""
        if not self.fields:
            return PlaceAttr.get(device, precision, layout)
        fields = tuple(sorted(self.fields.items()))
        return PlaceAttr.get(device, precision, layout, fields).with_defaults

    def runs_on(self, device: str) -> bool:
        """Return whether the kernel runs on a device."""
        if self.device != CPU:
            return kind_of(device) == self.device
        return device in CPUS or self._runs_apart(device)

    def _runs_apart(self, device: str) -> bool:
        """Return whether this kernel is a kernel of every CPU that also runs on a device other than
        the CPU."""
        if self.name == VIEW_KERNEL:
            return is_apart(device)
        return self.lower is not None and emits(device)

    @cached_property
    def _rows(self) -> Mapping[Hashable, Elements]:
        return {row.key: row for row in self.elements or ()}

    def row(self, found: Elements | None) -> Elements | None:
        """Return the row of the kernel's table for the element types that an op reads and writes;
        None if there is none."""
        return found if self.elements is None or found is None else self._rows.get(found.key)

    @cached_property
    def readable(self) -> tuple[str, ...]:
        """The element types that the kernel reads."""
        return tuple(dict.fromkeys(name for row in self.elements or () for name in row.reads))

    def wants(
        self, op: NnOp, device: str, layout: Layout, precision: str | None = None
    ) -> list[PlaceAttr]:
        """Return the places (device, element type and layout) that the kernel requires of the op's
        operands and results, if it runs on ``device`` in ``layout``.

        ``precision`` is the element type in which the floats that it reads are stored; None keeps
        the operands' own types. Raises InternalError if the op does not accept the precision.
        """
        found = elements_of(op, precision)
        if found is None:
            raise InternalError(f"{op.name} ({op.node}) does not take {precision}")
        count = len(op.results)
        numbered = (*enumerate(op.operands), *enumerate(op.results, -count))
        return [
            self._want(len(shape_of(value)), i, self.place(device, element, layout))
            for (i, value), element in zip(numbered, (*found.reads, *found.writes), strict=True)
        ]

    def _want(self, rank: int, number: int, own: PlaceAttr) -> PlaceAttr:
        """Return the required place of operand or result ``number``, of rank ``rank``: the one that
        ``operands`` states, otherwise ``own``, the kernel's place."""
        place = self._stated(number, own) or own
        return place.replaced(layout=place.layout.for_rank(rank))

    def _stated(self, number: int, own: PlaceAttr) -> PlaceAttr | None:
        """Return the place that ``operands`` states for operand or result ``number``; None if it
        states none."""
        place = self.operands.get(number)
        if isinstance(place, Layout):
            place = own.replaced(layout=place)
        return place.resolved(own) if place is not None and number < 0 else place


_KERNELS: dict[str, list[Kernel]] = {}


def register(kernel: Kernel) -> None:
    """Add a kernel to the registry. Raises InternalError if the op already has one with its
    name."""
    known = _KERNELS.setdefault(kernel.op.name, [])
    if kernel.name in (HOST_KERNEL, *(k.name for k in known)):
        raise InternalError(f"{kernel.op.name} has a kernel {kernel.name}")
    _check_places(kernel)
    known.append(kernel)


def _check_places(kernel: Kernel) -> None:
    """Raise InternalError if a kernel names a layout or a field of a device that does not exist."""
    stated = kernel.operands.items()
    layouts = [*kernel.layouts, *(each for _, each in stated if isinstance(each, Layout))]
    wrong = next((x for x in layouts if x != BLOCKED and not is_layout_name(x.name)), None)
    if wrong is not None:
        raise InternalError(
            f"the kernel {kernel.name} of {kernel.op.name} has an unknown layout",
            expected=f"one of {layout_words()}",
            found=unknown_layout(wrong.name),
        )
    field = unknown_field(kernel.device, map("=".join, kernel.fields.items()))
    if field is not None:
        raise InternalError(
            f"the kernel {kernel.name} of {kernel.op.name} has an unknown field {field[0]!r}",
            expected=field[1],
        )
    if any(i < 0 and isinstance(place, PlaceAttr) and place.fields for i, place in stated):
        raise InternalError(
            f"the kernel {kernel.name} of {kernel.op.name} states fields of a result",
            expected="results with the kernel's own fields",
        )


@contextmanager
def registered(*kernels: Kernel) -> Generator[None]:
    """Register further kernels for the length of a block."""
    added: list[Kernel] = []
    try:
        for kernel in kernels:
            register(kernel)
            added.append(kernel)
        yield
    finally:
        for kernel in added:
            _KERNELS[kernel.op.name].remove(kernel)


def has_added() -> bool:
    """Return whether a registered kernel has functions from outside tessella's modules, which only
    this process knows."""
    return any(_is_added(kernel) for known in _KERNELS.values() for kernel in known)


def _is_added(kernel: Kernel) -> bool:
    function = None if kernel.function is None else host_functions.KERNELS.get(kernel.function)
    parts = (function, kernel.lower, kernel.cost, kernel.applies)
    return any(not getattr(part, "__module__", OWN).startswith(OWN) for part in parts if part)


OWN = __name__.partition(".")[0]


@cache
def _host_kernel(op: type[NnOp]) -> Kernel:
    return Kernel(HOST_KERNEL, op, "host", (NCHW,), cost=host_seconds)


def kernels_of(op: NnOp) -> Sequence[Kernel]:
    """Return the kernels of an op in order of registration, the host kernel last."""
    return (*_KERNELS.get(op.name, ()), _host_kernel(type(op)))


def all_kernels() -> Iterator[Kernel]:
    """Yield all registered kernels, without the host kernels."""
    for kernels in _KERNELS.values():
        yield from kernels


def native_elements(op: type[NnOp]) -> tuple[str, ...] | None:
    """Return the element types of the first operand that an op's native kernels read; None if the
    op has no native kernel.

    Other conditions of the kernels are not considered.
    """
    found = [kernel for kernel in _KERNELS.get(op.name, ()) if kernel.device != "host"]
    tables = [NATIVE if kernel.elements is None else _first_read(kernel) for kernel in found]
    return tuple(dict.fromkeys(name for names in tables for name in names)) if found else None


def _first_read(kernel: Kernel) -> tuple[str, ...]:
    return tuple(row.reads[0] for row in kernel.elements or () if row.reads)


def devices_with_kernels() -> Sequence[str]:
    """Return the devices with kernels, whether or not their code can be built here."""
    registered = {kernel.device for kernels in _KERNELS.values() for kernel in kernels}
    cpus = (*CPUS, *filter(emits, device_names())) if CPU in registered else ()
    return tuple(dict.fromkeys((*cpus, *sorted(registered - {CPU}), "host")))


def readable_elements(device: str) -> Sequence[str]:
    """Return the element types that the kernels of a device read, NumPy kernels excluded."""
    listed = (k for kernels in _KERNELS.values() for k in kernels if k.runs_on(device))
    return tuple(dict.fromkeys(name for kernel in listed for name in kernel.readable))


def serves(needed: str, place: PlaceAttr) -> bool:
    """Return whether a kernel is registered for the device of ``place``, which a user has
    requested.

    ``needed`` is an op (`nn.conv`), for any of its kernels, or one kernel of an op
    (`nn.conv/winograd`). A place may follow (`nn.conv at opencl/f16/image`): the kernel must then
    run at that place, and the requested place must permit it. Host kernels do not count, because
    every op has one.
    """
    kernel, _, at = needed.partition(" at ")
    op, _, name = kernel.partition("/")
    stated = parse_place(at or "any")
    return stated.resolved(place) == place.resolved(stated) and any(
        k.runs_on(place.device.data) and name in ("", k.name) and _may_run(k, stated)
        for k in _KERNELS.get(op, ())
    )


def _may_run(kernel: Kernel, place: PlaceAttr) -> bool:
    """Return whether a kernel can run at a place, given suitable operands."""
    device, precision, layout = place.device.data, place.precision.data, place.layout
    return (
        (device == "any" or kernel.runs_on(device))
        and place.permits_fields(kernel.place(device, precision, layout))
        and (precision == "any" or kernel.elements is None or precision in kernel.readable)
        and (
            layout == ANY_LAYOUT or not kernel.layouts or layout in layouts_among(kernel, [layout])
        )
    )


def picked_kernel(op: NnOp) -> Kernel:
    """Return the kernel that an op names. Raises InvalidModelError if there is none with that
    name."""
    known = kernels_of(op)
    for kernel in known:
        if kernel.name == op.kernel:
            return kernel
    raise InvalidModelError(
        f"{op.name} ({op.node}): unknown kernel {op.kernel}"
        if op.kernel
        else f"{op.name} ({op.node}) names no kernel",
        expected=f"one of {', '.join(kernel.name for kernel in known)}",
        hint="pick-kernels names a kernel on each op",
    )


def is_called(op: NnOp) -> bool:
    """Return whether an op's kernel is a Python function, such as NumPy's."""
    return op.kernel is not None and picked_kernel(op).is_called


def is_generated(op: NnOp) -> bool:
    """Return whether an op's kernel is lowered to statements, which can be fused with others."""
    return op.kernel is not None and picked_kernel(op).lower is not None


def why_misplaced(op: NnOp) -> str | None:
    """Return, as a sentence, why the picked kernel cannot run the op on the shapes, element types,
    devices and layouts of its operands and results; None if it can."""
    kernel, places = picked_kernel(op), op.places
    if places is None:
        return f"{kernel.name} needs a place for each operand and result"
    found = elements_of(op)
    if kernel.row(found) is None:
        return why_unreadable(kernel, found)
    if kernel.lower is not None and (limit := generated_limits(op)) is not None:
        return limit
    if any(accepts(wants, places) for wants in _all_wants(kernel, op, places)):
        return None
    return f"{kernel.name} does not run at {', '.join(map(str, places))}"


def why_unreadable(kernel: Kernel, found: Elements | None) -> str:
    """Return a sentence that says why a kernel does not read and write the element types
    ``found``."""
    known = ", ".join(kernel.readable)
    return f"it reads {known}, not {found.storage}" if found else "the op has none of its elements"


def layouts_among(kernel: Kernel, given: Sequence[Layout]) -> Sequence[Layout]:
    """Return the layouts in which a kernel can run, given the layouts of some places. A kernel for
    any layout can run in all of ``given``, and ``BLOCKED`` stands for the blocked ones among
    them."""
    if not kernel.layouts:
        return tuple(dict.fromkeys(given))
    blocked = (layout for layout in given if layout.block and BLOCKED in kernel.layouts)
    return tuple(dict.fromkeys((*blocked, *(x for x in kernel.layouts if x != BLOCKED))))


def _all_wants(
    kernel: Kernel, op: NnOp, places: Sequence[PlaceAttr]
) -> Iterator[Sequence[PlaceAttr]]:
    """Yield the places (device, precision and layout) that a kernel requires of an op's operands
    and results, for each device and layout of ``places`` in which the kernel can run."""
    # A result of low rank is row-major, whatever layout the kernel runs in.
    layouts = layouts_among(kernel, [place.layout for place in places])
    for device in filter(kernel.runs_on, dict.fromkeys(place.device.data for place in places)):
        yield from (kernel.wants(op, device, layout) for layout in layouts)


def accepts(wants: Sequence[PlaceAttr], places: Sequence[PlaceAttr]) -> bool:
    """Return whether each of ``places`` has the device, precision and layout that a kernel requires
    in ``wants``; `any` there permits all."""
    return all(want.accepts(place) for want, place in zip(wants, places, strict=True))


def native(
    op: type[NnOp],
    name: str,
    *layouts: Layout,
    elements: Table = SAME,
    applies: Predicate = always,
    operands: Mapping[int, Layout] | None = None,
    cost: Cost | None = None,
    method: str | None = None,
    work: Callable[[Any], KernelWork] | None = None,
) -> Callable[[Lowering], Lowering]:
    """Register the decorated lowering as a generated kernel of an op.

    The kernel runs in each of the layouts, or in any layout that the operands share if none is
    given. ``elements`` is its table, ``operands`` gives the layouts of single operands that differ,
    ``method`` the name of its algorithm, ``work`` a lower bound on its work.
    """

    def declare(lower: Lowering) -> Lowering:
        def predicate(candidate: Any) -> str | None:
            return generated_limits(candidate) or applies(candidate)

        own = dict(operands or {})
        register(
            Kernel(
                name,
                op,
                CPU,
                layouts,
                elements,
                predicate,
                cost,
                lower,
                own,
                method=method,
                work=work,
            )
        )
        return lower

    return declare


def host(
    op: type[NnOp], name: str, *, applies: Predicate = always, cost: Cost = host_seconds
) -> Callable[[HostKernel], HostKernel]:
    """Register the decorated function as a further NumPy kernel of an op.

    The function receives the operands as arrays, None for an absent one, and the op's properties as
    keyword arguments.
    """
    return _function(Kernel(name, op, "host", (NCHW,), None, applies, cost), always)


def called(
    op: type[NnOp],
    name: str,
    *,
    cost: Cost,
    elements: Table = SAME,
    applies: Predicate = always,
    method: str | None = None,
) -> Callable[[HostKernel], HostKernel]:
    """Register the decorated function like ``host`` does, but as an alternative to generated
    kernels.

    The kernel runs on row-major tensors of the CPU, and ``cost`` estimates its time. ``method`` is
    the name of its library. The results have the op's types; an array of equal elements may have
    strides of 0.
    """
    kernel = Kernel(name, op, CPU, (NCHW,), elements, applies, cost, method=method)
    return _function(kernel, generated_limits)


def _function(kernel: Kernel, limits: Predicate) -> Callable[[HostKernel], HostKernel]:
    """Return a decorator that registers a Python function as ``kernel``, with the further
    conditions ``limits``.

    The kernel does not apply to an op with a property that the function does not take.
    """

    def declare(function: HostKernel) -> HostKernel:
        untaken = _untaken(kernel, function)

        def applies(op: Any) -> str | None:
            given = next((name for name in untaken if name in op.properties), None)
            return f"takes no {given}" if given else limits(op) or kernel.applies(op)

        @wraps(function)
        def run(*operands: Any, **settings: Any) -> Any:
            return function(*operands, **{k: settings[k] for k in settings.keys() - untaken})

        key = f"{kernel.op.name}/{kernel.name}"
        register(replace(kernel, applies=applies, function=key))
        host_function(key)(run if untaken else function)
        return function

    return declare


def _untaken(kernel: Kernel, function: HostKernel) -> Set[str]:
    """Return the op's optional properties that a function does not take.

    Raises OptionError for a function that does not take the other properties by name, or that
    requires further keywords.
    """
    parameters = signature(function).parameters.values()
    if any(p.kind is p.VAR_KEYWORD for p in parameters):
        return frozenset()
    taken = {p.name: p.default is p.empty for p in parameters if p.kind is p.KEYWORD_ONLY}
    defs = kernel.op.setting_defs()
    optional = {name for name in defs if isinstance(defs[name], OptPropertyDef)}
    wanted = [name for name in defs if name not in optional]
    missing = {*wanted} - taken.keys()
    unknown = {k for k in taken if taken[k]} - {*wanted}
    if missing or unknown:
        expected = ", ".join([*wanted, *(f"{name}=None" for name in optional)]) or "none"
        raise OptionError(
            f"the kernel {kernel.name} of {kernel.op.name} has other keywords than the op",
            expected=expected,
            found=", ".join(taken) or "none",
            hint=f"declare it as def f(.., *, {expected}), or with **settings",
        )
    return optional - taken.keys()


def generated_limits(op: NnOp) -> str | None:
    """Return the reason why an op cannot have a generated kernel; None if it can."""
    empty = any(0 in shape_of(value) for value in (*op.operands, *op.results))
    return "a tensor has no elements" if empty else None
