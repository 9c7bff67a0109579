"""Inference of shapes and padding: a size of -1 in a reshape, and `SAME` padding of windows."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_zero, differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, product


def resolved_shape(
    old: Sequence[Size], wanted: Sequence[Size], copied: Collection[int] = ()
) -> tuple[Size, ...]:
    """Return the result shape of a reshape from shape ``old`` to ``wanted``, in which one size may
    be -1 and is inferred.

    Dimensions whose indices are in ``copied`` have the sizes that they have in ``old``. Raises
    ShapeError.
    """
    new = [old[d] if d in copied else size for d, size in enumerate(wanted)]
    if new.count(-1) == 1:
        # Copied dimensions cancel out, so -1 can be inferred even if the batch is empty.
        total = product(size for d, size in enumerate(old) if d not in copied)
        told = product(size for d, size in enumerate(new) if size != -1 and d not in copied)
        if not differs(told, 0) or not decided_zero(total % told):
            raise _unfit("the size of dimension -1 cannot be known", old, wanted)
        new[new.index(-1)] = total // told
    if any(decided(size < 0) for size in new) or differs(product(new), product(old)):
        raise _unfit("the shape does not fit the data", old, wanted)
    return tuple(new)


def _unfit(what: str, old: Sequence[Size], wanted: Sequence[Size]) -> ShapeError:
    return ShapeError(
        what,
        expected=f"a shape of {product(old)} elements, as {list(old)} has; at most one size is -1",
        found=str(list(wanted)),
    )


def same_padding(size: Size, kernel: Size, stride: int, dilation: int) -> Size:
    """Return the total padding of a dimension with which ceil(size / stride) windows fit."""
    count = -(-size // stride)
    return decided_max((count - 1) * stride + (kernel - 1) * dilation + 1 - size, 0)


def split_padding(totals: Sequence[Size], *, more_before: bool = False) -> tuple[Size, ...]:
    """Return the padding before all dimensions, then after them, from the total of each. An odd
    total has one more after, or before if ``more_before``."""
    halves = [total - total // 2 if more_before else total // 2 for total in totals]
    return (*halves, *(total - half for total, half in zip(totals, halves, strict=True)))
