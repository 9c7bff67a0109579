"""Building the kernel that an op would become with a given choice, outside any program, to estimate
its cost.

The op is lowered as ``convert-nn-to-tile`` lowers it. Its weights have types but no elements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects.builtin import ArrayAttr, StringAttr
from xdsl.ir import Block, SSAValue

from tessella.dialects.layout import NCHW
from tessella.dialects.nn.constants import SplatOp, WeightOp
from tessella.dialects.nn.core import Array, NnOp, Tensor, tensor, tensor_type, type_of
from tessella.dialects.place import PlaceAttr, placed, precision_of
from tessella.dialects.tile import KernelOp, weight_of
from tessella.kernels.group import GroupLowering
from tessella.kernels.registry import Kernel
from tessella.passes.pick.cost_key import CostKey, OperandKey, exact_key
from tessella.support.elements import FLOATS
from tessella.support.sizes import Size


def scratch_kernel(key: CostKey, op: NnOp, kernel: Kernel, place: PlaceAttr) -> KernelOp:
    """Return the kernel that an op with this cost key is lowered to at a place (device, element
    type, layout). Floats are stored with the place's element type."""
    group = _Scratch()
    scratch = picked_op(key, op, kernel, place)
    group.add(scratch)
    return group.kernel([group.values[result] for result in scratch.results])


def scratch_group(ops: Sequence[tuple[NnOp, Kernel, PlaceAttr]]) -> KernelOp:
    """Return the kernel that several ops would become together. ``ops`` lists them, operands first,
    each with its picked kernel and place. The kernel's results are the values that no op of the
    group reads."""
    group, known = _Scratch(), dict[SSAValue, SSAValue]()
    for op, kernel, place in ops:
        scratch = picked_op(exact_key(op), op, kernel, place, known)
        group.add(scratch)
        known.update(zip(op.results, scratch.results, strict=True))
    made = [known[result] for op, _, _ in ops for result in op.results]
    return group.kernel([group.values[x] for x in made if x.first_use is None])


class _Scratch(GroupLowering):
    """Lowers an op outside any program."""

    def add(self, op: NnOp) -> None:
        """Lower an op into the scratch kernel. Operands that no earlier op computes become
        arguments."""
        for value in op.operands:
            if value not in self.values:
                self.values[value] = self.argument(value)
        self.lower(op)

    def weight(self, array: Array, hint: str) -> SSAValue:
        """Return a weight of the array's type."""
        return _weight(type_of(array))

    def view(self, value: SSAValue, type: Tensor) -> SSAValue:
        """Return a tensor's memory as a tensor of another type."""
        return _weight(type) if weight_of(value) is not None else _variable(type)

    def derived(
        self, value: SSAValue, shape: Sequence[Size], compute: Callable[[Array], Array]
    ) -> SSAValue | None:
        """Return a weight of the shape, without computing its elements, if the tensor is a
        constant; otherwise None."""
        constant = weight_of(value) is not None or isinstance(value.owner, SplatOp)
        return _weight(tensor(tensor_type(value).element_type, shape)) if constant else None

    def stored(self, splat: SplatOp) -> SSAValue:
        """Return a weight of the splat's type."""
        return _weight(tensor_type(splat.res))


def _weight(type: Tensor) -> SSAValue:
    return WeightOp("scratch", type).res


def _variable(type: Tensor) -> SSAValue:
    return Block(arg_types=[type]).args[0]


_SOURCES: dict[str, Callable[[Tensor], SSAValue]] = {
    "variable": _variable,
    "weight": _weight,
    "splat": lambda type: SplatOp(1.0, type).res,
}


def picked_op(
    key: CostKey,
    op: NnOp,
    kernel: Kernel,
    place: PlaceAttr,
    known: dict[SSAValue, SSAValue] | None = None,
) -> NnOp:
    """Return a new op with the operand types of a cost key, on tensors at the places that
    ``kernel`` requires.

    ``known`` maps operands of the original op to tensors; tensors for missing operands are added to
    it.
    """
    device, precision = place.device.data, place.precision.data
    wants = kernel.wants(op, device, place.layout, precision if precision in FLOATS else None)
    places = [
        want.resolved(_row_major(value, device))
        for want, value in zip(wants, key.values, strict=True)
    ]
    types = [
        placed(tensor(value.element, value.shape), at)
        for value, at in zip(key.values, places, strict=True)
    ]
    sources = [_SOURCES[v.kind](type) for v, type in zip(key.operands, types, strict=False)]
    if known is not None:
        sources = [known.setdefault(*pair) for pair in zip(op.operands, sources, strict=True)]
    pick = {"kernel": StringAttr(kernel.name), "places": ArrayAttr(places)}
    return type(op).create(
        operands=sources,
        result_types=types[len(sources) :],
        properties={**op.setting_properties, **pick},
        attributes={k: v for k, v in op.attributes.items() if k != "node"},
    )


def _row_major(value: OperandKey, device: str) -> PlaceAttr:
    return PlaceAttr.get(device, precision_of(value.element), NCHW)
