"""3x3 convolutions with fewer products: Winograd's minimal filtering.

A tile of m x m results takes (m + 2)² products for each pair of channels instead of 9 m²: a fourth
with m = 4. Lavin and Gray, "Fast algorithms for convolutional neural networks", 2015.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from math import prod

import numpy as np
from xdsl.ir import SSAValue

from tessella.dialects.layout import NCHW, NHWC
from tessella.dialects.nn import linear
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import Array, shape_of
from tessella.dialects.nn.fused import outside
from tessella.dialects.tile import Linear
from tessella.kernels.builder import Form, KernelBuilder
from tessella.kernels.cost import KernelWork
from tessella.kernels.elements import rows
from tessella.kernels.linear import add_bias, multiply
from tessella.kernels.reduction import inner_type
from tessella.kernels.registry import native
from tessella.support.conditions import decided
from tessella.support.decisions import decided_max, decided_min
from tessella.support.sizes import Size, ceil_div, estimated

TAPS = 3
"""The extent of the filters."""
POINTS = {2: (0.0, 1.0, -1.0), 4: (0.0, 0.75, -0.75, 1.5, -1.5)}
"""The finite interpolation points, by the tile's extent m.

The points for m = 4 have a smaller error than the usual 0, +-1 and +-2.
"""

PARTS = {2: 64, 4: 32}
"""The number of products in a partial sum, by the tile's extent m.

