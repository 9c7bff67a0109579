"""An op called on arrays: a program of one op, compiled at the first call and cached."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from inspect import Signature, getdoc
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.graph import (
    Graph,
    finish_main,
    main_function,
    make_main,
    returned_values,
)
from tessella.dialects.layout import NCHW
from tessella.dialects.nn.core import NnOp, PyValue, shape_of
from tessella.dialects.place import PlaceAttr, place_of
from tessella.dialects.sizes import declare_symbols
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.build.compiling import memory_to_compile
from tessella.driver.model.model import Model
from tessella.driver.options import CheckedOptions
from tessella.driver.specialise.open_sizes import OF_ARRAYS
from tessella.driver.specialise.programs import ProgramTable
from tessella.driver.specialise.specialisations import Specialisations
from tessella.frontends.eager.operands import (
    ARRAYS,
    DType,
    Operand,
    Operands,
    convert,
    fitting,
    place_of_op,
    place_of_results,
    places_of,
    taken,
    tensor_type_of,
)
from tessella.frontends.eager.placed import PlacedArray
from tessella.frontends.eager.recorded import record, trace_of
from tessella.frontends.eager.settings import OpSettings
from tessella.frontends.emitter import Emitter
from tessella.frontends.programs import MAX_PROGRAMS, FixedProgram, Lowered
from tessella.runtime.elements import public
from tessella.runtime.explanation import Explanation
from tessella.runtime.program import Program
from tessella.runtime.signature import ValueInfo
from tessella.support import deadline
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import OptionError, ShapeError
from tessella.support.sizes import Size, symbols_of, value_of

Shape = tuple[Size, ...]
Shapes = Sequence[Shape]

MAX_OPS = 256
"""The maximum number of tables of programs, one for each op and set of settings, element types and
ranks. The least recently used table is dropped."""


@dataclass(frozen=True)
class _Prepared:
    """The compiled program of an op."""

    op: type[NnOp]
    program: Program
    converted: Sequence[tuple[int, DType]]
    """The operands that are first converted to a dtype: the index and the dtype of each."""

    def run(self, operands: list[Any], threads: int) -> Any:
        """Run the program on operands; return its result, or a tuple of its results."""
        for i, dtype in self.converted:
            operands[i] = convert(self.op, operands[i], dtype)
        results = [*map(public, self.program.run(operands, threads))]
        return results[0] if len(results) == 1 else tuple(results)


@dataclass(frozen=True)
class _PreparedAtPlaces(_Prepared):
    """The compiled program of an op with operands at places. Results stay at their kernel's
    place."""

    results: Sequence[tuple[Shape, PlaceAttr]]

    def run(self, operands: list[Any], threads: int) -> Any:
        sizes = {each.symbol.name: each.of(operands) for each in self.program.from_inputs}
        for i, dtype in self.converted:
            operands[i] = convert(self.op, operands[i], dtype)
        memory = [x.memory if isinstance(x, PlacedArray) else x for x in operands]
        found = self.program.run_for(tuple(sizes.values()), memory, threads)
        results = [
            PlacedArray(array, tuple(value_of(size, sizes) for size in shape), place)
            for array, (shape, place) in zip(found, self.results, strict=True)
        ]
        return results[0] if len(results) == 1 else tuple(results)


class _ProgramAtPlaces(FixedProgram):
    """A program that takes and returns arrays at places."""

    def compile(self, options: CheckedOptions, *, in_call: bool = False) -> Model:
        raise OptionError(
            "a model takes plain arrays only",
            expected="operands that are not at a place",
            hint="call the op itself, or pass np.asarray(..)",
        )


_TABLES: ProgramTable[Specialisations[_Prepared]] = ProgramTable(MAX_OPS)


class EagerOp:
    """An op of the `nn` dialect as a function of arrays.

    Operands are arrays or Python numbers, by position or by name; an optional operand may be None.
    Settings are given by name. The result is a new array, or a tuple of new arrays.

    Raises InputError for an operand that is not an array, OptionError for unknown or missing
    settings, ShapeError if operands and settings do not fit together, and ExecutionError if the op
    is not defined for the values of the operands.
    """

    def __init__(self, name: str, kind: type[NnOp], options: CheckedOptions) -> None:
        self._kind = kind
        self._options = options
        self._operands = Operands(kind)
        self._settings = OpSettings(kind)
        self.__name__ = self.__qualname__ = name
        self.__signature__ = Signature([*self._operands.parameters(), *self._settings.parameters()])
        self.__doc__ = f"{name}{self.__signature__}\n\n{getdoc(kind)}"

    def __call__(self, *operands: Any, **settings: Any) -> Any:
        """Run the op on operands; return its result, or a tuple of its results. In a traced
        function, the op is recorded."""
        values = self._bound(operands, settings)
        if (trace := trace_of(values)) is not None:
            self._operands.check(values)
            given = self._settings.convert(settings)
            return record(trace, self._kind, values, self._settings, given)
        arrays, types = self._operands.read(values)
        given = self._settings.convert(settings)
        kind = self._kind, self._options, tuple(types), str(given)
        table = _TABLES.get(kind, lambda: _table(arrays))
        shapes = tuple([x.shape if isinstance(x, ARRAYS) else () for x in arrays])
        prepared = table.find(shapes, ()) or table.get(
            shapes, (), lambda key, _: self._prepare(values, arrays, given, key.made)
        )
        return prepared.run(arrays, self._options.threads)

    def lower(self, *operands: Any, **settings: Any) -> Lowered:
        """Return the program for these arguments, to be inspected at any stage. It is not run."""
        values = self._bound(operands, settings)
        arrays, _ = self._operands.read(values)
        shapes = [np.shape(x) for x in arrays]
        graph, _ = self._graph(values, arrays, self._settings.convert(settings), shapes)
        place = place_of_op(arrays)
        kind = FixedProgram if place is None else _ProgramAtPlaces
        return Lowered(kind(graph), self._options_at(place))

    def explain(self, *operands: Any, **settings: Any) -> Explanation:
        """Explain which kernel a call with these arguments runs, at which place, and why."""
        return self.lower(*operands, **settings).explain()

    def __repr__(self) -> str:
        return f"tessella.ops.{self.__name__}"

    def _bound(self, operands: Sequence[Any], settings: dict[str, Any]) -> Sequence[Any]:
        """Return the operands by position. Operands given by name are removed from ``settings``."""
        if not settings or self._operands.names.isdisjoint(settings):
            return operands
        named = {name: settings.pop(name) for name in self._operands.names & settings.keys()}
        return self._operands.bind(operands, named)

    def _prepare(
        self,
        values: Sequence[Any],
        operands: Sequence[Operand],
        given: dict[str, PyValue],
        shapes: Shapes,
    ) -> _Prepared:
        graph, dtypes = self._graph(values, operands, given, shapes)
        place = place_of_op(operands)
        with deadline.within(self._options.timeout), memory_to_compile():
            built = compile_graph(graph, self._options_at(place))
        columns = enumerate(zip(operands, dtypes, strict=True))
        converted = [(i, dtype) for i, (x, dtype) in columns if not _is_of(x, dtype)]
        if place is None:
            return _Prepared(self._kind, built.program, converted)
        results = [
            (shape_of(value), stored)
            for value in returned_values(main_function(built.lowered.stages["loops"]))
            if (stored := place_of(value.type)) is not None
        ]
        return _PreparedAtPlaces(self._kind, built.program, converted, results)

    def _options_at(self, place: PlaceAttr | None) -> CheckedOptions:
        """Return the options of a program that runs at a place; with None, the options of this op.

        Costs alone would often choose row-major memory for an op whose kernel runs in any layout,
        and the next op would convert its result.
        """
        if place is None:
            return self._options
        layout = {} if place.layout == NCHW else {self._kind.name: f"any/any/{place.layout}"}
        return replace(self._options, places=(str(place),), pin={**layout, **self._options.pin})

    def _graph(
        self,
        values: Sequence[Any],
        operands: Sequence[Operand],
        given: dict[str, PyValue],
        shapes: Shapes,
    ) -> tuple[Graph, Sequence[DType]]:
        """Return a program that consists of this op, for operands of these shapes, and the dtypes
        of its inputs."""
        self._operands.check(values)
        try:
            return fitting(
                operands,
                lambda dtypes: (
                    self._typed_graph(shapes, operands, dtypes, given),
                    taken(operands, dtypes),
                ),
            )
        except ShapeError as error:
            failed = error
        if symbols := symbols_of(size for shape in shapes for size in shape):
            # shapes that do not fit with symbols may fit with numbers
            raise UndecidedSizeError(failed.what, (symbol.name for symbol in symbols))
        raise ShapeError(
            failed.what,
            where=failed.where or repr(self),
            expected=failed.expected,
            found=failed.found,
            hint=failed.hint,
        )

    def _typed_graph(
        self,
        shapes: Shapes,
        operands: Sequence[Operand],
        dtypes: Sequence[DType],
        given: dict[str, PyValue],
    ) -> Graph:
        columns = zip(shapes, dtypes, strict=True)
        types = [tensor_type_of(self._kind, shape, dtype) for shape, dtype in columns]
        rank = len(types[0].get_shape()) if types else 0
        places = places_of(operands, taken(operands, dtypes))
        main = make_main([f"x{i}" for i in range(len(types))], types, places=places)
        settings = self._settings.properties(given, rank)
        emitter = Emitter(main.body.block)
        results = emitter.emit(self._kind, *emitter.values(main.body.block.args), **settings)
        place = place_of_results(operands)
        stay = [] if place is None else [place] * len(results)
        finish_main(main, [f"y{i}" for i in range(len(results))], [y.ssa for y in results], stay)
        module = ModuleOp([main])
        declare_symbols(module, sorted(symbols_of(size for shape in shapes for size in shape)))
        return Graph(module, emitter.weights)


def _is_of(operand: Operand, dtype: DType) -> bool:
    """Return whether an operand is an array with this dtype."""
    return isinstance(operand, PlacedArray) or (
        isinstance(operand, np.ndarray) and operand.dtype == dtype
    )


def _table(operands: Sequence[Operand]) -> Specialisations[_Prepared]:
    """Return a table of programs for operands like these, of any sizes."""
    inputs = [
        ValueInfo(f"x{i}", "", tuple(f"x{i}:{axis}" for axis in range(np.ndim(x))))
        for i, x in enumerate(operands)
    ]
    unnamed = {str(dim) for info in inputs for dim in info.shape}
    return Specialisations(inputs, {}, unnamed=unnamed, starts=OF_ARRAYS, most=MAX_PROGRAMS)
