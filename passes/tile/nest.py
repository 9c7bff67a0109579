"""The loops that the statements of a kernel share: which indices they loop over, and how many index
values one iteration runs (its step).

Indices of two statements are the same loop if one statement writes a tensor that the other reads at
the same dimension. The loops that all statements have run outside. The results of an iteration are
then still in cache when they are read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from math import prod

from xdsl.ir import BlockArgument, SSAValue

from tessella.dialects.elements import bytes_of
from tessella.dialects.nn.core import tensor_type
from tessella.dialects.tile import (
    AtAttr,
    ContractOp,
    KernelOp,
    Linear,
    Nest,
    NestAttr,
    SharedLoop,
    Window,
)
from tessella.dialects.tile.check_nest import is_valid
from tessella.dialects.tile.flat import layout_of
from tessella.dialects.tile.nest import can_share, counted, depth, lives_within, shared_loops
from tessella.passes.tile.estimates import bytes_in, count_of, points, shape_in
from tessella.passes.tile.model import body_ops
from tessella.passes.tile.storage import store_results
from tessella.passes.tile.sums import (
    block_of,
    in_blocks,
    long_sum,
    pays,
    saved,
    streams,
)
from tessella.support.sizes import USUAL, Size, bounds_of, estimated
from tessella.targets import Target

LEAST_ROWS = 8
"""The least number of rows that an iteration with matrix products runs: with fewer, each panel
vector is loaded for too few sums."""
LEAST_SUMMED = 16
"""The least number of summands of a statement that counts as a matrix product."""
FAR_ROWS = 16
"""The least number of rows that an iteration with matrix products runs, if the products' other
operand does not fit into the second-level cache."""
SHARES = {"L1": 0.3, "L2": 0.5}
"""The fraction of a cache that the data of one iteration may fill, beside data that is read
ahead."""

WRITTEN = 3
"""The number of times that data which is written to memory and read again crosses the memory
bus."""

AHEAD = 2
"""The number of iterations between a prefetch and its use, if the data of an iteration fits into
the nearest cache."""
COLUMNS, FAR_COLUMNS = 2, 8
"""The least number of cache lines of each row in a step over columns; ``FAR_COLUMNS`` is for rows
that are at least a page apart.

