"""The builder of the IR of a bound program: a `tile.kernel`, and an `@main` that calls it.

A scan becomes an `nn.scan` around a function, with kernels for the statements before and after it.
The module is at the stage `placed`: no kernels have to be picked, and all tensors are row-major.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count, groupby

from xdsl.dialects.arith import IndexCastOp
from xdsl.dialects.builtin import (
    FunctionType,
    ModuleOp,
    StringAttr,
    i1,
    i64,
)
from xdsl.dialects.func import FuncOp
from xdsl.dialects.func import ReturnOp as FuncReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue

from tessella.dialects import nn
from tessella.dialects.graph import Graph, finish_main, make_main
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import Tensor, element_type, number, shape_of, tensor, tensor_type
from tessella.dialects.place import PlaceAttr, placed, precision_of
from tessella.dialects.sizes import declare_symbols
from tessella.dialects.tile import (
    Access,
    CallOp,
    ContractOp,
    EmptyOp,
    Index,
    KernelOp,
    Linear,
    ReturnOp,
    identity_access,
    scalar_region,
)
from tessella.dialects.tile.maths.intervals import Constraint
from tessella.frontends.tile.bind import (
    BoundContraction,
    BoundFunction,
    BoundMap,
    BoundProgram,
    BoundScan,
    BoundStatement,
    BoundTensor,
    results_of,
)
from tessella.frontends.tile.expression import BOOL, Cast, Compute, ElementRead, NumberLiteral
from tessella.frontends.tile.functions import FUNCTIONS, Body
from tessella.frontends.tile.reach import Space
from tessella.frontends.tile.tensor_functions import has_no_elements
from tessella.kernels.builder import KernelBuilder, Scalars, broadcast_access
from tessella.kernels.registry import LOOP_KERNEL
from tessella.runtime.specs import TensorSpec
from tessella.runtime.weights import WeightStore
from tessella.support.conditions import always
from tessella.support.sizes import Expr, Size, symbols_of

Operand = tuple[SSAValue, Access]

_COMBINATIONS = {"*": "mul", "+": "add", "==": "cmp_eq"}


def build(program: BoundProgram, arch: str) -> Graph:
    """Return the IR of a program for an architecture."""
    types = {name: _placed(spec, arch) for name, spec in program.inputs.items()}
    main = make_main(list(types), list(types.values()))
    functions = _Functions(arch)
    finish_main(main, program.outputs, functions.fill(program, main.body.block))
    module = ModuleOp([*functions.ops, main])
    sizes = (size for spec in program.inputs.values() for size in spec.shape)
    declare_symbols(module, sorted(symbols_of(sizes)))
    return Graph(module, WeightStore(), "placed")


def _placed(spec: TensorSpec, arch: str) -> Tensor:
    element = element_type(spec.dtype)
    place = PlaceAttr.get(arch, precision_of(element), NCHW)
    return placed(tensor(element, spec.shape), place)


def _needed(program: BoundProgram) -> list[BoundStatement]:
    """Return the statements that the outputs depend on."""
    wanted = set(program.outputs)
    needed: list[BoundStatement] = []
    for statement in reversed(program.statements):
        if not wanted.isdisjoint(results_of(statement)):
            needed.append(statement)
            wanted |= set(statement.reads)
    return needed[::-1]


@dataclass
class _Functions:
    """The functions that `@main` and functions of scans call: kernels, and functions of scans."""

    arch: str
    ops: list[KernelOp | FuncOp] = field(default_factory=list["KernelOp | FuncOp"])

    def fill(self, program: BoundProgram, block: Block) -> list[SSAValue]:
        """Append calls of kernels and scans, which compute a program, to a block whose arguments
        are the program's inputs.

        Returns the values of the outputs.
        """
        values: dict[str, SSAValue] = dict(zip(program.inputs, block.args, strict=True))
        needed = _needed(program)
        runs = groupby(needed, key=lambda s: s if isinstance(s, BoundScan) else None)
        for scan, run in runs:
            own = list(run)
            later = needed[needed.index(own[-1]) + 1 :]
            wanted = {*program.outputs, *(name for each in later for name in each.reads)}
            if scan is not None:
                op = self._scan(scan, values)
                results = list(scan.results)
            else:
                tensors = [each for each in own if not isinstance(each, BoundScan)]
                results = [each.name for each in tensors if each.name in wanted]
                op = self._call(tensors, results, values)
            block.add_op(op)
            for name, value in zip(results, op.results, strict=True):
                value.name_hint = name.replace("'", "_")
                values[name] = value
        return [values[name] for name in program.outputs]

    def _scan(self, scan: BoundScan, values: Mapping[str, SSAValue]) -> nn.ScanOp:
        """Return a loop around a new function, which is the body of a scan."""
        types = [_placed(spec, self.arch) for spec in scan.body.inputs.values()]
        body = Block(arg_types=types)
        returned = self.fill(scan.body, body)
        body.add_op(FuncReturnOp(*returned))
        name = self._name(scan.body.name)
        signature = FunctionType.from_lists(types, [value.type for value in returned])
        self.ops.append(FuncOp(name, signature, Region(body)))
        given = [_placed(spec, self.arch) for spec in scan.results.values()]
        op = nn.ScanOp(name, [values[each] for each in scan.reads], given, scan.loop)
        op.picked_kernel = StringAttr(LOOP_KERNEL)
        op.attributes["node"] = StringAttr(scan.label)
        return op

    def _call(
        self,
        statements: Sequence[BoundTensor],
        results: Sequence[str],
        values: Mapping[str, SSAValue],
    ) -> CallOp:
        """Return a call of a new kernel that consists of these statements."""
        wanted = {name for statement in statements for name in statement.reads}
        reads = [name for name in values if name in wanted]
        block = Block(arg_types=[values[name].type for name in reads])
        builder = _Builder(block, self.arch)
        for name, argument in zip(reads, block.args, strict=True):
            builder.define(name, argument)
        for statement in statements:
            builder.statement(statement)
        returned = [builder.values[name] for name in results]
        block.add_op(ReturnOp(returned))
        labels = list(dict.fromkeys(statement.label for statement in statements))
        name = self._name("_".join(label.replace("'", "") for label in ("tile", *labels[:3])))
        inputs, outputs = ([v.type for v in group] for group in (block.args, returned))
        signature = FunctionType.from_lists(inputs, outputs)
        code = len(self.ops)
        self.ops.append(KernelOp(name, signature, Region(block), code=code, nodes=labels))
        return CallOp(name, [values[each] for each in reads], outputs)

    def _name(self, hint: str) -> str:
        """Return a name for a function that is not in use: ``hint``, or ``hint`` with a number."""
        taken = {op.sym_name.data for op in self.ops} | {"main"}
        names = (f"{hint}_{i}" for i in count(1))
        return hint if hint not in taken else next(name for name in names if name not in taken)


@dataclass(frozen=True)
class _NormalForm:
    """A contraction in normal form."""

    aggregation: str
    space: Space
    inputs: tuple[Operand, ...]
    body: Body
    out: Access
    spec: TensorSpec

    @property
    def where(self) -> list[Constraint]:
        """The constraints that do not already follow from the bounds of the inputs' accesses."""
        implied = {
            pair
            for value, forms in self.inputs
            for pair in zip(forms, shape_of(value), strict=True)
        }
        return [constraint for constraint in self.space.constraints if constraint not in implied]

    @property
    def box(self) -> list[tuple[Size, Size]]:
        """The least and the greatest value of each coordinate of the output's access, over all
        points."""
        ranges = {index.name: index.range for index in self.space.indices}
        return [form.bounds(ranges) for form in self.out]

    @property
    def stays_inside(self) -> bool:
        """True if the output's access is in bounds at all points, including invalid points."""
        ends = zip(self.box, self.spec.shape, strict=True)
        return all(always(low >= 0) and always(high < size) for (low, high), size in ends)

    @property
    def covers(self) -> bool:
        """True if the free indices enumerate all elements of the output, each of them once."""
        points = math.prod(index.range for index in self.space.indices if not index.reduced)
        return points == math.prod(self.spec.shape)

    @property
    def gives_zeros(self) -> bool:
        """True if output elements without a valid point are 0 by the aggregation alone."""
        return self.aggregation in ("+", "=") or (
            self.aggregation == ">" and self.spec.dtype == BOOL
        )


