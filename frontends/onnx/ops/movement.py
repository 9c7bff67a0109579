"""Converters of ops that only move elements: reshapes, transposes, slices, copies."""

from __future__ import annotations

from tessella.dialects import nn
from tessella.dialects.nn.core import broadcast_shapes
from tessella.frontends.emitter import Value, concat
from tessella.frontends.onnx.call import Call, front_axis
from tessella.frontends.onnx.registry import converts
from tessella.frontends.ranges import StridedIndices
from tessella.frontends.shapes import resolved_shape
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min, decided_zero, differs
from tessella.support.errors import ShapeError
from tessella.support.sizes import Size, ceil_div, product, total


@converts("Reshape", 1, 25, note="shape known at import")
def reshape(call: Call) -> Value:
    """Emit a reshape. A size of 0 copies the operand's (unless ``allowzero``), and -1 is
    inferred."""
    old, wanted = call.x.shape, call.static_sizes(1, "shape")
    allow_zero = call.flag("allowzero")
    copied = {d for d, size in enumerate(wanted) if not allow_zero and not differs(size, 0)}
    if any(d >= len(old) for d in copied):
        raise ShapeError(
            "a dimension to copy is missing",
            expected=f"zeros in the first {len(old)} dimensions only",
            found=str(list(wanted)),
        )
    return call.x.reshape(resolved_shape(old, wanted, copied))


@converts("Flatten", 1, 25)
def flatten(call: Call) -> Value:
    """Emit a reshape to a matrix: the dimensions before the axis become rows, the others
    columns."""
    x, axis = call.x, call.integer("axis")
    if not -x.rank <= axis <= x.rank:
        raise ShapeError(
            "axis is out of range", expected=f"in [-{x.rank}, {x.rank}]", found=str(axis)
        )
    axis += x.rank if axis < 0 else 0
    return x.reshape((product(x.shape[:axis]), product(x.shape[axis:])))


@converts("Transpose", 1, 25)
def transpose(call: Call) -> Value:
    """Emit a transpose; dimensions are reversed if no order is given."""
    perm = call.integers("perm")
    return call.x.transpose(range(call.x.rank - 1, -1, -1) if perm is None else perm)


@converts("Squeeze", 1, 25, note="axes known at import")
def squeeze(call: Call) -> Value:
    """Emit a reshape that removes the dimensions ``axes`` of size 1, or all of size 1 if there are
    no axes."""
    shape, axes = call.x.shape, call.listed_ints(1, "axes")
    if axes is None:
        gone = {d for d, size in enumerate(shape) if not differs(size, 1)}
    else:
        gone = {front_axis(axis, len(shape)) for axis in axes}
    if any(differs(shape[axis], 1) for axis in gone):
        raise ShapeError(
            "a dimension cannot be removed",
            expected="axes of size 1",
            found=f"axes {list(axes or ())} of {list(shape)}",
        )
    return call.x.reshape([size for d, size in enumerate(shape) if d not in gone])


@converts("Unsqueeze", 1, 25, note="axes known at import")
def unsqueeze(call: Call) -> Value:
    """Emit a reshape that adds dimensions of size 1 at the positions ``axes`` of the result."""
    axes, sizes = call.static_ints(1, "axes"), iter(call.x.shape)
    rank = call.x.rank + len(axes)
    new = {front_axis(axis, rank) for axis in axes}
    if len(new) != len(axes):
        raise ShapeError("an axis is given twice", expected="distinct axes", found=str(list(axes)))
    return call.x.reshape([1 if d in new else next(sizes) for d in range(rank)])


@converts("Concat", 1, 13)
def concat_(call: Call) -> Value:
    """Emit a concatenation along an axis."""
    return concat(call.operands(), call.axis(call.x))


@converts("Split", 1, 18, note="sizes known at import")
def split(call: Call) -> list[Value]:
    """Emit the parts of a tensor along an axis, of given sizes or of equal sizes; the last equal
    part may be smaller."""
    x, axis, count = call.x, call.axis(call.x, default=0), len(call.node.outputs)
    if call.attribute("num_outputs") not in (None, count):
        raise ShapeError(
            "num_outputs differs from the number of outputs",
            expected=str(count),
            found=str(call.attribute("num_outputs")),
        )
    size, sizes = x.shape[axis], call.listed_sizes(1, "split")
    if sizes is None:
        each = ceil_div(size, count)
        rests = (decided_max(size - i * each, 0) for i in range(count))
        sizes = tuple(decided_min(each, rest) for rest in rests)
    is_split = len(sizes) == count and not any(decided(n < 0) for n in sizes)
    if not is_split or differs(total(sizes), size):
        raise ShapeError(
            "the sizes of a split do not fit",
            expected=f"{count} sizes of the sum {size}",
            found=str(list(sizes)),
        )
    return [x.part(axis, total(sizes[:i]), n) for i, n in enumerate(sizes)]


