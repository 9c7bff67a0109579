"""NumPy semantics of decision trees."""

from __future__ import annotations

import numpy as np

from tessella.runtime.host.registry import Array, kernel

_AGGREGATES = {"sum": np.add, "min": np.minimum, "max": np.maximum}


@kernel("tree_ensemble")
def tree_ensemble(
    x: Array,
    thresholds: Array,
    links: Array,
    values: Array,
    *,
    trees: int,
    levels: int,
    bits: int,
    aggregate: str,
) -> Array:
    """Return the aggregate over trees of the values of the nodes that each row reaches."""
    rows, last = np.arange(len(x)), len(values) - 1
    whole = links.view(f"u{links.dtype.itemsize}")
    first = np.minimum(whole >> bits, last).astype(np.int64)
    features = np.minimum(whole & ((1 << bits) - 1), x.shape[1] - 1).astype(np.int64)
    total: Array | None = None
    for tree in range(trees):
        at = np.full(len(x), min(tree, last))
        for _ in range(levels):
            at = np.minimum(first[at] + (x[rows, features[at]] <= thresholds[at]), last)
        total = values[at] if total is None else _AGGREGATES[aggregate](total, values[at])
    assert total is not None
    return total