@dataclass
class _Builder:
    """The builder of a kernel's block from statements."""

    block: Block
    arch: str
    values: dict[str, SSAValue] = field(default_factory=dict[str, SSAValue])

    def define(self, name: str, value: SSAValue) -> None:
        value.name_hint = name.replace("'", "_")
        self.values[name] = value

    def statement(self, statement: BoundTensor) -> None:
        """Append a bound statement to the kernel, and define its tensor."""
        if has_no_elements(statement.spec.shape):
            value = self._add(EmptyOp(self._type(statement.spec)))
        elif isinstance(statement, BoundMap):
            value = self._assignment(statement)
        elif isinstance(statement, BoundFunction):
            value = self._function(statement)
        else:
            value = self._contraction(statement)
        self.define(statement.name, value)

    def _type(self, spec: TensorSpec) -> Tensor:
        return _placed(spec, self.arch)

    def _add(self, op: ContractOp | EmptyOp) -> SSAValue:
        self.block.add_op(op)
        return op.res

    # ** maps **

    def _map(
        self,
        inputs: Sequence[Operand],
        type: Tensor,
        body: Body,
        default: Attribute | None = None,
    ) -> SSAValue:
        """Append an elementwise statement that writes every element of a tensor."""
        shape = type.get_shape()
        indices = [Index(f"d{i}", size) for i, size in enumerate(shape)]
        out = identity_access(len(shape))
        region = _region([_element(v) for v, _ in inputs], body)
        return self._add(ContractOp("=", indices, inputs, out, type, region, default=default))

    def _assignment(self, statement: BoundMap) -> SSAValue:
        scalars, spec = statement.scalars, statement.spec
        names = scalars.reads

        def body(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
            elements = dict(zip(names, args, strict=True))
            values: list[SSAValue] = []
            for step in scalars.steps:
                match step:
                    case ElementRead():
                        values.append(elements[step.tensor])
                    case NumberLiteral():
                        values.append(_constant(s, step))
                    case Cast():
                        to = element_type(step.dtype)
                        values.append(s.cast(values[step.argument], to))
                    case Compute():
                        values.append(step.function.body(s, [values[i] for i in step.arguments]))
            return values[scalars.result]

        operands = [self.values[name] for name in names]
        inputs = [(v, broadcast_access(shape_of(v), spec.shape)) for v in operands]
        return self._map(inputs, self._type(spec), body)

    def _function(self, statement: BoundFunction) -> SSAValue:
        operands = [self.values[name] for name in statement.inputs]
        type = self._type(statement.spec)
        return statement.function.build(
            KernelBuilder(self.block), operands, statement.numbers, type
        )

    def _rest(self, spec: TensorSpec, default: SSAValue | None) -> SSAValue:
        """Return a tensor with the values of output elements that no point reaches: the default
        tensor's elements, or zeros."""
        type = self._type(spec)
        if default is None:
            return self._map([], type, _zero(type.element_type))
        access = broadcast_access(shape_of(default), spec.shape)
        return self._map([(default, access)], type, _same)

    # ** contractions **

    def _contraction(self, statement: BoundContraction) -> SSAValue:
        default = self.values[statement.default] if statement.default is not None else None
        normal, spec = statement.normal, statement.spec
        if normal is None:
            return self._rest(spec, default)
        out, *accesses = normal.accesses
        values = [self.values[name] for name in statement.inputs]
        aggregation = statement.aggregation
        if aggregation == "=" and any(index.reduced for index in normal.indices):
            # There is one point for each element, so its value is the maximum over all points.
            aggregation = ">"
        reduction = _NormalForm(
            aggregation,
            Space(normal.indices, normal.constraints),
            tuple(zip(values, accesses, strict=True)),
            _combination(statement),
            out,
            spec,
        )
        if reduction.stays_inside:
            return self._reduce(reduction, default)
        return self._cropped(reduction, default)

    def _reduce(self, r: _NormalForm, default: SSAValue | None) -> SSAValue:
        """Append a contraction whose output's access stays in bounds, and return its result."""
        element = element_type(r.spec.dtype)
        init = None if r.covers else self._rest(r.spec, default)
        posts: list[Operand] = []
        if not (r.gives_zeros and default is None) and not r.space.reaches_all:
            posts = [self._reached(r.space.tied)]
            if default is not None:
                posts.append((default, _broadcast(r.out, shape_of(default))))
        post = _region([element, *(_element(v) for v, _ in posts)], _choose) if posts else None
        assigns_some = r.aggregation == "=" and r.space.constraints
        return self._add(
            ContractOp(
                r.aggregation,
                r.space.indices,
                r.inputs,
                r.out,
                self._type(r.spec),
                _region([_element(v) for v, _ in r.inputs], r.body),
                post_inputs=posts,
                post=post,
                where=r.where,
                init=init,
                default=number(0, element) if assigns_some else None,
            )
        )

    def _reached(self, space: Space) -> Operand:
        """Append a statement that computes, for each value of the free indices, whether it has a
        valid point. Returns the tensor and its access."""
        free = [index for index in space.indices if not index.reduced]
        out = tuple(Linear.of(index.name) for index in free)
        spec = TensorSpec(tuple(index.range for index in free), BOOL)
        return self._reduce(_NormalForm(">", space, (), _true, out, spec), None), out

    def _cropped(self, r: _NormalForm, default: SSAValue | None) -> SSAValue:
        """Append a contraction whose output's access is out of bounds at some points, and return
        its result.

        It is computed into a larger tensor, which is then cropped.
        """
        starts = [low for low, _ in r.box]
        shape = tuple(high - low + 1 for low, high in r.box)
        larger = replace(
            r,
            out=tuple(form - low for form, low in zip(r.out, starts, strict=True)),
            spec=TensorSpec(shape, r.spec.dtype),
        )
        value = self._crop(self._reduce(larger, None), starts, r.spec)
        if default is None:
            return value
        mask = replace(larger, aggregation=">", inputs=(), body=_true, spec=TensorSpec(shape, BOOL))
        inside = TensorSpec(r.spec.shape, BOOL)
        reached = self._crop(self._reduce(mask, None), starts, inside)
        values = (value, reached, default)
        operands = [(v, broadcast_access(shape_of(v), r.spec.shape)) for v in values]
        return self._map(operands, self._type(r.spec), _choose)

    def _crop(self, value: SSAValue, starts: Sequence[Size], spec: TensorSpec) -> SSAValue:
        """Append a statement that returns the elements of ``value`` from ``starts`` on, with zeros
        out of bounds."""
        type = self._type(spec)
        access = identity_access(len(spec.shape))
        shifted = tuple(form - start for form, start in zip(access, starts, strict=True))
        return self._map([(value, shifted)], type, _same, number(0, type.element_type))


def _constant(s: Scalars, step: NumberLiteral) -> SSAValue:
    to = element_type(step.dtype)
    if not isinstance(step.value, Expr):
        return s.constant(step.value, to)
    return s.cast(s.op(IndexCastOp(s.size(step.value), i64)), to)


def _element(value: SSAValue) -> Attribute:
    return tensor_type(value).element_type


def _region(types: Sequence[Attribute], body: Body) -> Region:
    return scalar_region(types, lambda block, args: body(Scalars(block), args))


def _broadcast(out: Access, shape: Sequence[Size]) -> Access:
    """Return the access to a tensor of shape ``shape`` that broadcasts to the output, which ``out``
    accesses."""
    forms = out[len(out) - len(shape) :]
    return tuple(Linear() if size == 1 else f for f, size in zip(forms, shape, strict=True))


def _same(_: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    return args[0]


def _true(s: Scalars, _: Sequence[SSAValue]) -> SSAValue:
    return s.constant(1, i1)


def _zero(element: Attribute) -> Body:
    return lambda s, _: s.constant(0, element)


def _choose(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
    """Return the scalar value if the element is reached, otherwise the default's element, or 0."""
    value, reached, *default = args
    return FUNCTIONS["cond"].body(s, [reached, value, *(default or [s.like(0, value)])])


def _combination(statement: BoundContraction) -> Body:
    """Return a function that emits the scalar code which combines the elements of a contraction's
    inputs."""
    compared = element_type(statement.compared)

    def body(s: Scalars, args: Sequence[SSAValue]) -> SSAValue:
        first = [s.cast(x, compared) for x in args[:2]]
        if not statement.combination:
            return first[0]
        if statement.combination != "?":
            return FUNCTIONS[_COMBINATIONS[statement.combination]].body(s, first)
        equal = FUNCTIONS["cmp_eq"].body(s, first)
        return FUNCTIONS["cond"].body(s, [equal, args[2], s.like(0, args[2])])

    return body
