"""Native loops around functions whose ops have native kernels."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Operation

from tessella.dialects.elements import element_of
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.recurrent import ScanOp
from tessella.dialects.place import is_apart
from tessella.kernels.cost import CALL, bytes_of, moving
from tessella.kernels.registry import (
    CPU,
    LOOP_KERNEL,
    Kernel,
    generated_limits,
    is_called,
    register,
)
from tessella.support.sizes import estimated
from tessella.targets import Target


def _why_not_native(op: ScanOp) -> str | None:
    """Return the reason why a loop cannot be native; None if it can. The kernels of the ops in its
    function must be picked before the loop's own kernel."""
    function = op.function
    if function is None:
        return f"the program has no function @{op.body_name}"
    slow = next((found for found in _inner_ops(function) if is_called(found)), None)
    if slow is not None:
        return f"{slow.name} in @{op.body_name} runs outside of native code"
    far = next((found for found in _inner_ops(function) if _is_apart(found)), None)
    if far is not None:
        return f"{far.name} in @{op.body_name} runs on another device"
    foreign = (element_of(value.type) for value in (*op.operands, *op.results))
    stored = next((element.name for element in foreign if not element.is_native), None)
    return f"no native code for {stored}" if stored else generated_limits(op)


def _inner_ops(function: Operation) -> Iterator[NnOp]:
    """Yield the ops in a function."""
    return (found for found in function.walk() if isinstance(found, NnOp))


def _is_apart(op: NnOp) -> bool:
    return any(is_apart(place.device.data) for place in op.places or ())


def _seconds(op: ScanOp, target: Target) -> float:
    """Return the seconds of a loop: each iteration calls each op of its function and moves the op's
    tensors."""
    function = op.function
    ops = [f for f in function.walk() if isinstance(f, NnOp)] if function is not None else []
    read = (sum(map(bytes_of, (*found.operands, *found.results))) for found in ops)
    return estimated(op.usual_steps) * sum(CALL + moving(size, 0, target) for size in read)


register(Kernel(LOOP_KERNEL, ScanOp, CPU, (NCHW,), applies=_why_not_native, cost=_seconds))
