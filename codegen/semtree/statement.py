"""The tree of a statement over work-groups, as PlaidML writes it.

the group's tile of the output, and the work-item's place in it
for each step of the reduction: load tiles of inputs, barrier, accumulate, barrier
add up the sums of work-items that share outputs
post body, and stores
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import count

from xdsl.ir import Block, Operation, SSAValue

from tessella.codegen.semtree import tree
from tessella.codegen.semtree.plan import Plan, Tiled
from tessella.codegen.semtree.scalars import BodyReads, body_of, constant_of, scalar_type
from tessella.codegen.semtree.size_arguments import SizeArguments
from tessella.codegen.semtree.tree import (
    Apply,
    Assign,
    Barrier,
    Branch,
    Declare,
    Expression,
    Load,
    Loop,
    Memory,
    Name,
    Number,
    Reserve,
    Section,
    Statement,
    Store,
    add,
    clamped,
    compare,
    constant,
    difference,
    divided,
    every,
    guarded,
    least,
    number,
    quotient,
    remainder,
    times,
    unguarded,
)
from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp, ExtractOp
from tessella.dialects.tile.aggregations import Aggregation, aggregation_of
from tessella.dialects.tile.bodies import yielded
from tessella.dialects.tile.flat import Constraint, FlatAccess, strides_of
from tessella.passes.plaidml.read_plan import MergedIndex, ReadPlan
from tessella.support.decisions import known

GROUP, ITEM = Name("group"), Name("item")
"""The number of the work-group among those of the statement, and of the work-item in it."""
_LANE, _REST, _POINT, _LEFT = Name("lane"), Name("rest"), Name("point"), Name("left")
_NEAR, _FAR = Name("near"), Name("far")
_WIDTH = {"i64": 64}
"""The bits of the types of aggregated values that do not have 32."""


class StatementTree:
    """Builds the tree of a statement: the code that one work-group runs."""

    def __init__(
        self,
        op: ContractOp,
        plan: Plan,
        tensors: Mapping[SSAValue, Memory],
        sizes: SizeArguments,
    ) -> None:
        self.op = op
        self.plan = plan.with_sizes(sizes)
        self.tensors = tensors
        self.sizes = sizes
        self._fresh = count()
        self._type = scalar_type(self._yielded.type)
        """The type of the values that are aggregated."""
        self._sums = Memory("acc", self._type, "private", plan.turns)
        self._any = Memory("any", "i32", "private", plan.turns)
        self._shared = Memory("sums", self._type, "local", plan.items)

    @property
    def local(self) -> Sequence[Memory]:
        """The local memory of the statement."""
        return [*self._tiles.values(), *([self._shared] if self.plan.lanes > 1 else [])]

    def statements(self) -> Iterator[Statement]:
        """Yield the statements of the tree."""
        yield from self._places()
        if not self.op.is_map:
            yield from self._accumulators()
            yield from self._steps()
            if self.plan.lanes > 1:
                yield Section("add up the sums of lanes", (*self._rollup(),))
        yield Section("store", self._outputs((*self._store(),), clamped=False))

    @cached_property
    def _tiles(self) -> Mapping[int, Memory]:
        """The local memory of the inputs that are loaded into it, by the number of the input."""
        return {
            n: Memory(f"l{n}", element_of(self.op.inputs[n].type).name, "local", read.size)
            for n, read in self.plan.reads.items()
        }

    @property
    def _yielded(self) -> SSAValue:
        return yielded(self.op.combine.block)

    def _name(self, type: str) -> Name:
        return Name(f"v{next(self._fresh)}", type)

    # ** places **

    def _places(self) -> Iterator[Statement]:
        """Yield declarations of the first and the last value of each free index in the work-group's
        tile, and of the first value that the work-item computes."""
        yield Declare(_REST, ITEM, changes=True)
        for each in self.plan.free:
            yield Declare(each.first, times(remainder(GROUP, each.tiles), each.tile))
            yield Declare(each.last, each.end_of_tile)
            yield from divided(GROUP, each.tiles)
            yield Declare(each.place, add(each.first, remainder(_REST, each.items)))
            yield from divided(_REST, each.items)
        yield Declare(_LANE, _REST)

    def _outputs(self, body: Sequence[Statement], *, clamped: bool) -> tree.Block:
        """Return the loops over the work-item's outputs. Work-items beyond the end of the tile have
        no outputs; if ``clamped``, they repeat the last one."""
        values = ((each, add(each.place, times(each.turn, each.items))) for each in self.plan.free)
        names = [Declare(x.value, least(at, x.last) if clamped else at) for x, at in values]
        block: tree.Block = (*names, *body)
        for each in reversed(self.plan.free):
            if each.turns > 1:
                block = (Loop(each.counter, Number(0), Number(each.turns), 1, block),)
        return block

    @property
    def _number(self) -> Expression:
        """The number of the current output among those of the work-item, in the loops of
        ``_outputs``."""
        found = number(0)
        for each in self.plan.free:
            found = add(times(found, each.turns), each.turn)
        return found

    # ** the reduction **

    def _accumulators(self) -> Iterator[Statement]:
        initial = {self._sums: constant(self._aggregation.identity(self._bits), self._type)}
        if self._counts:
            initial[self._any] = Number(0)
        for memory, value in initial.items():
            yield Reserve(memory)
            i = Name("i")
            yield Loop(i, Number(0), Number(memory.size), 1, (Store(memory[i], value),))

    @property
    def _bits(self) -> int:
        return _WIDTH.get(self._type, 32)

    @property
    def _aggregation(self) -> Aggregation:
        return aggregation_of(self.op.aggregation.data, self._yielded.type)

    @property
    def _counts(self) -> bool:
        """True if outputs that no valid point contributes to have a default value: the kernel then
        counts the points of each output."""
        return self.op.default is not None and not self.op.is_map

    def _steps(self) -> tree.Block:
        """Return the loops over the steps of the reduction."""
        loads = [self._load(number, read) for number, read in self.plan.reads.items()]
        barrier = (Barrier(),) if loads else ()
        block = (*self._ends(), *loads, *barrier, self._accumulate(), *barrier)
        for r in reversed(self.plan.reduced):
            if r.tiles != 1:
                block = (Loop(r.first, Number(0), number(r.range), r.tile, block),)
        return block

    def _ends(self) -> Iterator[Statement]:
        for r in self.plan.reduced:
            if r.tiles == 1:
                yield Declare(r.first, Number(0))
            yield Declare(r.last, r.end_of_tile)

    def _accumulate(self) -> Section:
        """Return the loop over the points of a reduction step. Steps in which all points are valid
        run it without guards."""
        points, interior = self._points(), every(map(self._always, self._constraints))
        if interior is not None:
            points = (Branch(interior, unguarded(points), points),)
        return Section("accumulate", points)

    @property
    def _constraints(self) -> Sequence[Constraint]:
        return self.plan.flat.constraints

    def _always(self, constraint: Constraint) -> Expression:
        """Return the condition under which all points of a tile satisfy a constraint."""
        bounds: list[Expression] = []
        for greatest in (False, True):
            terms = [
                times(c, each.last if (c > 0) == greatest else each.first)
                for name, c in constraint.form.terms
                if (each := self._tiled.get(name)) is not None
            ]
            bounds.append(add(*terms, constraint.form.constant))
        low, high = bounds
        inside = (compare("sge", low, 0), compare("slt", high, constraint.extent))
        return Apply(tree.BOTH, inside, "bool")

    @property
    def _tiled(self) -> Mapping[str, Tiled]:
        return {each.name: each for each in (*self.plan.free, *self.plan.reduced)}

    def _value(self, name: str) -> Expression:
        """Return the value of an index, which is 0 for an index with only one value."""
        return self._tiled[name].value if name in self._tiled else Number(0)

    def _points(self) -> tree.Block:
        added = guarded(map(self._holds, self._constraints), [*self._add()])
        block = self._outputs(added, clamped=True)
        if self.plan.lanes > 1:
            total = number(1)
            for r in self.plan.reduced:
                total = times(total, r.count)
            return (Loop(_POINT, _LANE, total, self.plan.lanes, (*self._digits(), *block)),)
        for r in reversed(self.plan.reduced):
            block = (Loop(r.value, r.first, add(r.last, 1), 1, block),)
        return block

    def _digits(self) -> Iterator[Statement]:
        """Yield declarations of the values that the reduced indices have at the point number
        ``_POINT``."""
        yield Declare(_LEFT, _POINT, changes=True)
        for r in self.plan.reduced:
            yield Declare(r.value, add(r.first, remainder(_LEFT, r.count)))
            yield from divided(_LEFT, r.count)

    def _holds(self, constraint: Constraint) -> Expression:
        terms = [times(c, self._value(name)) for name, c in constraint.form.terms]
        form = add(*terms, constraint.form.constant)
        return compare("ult", form, constraint.extent)

    def _add(self) -> Iterator[Statement]:
        """Yield the statements that accumulate a point."""
        product, to = self.op.summed_product, self._sums[self._number]
        elements = [*self._elements()]
        made, values = self._body(self.op.combine.block, [x.name for x in elements], product)
        yield from (*elements, *made)
        if product is None:
            found = values[self._yielded]
        else:  # one expression: languages allow a device to fuse the product and the sum
            operands = (*(values[value] for value in product.operands),)
            found = Apply(product.name, operands, self._type)
        yield Store(to, self._combined(to, found))
        if self._counts:
            yield Store(self._any[self._number], Number(1))

    def _combined(self, a: Expression, b: Expression) -> Expression:
        made = self._aggregation.accumulate(self._yielded, self._yielded)
        name = made.name
        made.erase()
        return Apply(name, (a, b), self._type)

    def _body(
        self, block: Block, arguments: Sequence[Expression], without: Operation | None = None
    ) -> tuple[Sequence[Statement], Mapping[SSAValue, Expression]]:
        """Return the statements that compute a body, and its values."""
        indices = {index.name: self._value(index.name) for index in self.op.index_list}
        read = BodyReads(self._extract, indices, self.sizes)
        return body_of(block, arguments, read, self._name, without)

    def _extract(self, op: ExtractOp, coordinates: Sequence[Expression]) -> Expression:
        """Return the element of a tensor at coordinates, which are checked."""
        shape, strides = shape_of(op.source), strides_of(op.source)
        terms: list[Expression] = []
        for d, at in enumerate(coordinates):
            size = number(self.sizes(shape[d]))
            inside = Apply(tree.CHECKED, (at, size), tree.INDEX)
            terms.append(times(self.sizes(strides[d]), inside))
        return self._memory(op.source)[add(*terms)]

    @property
    def _inputs(self) -> Sequence[FlatAccess]:
        return self.plan.flat.accesses[: self.plan.flat.inputs]

    def _elements(self) -> Iterator[Declare]:
        """Yield a variable for each input, with its element at a point."""
        for n, access in enumerate(self._inputs):
            name = self._name(scalar_type(self.op.combine.block.args[n].type))
            yield Declare(name, self._element(n, access))

    def _element(self, number: int, access: FlatAccess) -> Load:
        """Return an element of an input, in local or in global memory."""
        read = self.plan.reads.get(number)
        if read is None:
            return self._global(self.op.inputs[number], access)
        terms = [times(c, self._distance(name, access)) for name, c in _local(read, access)]
        return self._tiles[number][add(*terms)]

    def _distance(self, name: str, access: FlatAccess) -> Expression:
        """Return how many values an index is away from its value at the lowest address that the
        access reads in the tile."""
        each = self._tiled[name]
        if known(access.stride(name)) > 0:
            return difference(each.value, each.first)
        return difference(add(each.first, each.tile - 1), each.value)

    def _global(self, value: SSAValue, access: FlatAccess) -> Load:
        strides = ((access.stride(n), each.value) for n, each in self._tiled.items())
        terms = [times(stride, index) for stride, index in strides if stride != 0]
        return self._memory(value)[add(*terms, access.offset)]

    def _memory(self, value: SSAValue) -> Memory:
        return self.tensors[value]

    def _load(self, n: int, read: ReadPlan) -> Section:
        """Return the load of a tile of an input into local memory by the group. Addresses beyond
        the tensor are clamped; guards exclude the points that would read them."""
        access, e = self._inputs[n], Name("e")
        lines = sorted(zip(read.indices, read.local_strides, strict=True), key=_by_stride)
        total, near, far = 1, list[Expression](), [self._lowest(access)]
        left: Expression = e
        for line, local in lines:
            digit = remainder(quotient(left, total), line.range)
            near.append(times(local, digit))
            far.append(times(line.stride, digit))
            total *= line.range
        body = (
            Declare(_NEAR, add(*near)),
            Declare(_FAR, add(*far)),
            Store(
                self._tiles[n][_NEAR],
                self._memory(self.op.inputs[n])[clamped(_FAR, add(access.size, -1))],
            ),
        )
        return Section(f"load input {n}", (Loop(e, ITEM, Number(total), self.plan.items, body),))

    def _lowest(self, access: FlatAccess) -> Expression:
        """Return the lowest address that an access reads in a tile."""
        terms = [
            times(stride, each.first if stride > 0 else add(each.first, each.tile - 1))
            for name, each in self._tiled.items()
            if (stride := known(access.stride(name)))
        ]
        return add(*terms, access.offset)

    # ** the end **

    def _rollup(self) -> Iterator[Statement]:
        """Yield the statements by which the work-items that share an output add up their sums, as a
        tree."""
        lanes, outputs = self.plan.lanes, self.plan.items // self.plan.lanes
        i, own = Name("i"), self._shared[ITEM]
        other = self._shared[add(ITEM, times(_NEAR, outputs))]
        halve = (
            *guarded([compare("slt", _LANE, _NEAR)], [Store(own, self._combined(own, other))]),
            Barrier(),
            *divided(_NEAR, 2),
        )
        body = (
            Store(own, self._sums[i]),
            Barrier(),
            Declare(_NEAR, Number(lanes // 2), changes=True),
            Loop(Name("turn"), Number(0), Number(lanes.bit_length() - 1), 1, halve),
            Store(self._sums[i], own),
            Barrier(),
        )
        yield Loop(i, Number(0), Number(self.plan.turns), 1, body)

    def _store(self) -> tree.Block:
        """Return the store of an output."""
        block: list[Statement] = []
        total = self._mapped(block) if self.op.is_map else self._total()
        if (post := self.op.post_block) is not None:
            accesses = self.plan.flat.accesses[self.plan.flat.inputs : -1]
            given = zip(self.op.post_inputs, accesses, strict=True)
            operands = [self._global(value, access) for value, access in given]
            made, values = self._body(post, [total, *operands])
            block += made
            total = values[yielded(post)]
        block.append(Store(self._global(self.op.res, self.plan.flat.accesses[-1]), total))
        inside = [compare("sle", each.value, each.last) for each in self.plan.free]
        inside += [compare("eq", _LANE, 0)] if self.plan.lanes > 1 else []
        return guarded(inside, block)

    def _total(self) -> Expression:
        total = self._sums[self._number]
        if not self._counts:
            return total
        has_points = compare("ne", self._any[self._number], 0)
        return Apply("arith.select", (has_points, total, self._default()), self._type)

    def _default(self) -> Expression:
        default = self.op.default
        return constant(0, self._type) if default is None else constant_of(default, self._type)

    def _mapped(self, block: list[Statement]) -> Expression:
        """Append to ``block`` the statements that compute an elementwise result at a point. Returns
        the result."""
        body = self.op.combine.block
        elements = [*self._elements()]
        made, values = self._body(body, [each.name for each in elements])
        if not self._constraints:
            block += (*elements, *made)
            return values[self._yielded]
        result = self._name(self._type)
        block.append(Declare(result, self._default(), changes=True))
        inner = (*elements, *made, Assign(result, values[self._yielded]))
        block += guarded(map(self._holds, self._constraints), inner)
        return result


def _by_stride(entry: tuple[MergedIndex, int]) -> int:
    return entry[0].stride


def _local(read: ReadPlan, access: FlatAccess) -> Iterator[tuple[str, int]]:
    """Yield the name of each index of an access, with its stride in local memory."""
    for line, local in zip(read.indices, read.local_strides, strict=True):
        for name in line.names:
            yield name, local * (abs(known(access.stride(name))) // line.stride)
