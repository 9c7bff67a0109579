"""Binding of a program to argument shapes and types: it determines the shape and type of every
tensor, and the normal form of every contraction."""

from __future__ import annotations

import math
from collections.abc import Generator, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, count, zip_longest

from tessella.dialects.nn.core import broadcast_shapes, shapes_differ, shown
from tessella.dialects.tile.maths import Affine, Bounded, Normal, normalize
from tessella.dialects.tile.maths.variables import names_of
from tessella.frontends.tile.expression import (
    BOOL,
    DType,
    ScalarSteps,
    Value,
    common_dtype,
    constant,
    evaluate,
    form,
    misfit,
    number,
    supported,
)
from tessella.frontends.tile.reach import is_determined
from tessella.frontends.tile.source import Span, TileText
from tessella.frontends.tile.syntax import (
    Apply,
    Assignment,
    Contraction,
    Expr,
    IndexConstraint,
    IndexName,
    Input,
    Name,
    Scan,
    Statement,
    TensorRef,
    TileFunction,
    postorder,
)
from tessella.frontends.tile.tensor_functions import (
    MAX_RANK,
    TENSOR_FUNCTIONS,
    MisfitError,
    TensorFunction,
    has_no_elements,
)
from tessella.runtime.scan import Loop
from tessella.runtime.specs import TensorSpec
from tessella.support.conditions import decided
from tessella.support.decisions import decided_zero, differs
from tessella.support.errors import ResourceError, ShapeError, TileError, UnboundedIndexError
from tessella.support.sizes import Expr as OpenSize
from tessella.support.sizes import Size, bounds_of

MAX_BYTES = 16 << 30
"""Limit on the size of a tensor in bytes, computed from the least sizes of its dynamic
dimensions."""


@dataclass(frozen=True)
class BoundContraction:
    """A contraction whose index forms, sizes and types are known."""

    name: str
    spec: TensorSpec
    aggregation: str
    combination: str
    inputs: tuple[str, ...]
    compared: DType
    """The type that operands of the combination are converted to: all operands, or for `?` the
    first two."""
    normal: Normal | None
    """The normal form of the indices and constraints; None if no point is valid."""
    default: str | None
    label: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tensors that the contraction reads."""
        return (*self.inputs, *((self.default,) if self.default is not None else ()))


@dataclass(frozen=True)
class BoundMap:
    """An elementwise assignment whose shapes and types are known."""

    name: str
    scalars: ScalarSteps
    label: str

    @property
    def spec(self) -> TensorSpec:
        return self.scalars.spec

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tensors that the assignment reads."""
        return self.scalars.reads


@dataclass(frozen=True)
class BoundScan:
    """A scan whose shapes and types are known: a loop around the program ``body``."""

    results: Mapping[str, TensorSpec]
    """The specs of the results by name: the last carried tensors, then the output sequences."""
    body: BoundProgram
    loop: Loop
    reads: tuple[str, ...]
    label: str


@dataclass(frozen=True)
class BoundFunction:
    """A call of a function of whole tensors whose shapes and types are known."""

    name: str
    spec: TensorSpec
    function: TensorFunction
    inputs: tuple[str, ...]
    numbers: tuple[Size, ...]
    label: str

    @property
    def reads(self) -> tuple[str, ...]:
        """The names of the tensors that the function reads."""
        return self.inputs


BoundTensor = BoundContraction | BoundMap | BoundFunction
BoundStatement = BoundTensor | BoundScan


def results_of(statement: BoundStatement) -> Mapping[str, TensorSpec]:
    """Return the names and specs of the tensors that a statement defines."""
    if isinstance(statement, BoundScan):
        return statement.results
    return {statement.name: statement.spec}


