"""The text of a statement over work-groups, as PlaidML writes it.

{
  // the group's tile of the output, and the work-item's place in it
  // for each step of the reduction: load tiles of inputs, barrier, accumulate, barrier
  // add up the sums of work-items that share outputs
  // post body, and stores
}
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count

from xdsl.dialects.builtin import i1
from xdsl.ir import Attribute, Block, Operation, SSAValue

from tessella.codegen.opencl.plan import Plan, Tiled
from tessella.codegen.opencl.scalars import STORED, BodyReads, body_lines, literal, type_of
from tessella.codegen.opencl.size_arguments import SizeArguments
from tessella.dialects.elements import element_of
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import ContractOp, ExtractOp
from tessella.dialects.tile.aggregations import aggregation_of
from tessella.dialects.tile.bodies import yielded
from tessella.dialects.tile.flat import Constraint, FlatAccess, strides_of
from tessella.passes.plaidml.read_plan import MergedIndex, ReadPlan
from tessella.support.decisions import known
from tessella.support.sizes import Size

INDENT = "  "
BARRIER = "barrier(CLK_LOCAL_MEM_FENCE);"

_ACCUMULATE = {
    "+": "{0} + {1}",
    "*": "{0} * {1}",
    ">": "max_of({0}, {1})",
    "<": "min_of({0}, {1})",
}


class StatementText:
    """Writes a statement in a kernel, whose tensors have the names ``p0``, ``p1``, .."""

    def __init__(
        self,
        op: ContractOp,
        plan: Plan,
        arguments: Sequence[SSAValue],
        sizes: SizeArguments,
        depth: int,
    ) -> None:
        self.op = op
        self.plan = plan.with_sizes(sizes)
        self.arguments = arguments
        self.sizes = sizes
        self._lines: list[str] = []
        self._depth = depth
        self._fresh = count()
        first = aggregation_of(op.aggregation.data, self._type) if not op.is_map else None
        self._identity = "0" if first is None else literal(first.identity(32))

    @property
    def _type(self) -> Attribute:
        """The type of the values that are aggregated."""
        return yielded(self.op.combine.block).type

    def lines(self) -> Sequence[str]:
        """Return the lines of the statement."""
        self._places()
        self._accumulators()
        self._steps()
        self._rollup()
        self._store()
        return self._lines

    # ** lines **

    def _line(self, text: str) -> None:
        self._lines.append(INDENT * self._depth + text)

    @contextmanager
    def _indented(self) -> Generator[None]:
        self._depth += 1
        yield
        self._depth -= 1

    @contextmanager
    def _block(self, head: str) -> Generator[None]:
        self._line(f"{head} {{")
        with self._indented():
            yield
        self._line("}")

    @contextmanager
    def _blocks(self, heads: Sequence[str]) -> Generator[None]:
        for head in heads:
            self._line(f"{head} {{".strip())
            self._depth += 1
        yield
        for _ in heads:
            self._depth -= 1
            self._line("}")

    def _name(self) -> str:
        return f"v{next(self._fresh)}"

    # ** places **

    def _places(self) -> None:
        """Write the first and the last value of each free index in the group's tile, and the
        work-item's offset in the tile."""
        self._line("int rest = item;")
        for each in self.plan.free:
            n = each.symbol
            if each.tiles == 1:
                self._line(f"const int {n}_0 = 0, {n}_1 = {each.range - 1};")
            else:
                self._line(f"const int {n}_0 = group % {each.tiles} * {each.tile};")
                self._line(f"const int {n}_1 = min({n}_0 + {each.tile}, {each.range}) - 1;")
                self._line(f"group /= {each.tiles};")
            self._line(f"const int {n}_i = {n}_0 + rest % {each.items};")
            self._line(f"rest /= {each.items};")
        self._line("const int lane = rest;")
        for number, read in self.plan.reads.items():
            kind = STORED[element_of(self.op.inputs[number].type).name]
            self._line(f"__local {kind} l{number}[{read.size}];")

    def _turns(self) -> tuple[list[str], str]:
        """Return the heads of the loops over the work-item's outputs, and the expression for the
        number of an output in them."""
        heads: list[str] = []
        number = "0"
        for each in self.plan.free:
            if each.turns > 1:
                turn = f"{each.symbol}_t"
                heads.append(f"for (int {turn} = 0; {turn} < {each.turns}; ++{turn})")
                number = f"({number} * {each.turns} + {turn})"
        return heads, number

    def _values(self) -> None:
        """Write the values of the free indices, clamped to the tile: work-items beyond the end of
        the tile repeat the last value."""
        for each in self.plan.free:
            turn = f" + {each.symbol}_t * {each.items}" if each.turns > 1 else ""
            self._line(f"const int {each.symbol} = min({each.symbol}_i{turn}, {each.symbol}_1);")

    # ** the reduction **

    def _accumulators(self) -> None:
        if self.op.is_map:
            return
        kind = type_of(self._type)
        self._line(f"{kind} acc[{self.plan.turns}];")
        self._line(f"for (int i = 0; i < {self.plan.turns}; ++i) acc[i] = {self._identity};")
        if self._counts:
            self._line(f"int any[{self.plan.turns}];")
            self._line(f"for (int i = 0; i < {self.plan.turns}; ++i) any[i] = 0;")

    @property
    def _counts(self) -> bool:
        """True if outputs without points get a default value, so that the kernel counts points."""
        return self.op.default is not None and not self.op.is_map

    def _steps(self) -> None:
        """Write the loops over the steps of the reduction."""
        if self.op.is_map:
            return
        heads = [
            f"for (int {r.symbol}_0 = 0; {r.symbol}_0 < {r.range}; {r.symbol}_0 += {r.tile})"
            for r in self.plan.reduced
            if r.tiles != 1
        ]
        with self._blocks(heads):
            for r in self.plan.reduced:
                n = r.symbol
                if r.tiles == 1:
                    self._line(f"const int {n}_0 = 0, {n}_1 = {r.range - 1};")
                else:
                    self._line(f"const int {n}_1 = min({n}_0 + {r.tile}, {r.range}) - 1;")
            for number, read in self.plan.reads.items():
                self._load(number, read)
            if self.plan.reads:
                self._line(BARRIER)
            self._fast_and_slow()
            if self.plan.reads:
                self._line(BARRIER)

    def _fast_and_slow(self) -> None:
        """Write the loop over the points of a reduction step, twice: without checks for steps in
        which all points are valid, and with checks for the others."""
        constraints = self.plan.flat.constraints
        if not constraints:
            self._points(())
            return
        with self._block(f"if ({' && '.join(map(self._always, constraints))})"):
            self._points(())
        with self._block("else"):
            self._points(constraints)

    def _always(self, constraint: Constraint) -> str:
        """Return the C condition that a constraint holds at all points of a tile."""
        low = high = str(constraint.form.constant)
        for name, c in constraint.form.terms:
            first, last = (f"{c} * {self._end(name, end)}" for end in ((0, 1) if c > 0 else (1, 0)))
            low, high = f"{low} + {first}", f"{high} + {last}"
        return f"{low} >= 0 && {high} < {constraint.extent}"

    def _end(self, name: str, end: int) -> str:
        return f"{self._tiled[name].symbol}_{end}" if name in self._tiled else "0"

    def _symbol(self, name: str) -> str:
        """Return the C expression for an index: its name, or 0 for an index with only one value."""
        return self._tiled[name].symbol if name in self._tiled else "0"

    @property
    def _tiled(self) -> Mapping[str, Tiled]:
        return {each.name: each for each in (*self.plan.free, *self.plan.reduced)}

    def _points(self, constraints: Sequence[Constraint]) -> None:
        with self._blocks(self._reduced_heads() or [""]):
            self._digits()
            heads, number = self._turns()
            with self._blocks(heads):
                self._values()
                valid = " && ".join(map(self._holds, constraints))
                with self._blocks([f"if ({valid})"] if valid else []):
                    self._add(number)

    def _reduced_heads(self) -> list[str]:
        if self.plan.lanes == 1:
            return [
                f"for (int {r.symbol} = {r.symbol}_0; {r.symbol} <= {r.symbol}_1; ++{r.symbol})"
                for r in self.plan.reduced
            ]
        total = " * ".join(f"({r.symbol}_1 - {r.symbol}_0 + 1)" for r in self.plan.reduced) or "1"
        return [f"for (int point = lane; point < {total}; point += {self.plan.lanes})"]

    def _digits(self) -> None:
        """Write the values of the reduced indices, computed from the number of a point, if lanes
        divide the points."""
        if self.plan.lanes == 1 or not self.plan.reduced:
            return
        self._line("int left = point;")
        for r in self.plan.reduced:
            size = f"({r.symbol}_1 - {r.symbol}_0 + 1)"
            self._line(f"const int {r.symbol} = {r.symbol}_0 + left % {size};")
            self._line(f"left /= {size};")

    def _holds(self, constraint: Constraint) -> str:
        terms = [_scaled(c, self._symbol(name)) for name, c in constraint.form.terms]
        form = " + ".join([*terms, str(constraint.form.constant)])
        return f"(uint)({form}) < {constraint.extent}"

    def _add(self, number: str) -> None:
        """Write the accumulation of a point into the output with this number."""
        product, at = self.op.summed_product, f"acc[{number}]"
        names = self._body(self.op.combine.block, self._elements(), product)
        if product is not None:
            a, b = (names[value] for value in product.operands)
            self._line(f"{at} = fma({a}, {b}, {at});")
        else:
            self._line(f"{at} = {self._combined(at, names[yielded(self.op.combine.block)])};")
        if self._counts:
            self._line(f"any[{number}] = 1;")

    def _combined(self, a: str, b: str) -> str:
        kind, name = self.op.aggregation.data, type_of(self._type)
        if kind in "<>" and name != "float":
            return f"{'min' if kind == '<' else 'max'}({a}, {b})"
        return _ACCUMULATE[kind].format(a, b)

    @property
    def _inputs(self) -> Sequence[FlatAccess]:
        return self.plan.flat.accesses[: self.plan.flat.inputs]

    def _body(
        self, block: Block, arguments: Sequence[str], without: Operation | None = None
    ) -> Mapping[SSAValue, str]:
        """Write the ops of a body. Returns the C names of its values."""
        indices = {index.name: self._symbol(index.name) for index in self.op.index_list}
        read = BodyReads(self._extract, indices, self.sizes)
        lines, names = body_lines(block, arguments, read, self._name, without)
        for line in lines:
            self._line(line)
        return names

    def _extract(self, op: ExtractOp, coordinates: Sequence[str]) -> str:
        """Return the element of a tensor at coordinates, which are checked."""
        shape, strides = shape_of(op.source), strides_of(op.source)
        terms = [
            _scaled(self.sizes(strides[d]), f"checked({at}, {self.sizes(shape[d])}, word)")
            for d, at in enumerate(coordinates)
        ]
        return f"p{self._buffer(op.source)}[{' + '.join(terms) or '0'}]"

    def _elements(self) -> list[str]:
        """Write the loads of the inputs at a point. Returns the C names of the loaded values."""
        found: list[str] = []
        for number, access in enumerate(self._inputs):
            kind = type_of(self.op.combine.block.args[number].type)
            found.append(self._name())
            self._line(f"const {kind} {found[-1]} = {self._element(number, access)};")
        return found

    def _element(self, number: int, access: FlatAccess) -> str:
        """Return the C expression for an element of an input, in local or in global memory."""
        read = self.plan.reads.get(number)
        if read is None:
            return self._global(self.op.inputs[number], access)
        terms = [_scaled(c, self._distance(name, access)) for name, c in _local(read, access)]
        return f"l{number}[{' + '.join(terms) or '0'}]"

    def _distance(self, name: str, access: FlatAccess) -> str:
        """Return the C expression for the distance of an index from its value at the lowest address
        that the access reads in the tile."""
        each = self._tiled[name]
        if known(access.stride(name)) > 0:
            return f"({each.symbol} - {each.symbol}_0)"
        return f"({each.symbol}_0 + {each.tile - 1} - {each.symbol})"

    def _global(self, value: SSAValue, access: FlatAccess) -> str:
        strides = ((access.stride(n), each.symbol) for n, each in self._tiled.items())
        terms = [_scaled(stride, symbol) for stride, symbol in strides if stride != 0]
        has_offset = access.offset != 0 or not terms
        sum_ = " + ".join([*terms, *([str(access.offset)] if has_offset else [])])
        return f"p{self._buffer(value)}[{sum_}]"

    def _buffer(self, value: SSAValue) -> int:
        return len(self.arguments) if value is self.op.res else list(self.arguments).index(value)

    def _load(self, number: int, read: ReadPlan) -> None:
        """Write the code by which the group loads a tile of an input into local memory. Addresses
        beyond the tensor are clamped; checks exclude the points that would read them."""
        access = self._inputs[number]
        first = [str(access.offset)]
        for name, each in self._tiled.items():
            stride = known(access.stride(name))
            if stride > 0:
                first.append(_scaled(stride, f"{each.symbol}_0"))
            elif stride < 0:
                first.append(_scaled(stride, f"({each.symbol}_0 + {each.tile - 1})"))
        lines = sorted(zip(read.indices, read.local_strides, strict=True), key=_by_stride)
        total = 1
        for line, _ in lines:
            total *= line.range
        with self._block(f"for (int e = item; e < {total}; e += {self.plan.items})"):
            self._line(f"int left = e, near = 0, far = {' + '.join(first)};")
            for line, local in lines:
                self._line(f"far += left % {line.range} * {line.stride};")
                self._line(f"near += left % {line.range} * {local};")
                self._line(f"left /= {line.range};")
            buffer = self._buffer(self.op.inputs[number])
            self._line(f"l{number}[near] = p{buffer}[clamp(far, 0, {access.size - 1})];")

    # ** the end **

    def _rollup(self) -> None:
        """Write the tree reduction that combines the partial sums of the lanes."""
        lanes, outputs = self.plan.lanes, self.plan.items // self.plan.lanes
        if lanes == 1:
            return
        self._line(f"__local {type_of(self._type)} sums[{self.plan.items}];")
        with self._block(f"for (int i = 0; i < {self.plan.turns}; ++i)"):
            self._line("sums[item] = acc[i];")
            self._line(BARRIER)
            with self._block(f"for (int near = {lanes // 2}; near > 0; near /= 2)"):
                both = self._combined("sums[item]", f"sums[item + near * {outputs}]")
                self._line(f"if (lane < near) sums[item] = {both};")
                self._line(BARRIER)
            self._line("acc[i] = sums[item];")
            self._line(BARRIER)

    def _store(self) -> None:
        heads, number = self._turns()
        with self._blocks(heads):
            for each in self.plan.free:
                turn = f" + {each.symbol}_t * {each.items}" if each.turns > 1 else ""
                self._line(f"const int {each.symbol} = {each.symbol}_i{turn};")
            inside = [f"{each.symbol} <= {each.symbol}_1" for each in self.plan.free]
            inside += ["lane == 0"] if self.plan.lanes > 1 else []
            with self._block(f"if ({' && '.join(inside) or '1'})"):
                total = self._mapped() if self.op.is_map else self._total(number)
                if (post := self.op.post_block) is not None:
                    accesses = self.plan.flat.accesses[self.plan.flat.inputs : -1]
                    values = zip(self.op.post_inputs, accesses, strict=True)
                    given = [total, *(self._global(v, access) for v, access in values)]
                    total = self._body(post, given)[yielded(post)]
                out = self._global(self.op.res, self.plan.flat.accesses[-1])
                self._line(f"{out} = {total};")

    def _total(self, number: str) -> str:
        if not self._counts:
            return f"acc[{number}]"
        return f"(any[{number}] ? acc[{number}] : {self._default()})"

    def _default(self) -> str:
        value = getattr(self.op.default, "value", None)
        data = getattr(value, "data", 0)
        return literal(int(data) & 1 if self._type == i1 else data)

    def _mapped(self) -> str:
        """Write the value of an elementwise statement. Returns the C name of the value."""
        name, kind = self._name(), type_of(self._type)
        constraints = self.plan.flat.constraints
        valid = " && ".join(map(self._holds, constraints))
        self._line(f"{kind} {name}{f' = {self._default()}' if valid else ''};")
        with self._blocks([f"if ({valid})" if valid else ""]):
            block = self.op.combine.block
            value = self._body(block, self._elements())[yielded(block)]
            self._line(f"{name} = {value};")
        return name


def _by_stride(entry: tuple[MergedIndex, int]) -> int:
    return entry[0].stride


def _local(read: ReadPlan, access: FlatAccess) -> Iterator[tuple[str, int]]:
    """Yield the name of each index of an access, with its stride in local memory."""
    for line, local in zip(read.indices, read.local_strides, strict=True):
        for name in line.names:
            yield name, local * (abs(known(access.stride(name))) // line.stride)


def _scaled(factor: Size, name: str) -> str:
    return name if factor == 1 else f"{factor} * {name}"
