"""Ops whose operands say where elements are."""

from __future__ import annotations

import numpy as np

from tests.fuzz.elements import Array
from tests.fuzz.graphs import Draft, Row
from tests.fuzz.rows.movement import axis_of, pick


def indices(d: Draft, shape: tuple[int, ...], extent: int, *, negative: bool = True) -> Array:
    """The next operand: positions along a dimension."""
    d.require(extent > 0)
    rng = np.random.default_rng(d.random.getrandbits(32))
    values = rng.integers(-extent if negative else 0, extent, shape)
    return d.new(shape, lambda a: values.astype(a.dtype))


def gather(d: Draft) -> None:
    x = pick(d)
    axis = axis_of(d, x)
    d.set("axis", axis)
    shape = d.one_of((), (1,), (3,), (2, 2), (0,), (17,))
    indices(d, shape, x.shape[axis], negative=d.opset >= 11)


def gather_elements(d: Draft) -> None:
    x = pick(d)
    axis = axis_of(d, x)
    d.set("axis", axis)
    shape = list(x.shape)
    shape[axis] = d.one_of(1, 3, 9, shape[axis])
    indices(d, tuple(shape), x.shape[axis])


def gather_nd(d: Draft) -> None:
    x = pick(d)
    batch = d.between(0, x.ndim - 1) if "batch_dims" in d.schema.attributes and d.coin() else 0
    if batch:
        d.set("batch_dims", batch)
    depth = d.between(1, x.ndim - batch)
    outer = (*x.shape[:batch], *d.one_of((), (3,), (2, 2)))
    _positions(d, outer, x.shape[batch : batch + depth])


def _positions(d: Draft, outer: tuple[int, ...], sizes: tuple[int, ...]) -> None:
    d.require(0 not in sizes)
    rng = np.random.default_rng(d.random.getrandbits(32))
    values = np.stack([rng.integers(-n, n, outer) for n in sizes], axis=-1)
    d.new(values.shape, lambda a: values.astype(a.dtype))


def scatter_elements(d: Draft) -> None:
    x = pick(d)
    axis = axis_of(d, x)
    d.set("axis", axis)
    size = x.shape[axis]
    d.require(0 not in x.shape)
    once = d.attributes.get("reduction", "none") == "none"
    rng = np.random.default_rng(d.random.getrandbits(32))
    count = d.between(1, size)
    shape = list(x.shape)
    shape[axis] = count
    # each place once, as what comes last is not said
    values = rng.permuted(np.broadcast_to(np.arange(size), (*_without(shape, axis), size)), axis=-1)
    values = np.moveaxis(values[..., :count], -1, axis)
    values = values if once else rng.integers(-size, size, shape)
    d.new(tuple(shape), lambda a: values.astype(a.dtype))
    d.new(tuple(shape))


def _without(shape: list[int], axis: int) -> tuple[int, ...]:
    kept = list(shape)
    del kept[axis]
    return tuple(kept)


def scatter_nd(d: Draft) -> None:
    x = pick(d)
    depth = d.between(1, x.ndim)
    places = list(np.ndindex(x.shape[:depth]))
    d.require(bool(places))
    chosen = d.random.sample(places, d.between(1, min(len(places), 6)))
    if d.attributes.get("reduction", "none") != "none":
        chosen += chosen[:1]
    values = np.asarray(chosen).reshape(len(chosen), depth)
    d.new(values.shape, lambda a: values.astype(a.dtype))
    d.new((len(chosen), *x.shape[depth:]))


def one_hot(d: Draft) -> None:
    depth = d.between(1, 9)
    shape = d.shape(d.between(0, 2))
    rng = np.random.default_rng(d.random.getrandbits(32))
    values = rng.integers(-depth if d.opset >= 11 else 0, depth, shape)
    d.new(
        shape, lambda a: (np.abs(values) % depth if a.dtype.kind == "u" else values).astype(a.dtype)
    )
    d.constant(np.asarray(depth))
    d.new((2,))
    d.set("axis", d.between(-len(shape) - 1, len(shape)))


def tensor_scatter(d: Draft) -> None:
    """A cache [b, h, n, c] that is written to at a position of each batch."""
    b, h, n, c = d.between(1, 3), d.between(1, 3), d.between(2, 9), d.between(1, 5)
    d.new((b, h, n, c))
    count = d.between(1, n)
    d.new((b, h, count, c))
    rng = np.random.default_rng(d.random.getrandbits(32))
    circular = d.attributes.get("mode") == "circular"
    at = rng.integers(0, n if circular else n - count + 1, b)
    d.new((b,), lambda a: at.astype(a.dtype))


SUMS = ("none", "add", "mul", "max", "min")

ROWS = (
    Row("Gather", gather, exact=True),
    Row("GatherElements", gather_elements, exact=True),
    Row("GatherND", gather_nd, exact=True),
    Row("ScatterElements", scatter_elements, {"reduction": SUMS}),
    Row("ScatterND", scatter_nd, {"reduction": SUMS}),
    Row("OneHot", one_hot),
    Row("TensorScatter", tensor_scatter, {"mode": ("linear", "circular")}, exact=True),
)