@dataclass(frozen=True)
class BoundProgram:
    """A program, or the function of a scan, for arguments of given shapes and types."""

    inputs: Mapping[str, TensorSpec]
    statements: tuple[BoundStatement, ...]
    outputs: tuple[str, ...]
    name: str = ""

    @property
    def tensors(self) -> Mapping[str, TensorSpec]:
        """The specs of the program's inputs and of all tensors that it defines, by name."""
        given = (results_of(statement) for statement in self.statements)
        return dict(chain(self.inputs.items(), *(each.items() for each in given)))

    @property
    def specs(self) -> Iterator[TensorSpec]:
        """The specs of all tensors, including those of the functions of scans."""
        yield from self.tensors.values()
        for statement in self.statements:
            if isinstance(statement, BoundScan):
                yield from statement.body.specs


def bind(function: TileFunction, source: TileText, specs: Sequence[TensorSpec]) -> BoundProgram:
    """Bind a program to arrays of these shapes and types. Raises TileError."""
    binder = _Binder(source)
    for parameter, spec in zip(function.inputs, specs, strict=True):
        binder.input(parameter, spec)
    statements = [bound for s in function.statements for bound in binder.statement(s)]
    numbers = [binder.number(output) for output in function.outputs]
    return BoundProgram(
        {p.name.name: spec for p, spec in zip(function.inputs, specs, strict=True)},
        (*statements, *(bound for bound in numbers if bound is not None)),
        tuple(output.name for output in function.outputs),
        function.name,
    )


def check_type(parameter: Input, dtype: DType, source: TileText) -> None:
    """Raise TileError if arrays of type ``dtype`` cannot be passed for an input."""
    if not supported(dtype):
        raise source.error(
            f"there is no native code for the type of the input {parameter.name.name!r}",
            parameter.name.span,
            expected="bool, float32, float64, or an integer of 8 to 64 bits",
            found=str(dtype),
            hint="convert it with x.astype(...)",
        )


