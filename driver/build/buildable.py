"""The check that code can be generated for a placed program."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from tessella import kernels
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import CastOp, CopyOp, PlaceAttr, RelayoutOp, place_of
from tessella.kernels.registry import LOOP_KERNEL, picked_kernel
from tessella.runtime.devices import device_names, kind_of
from tessella.support.elements import ELEMENTS
from tessella.support.errors import Unsupported, UnsupportedError


def check_buildable(module: ModuleOp, arch: str) -> None:
    """Raise UnsupportedError for kernels and conversions without code for ``arch`` or the
    registered devices, and InvalidModelError for kernels that do not exist."""
    kernels.load()
    issues = list(_issues(module, {arch, "host", *device_names()}))
    if issues:
        raise UnsupportedError(issues, where=f"building for {arch}")


def _issues(module: ModuleOp, targets: set[str]) -> Iterator[Unsupported]:
    for op in module.walk():
        match op:
            case NnOp() if op.places is not None:
                kernel, place = picked_kernel(op), op.places[-1]
                coded = kernel.is_called or kernel.lower is not None or kernel.source is not None
                if kind_of(place.device.data) not in targets or not (
                    coded or kernel.name == LOOP_KERNEL
                ):
                    reason = f"the kernel {op.kernel} at {place} can be picked, but not built"
                    yield Unsupported(op.name, op.node, reason)
            case CastOp() | CopyOp() | RelayoutOp():
                # A copy between the host and a CPU moves nothing.
                is_code = not isinstance(op, CopyOp)
                for place in filter(None, map(place_of, (op.source.type, op.res.type))):
                    if kind_of(place.device.data) not in targets or (
                        is_code and _is_storage(place)
                    ):
                        reason = f"no code for a conversion from or to {place}"
                        yield Unsupported(op.name, _maker(op.source), reason)
            case _:
                pass


def _is_storage(place: PlaceAttr) -> bool:
    """Return whether no native code exists for the element type of a place."""
    return not ELEMENTS[place.precision.data].is_native


def _maker(value: SSAValue) -> str:
    """Return the node that produces a value, or the value's name."""
    return value.owner.node if isinstance(value.owner, NnOp) else value.name_hint or ""