@converts("Slice", 1, 13, note="starts, ends, axes and steps known at import")
def slice(call: Call) -> Value:
    """Emit a strided slice. Bounds are clamped to the dimensions; negative bounds count from the
    back."""
    shape = call.x.shape
    starts, ends = call.listed_sizes(1, "starts") or (), call.listed_sizes(2, "ends") or ()
    axes = call.listed_ints(3, "axes")
    axes = range(len(starts)) if axes is None else axes
    steps = call.listed_ints(4, "steps") or (1,) * len(starts)
    if not len(starts) == len(ends) == len(axes) == len(steps):
        raise ShapeError(
            "starts, ends, axes and steps differ in length",
            expected="one of each for a dimension",
            found=f"{list(starts)}, {list(ends)}, {list(axes)}, {list(steps)}",
        )
    ranges = [StridedIndices(0, size, 1) for size in shape]
    axes = [front_axis(axis, len(shape)) for axis in axes]
    if len({*axes}) != len(axes):
        raise ShapeError("an axis is given twice", expected="distinct axes", found=str(axes))
    for start, end, d, step in zip(starts, ends, axes, steps, strict=True):
        if step == 0:
            raise ShapeError("a step is 0", expected="steps that are not 0", found=str(list(steps)))
        ranges[d] = _range(start, end, step, shape[d])
    return call.x.slice(
        [0 if decided_zero(r.count) else r.start for r in ranges],
        [r.count for r in ranges],
        [r.step for r in ranges],
    )


def _range(start: Size, end: Size, step: int, size: Size) -> StridedIndices:
    """Return the indices that a slice selects, clamped as the ONNX specification says.

    With a negative step, a start before the first element counts as the first element, where NumPy
    selects nothing.
    """
    start, end = (bound + size if decided(bound < 0) else bound for bound in (start, end))
    most = size if step > 0 else size - 1
    first = decided_min(decided_max(start, 0), most)
    return StridedIndices.between(
        first, decided_min(decided_max(end, 0 if step > 0 else -1), most), step
    )


@converts("Expand", 8, 13, note="shape known at import")
def expand(call: Call) -> Value:
    """Emit a broadcast to the common shape of the operand's shape and the given one."""
    wanted = call.static_sizes(1, "shape")
    return call.x.expand(broadcast_shapes([call.x.shape, wanted]))


@converts("Tile", 1, 13, note="repeats known at import")
def tile(call: Call) -> Value:
    """Emit copies of a tensor along each dimension."""
    return call.x.op(nn.TileOp, repeats=call.static_sizes(1, "repeats"))


@converts("DepthToSpace", 1, 28)
def depth_to_space(call: Call) -> Value:
    """Emit DepthToSpace: channels become blocks of pixels."""
    (n, c, h, w), size = _image(call), call.integer("blocksize")
    if size < 1 or not decided_zero(c % size**2):
        raise ShapeError(
            "the channels do not divide into blocks",
            expected="a positive blocksize, and a multiple of its square as channels",
            found=f"blocksize {size}, {c} channels",
        )
    depth = c // size**2
    if call.choice("mode", "DCR", "CRD") == "DCR":
        blocks = call.x.reshape((n, size, size, depth, h, w))
        blocks = blocks.transpose((0, 3, 4, 1, 5, 2))
    else:
        blocks = call.x.reshape((n, depth, size, size, h, w))
        blocks = blocks.transpose((0, 1, 4, 2, 5, 3))
    return blocks.reshape((n, depth, h * size, w * size))


@converts("SpaceToDepth", 1, 28)
def space_to_depth(call: Call) -> Value:
    """Emit SpaceToDepth: blocks of pixels become channels."""
    (n, c, h, w), size = _image(call), call.integer("blocksize")
    if size < 1 or not (decided_zero(h % size) and decided_zero(w % size)):
        raise ShapeError(
            "the image does not divide into blocks",
            expected="a positive blocksize, and a multiple of it as height and width",
            found=f"blocksize {size}, {h}x{w}",
        )
    blocks = call.x.reshape((n, c, h // size, size, w // size, size))
    dcr = call.choice("mode", "DCR", "CRD") == "DCR"
    blocks = blocks.transpose((0, 3, 5, 1, 2, 4) if dcr else (0, 1, 3, 5, 2, 4))
    return blocks.reshape((n, c * size**2, h // size, w // size))


def _image(call: Call) -> tuple[Size, Size, Size, Size]:
    if call.x.rank != 4:
        raise ShapeError("an image x[N, C, H, W] is expected", found=str(call.x.type))
    n, c, h, w = call.x.shape
    return n, c, h, w