Each of these rows takes a TLB entry for its page.
"""


_Accessed = tuple[ContractOp, Sequence[Linear]]
"""A statement, and one of its accesses."""


@dataclass(frozen=True)
class _Class:
    """A loop that several statements share, with the name of its index in each statement."""

    extent: Size
    names: Mapping[ContractOp, str]
    windows: Mapping[ContractOp, Window] = field(default_factory=dict["ContractOp", "Window"])
    """The windows of index values that statements run in an iteration of one value of the loop,
    because their readers access neighbours."""

    def values(self, op: ContractOp, step: int) -> int:
        """Return the number of index values that a statement runs in an iteration of ``step``
        values of the loop: more than ``step`` if readers access neighbours of its results."""
        window = self.windows.get(op)
        if window is None:
            return step
        return min(estimated(op.ranges[self.names[op]]), window.size + window.scale * (step - 1))


def share_loops(kernel: KernelOp, target: Target) -> None:
    """Make the statements of a kernel share loops.

    They share all common loops if the tensors that they pass on do not fit into the nearest cache,
    and all tensors together do not fit into the cache that an iteration should fit into. Otherwise
    they share a loop that some of them sum over, if that saves much. A long sum becomes a sum of
    blocks, whose loop the statements can share. An iteration prefetches the inputs of a later one
    if they come from memory.

    The statements of a kernel with a selection share no loops. An indexed write touches all of its
    result, so no iteration could be limited to a part of it.
    """
    if kernel.selections or any(op.is_scatter for op in kernel.statements):
        return
    if kernel.nest is None:
        _share_all(kernel, target)
    if kernel.nest is None and (found := long_sum(kernel, target)) is not None:
        stream, block = found
        in_blocks(kernel, stream, block)
        kernel.nest = NestAttr(Nest((SharedLoop(stream.extent, block),)))
    if kernel.nest is not None and all(op.storage is None for op in kernel.statements):
        store_results(kernel)


def _share_all(kernel: KernelOp, target: Target) -> None:
    ops = kernel.statements
    if len(ops) < 2:
        return
    if _handed_on(ops) <= target.l1:
        _share_sums(kernel, target)
        return
    plain = list(_classes(ops))
    # Statements that read neighbours share only one loop: each further one recomputes more.
    classes = plain or list(islice(_classes(ops, around=True), 1))
    _, room = _room(ops, target, far=not plain)
    inner = [(each, 1) for each in _inside(ops, plain, room, target)]
    loops: list[tuple[_Class, int]] = []
    for each in classes:
        if _touched(ops, [*loops, *inner]) <= room and not _outgrows(each):
            break
        grain = _grain(each, ops, target)
        loops.append((each, _step(ops, [*loops, *inner], each, room, grain)))
    loops += inner
    if all(step == each.extent for each, step in loops):
        _share_sums(kernel, target)
    elif not any(_too_few(loops, op, target) for op in ops):
        shared = [SharedLoop(each.extent, step) for each, step in loops]
        nest = _nest(shared, ops, loops, room, target)
        made = _sharing(kernel, nest, [each for each, _ in loops])
        if plain or _is_worth_computing_again(made, target):
            kernel.nest = made.nest
            for op, other in zip(ops, made.statements, strict=True):
                op.at = other.at


def _sharing(kernel: KernelOp, nest: Nest, loops: Sequence[_Class]) -> KernelOp:
    """Return a copy of a kernel whose statements share the loops of a nest. A statement whose
    readers access neighbours of its results runs a window of index values in each iteration."""
    made = kernel.clone()
    made.nest = NestAttr(nest)
    for op, other in zip(kernel.statements, made.statements, strict=True):
        other.at = AtAttr.of(*(each.names[op] for each in loops if op in each.names))
    store_results(made)
    return made


def _outgrows(loop: _Class) -> bool:
    """Return whether the range of a loop is symbolic, may be longer than usual, and has at least
    ``FAR_ROWS`` values.

    Data that fits into a cache at usual sizes may then not fit.
    """
    return _may_be_long(loop.extent) and bounds_of(loop.extent)[0] >= FAR_ROWS


def _may_be_long(size: Size) -> bool:
    """Return whether a range is symbolic and may be longer than usual."""
    least, most = bounds_of(size)
    return least != most > USUAL


def _inside(
    ops: Sequence[ContractOp], classes: Sequence[_Class], room: float, target: Target
) -> Iterator[_Class]:
    """Yield at most one further loop, which is shared only by two products and the statements
    between them.

    The loop is used if the data of the shortest iteration of the common loops does not fit into
    ``room`` bytes of cache, as in attention by blocks of keys.
    """
    products = [i for i, op in enumerate(ops) if _is_product(op)]
    runs = [(i, j + 1) for i, j in combinations(products, 2) if j + 1 - i < len(ops)]
    outer = [(each, _grain(each, ops, target)) for each in classes] if runs else []
    if not outer or _touched(ops, outer) <= room:
        return
    for first, stop in sorted(runs, key=lambda run: run[0] - run[1]):
        known = {each.names[ops[stop - 1]] for each, _ in outer}
        for each in _classes(ops[first:stop]):
            if each.names[ops[stop - 1]] not in known:
                yield each
                return


def _is_product(op: ContractOp) -> bool:
    """Return whether a statement multiplies matrices larger than those of transforms."""
    summed = points(index for index in op.index_list if index.reduced)
    return op.sums_products and summed >= LEAST_SUMMED


def _share_sums(kernel: KernelOp, target: Target) -> None:
    """Make statements share a loop that some of them sum over, if that saves memory traffic.
    Iterations are so short that their data fits into the first-level cache."""
    stream = max(streams(kernel), key=lambda each: saved(each, target), default=None)
    if stream is None or not saved(stream, target):
        return
    ops, room = stream.inside, SHARES["L1"] * target.l1
    loop = _Class(stream.extent, stream.names)
    one = _touched(ops, [(loop, 1)]) - _touched(ops, [(loop, 0)])
    block = block_of(stream, int(room / one), _grain(loop, ops, target))
    if block is None or not pays(stream, block, target):
        return
    nest = _nest([SharedLoop(stream.extent, block)], ops, [(loop, block)], room, target)
    in_blocks(kernel, stream, block)
    kernel.nest = NestAttr(nest)


def _nest(
    shared: Sequence[SharedLoop],
    ops: Sequence[ContractOp],
    loops: Sequence[tuple[_Class, int]],
    room: float,
    target: Target,
) -> Nest:
    """Return the nest of the shared loops, with prefetches if the kernel's arguments come from
    memory."""
    far = _read(ops) > target.l2
    near = _touched(ops, loops) - _shared(ops, loops) <= room <= target.l1
    return Nest(tuple(shared), target.cache_line, AHEAD if near else 1) if far else Nest((*shared,))


def _room(ops: Sequence[ContractOp], target: Target, *, far: bool = False) -> tuple[str, float]:
    """Return the name of the cache that the data of an iteration should fit into, and the number of
    its bytes that this data may fill.

    The cache is the second level if there are products, which read operands of all rows from there.
    It is also the second level with ``far``: the kernel then computes neighbouring results again in
    each iteration, so iterations should be few.
    """
    name = "L2" if far or any(op.sums_products for op in ops) else "L1"
    return name, SHARES[name] * {"L1": target.l1, "L2": target.l2}[name]


def reason(kernel: KernelOp, target: Target) -> str:
    """Return a text that explains why the statements of a kernel share loops, and why an iteration
    runs so many index values."""
    ops = [op for op in kernel.statements if depth(op)]
    parts = _parts(ops)
    shared = sum(size for size, moves in parts if not moves)
    own = sum(size for size, moves in parts if moves)
    extents = {loop.extent for op in ops for loop in list(shared_loops(op).values())[:1]}
    cache, room = _room(ops, target) if len(extents) == 1 else ("L1", SHARES["L1"] * target.l1)
    fits = cache if own <= room else f"no share of {cache}"
    beside = f", beside {_kib(shared)} that all steps of the last loop read" if shared else ""
    return (
        f"tensors of {_kib(_touched(ops, ()))}; {_kib(own)} of them in a step, for which {fits} "
        f"has room{beside}"
    )


def _parts(ops: Sequence[ContractOp]) -> list[tuple[int, bool]]:
    """Return, for each tensor of statements that share loops, how many bytes one iteration of these
    loops touches, and whether each iteration of the innermost one touches other bytes."""
    found: dict[SSAValue, tuple[int, bool]] = {}
    for op in ops:
        loops = shared_loops(op)
        *_, last = loops
        for value, access in zip(op.tensors, op.access_list, strict=True):
            size, moves = bytes_in(value), False
            for extent, form in zip(shape_in(value), access, strict=True):
                for name, loop in loops.items():
                    if (block := form.coefficient(name)) != 0:
                        size = size // extent * min(extent, block * loop.step)
                        moves |= name == last
            found[value] = max((size, moves), found.get(value, (0, False)))
    return list(found.values())


def _kib(size: int) -> str:
    return f"{size / 1024:.0f} KiB"


def _too_few(loops: Sequence[tuple[_Class, int]], op: ContractOp, target: Target) -> bool:
    """Return whether, in an iteration of the shared loops, a product uses each element of one of
    its operands for too few results."""
    steps = _steps(op, loops)
    for value, access in zip(op.inputs if op.sums_products else (), op.access_list, strict=False):
        moving = {name for form in access for name, _ in form.terms}
        alike = [i for i in op.index_list if not i.reduced and i.name not in moving]
        rows = prod(steps.get(index.name, estimated(index.range)) for index in alike)
        least = FAR_ROWS if bytes_in(value) > target.l2 else LEAST_ROWS
        if rows < min(least, points(alike)):
            return True
    return False


def _steps(op: ContractOp, loops: Sequence[tuple[_Class, int]]) -> dict[str, int]:
    """Return the number of values that an iteration of the shared loops runs for each index of a
    statement that is one of these loops."""
    return {each.names[op]: each.values(op, step) for each, step in loops if op in each.names}


def _read(ops: Sequence[ContractOp]) -> int:
    """Return an upper bound on the bytes of the kernel's arguments that statements read."""
    read = {value for op in ops for value in op.operands if isinstance(value, BlockArgument)}
    return sum(bounds_of(bytes_of(tensor_type(argument)))[1] for argument in read)


