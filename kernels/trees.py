"""Kernels of decision trees: a chain of gathers, the same for all rows."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from xdsl.dialects import arith
from xdsl.dialects.builtin import IndexType, i32
from xdsl.ir import SSAValue

from tessella.dialects import nn
from tessella.dialects.arith import CmpfOp
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import shape_of, tensor, tensor_type
from tessella.kernels.builder import Form, KernelBuilder, Scalars
from tessella.kernels.elements import FLOATS, INDICES, T, Table, rows
from tessella.kernels.registry import native
from tessella.support.decisions import known
from tessella.support.sizes import Size

DESCENDED: Table = tuple(row for links in INDICES for row in rows(FLOATS, reads=(T, T, links, T)))

MOST = 1 << 30
"""The limit on the numbers of nodes and features, which have 32 bits."""
MOST_LEVELS = 64
"""The maximum number of tree levels that the body of one statement descends. Deeper trees take
several statements."""


def _fits(op: nn.TreeEnsembleOp) -> str | None:
    """Return the reason why the kernel cannot find the nodes; None if it can."""
    sizes = (shape_of(op.x)[1], shape_of(op.thresholds)[0])
    fit = all(isinstance(n, int) and n < MOST for n in sizes)
    return None if fit else "the number of features or nodes is symbolic, or has more than 30 bits"


AGGREGATIONS = {"sum": "+", "min": "<", "max": ">"}
"""The aggregation for each value of the property ``aggregate``."""


@native(nn.TreeEnsembleOp, "trees", NCHW, elements=DESCENDED, applies=_fits)
def tree_ensemble(
    k: KernelBuilder,
    op: nn.TreeEnsembleOp,
    x: SSAValue,
    thresholds: SSAValue,
    links: SSAValue,
    values: SSAValue,
) -> SSAValue:
    """Emit the node that row n reaches in tree t, and the aggregate over t of the nodes' values."""
    type, nodes = k.result_type(op), known(shape_of(values)[0])
    (rows, targets), trees = shape_of(type), op.settings["trees"]
    found = _reached(k, op, x, thresholds, links)
    element = k.computed(type.element_type)

    def value(s: Scalars, a: Sequence[SSAValue]) -> SSAValue:
        return s.cast(s.extract(values, [_below(s, a[0], nodes), s.index("k")]), element)

    return k.contract(
        AGGREGATIONS[op.settings["aggregate"]],
        {"n": rows, "k": targets},
        {"t": trees},
        [(found, ["t", "n"])],
        (type, ["n", "k"]),
        value,
    )


def _reached(
    k: KernelBuilder, op: nn.TreeEnsembleOp, x: SSAValue, thresholds: SSAValue, links: SSAValue
) -> SSAValue:
    """Emit the number of the node that each row reaches in each tree: [trees, rows]."""
    settings, element = op.settings, k.computed(tensor_type(x).element_type)
    rows, nodes = shape_of(x)[0], known(shape_of(thresholds)[0])
    width = known(shape_of(x)[1])
    free: dict[str, Size] = {"t": settings["trees"], "n": rows}

    def step(s: Scalars, node: SSAValue) -> SSAValue:
        at = _below(s, node, nodes)
        link = s.extract(links, [at])
        feature = s.op(arith.AndIOp(link, s.like((1 << settings["bits"]) - 1, link)))
        value = s.extract(x, [s.index("n"), _below(s, s.cast(feature, i32), width)])
        limit = s.cast(s.extract(thresholds, [at]), element)
        is_low = s.op(CmpfOp(s.cast(value, element), limit, "ole"))
        first = s.cast(s.op(arith.ShRUIOp(link, s.like(settings["bits"], link))), i32)
        return s.op(arith.AddiOp(first, s.cast(is_low, i32)))

    def steps(s: Scalars, a: Sequence[SSAValue], levels: int) -> SSAValue:
        node = a[0] if a else s.op(arith.IndexCastOp(s.index("t"), i32))
        for _ in range(levels):
            node = step(s, node)
        return node

    found: list[tuple[SSAValue, Sequence[Form]]] = []
    for start in range(0, max(1, settings["levels"]), MOST_LEVELS):
        body = partial(steps, levels=min(MOST_LEVELS, settings["levels"] - start))
        out = tensor(i32, [*free.values()]), [*free]
        found = [(k.contract("=", free, {}, found, out, body), [*free])]
    return found[0][0]


def _below(s: Scalars, number: SSAValue, count: int) -> SSAValue:
    """Return a number as an index below ``count``; a number out of range becomes ``count - 1``."""
    least = s.op(arith.MinUIOp(number, s.like(count - 1, number)))
    return s.op(arith.IndexCastOp(least, IndexType()))