The final transform multiplies rounding errors; short partial sums keep the error near that of a
direct sum.
"""
LEAST_CHANNELS = 16
"""The minimum number of channels. With fewer channels, the transforms do not fill vectors, and cost
more than the products save."""

MOST_ELEMENTS = 1 << 26
"""Limit on the elements of all tiles: 256 MiB of f32. Usual sizes stand for symbols."""


@dataclass(frozen=True)
class Transforms:
    """The matrices of y = A [(G g) * (B d)], the correlation of n = m + r - 1 elements d with r
    taps g: A is m x n, B is n x n, G is n x r, in float64."""

    a: Array
    b: Array
    g: Array


@cache
def transforms(points: Sequence[float], taps: int) -> Transforms:
    """Return the matrices of the algorithm of Toom and Cook with these finite points, and infinity.

    The matrices are those of Barabasz, Anderson, Soodhalter and Gregg, "Error analysis and
    improving the accuracy of Winograd convolution for deep neural networks", 2018, algorithm 1: a
    polynomial is evaluated at all points, and interpolated by Lagrange's polynomials.
    """
    n = len(points) + 1
    others = [[q for q in points if q != p] for p in points]
    infinity = [0.0] * (n - 1) + [1.0]
    scales = [np.prod([p - q for q in rest]) for p, rest in zip(points, others, strict=True)]
    lagrange = [np.append(np.poly(rest)[::-1], 0.0) for rest in others]

    def powers(count: int) -> Array:
        return np.vstack([np.vander(points, count, increasing=True), infinity[-count:]])

    g = powers(taps)
    g[:-1] /= np.array(scales)[:, None]
    return Transforms(
        a=powers(n - taps + 1).T,
        b=np.vstack([*lagrange, np.poly(points)[::-1]]),
        g=g,
    )


def _misfit(m: int, op: linear.ConvOp) -> str | None:
    """Return the reason why an op cannot be computed in tiles of m x m results; None if it can."""
    settings, (out, channels, *kernel) = op.settings, shape_of(op.w)
    plain = {*settings["strides"], *settings["dilations"], settings["groups"]} == {1}
    if kernel != [TAPS, TAPS] or not plain:
        return "it is no convolution of 3x3 with stride 1 and one group"
    if decided(decided_min(out, channels) < LEAST_CHANNELS):
        return f"its channels are fewer than {LEAST_CHANNELS}"
    if not isinstance(outside(op.w).owner, ConstantOp):
        return "its weights are not known"
    extents = shape_of(op.res)[2:]
    products = prod(ceil_div(extent, m) for extent in extents) * (m + TAPS - 1) ** 2
    if decided(products >= prod(extents) * TAPS**2):
        return f"tiles of {m}x{m} take no fewer products"
    # For the last sizes of a range, tiles take at most four times the memory of the tensors.
    if estimated(shape_of(op.res)[0] * products * decided_max(out, channels)) > MOST_ELEMENTS:
        return "its tiles take too much memory"
    return None


def _work(m: int, op: linear.ConvOp) -> KernelWork:
    """Return a lower bound on the work: the products of all tiles, and the bytes of the transformed
    weights."""
    batch, out, *extents = shape_of(op.res)
    tiles = batch * prod(ceil_div(extent, m) for extent in extents)
    pairs = (m + TAPS - 1) ** 2 * out * shape_of(op.x)[1]
    return KernelWork(estimated(tiles * pairs), 32, estimated(4 * pairs))


def _register(m: int) -> Callable[..., SSAValue | Sequence[SSAValue]]:
    @native(
        linear.ConvOp,
        f"winograd{m}",
        NHWC,
        elements=rows(("f32",)),
        operands={1: NCHW},
        applies=partial(_misfit, m),
        method="winograd",
        work=partial(_work, m),
    )
    def winograd(
        k: KernelBuilder,
        op: linear.ConvOp,
        x: SSAValue,
        w: SSAValue,
        b: SSAValue | None = None,
    ) -> SSAValue:
        total = _Tiles(k, op, m).correlated(x, w)
        return total if b is None else add_bias(k, total, b, 1)

    return winograd


@dataclass(frozen=True)
class _Tiles:
    """A convolution in tiles of m x m results, each from n x n elements."""

    k: KernelBuilder
    op: linear.ConvOp
    m: int

    @property
    def n(self) -> int:
        return self.m + TAPS - 1

    def correlated(self, x: SSAValue, w: SSAValue) -> SSAValue:
        """Emit V = Bᵀ d B of each tile, M[i, j] = V[i, j] U[i, j], and Aᵀ M A. Each transform is
        applied to one dimension after the other."""
        k, op, m, n = self.k, self.op, self.m, self.n
        matrices = transforms(POINTS[m], TAPS)
        a = k.constant(matrices.a.astype(np.float32), "winograd")
        b = k.constant(matrices.b.astype(np.float32), "winograd")
        batch, channels, _, width = shape_of(op.x)
        _, out, *extents = shape_of(op.res)
        top, left = op.settings["pads"][:2]
        ty, tx = (ceil_div(extent, m) for extent in extents)
        u = k.derived(w, [n, n, channels, out], self._weights)
        assert u is not None, "winograd needs constant weights"
        tiles = {"n": batch, "ty": ty, "tx": tx}
        rows = Linear.of("ty", m) + Linear.of("i") - top
        columns = Linear.of("tx", m) + Linear.of("j") - left
        p = self._sum(
            {"p": n, "n": batch, "ty": ty, "x": width, "c": channels},
            {"i": n},
            (b, ["p", "i"]),
            (x, ["n", "c", rows, "x"]),
        )
        v = self._sum(
            {"p": n, "q": n, **tiles, "c": channels},
            {"j": n},
            (b, ["q", "j"]),
            (p, ["p", "n", "ty", columns, "c"]),
        )
        products = self._sum(
            {"p": n, "q": n, **tiles, "o": out},
            {"c": channels},
            (v, ["p", "q", *tiles, "c"]),
            (u, ["p", "q", "c", "o"]),
            parts=PARTS[m],
        )
        z = self._sum(
            {"u": m, "q": n, **tiles, "o": out},
            {"p": n},
            (a, ["u", "p"]),
            (products, ["p", "q", *tiles, "o"]),
        )
        return self._results(a, z, tiles, out)

    def _results(self, a: SSAValue, z: SSAValue, tiles: dict[str, Size], out: Size) -> SSAValue:
        """Emit the last transform, along the second dimension. Results beyond the last row and
        column are not written."""
        k, m = self.k, self.m
        y, x = Linear.of("ty", m) + Linear.of("u"), Linear.of("tx", m) + Linear.of("v")
        return k.contract(
            "+",
            {**tiles, "u": m, "v": m, "o": out},
            {"q": self.n},
            [(a, ["v", "q"]), (z, ["u", "q", *tiles, "o"])],
            (k.result_type(self.op), ["n", "o", y, x]),
            multiply,
        )

    def _sum(
        self,
        free: Mapping[str, Size],
        reduced: Mapping[str, Size],
        *inputs: tuple[SSAValue, Sequence[Form]],
        parts: int | None = None,
    ) -> SSAValue:
        """Return a sum of products as a tensor with the free indices as dimensions."""
        type = inner_type(self.op.x, [*free.values()])
        return self.k.contract(
            "+", free, reduced, inputs, (type, list(free)), multiply, parts=parts
        )

    def _weights(self, w: Array) -> Array:
        """Return the transformed weights U[i, j, c, o] of w[o, c, 3, 3], rounded once."""
        g, n = transforms(POINTS[self.m], TAPS).g, self.n
        out, channels = w.shape[:2]
        both, u = np.kron(g, g), np.empty((n * n, channels, out), np.float32)
        for c in range(channels):
            u[:, c] = both @ w[:, c].reshape(out, TAPS * TAPS).T.astype(np.float64)
        return u.reshape(n, n, channels, out)


winograd2, winograd4 = _register(2), _register(4)