def _step(
    ops: Sequence[ContractOp],
    outer: Sequence[tuple[_Class, int]],
    loop: _Class,
    room: float,
    grain: int,
) -> int:
    """Return the number of values of a loop's index that one iteration runs: the largest multiple
    of ``grain`` for which the iteration's data fits into ``room`` bytes, and at least ``grain``.

    The range is divided evenly, and the number never exceeds the least size of a symbolic range.
    """
    fixed, moved = _touched(ops, [*outer, (loop, 0)]), _touched(ops, [*outer, (loop, 1)])
    around = fixed if loop.windows else 0
    fitting = int((room - around) / (moved - fixed)) // grain * grain
    extent, least = estimated(loop.extent), max(1, bounds_of(loop.extent)[0])
    most = grain if _has_long_rows(ops, [*outer, (loop, 1)]) else min(extent, max(grain, fitting))
    even = -(-extent // -(-extent // most))
    return min(most, -(-even // grain) * grain, least)


def _has_long_rows(ops: Sequence[ContractOp], loops: Sequence[tuple[_Class, int]]) -> bool:
    """Return whether there are no products, and an index inside the shared loops may have more
    values than usual.

    An iteration of several rows that was sized for usual rows would then exceed the cache. Products
    run several rows in an iteration anyway, as rows share loads.
    """
    ranges = (i.range for op in ops for i in op.index_list if i.name not in _steps(op, loops))
    return not any(op.sums_products for op in ops) and any(map(_may_be_long, ranges))


def _grain(loop: _Class, ops: Sequence[ContractOp], target: Target) -> int:
    """Return the least number of index values that an iteration of a loop should run: enough for a
    few cache lines if the loop runs along the contiguous dimension of the largest tensors,
    otherwise 1."""
    tensors = [(op, v, a) for op in ops for v, a in zip(op.tensors, op.access_list, strict=True)]
    largest = max(count_of(value) for _, value, _ in tensors)
    grain = 1
    for op, value, access in tensors:
        if count_of(value) == largest and access:
            dim = layout_of(value).order(len(access))[-1].dim
            found = counted(access[dim], op.ranges)
            if found is not None and found[0] == loop.names[op]:
                size = bytes_in(value)
                row = size * shape_in(value)[dim] // largest
                far = row >= target.page and len(access) > 1
                line = target.cache_line * largest // size
                grain = max(grain, (FAR_COLUMNS if far else COLUMNS) * line // found[1])
    return grain


def _handed_on(ops: Sequence[ContractOp]) -> int:
    """Return the bytes of the tensors that several statements access, which may stay in a cache
    between them."""
    count = Counter(value for op in ops for value in set(op.tensors))
    return sum(bytes_in(value) for value, n in count.items() if n > 1)


def _shared(ops: Sequence[ContractOp], loops: Sequence[tuple[_Class, int]]) -> int:
    """Return the bytes that every iteration of the innermost of the loops touches, such as those of
    tensors that do not depend on its index."""
    *outer, (last, _) = loops
    return _touched(ops, [*outer, (last, 0)])


def _touched(ops: Sequence[ContractOp], loops: Sequence[tuple[_Class, int]]) -> int:
    """Return the bytes of all tensors that one iteration of the shared loops touches. ``loops``
    gives the number of index values that an iteration of each loop runs."""
    sizes: dict[SSAValue, int] = {}
    for op in ops:
        steps = _steps(op, loops)
        for value, access in zip(op.tensors, op.access_list, strict=True):
            size = bytes_in(value)
            if moving := _moving(access, steps):
                ranges = {i.name: steps.get(i.name, estimated(i.range)) for i in op.index_list}
                shape = shape_in(value)
                for dim, form in moving:
                    low, high = form.bounds(ranges)
                    size = size // shape[dim] * min(shape[dim], estimated(high - low + 1))
            if size > sizes.get(value, -1):
                sizes[value] = size
    return sum(sizes.values())


def _moving(access: Sequence[Linear], names: Mapping[str, int]) -> list[tuple[int, Linear]]:
    """Return the dimensions of an access whose affine expressions depend on at least one of the
    indices ``names``, with these expressions."""
    return [
        (dim, form)
        for dim, form in enumerate(access)
        if not names.keys().isdisjoint([name for name, _ in form.terms])
    ]


def bytes_saved(kernel: KernelOp, target: Target) -> int:
    """Return the bytes of large tensors that shared loops keep in cache.

    Without sharing, statements would read or write them in memory.
    """
    counts: dict[SSAValue, int] = {}
    for op in kernel.statements:
        for value, access in zip(op.tensors, op.access_list, strict=True):
            if any(form.coefficient(name) for form in access for name in shared_loops(op)):
                counts[value] = counts.get(value, 0 if lives_within(value) else -1) + 1
    sizes = ((bytes_in(value), count) for value, count in counts.items())
    return sum(size * count for size, count in sizes if size > target.l2)


def _is_worth_computing_again(kernel: KernelOp, target: Target) -> bool:
    """Return whether it takes fewer cycles to compute neighbouring results again in each iteration
    of the shared loops than to write the results to memory and read them."""
    again = saved = 0.0
    for op in kernel.statements:
        loops = shared_loops(op)
        share = prod(estimated(x.trips) * x.step / estimated(x.extent) for x in loops.values())
        work = 1.0 if op.sums_products else 1.0 + body_ops(op)
        again += (
            max(0.0, share - 1.0)
            * points(op.index_list)
            * work
            / (target.lanes(32) * target.fma_ports)
        )
        if lives_within(op.res):
            size = bytes_in(op.res)
            saved += WRITTEN * size / target.bandwidth(size)
    return again < saved


def _classes(ops: Sequence[ContractOp], *, around: bool = False) -> Iterator[_Class]:
    """Yield the loops that all statements can share, in the order of the dimensions of the last
    statement's result.

    With ``around``, loops are included in which a statement reads results that another one writes
    at neighbouring values of the loop's index.
    """
    last = ops[-1]
    ranges = last.ranges
    for form in last.out_access:
        if (found := counted(form, ranges)) is None or ranges[found[0]] == 1:
            continue
        names = {last: found[0]}
        extent = ranges[found[0]]
        if _follow(ops, names) and all(can_share(op, names[op]) for op in ops):
            windows: Mapping[ContractOp, Window] | None = None
            if not any(op.ranges[names[op]] != extent or _looks_around(op, names) for op in ops):
                windows = {}
            elif around:
                windows = _windows(ops, names, extent)
            if windows is not None:
                yield _Class(extent, {op: names[op] for op in ops}, windows)


def _windows(
    ops: Sequence[ContractOp], names: Mapping[ContractOp, str], extent: Size
) -> Mapping[ContractOp, Window] | None:
    """Return, for each statement that needs it, the window of index values that it runs in an
    iteration of one value of a shared loop, because readers access neighbours of its results.

    Returns None if an iteration of the loop cannot compute all results that it reads.
    """
    kernel = ops[0].parent_op()
    if not isinstance(kernel, KernelOp) or len(ops) != len(kernel.statements):
        return None
    made = _sharing(kernel, Nest((SharedLoop(extent, 1),)), [_Class(extent, names)])
    if not is_valid(made, made.nest):
        return None
    ats = [(op, at) for op, other in zip(ops, made.statements, strict=True) for at in other.at_list]
    return {op: at.window for op, at in ats if at.window is not None}


def _looks_around(op: ContractOp, names: Mapping[ContractOp, str]) -> bool:
    """Return whether a statement reads results that other statements write at neighbouring values
    of the shared loop."""
    for value, access in zip((*op.inputs, *op.post_inputs), op.access_list, strict=False):
        writer = value.owner
        if isinstance(writer, ContractOp):
            accessed = (op, access), (writer, writer.out_access)
            if _same(names[op], *accessed) != names[writer]:
                return True
    return False


def _follow(ops: Sequence[ContractOp], names: dict[ContractOp, str]) -> bool:
    """Add the index of the shared loop in every statement to ``names``, from the last statement
    backwards. Returns whether all have one.

    The index of a statement follows from the readers of its result, or from statements that access
    the same tensor.
    """
    for op in reversed(ops):
        if op not in names and (name := _alike(op, names)) is not None:
            names[op] = name
        if op not in names:
            return False
        for value, access in zip((*op.inputs, *op.post_inputs), op.access_list, strict=False):
            writer = value.owner
            if not isinstance(writer, ContractOp):
                continue
            accessed = (op, access), (writer, writer.out_access)
            same = _same(names[op], *accessed) or _looked_at(names[op], *accessed)
            if same is None or names.setdefault(writer, same) != same:
                return False
    return True


def _alike(op: ContractOp, names: Mapping[ContractOp, str]) -> str | None:
    """Return the index of a statement that runs over the same dimension of a tensor as the index of
    another statement in ``names``; None if there is none."""
    for other, name in names.items():
        for value, access in zip(other.tensors, other.access_list, strict=True):
            for own, forms in zip(op.tensors, op.access_list, strict=True):
                if own is value and other is not op:
                    same = _same(name, (other, access), (op, forms))
                    if same is not None:
                        return same
    return None


def _same(name: str, of: _Accessed, other: _Accessed) -> str | None:
    """Return the index of the access ``other`` that moves along the same dimension, in equal
    blocks, as the index ``name`` of the access ``of``.

    Returns None if there is no such index, or if ``name`` occurs in more than one dimension.
    """
    triples = zip(of[1], _counted(*of), _counted(*other), strict=True)
    found = [(mine, theirs) for form, mine, theirs in triples if form.coefficient(name)]
    if len(found) != 1:
        return None
    ((mine, theirs),) = found
    if mine is None or theirs is None or mine != (name, theirs[1]):
        return None
    return theirs[0]


def _looked_at(name: str, of: _Accessed, other: _Accessed) -> str | None:
    """Return the index that alone determines the position of the access ``other`` in the dimension
    in which the index ``name`` moves the access ``of``, perhaps beside other indices, as in a
    window.

    Returns None if there is no such index, or if ``name`` occurs in more than one dimension.
    """
    pairs = zip(of[1], other[1], strict=True)
    found = [theirs.single for mine, theirs in pairs if mine.coefficient(name)]
    return found[0] if len(found) == 1 else None


def _counted(op: ContractOp, access: Sequence[Linear]) -> list[tuple[str, int] | None]:
    ranges = op.ranges
    return [counted(form, ranges) for form in access]
