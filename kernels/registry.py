"""The kernel registry: which kernels serve an op, at which place, what they cost, how they lower.

One declaration registers a kernel. ``@native`` registers a generated kernel for every native
target, and for each layout that is given, at once:

    @native(nn.ConvOp, "conv", NHWC, NCHW)
    def conv(k: KernelBuilder, op: nn.ConvOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None)
    -> SSAValue: ...

``register`` takes any other: also one of a target that no machine here has, which can be picked and
printed, and not built:

    register(Kernel("conv", nn.ConvOp, PlaceAttr.get("opencl", "f16", IMAGE), cost=on_the_gpu))

Every op also has a ``host`` kernel, its NumPy semantics; it is not declared apart.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import SSAValue

from tessella.dialects.layout import ANY_LAYOUT, IMAGE, NCHW, Layout
from tessella.dialects.nn.core import NnOp, is_float, tensor_type
from tessella.dialects.place import PlaceAttr, precision_of
from tessella.kernels.cost import Cost, host_seconds
from tessella.support.errors import InternalError

NATIVE_TARGETS = ("x86", "arm")
"""The targets that generated kernels serve."""

HOST_KERNEL = "host"
VIEW_KERNEL = "view"
"""The kernel of ops whose result is the operand's memory under another shape."""

Lowering = Callable[..., SSAValue | Sequence[SSAValue]]
"""``lower(builder, op, *operands)`` adds the op's statements to a ``KernelBuilder`` and gives its
results."""
Predicate = Callable[[Any], str | None]


def always(op: NnOp) -> str | None:
    """The predicate of a kernel that always applies."""
    return None


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel: the op it serves, its place, where it applies, what it costs, and its lowering.

    In ``place``, the precision `any` is that in which the op computes, and the layout `any` one
    that all operands share. ``places`` gives those of single operands (by number) or results (by
    ``-1``, ``-2``...) where they differ: `any` there is what an operand already is, which is so
    never converted, and for a result what ``place`` says. ``applies`` answers with a sentence when
    it does not. Without ``cost``, the tile model estimates the lowering; a kernel without a
    lowering cannot be built.
    """

    name: str
    op: type[NnOp]
    place: PlaceAttr
    applies: Predicate = always
    cost: Cost | None = None
    lower: Lowering | None = None
    places: Mapping[int, PlaceAttr] = field(default_factory=dict[int, PlaceAttr])

    def __post_init__(self) -> None:
        if self.cost is None and self.lower is None:
            raise InternalError(f"the kernel {self.name} at {self.place} has no cost")

    @property
    def target(self) -> str:
        return self.place.target.data

    @property
    def precision(self) -> str:
        return self.place.precision.data

    @property
    def layout(self) -> Layout:
        return self.place.layout

    def wants(self, op: NnOp, layout: Layout) -> list[PlaceAttr]:
        """The places of the op's operands and results; ``layout`` stands for the kernel's where
        that is `any`."""
        own = PlaceAttr.get(self.target, self.precision, self.place.layout)
        if own.layout == ANY_LAYOUT:
            own = PlaceAttr.get(self.target, self.precision, layout)
        values = (*op.operands, *op.results)
        count = len(op.operands)
        places = {i: p if i >= 0 else p.resolved(own) for i, p in self.places.items()}
        return [
            self._wants(value, places.get(i if i < count else i - len(values)), own)
            for i, value in enumerate(values)
        ]

    def _wants(self, value: SSAValue, place: PlaceAttr | None, own: PlaceAttr) -> PlaceAttr:
        """The place of one value: its own where it has one, else the kernel's."""
        type = tensor_type(value)
        place = place or (own if is_float(type.element_type) else _any_precision(own))
        target, precision, layout = place.target.data, place.precision.data, place.layout
        if precision == "any" and target != "any":
            precision = precision_of(type.element_type)
        if layout not in (ANY_LAYOUT, IMAGE) and len(type.get_shape()) < 3:
            layout = NCHW
        return PlaceAttr.get(target, precision, layout)


