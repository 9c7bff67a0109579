"""The interface between frontends and the driver: a module at stage `nn`, its weights, and a
signature."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import Protocol

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, SSAValue

from tessella.dialects.nn.core import Array, Tensor, dtype_of, shape_of
from tessella.dialects.place import PlaceAttr
from tessella.dialects.rt import KernelOp
from tessella.dialects.sizes import size_attribute, size_of
from tessella.runtime.elements import dtype_name
from tessella.runtime.rest import Interface, Rest
from tessella.runtime.signature import Dimensions, ValueInfo
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InternalError
from tessella.support.sizes import Expr, Size, Symbol

NAME = "nn.name"
"""The name of the attribute with which @main's arguments and results carry the names that users
know."""
ELEMENTS = "nn.elements"
"""The name of the attribute with which @main's shape-valued arguments carry their elements."""
PLACE = "nn.place"
"""The name of the attribute that states the place (device, element type and layout) of an argument
or result of @main that is not row-major. If a part of a result's place is `any`, the kernel that
computes the result decides it."""


@dataclass
class Graph:
    """A program: a module with a ``func.func @main`` on tensors, and the weights that it names."""

    module: ModuleOp
    weights: WeightStore
    stage: str = "nn"
    """The stage of the module: later than `nn` if it was loaded from a file."""
    rest: Rest[Subprogram] | None = None
    """The continuation, if the program has a graph break: the module is then its first
    subprogram."""
    divided: Callable[[], Graph] | None = None
    """A function that returns the same program with a graph break after each op that defines
    symbols, in case the program cannot be compiled with these symbols; None if there is no such
    op."""
    structure: object = None
    """The structure into which the frontend assembles the results of the program; None if it does
    not assemble them."""


@dataclass(frozen=True)
class Subprogram:
    """A program within another program, compiled once the types of its inputs are known.

    A subprogram is a continuation after a step, or the body of a loop or branch.
    """

    interface: Interface
    source: Callable[[Sequence[ValueInfo]], Source]
    """A function that returns the source of this subprogram for given types of its inputs. Raises
    TessellaError if there is no program for these types."""


class Source(Protocol):
    """A source of programs: it has a signature, and returns the graph for the known shapes and
    values of the inputs."""

    @property
    def inputs(self) -> Sequence[ValueInfo]: ...

    @property
    def outputs(self) -> Sequence[ValueInfo]: ...

    @property
    def symbols(self) -> Sequence[Symbol]:
        """The symbols of the program if it already is symbolic; empty if the shapes of inputs are
        unrestricted."""
        ...

    @property
    def determining(self) -> Sequence[str]:
        """The names of the shape-determining inputs, whose values ``graph`` needs."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """A key of everything that the program depends on except the shapes and values of inputs,
        the same in all processes; None if the source cannot compute a key."""
        ...

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the program for the given shapes of all inputs, and the given values of some
        inputs, among them the shape-determining ones.

        An input with a value becomes a constant. If the value is an array of objects that contains
        symbolic expressions, the program still takes the input, and the expressions are its
        elements. Raises UndecidedSizeError if the program cannot leave a dimension symbolic,
        UnknownValueError if it needs a value that is not given, and otherwise TessellaError.
        """
        ...


class CompileContext(Context):
    """An xDSL context that also holds the weights of the module that passes work on.

    ``lowered`` is called with each kernel once it is lowered to loops. The caller can compile it
    while the next kernel is lowered.
    """

    def __init__(
        self, weights: WeightStore | None = None, lowered: Callable[[KernelOp], None] | None = None
    ) -> None:
        super().__init__()
        self.weights = weights if weights is not None else WeightStore()
        self.lowered = lowered


def weights_of(ctx: Context) -> WeightStore:
    """Return the weight store of a context. A plain xDSL context has an empty one."""
    return ctx.weights if isinstance(ctx, CompileContext) else WeightStore()


def main_function(module: ModuleOp) -> FuncOp:
    """Return the module's ``@main``. Raises InternalError if there is none."""
    for op in module.body.block.ops:
        if isinstance(op, FuncOp) and op.sym_name.data == "main":
            return op
    raise InternalError("the module has no @main")


