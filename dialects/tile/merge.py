"""Merging of indices of a statement if they traverse each of its tensors with a single stride.

    %y = tile.contract = [n: 1, c: 64, y: 56, x: 56] (%x[n, c, y, x]) -> [n, c, y, x] ...
    ->
    %y = tile.contract = [c_y_x(c: 64, y: 56, x: 56)] (%x[0, c, y, x]) -> [0, c, y, x] ...

In the memory of all tensors, one step of ``c`` is a full run of ``y``, and one step of ``y`` is a
full run of ``x``. Accesses still name the digits of the merged index.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise, permutations

from xdsl.dialects.builtin import ArrayAttr

from tessella.dialects.place import PlaceAttr
from tessella.dialects.tile.access import Linear
from tessella.dialects.tile.attributes import AccessAttr, Index, IndicesAttr
from tessella.dialects.tile.flat import Flat, flatten
from tessella.dialects.tile.ops import ContractOp


def merge_indices(op: ContractOp) -> None:
    """Merge indices of a statement, in place.

    Indices with one value are dropped if nothing reads them and no shared loop runs over them.
    """
    flat = merged(flatten(op))
    ranges, pinned = op.ranges, {*flat.pinned, *(at.name for at in op.at_list)}
    units = {name for name, extent in ranges.items() if extent == 1 and name not in pinned}
    groups = {index.parts[-1].name: index for index in flat.indices}
    inside = {part.name for index in flat.indices for part in index.parts}
    found: list[Index] = []
    for index in op.loop_list:
        last = index.parts[-1].name
        if last in groups:
            found.append(_whole(groups[last], op.index_list))
        elif last not in inside and last not in units:
            found.append(index)
    op.indices = IndicesAttr(tuple(found))
    fixed = dict.fromkeys(units, Linear())
    op.accesses = ArrayAttr(
        AccessAttr(tuple(form.substitute(fixed) for form in forms)) for forms in op.access_list
    )


def _whole(index: Index, known: Sequence[Index]) -> Index:
    """Return an index with its whole range instead of its range in an iteration of shared loops.
    ``known`` are the indices with their whole ranges."""
    parts = [next(i for i in known if i.name == part.name) for part in index.parts]
    return Index.merged(index.name, parts) if index.digits else parts[0]


def with_places(op: ContractOp, places: Mapping[int, PlaceAttr]) -> Flat:
    """Return the flattened and merged statement as if operands, by number, were packed into the
    element types and layouts of ``places``.

    More indices may be mergeable in the packed layouts.
    """
    flat = flatten(op, places)
    return merged(flat) if places else flat


def merged(flat: Flat) -> Flat:
    """Return a flattened statement in which pairs of indices are merged until no pair can be
    merged."""
    while (pair := _mergeable(flat)) is not None:
        outer, inner = pair
        new = Index.merged(f"{outer.name}_{inner.name}", pair)
        indices = tuple(new if i is inner else i for i in flat.indices if i is not outer)
        accesses = tuple(a.along(indices) for a in flat.accesses)
        flat = replace(flat, indices=indices, accesses=accesses)
    return flat


def _mergeable(flat: Flat) -> tuple[Index, Index] | None:
    """Return a pair of indices (outer, inner) that can be merged: one step of outer equals a full
    run of inner in all accesses. None if there is none."""
    kept = flat.pinned.union(*(a.lanes for a in flat.accesses))
    loops = [index for index in flat.indices if index.name not in kept]
    # reduced indices of an indexed write merge only if they are adjacent, so that the order of the
    # points stays
    in_turn = {*pairwise(i.name for i in flat.indices if i.reduced)} if flat.scattered else None
    for outer, inner in permutations(loops, 2):
        if outer.kind != inner.kind or not all(a.is_one((outer, inner)) for a in flat.accesses):
            continue
        if in_turn is None or not outer.reduced or (outer.name, inner.name) in in_turn:
            return outer, inner
    return None