def _any_precision(place: PlaceAttr) -> PlaceAttr:
    return PlaceAttr.get(place.target.data, "any", place.layout)


_KERNELS: dict[str, list[Kernel]] = {}


def register(kernel: Kernel) -> None:
    """Add a kernel to the registry. Raises InternalError where its name and place are taken."""
    known = _KERNELS.setdefault(kernel.op.name, [])
    if any(k.name == kernel.name and k.place == kernel.place for k in known):
        raise InternalError(f"{kernel.op.name} has a kernel {kernel.name} at {kernel.place}")
    known.append(kernel)


@contextmanager
def registered(*kernels: Kernel) -> Generator[None]:
    """Have further kernels for the length of a block."""
    added: list[Kernel] = []
    try:
        for kernel in kernels:
            register(kernel)
            added.append(kernel)
        yield
    finally:
        for kernel in added:
            _KERNELS[kernel.op.name].remove(kernel)


@cache
def _host_kernel(op: type[NnOp]) -> Kernel:
    return Kernel(HOST_KERNEL, op, PlaceAttr.get("host", "any", NCHW), cost=host_seconds)


def kernels_of(op: NnOp) -> Sequence[Kernel]:
    """The kernels of an op in the order of registration; the host kernel last."""
    return (*_KERNELS.get(op.name, ()), _host_kernel(type(op)))


def serves(needed: str, target: str) -> bool:
    """Whether a kernel is registered at a target: any of an op, `nn.conv`, or the one of a name,
    `nn.conv/winograd`. The host kernels, which every op has, do not count."""
    op, _, name = needed.partition("/")
    return any(k.target == target and name in ("", k.name) for k in _KERNELS.get(op, ()))


def find(op: NnOp) -> Kernel | None:
    """The op's picked kernel: of its name, and of the places that the op names. One for all
    precisions also serves an op whose values are in another than their own."""
    places = op.places
    if places is None:
        return None
    # a result of low rank is row-major, whatever layout the kernel runs in
    layouts = dict.fromkeys(place.layout for place in reversed(places))
    named = [kernel for kernel in kernels_of(op) if kernel.name == op.kernel]
    wanted = [(kernel, kernel.wants(op, layout)) for kernel in named for layout in layouts]
    wanted += [(k, list(map(_any_precision, w))) for k, w in wanted if k.precision == "any"]
    for kernel, wants in wanted:
        if all(want.accepts(p) for want, p in zip(wants, places, strict=True)):
            return kernel
    return None


def native(
    op: type[NnOp],
    name: str,
    *orders: Layout,
    applies: Predicate = always,
    layouts: Mapping[int, Layout] | None = None,
    cost: Cost | None = None,
) -> Callable[[Lowering], Lowering]:
    """Register a generated kernel of an op for all native targets, at each of the layouts (at
    `any` without one); ``layouts`` gives those of single operands where they differ."""

    def declare(lower: Lowering) -> Lowering:
        def predicate(candidate: Any) -> str | None:
            return generated_limits(candidate) or applies(candidate)

        for target in NATIVE_TARGETS:
            places = {i: PlaceAttr.get(target, "any", own) for i, own in (layouts or {}).items()}
            for layout in orders or (ANY_LAYOUT,):
                place = PlaceAttr.get(target, "any", layout)
                register(Kernel(name, op, place, predicate, cost, lower, places))
        return lower

    return declare


def generated_limits(op: NnOp) -> str | None:
    """What generated kernels cannot do for any op."""
    for value in (*op.operands, *op.results):
        type = tensor_type(value)
        element = type.element_type
        if 0 in type.get_shape():
            return "a tensor has no elements"
        if isinstance(element, IntegerType):
            if element.signedness.data is Signedness.UNSIGNED:
                return f"the element type {element} has no native arithmetic"
        elif not is_float(element):
            return f"the element type {element} is not supported"
    return None