def make_main(
    inputs: Sequence[str],
    types: Sequence[Tensor],
    elements: Mapping[str, Sequence[Size]] | None = None,
    places: Sequence[PlaceAttr] = (),
) -> FuncOp:
    """Return a ``func.func @main`` with named arguments and an empty body, which ``finish_main``
    completes.

    ``elements`` gives the elements of the shape-valued arguments, and ``places`` the place (device,
    element type and layout) of every argument unless all are row-major.
    """
    func = FuncOp("main", (list(types), []))
    sizes = [(elements or {}).get(name) for name in inputs]
    func.arg_attrs = ArrayAttr(_marks(inputs, places, sizes))
    for argument, name in zip(func.body.block.args, inputs, strict=True):
        if name.isidentifier() and name.isascii():
            argument.name_hint = name
    return func


def _marks(
    names: Sequence[str],
    places: Sequence[PlaceAttr],
    elements: Sequence[Sequence[Size] | None] = (),
) -> Iterator[DictionaryAttr]:
    """Yield the attributes of each argument or result: its name, and its place and elements if
    stated."""
    for name, place, sizes in zip_longest(names, places, elements):
        marks: dict[str, Attribute] = {NAME: StringAttr(name)}
        if place is not None:
            marks[PLACE] = place
        if sizes is not None:
            marks[ELEMENTS] = ArrayAttr(map(size_attribute, sizes))
        yield DictionaryAttr(marks)


def returned_values(func: FuncOp) -> Sequence[SSAValue]:
    """Return the values that a function returns."""
    last = func.body.block.last_op
    return () if last is None else last.operands


def stated_places(
    attributes: ArrayAttr[DictionaryAttr] | None, count: int
) -> Sequence[PlaceAttr | None]:
    """Return the place (device, element type and layout) that the attributes of each of ``count``
    arguments or results state; None where no place is stated."""
    stated = [marks.data.get(PLACE) for marks in attributes or ()]
    return [place if isinstance(place, PlaceAttr) else None for place in stated] or [None] * count


def elements_of(func: FuncOp) -> Mapping[int, Sequence[Size]]:
    """Return the elements of a function's shape-valued arguments, by argument number."""
    found = ((i, marks.data.get(ELEMENTS)) for i, marks in enumerate(func.arg_attrs or ()))
    return {i: [*map(size_of, sizes)] for i, sizes in found if isinstance(sizes, ArrayAttr)}


def finish_main(
    func: FuncOp,
    names: Sequence[str],
    values: Sequence[SSAValue],
    places: Sequence[PlaceAttr] = (),
) -> None:
    """Complete ``@main`` with a return of ``values``. ``names`` are their names for users, and
    ``places`` their places (device, element type and layout) unless all are row-major."""
    func.body.block.add_op(ReturnOp(*values))
    func.update_function_type()
    func.res_attrs = ArrayAttr(_marks(names, places))


def _names(attributes: ArrayAttr[DictionaryAttr] | None, count: int, prefix: str) -> list[str]:
    names = [f"{prefix}{i}" for i in range(count)]
    for i, entry in enumerate(attributes or ()):
        name = entry.data.get(NAME)
        if isinstance(name, StringAttr):
            names[i] = name.data
    return names


def dimensions(shape: Sequence[Size]) -> Dimensions:
    """Return a shape as a signature describes it: sizes that are expressions become text."""
    return tuple(str(size) if isinstance(size, Expr) else size for size in shape)


def info(name: str, type: Attribute) -> ValueInfo:
    """Return the description of a value in a signature: its name, and the shape and element type of
    ``type``."""
    return ValueInfo(name, dtype_name(dtype_of(type)), dimensions(shape_of(type)))


def signature(module: ModuleOp) -> tuple[list[ValueInfo], list[ValueInfo]]:
    """Return the inputs and the outputs of a module's ``@main``."""
    func = main_function(module)
    types = func.function_type.inputs.data, func.function_type.outputs.data
    names = (
        _names(func.arg_attrs, len(types[0]), "input"),
        _names(func.res_attrs, len(types[1]), "output"),
    )
    inputs, outputs = (
        [info(name, t) for name, t in zip(group, group_types, strict=True)]
        for group, group_types in zip(names, types, strict=True)
    )
    return inputs, outputs
