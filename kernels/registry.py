"""The kernel registry: which kernels serve an op, at which place, and how they lower.

One declaration registers a kernel. ``@native`` registers a generated kernel for every native
target at once:

    @native(nn.ConvOp, "conv", NHWC)
    def conv(k: KernelBuilder, op: nn.ConvOp, x: SSAValue, w: SSAValue, b: SSAValue | None = None)
    -> SSAValue: ...

Every op also has a ``host`` kernel, its NumPy semantics; it is not declared apart.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import SSAValue

from tessella.dialects.layout import ANY_LAYOUT, NCHW, Layout
from tessella.dialects.nn.core import NnOp, is_float, shape_of, tensor_type
from tessella.dialects.place import PlaceAttr, precision_of

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


@dataclass(frozen=True)
class Kernel:
    """A kernel: the op it serves, its place, where it applies, and its lowering.

    ``layouts`` gives the layouts of single operands (by number) or results (by ``-1``, ``-2``...)
    where they differ from the kernel's own; ``any`` there leaves the operand as it is.
    ``applies`` answers with a sentence when it does not.
    """

    name: str
    op: type[NnOp]
    target: str
    precision: str = "any"
    layout: Layout = ANY_LAYOUT
    applies: Predicate = always
    lower: Lowering | None = None
    layouts: Mapping[int, Layout] = field(default_factory=dict[int, Layout])

    def wants(self, op: NnOp, layout: Layout) -> list[PlaceAttr]:
        """The places of the op's operands and results; ``layout`` stands for the kernel's where
        that is `any`."""
        values = (*op.operands, *op.results)
        own = layout if self.layout == ANY_LAYOUT else self.layout
        places: list[PlaceAttr] = []
        for i, value in enumerate(values):
            number = i if i < len(op.operands) else i - len(values)
            chosen = self.layouts.get(number, own)
            if chosen != ANY_LAYOUT and len(shape_of(value)) < 3:
                chosen = NCHW
            precision = precision_of(tensor_type(value).element_type)
            places.append(PlaceAttr.get(self.target, precision, chosen))
        return places


_KERNELS: dict[str, list[Kernel]] = {}


def register(kernel: Kernel) -> None:
    """Add a kernel to the registry."""
    _KERNELS.setdefault(kernel.op.name, []).append(kernel)


def kernels_of(op: NnOp) -> Sequence[Kernel]:
    """The kernels of an op in the order of registration; the host kernel last."""
    host = Kernel(HOST_KERNEL, type(op), "host", layout=NCHW)
    return (*_KERNELS.get(op.name, ()), host)


def find(op: NnOp, target: str) -> Kernel | None:
    """The op's picked kernel for a target, by its name."""
    return next((k for k in kernels_of(op) if k.name == op.kernel and k.target == target), None)


def native(
    op: type[NnOp],
    name: str,
    layout: Layout = ANY_LAYOUT,
    *,
    applies: Predicate = always,
    layouts: Mapping[int, Layout] | None = None,
) -> Callable[[Lowering], Lowering]:
    """Register a generated kernel of an op for all native targets."""

    def declare(lower: Lowering) -> Lowering:
        def predicate(candidate: Any) -> str | None:
            return generated_limits(candidate) or applies(candidate)

        for target in NATIVE_TARGETS:
            register(Kernel(name, op, target, "any", layout, predicate, lower, dict(layouts or {})))
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