@dataclass
class _Binder:
    source: TileText
    scope: dict[str, Value] = field(default_factory=dict[str, Value])
    sized_by: dict[str, str] = field(default_factory=dict[str, str])
    """The name of the first input that has each dimension, by the name of the dimension."""

    def input(self, parameter: Input, spec: TensorSpec) -> None:
        name = parameter.name
        check_type(parameter, spec.dtype, self.source)
        self.scope[name.name] = spec
        if parameter.dims is None:
            return
        if len(parameter.dims) != len(spec.shape):
            raise self.source.error(
                f"the input {name.name!r} has another number of dimensions",
                name.span,
                expected=str(len(parameter.dims)),
                found=f"{len(spec.shape)} in an array of shape {spec.shape}",
            )
        for dim, size in zip(parameter.dims, spec.shape, strict=True):
            self._dimension(dim, size, name.name)

    def _dimension(self, dim: Name, size: Size, tensor: str) -> None:
        first = self.sized_by.setdefault(dim.name, tensor)
        known = self.scope.setdefault(dim.name, size)
        assert isinstance(known, int | OpenSize)
        if differs(known, size):
            raise self.source.error(
                f"the dimension {dim.name!r} has two sizes",
                dim.span,
                expected=f"{known}, as in the input {first!r}",
                found=f"{size} in the input {tensor!r}",
            )

    def statement(self, statement: Statement) -> Sequence[BoundStatement]:
        """Bind a statement, and put its results into scope. Returns the bound statements; none if
        it defines a number."""
        found: list[BoundStatement] = []
        for bound in self._bound(statement):
            for name, spec in results_of(bound).items():
                self._check_size(name, statement.name.span, spec)
                self.scope[name] = spec
            found.append(bound)
        return found

    def _bound(self, statement: Statement) -> Iterator[BoundStatement]:
        """Yield the bound statements of a statement. The results of each must be in scope before
        the next one is requested."""
        match statement:
            case Contraction():
                yield self._contraction(statement)
            case Scan():
                yield from self._scan(statement)
            case Assignment():
                yield from self._assignment(statement)

    # ** assignments **

    def _assignment(self, statement: Assignment) -> Iterator[BoundStatement]:
        """Yield a bound statement for each function of whole tensors in an assignment, and one for
        the expression of their results."""
        name, label = statement.name.name, statement.label
        parts = (f"{name}.{i}" for i in count(1))  # the grammar has no names with dots
        stack: list[Expr] = []
        for node in postorder(statement.value):
            made = node
            if isinstance(node, Apply):
                arguments = [stack.pop() for _ in node.arguments][::-1]
                made = replace(node, arguments=tuple(arguments))
                if node.function in TENSOR_FUNCTIONS:
                    target = name if node is statement.value else next(parts)
                    made = yield from self._applied(made, target, parts, label)
            stack.append(made)
        if isinstance(self.scope.get(name), TensorSpec):
            return
        value = evaluate(stack.pop(), self.scope, self.source)
        if isinstance(value, ScalarSteps):
            yield BoundMap(name, value, label)
        else:
            self.scope[name] = value

    def _applied(
        self, node: Apply, target: str, parts: Iterator[str], label: str
    ) -> Generator[BoundStatement, None, Name]:
        """Yield the bound statements of a call of a function of whole tensors, and of its arguments
        that are expressions. Returns the name of its result."""
        function = TENSOR_FUNCTIONS[node.function]
        inputs: list[str] = []
        for argument in node.arguments[: function.tensors]:
            if isinstance(argument, Name) and isinstance(self.scope[argument.name], TensorSpec):
                inputs.append(argument.name)
                continue
            value = evaluate(argument, self.scope, self.source)
            if not isinstance(value, ScalarSteps):
                raise self.source.error(
                    f"{node.function!r} takes a tensor here", argument.span, found=str(value)
                )
            inputs.append(next(parts))
            yield BoundMap(inputs[-1], value, label)
        numbers = tuple(
            number(argument, self.scope, self.source)
            for argument in node.arguments[function.tensors :]
        )
        try:
            spec = function.spec([self._spec(each) for each in inputs], numbers)
        except MisfitError as error:
            given = len(node.arguments)
            at = node.arguments[error.argument].span if error.argument < given else node.at
            raise self.source.error(
                f"{node.function!r}: {error.what}",
                at,
                expected=error.expected,
                found=error.found,
                hint=error.hint,
            ) from None
        yield BoundFunction(target, spec, function, tuple(inputs), numbers, label)
        return Name(target, node.span)

    def number(self, output: Name) -> BoundMap | None:
        """Return the statement that makes an output that is a number into a tensor; None if the
        output is a tensor already."""
        value = self.scope[output.name]
        if isinstance(value, TensorSpec):
            return None
        scalars = constant(value)
        wrong = misfit(value, scalars.spec.dtype)
        if wrong is not None:
            raise self.source.error(wrong, output.span, found=str(value))
        return BoundMap(output.name, scalars, output.name)

    def _check_size(self, name: str, span: Span, spec: TensorSpec) -> None:
        # each dimension counts, even if another one is 0; a dynamic dimension counts with its least
        # size
        least = [max(0, bounds_of(size)[0]) for size in spec.shape]
        size = max(math.prod(least), *least, 0) * spec.dtype.itemsize
        if size > MAX_BYTES or len(spec.shape) > MAX_RANK:
            raise self.source.error(
                f"the tensor {name!r} is too large",
                span,
                expected=f"at most {MAX_BYTES} bytes and {MAX_RANK} dimensions",
                found=f"{size} bytes in {spec.dtype.name}[{shown(spec.shape)}]",
            )

    # ** scans **

    def _scan(self, statement: Scan) -> Sequence[BoundStatement]:
        steps = self._steps(statement)
        carried, scanned = len(statement.carried), len(statement.sequences)
        specs = [self._tensor(name) for name in statement.operands]
        for i in range(carried, carried + scanned):
            specs[i] = TensorSpec(specs[i].shape[1:], specs[i].dtype)
        body = bind(statement.step, self.source, specs)
        given = [body.tensors[name] for name in body.outputs]
        for name, spec, new in zip(statement.carried, specs, given, strict=False):
            self._check_carried(statement, name, spec, new)
        stacked = [TensorSpec((steps, *spec.shape), spec.dtype) for spec in given[carried:]]
        names = [target.name.name for target in statement.targets]
        results = dict(zip(names, [*given[:carried], *stacked], strict=True))
        if decided_zero(steps):
            return self._no_steps(statement, results)
        ends = (*statement.sequences, *statement.targets[carried:])
        backward = tuple(i for i, sequence in enumerate(ends) if sequence.backward)
        reads = tuple(name.name for name in statement.operands)
        loop = Loop(carried, scanned, backward)
        return [BoundScan(results, body, loop, reads, statement.label)]

    def _steps(self, statement: Scan) -> Size:
        """Return the common length of the sequences of a scan. Raises TileError if they differ."""
        first, *_ = shapes = [self._tensor(each.name).shape for each in statement.sequences]
        for sequence, shape in zip(statement.sequences, shapes, strict=True):
            if not shape or differs(shape[0], first[0]):
                raise self.source.error(
                    f"the sequence {sequence.name.name!r} has another length than the first one"
                    if shape
                    else f"the sequence {sequence.name.name!r} has no elements to take",
                    sequence.name.span,
                    expected=str(first[0]) if shape else "at least one dimension",
                    found=f"a tensor of shape [{shown(shape)}]",
                )
        return first[0]

    def _check_carried(
        self, statement: Scan, name: Name, spec: TensorSpec, new: TensorSpec
    ) -> None:
        if spec.dtype != new.dtype or shapes_differ(spec.shape, new.shape):
            raise self.source.error(
                f"{name.name!r} changes its type or shape from step to step",
                name.span,
                expected=f"{spec.dtype.name}[{shown(spec.shape)}], as it begins",
                found=f"{new.dtype.name}[{shown(new.shape)}] of {statement.step.name!r}",
            )

    def _no_steps(
        self, statement: Scan, results: Mapping[str, TensorSpec]
    ) -> Sequence[BoundStatement]:
        """Bind a scan without iterations: carried tensors keep their initial values, and output
        sequences are empty."""
        bound: list[BoundStatement] = []
        for (name, spec), first in zip_longest(results.items(), statement.carried):
            value = constant(0) if first is None else evaluate(first, self.scope, self.source)
            assert isinstance(value, ScalarSteps)
            bound.append(BoundMap(name, replace(value, spec=spec), statement.label))
        return bound

    # ** contractions **

    def _contraction(self, statement: Contraction) -> BoundContraction:
        inputs = [self._tensor(tensor.name) for tensor in statement.inputs]
        compared, dtype = self._types(statement, [spec.dtype for spec in inputs])
        shape = self._shape(statement)
        default = self._default(statement, TensorSpec(shape, dtype))
        return BoundContraction(
            statement.name.name,
            TensorSpec(shape, dtype),
            statement.aggregation,
            statement.combination,
            tuple(tensor.name.name for tensor in statement.inputs),
            compared,
            self._normal(statement, [shape, *(spec.shape for spec in inputs)]),
            default,
            statement.label,
        )

    def _tensor(self, name: Name) -> TensorSpec:
        return self._spec(name.name)

    def _spec(self, name: str) -> TensorSpec:
        spec = self.scope[name]
        assert isinstance(spec, TensorSpec)
        return spec

    def _types(self, statement: Contraction, dtypes: Sequence[DType]) -> tuple[DType, DType]:
        """Return the type that the combination converts its operands to, and the type of the
        result."""
        match statement.combination:
            case "?":
                return common_dtype(dtypes[:2]), dtypes[2]
            case "==":
                return common_dtype(dtypes), BOOL
            case _:
                return common_dtype(dtypes), common_dtype(dtypes)

    def _shape(self, statement: Contraction) -> tuple[Size, ...]:
        target = statement.target
        if statement.sizes is None:
            if statement.default is None:
                raise self.source.error(
                    f"the sizes of {target.name.name!r} are missing",
                    target.name.span,
                    expected=f"{target.name.name}[indices : sizes], or a default tensor",
                )
            return self._tensor(statement.default).shape
        if len(statement.sizes) != len(target.forms):
            raise self.source.error(
                f"the output {target.name.name!r} has another number of indices than of sizes",
                target.name.span,
                expected=str(len(statement.sizes)),
                found=str(len(target.forms)),
            )
        sizes = [number(size, self.scope, self.source) for size in statement.sizes]
        for size, node in zip(sizes, statement.sizes, strict=True):
            if decided(size < 0):
                raise self.source.error("a size is negative", node.span, found=str(size))
        return tuple(sizes)

    def _default(self, statement: Contraction, spec: TensorSpec) -> str | None:
        name = statement.default
        if name is None:
            return None
        found = self._tensor(name)
        try:
            fits = not shapes_differ(broadcast_shapes([found.shape, spec.shape]), spec.shape)
        except ShapeError:
            fits = False
        if not fits or found.dtype != spec.dtype:
            raise self.source.error(
                f"the default {name.name!r} does not fit {statement.name.name!r}",
                name.span,
                expected=f"{spec.dtype.name}[{shown(spec.shape)}], or a shape that broadcasts",
                found=f"{found.dtype.name}[{shown(found.shape)}]",
            )
        return name.name

    def _normal(self, statement: Contraction, shapes: Sequence[Sequence[Size]]) -> Normal | None:
        refs = (statement.target, *statement.inputs)
        tensors = [
            (self._forms(ref, shape), shape) for ref, shape in zip(refs, shapes, strict=True)
        ]
        constraints = [self._constraint(c) for c in statement.constraints]
        if any(map(has_no_elements, shapes)) or any(decided(c.extent <= 0) for c in constraints):
            return None
        try:
            normal = normalize(tensors, constraints)
            assigns_once = statement.aggregation != "=" or is_determined(normal)
        except UnboundedIndexError as error:
            raise self._unbounded(statement, error.names[0]) from None
        except ResourceError as error:
            raise self._at_name(statement, error.what, error.expected, error.found) from None
        if not assigns_once:
            raise self._ambiguous(statement, tensors[0][0])
        return None if normal.empty else normal

    def _forms(self, ref: TensorRef, shape: Sequence[Size]) -> tuple[Affine, ...]:
        if len(ref.forms) != len(shape):
            raise self.source.error(
                f"{ref.name.name!r} has another number of dimensions than of indices",
                ref.name.span,
                expected=f"{len(shape)}, as its shape is {shown(shape)}",
                found=str(len(ref.forms)),
            )
        return tuple(form(f, self.scope, self.source) for f in ref.forms)

    def _constraint(self, constraint: IndexConstraint) -> Bounded:
        return Bounded(
            form(constraint.form, self.scope, self.source),
            number(constraint.bound, self.scope, self.source),
        )

    # ** errors **

    def _at_name(
        self, statement: Statement, what: str, expected: str | None, found: str | None
    ) -> TileError:
        return self.source.error(what, statement.name.span, expected=expected, found=found)

    def _unbounded(self, statement: Contraction, name: str) -> TileError:
        return self.source.error(
            f"the index {name!r} has no bounds",
            _span_of(statement, name),
            expected="dimensions or constraints that leave it a finite range",
            hint=f"add a constraint after the contraction, such as {name} < 10",
        )

    def _ambiguous(self, statement: Contraction, output: Sequence[Affine]) -> TileError:
        """Return the error for a contraction with `=` in which several points write the same output
        element."""
        names = names_of(output)
        rest = [node.name for node in _indices(statement) if node.name not in names]
        name = rest[0] if rest else names[0]
        return self.source.error(
            f"'=' would assign elements of {statement.name.name!r} more than once",
            _span_of(statement, name),
            expected="indices that the element of the output determines",
            found=f"the index {name!r}, which it does not",
            hint="aggregate with + * > or <",
        )


def _indices(statement: Contraction) -> Iterator[IndexName]:
    """Yield the indices that occur in a contraction."""
    forms = [form for ref in (statement.target, *statement.inputs) for form in ref.forms]
    forms += [constraint.form for constraint in statement.constraints]
    return (node for f in forms for node in postorder(f) if isinstance(node, IndexName))


def _span_of(statement: Contraction, index: str) -> Span:
    return next(node.span for node in _indices(statement) if node.name == index)
