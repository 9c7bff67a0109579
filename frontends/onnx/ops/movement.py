"""Ops that move elements: shapes, order, parts, copies."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.nn.core import broadcast_shapes, shape_of
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.frontends.ranges import Steps
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, differs, known


@converts("Reshape", 1, 25, note="shape known at import")
def reshape(call: Call) -> SSAValue:
    """0 copies a dimension (unless ``allowzero``), -1 takes what is left."""
    shape = call.listed("shape", 1)
    if shape is None:
        raise ShapeError("there is no shape to reshape to")
    return call.reshape(call.x, resolved_shape(shape_of(call.x), shape, call.flag("allowzero")))


def resolved_shape(
    old: Sequence[Size], wanted: Sequence[Size], allow_zero: bool = False
) -> tuple[Size, ...]:
    """The shape that a Reshape means. Raises ShapeError where there is none."""
    copied = {d for d, size in enumerate(wanted) if not allow_zero and not differs(size, 0)}
    if any(d >= len(old) for d in copied):
        raise ShapeError("there is no dimension to copy", found=str(list(wanted)))
    new = [old[d] if d in copied else size for d, size in enumerate(wanted)]
    if new.count(-1) == 1:
        # what is copied cancels out: an empty batch leaves the other dimensions known
        total = math.prod(size for d, size in enumerate(old) if d not in copied)
        told = math.prod(size for d, size in enumerate(new) if size != -1 and d not in copied)
        if not differs(told, 0) or total % told:
            raise ShapeError(
                "the size of dimension -1 cannot be known",
                expected=f"a shape of {math.prod(old)} elements",
                found=f"{list(wanted)}, which {list(old)} is reshaped to",
            )
        new[new.index(-1)] = total // told
    if any(size < 0 for size in new) or differs(math.prod(new), math.prod(old)):
        raise ShapeError(
            "the shape does not fit the data",
            expected=f"a shape of {math.prod(old)} elements, as {list(old)} has",
            found=str(list(wanted)),
        )
    return tuple(new)


@converts("Flatten", 1, 25)
def flatten(call: Call) -> SSAValue:
    """A matrix: the dimensions before the axis, and the others."""
    shape, axis = shape_of(call.x), call.integer("axis")
    if not -len(shape) <= axis <= len(shape):
        raise ShapeError("axis is out of range", found=str(axis))
    axis += len(shape) if axis < 0 else 0
    return call.reshape(call.x, (math.prod(shape[:axis]), math.prod(shape[axis:])))


@converts("Transpose", 1, 25)
def transpose(call: Call) -> SSAValue:
    """Reversed where no order is given."""
    rank = len(shape_of(call.x))
    perm = call.integers("perm")
    return call.transpose(call.x, range(rank - 1, -1, -1) if perm is None else perm)


@converts("Squeeze", 1, 25, note="axes known at import")
def squeeze(call: Call) -> SSAValue:
    """Without axes, all dimensions of size 1 go."""
    shape, axes = shape_of(call.x), call.listed("axes", 1)
    if axes is None:
        gone = {d for d, size in enumerate(shape) if not differs(size, 1)}
    else:
        gone = {front_axis(axis, len(shape)) for axis in axes}
    if any(differs(shape[axis], 1) for axis in gone):
        raise ShapeError("only dimensions of size 1 can go", found=f"{list(shape)}, axes {axes}")
    return call.reshape(call.x, [size for d, size in enumerate(shape) if d not in gone])


@converts("Unsqueeze", 1, 25, note="axes known at import")
def unsqueeze(call: Call) -> SSAValue:
    """The axes count in the result."""
    axes, sizes = call.listed("axes", 1) or (), iter(shape_of(call.x))
    rank = len(shape_of(call.x)) + len(axes)
    new = {front_axis(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise ShapeError("an axis is given twice", found=str(list(axes)))
    return call.reshape(call.x, [1 if d in new else next(sizes) for d in range(rank)])


@converts("Concat", 1, 13)
def concat(call: Call) -> SSAValue:
    """Along an axis, which is 1 by default before version 4."""
    inputs = call.operands()
    axis = call.axis(inputs[0], default=1 if call.version < 4 else None)
    return inputs[0] if len(inputs) == 1 else call.emit(nn.ConcatOp, *inputs, axis=axis)


@converts("Split", 1, 18, note="sizes known at import")
def split(call: Call) -> list[SSAValue]:
    """Into given sizes, or into equal parts of which the last may be smaller."""
    shape = shape_of(call.x)
    axis = call.axis(call.x, default=0)
    sizes = call.listed("split", 1)
    if sizes is None:
        sizes = _equal_parts(shape[axis], _outputs(call), uneven=call.version >= 18)
    if differs(sum(sizes), shape[axis]) or any(size < 0 for size in sizes):
        raise ShapeError(
            "the sizes of a split do not fit", expected=f"sum {shape[axis]}", found=str(sizes)
        )
    ends = itertools.accumulate(sizes)
    return [part(call, call.x, axis, e - n, n) for e, n in zip(ends, sizes, strict=True)]


def _outputs(call: Call) -> int:
    count = len(call.node.outputs)
    if call.attribute("num_outputs") not in (None, count):
        raise ShapeError(
            "num_outputs differs from the number of outputs",
            expected=str(count),
            found=str(call.attribute("num_outputs")),
        )
    return count


def _equal_parts(size: Size, count: int, uneven: bool) -> tuple[Size, ...]:
    if not uneven and size % count:
        raise ShapeError("a dimension does not split into equal parts", found=f"{size} by {count}")
    each = -(-size // count)
    return tuple(min(each, max(size - i * each, 0)) for i in range(count))


def part(call: Call, x: SSAValue, axis: int, start: Size, size: Size) -> SSAValue:
    """``size`` elements from ``start`` on along an axis."""
    shape = shape_of(x)
    if size == shape[axis]:
        return x
    starts = tuple(start if d == axis else 0 for d in range(len(shape)))
    sizes = tuple(size if d == axis else extent for d, extent in enumerate(shape))
    return call.emit(nn.SliceOp, x, starts=starts, sizes=sizes, steps=(1,) * len(shape))


@converts("Slice", 1, 13, note="starts, ends, axes and steps known at import")
def slice(call: Call) -> SSAValue:
    """Bounds are clamped, and count from the back where negative."""
    shape = shape_of(call.x)
    starts, ends = call.listed("starts", 1) or (), call.listed("ends", 2) or ()
    axes = call.listed("axes", 3)
    axes = range(len(starts)) if axes is None else axes
    steps = call.listed("steps", 4) or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ShapeError(
            "starts, ends, axes and steps differ in length",
            found=f"{list(starts)}, {list(ends)}, {list(axes)}, {list(steps)}",
        )
    ranges = [Steps(0, size, 1) for size in shape]
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise ShapeError("a step is 0")
        d = front_axis(axis, len(shape))
        ranges[d] = _range(start, end, known(step), shape[d])
    if all(r == Steps(0, size, 1) for r, size in zip(ranges, shape, strict=True)):
        return call.x
    return call.emit(
        nn.SliceOp,
        call.x,
        starts=tuple(r.start if r.count else 0 for r in ranges),
        sizes=tuple(r.count for r in ranges),
        steps=tuple(r.step for r in ranges),
    )


def _range(start: Size, end: Size, step: int, size: Size) -> Steps:
    """The indices that are taken, clamped as the text of ONNX has it: backwards, a start before
    the first element is the first one, where NumPy takes nothing."""
    start, end = (bound + size if bound < 0 else bound for bound in (start, end))
    if step > 0:
        return Steps.between(min(max(start, 0), size), min(max(end, 0), size), step)
    return Steps.between(min(max(start, 0), size - 1), min(max(end, -1), size - 1), step)


@converts("Expand", 8, 13, note="shape known at import")
def expand(call: Call) -> SSAValue:
    """Both shapes broadcast."""
    wanted = call.static_ints(1, "shape")
    return call.expand(call.x, broadcast_shapes([shape_of(call.x), wanted]))


@converts("Tile", 1, 13, note="repeats known at import")
def tile(call: Call) -> SSAValue:
    """Version 1 repeats along one axis."""
    if call.version >= 6:
        return call.emit(nn.TileOp, call.x, repeats=call.static_ints(1, "repeats"))
    rank = len(shape_of(call.x))
    # these have the type of the data
    count, axis = (int(call.static_number(i, name)) for i, name in ((1, "tiles"), (2, "axis")))
    axis = front_axis(axis, rank)
    return call.emit(
        nn.TileOp, call.x, repeats=tuple(count if d == axis else 1 for d in range(rank))
    )


@converts("DepthToSpace", 1, 28)
def depth_to_space(call: Call) -> SSAValue:
    """Blocks of the channels become blocks of the image."""
    (n, c, h, w), size = _image(call), call.integer("blocksize")
    if size < 1 or c % size**2:
        raise ShapeError("the channels are not a multiple of blocksize squared", found=str(c))
    depth = c // size**2
    if call.choice("mode", "DCR", "CRD") == "DCR":
        blocks = call.reshape(call.x, (n, size, size, depth, h, w))
        blocks = call.transpose(blocks, (0, 3, 4, 1, 5, 2))
    else:
        blocks = call.reshape(call.x, (n, depth, size, size, h, w))
        blocks = call.transpose(blocks, (0, 1, 4, 2, 5, 3))
    return call.reshape(blocks, (n, depth, h * size, w * size))


@converts("SpaceToDepth", 1, 28)
def space_to_depth(call: Call) -> SSAValue:
    """Blocks of the image become blocks of the channels."""
    (n, c, h, w), size = _image(call), call.integer("blocksize")
    if size < 1 or h % size or w % size:
        raise ShapeError("the image is not a multiple of blocksize", found=f"{h}x{w}, {size}")
    blocks = call.reshape(call.x, (n, c, h // size, size, w // size, size))
    dcr = call.choice("mode", "DCR", "CRD") == "DCR"
    blocks = call.transpose(blocks, (0, 3, 5, 1, 2, 4) if dcr else (0, 1, 3, 5, 2, 4))
    return call.reshape(blocks, (n, c * size**2, h // size, w // size))


def _image(call: Call) -> tuple[int, int, int, int]:
    shape = shape_of(call.x)
    if len(shape) != 4:
        raise ShapeError("an image x[N, C, H, W] is expected", found=str(call.x.type))
    return shape
