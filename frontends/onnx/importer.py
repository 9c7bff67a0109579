"""A model as a source of programs: it builds an `nn` graph for given input shapes and values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from tessella.dialects.graph import Graph, ValueInfo, finish_main, make_main, signature
from tessella.dialects.nn.core import element_type, tensor
from tessella.dialects.nn.evaluate_sizes import holds_sizes
from tessella.dialects.sizes import declare_symbols
from tessella.frontends.onnx.build import Array, Builder, check_size
from tessella.frontends.onnx.convert import GraphConversion
from tessella.frontends.onnx.determining import determining
from tessella.frontends.onnx.held import Handed, Known
from tessella.frontends.onnx.load import Origin, open_model
from tessella.frontends.onnx.maps import Maps, with_arrays
from tessella.frontends.onnx.model import DTYPES, GraphValue, OnnxModel, Tensor
from tessella.frontends.onnx.unsupported import unsupported
from tessella.runtime.elements import as_own, dtype_name
from tessella.runtime.signature import HELD, UNKNOWN
from tessella.runtime.sparse import check_dense
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import (
    InputError,
    ShapeError,
    UnknownValueError,
    UnsupportedError,
)
from tessella.support.sizes import Size, Symbol, symbols_of

MAX_BYTES = 16 << 30
"""The default limit on the size of a tensor, in bytes."""


class OnnxSource:
    """An ONNX model as a source of programs, from a path, bytes or ``ModelProto``.

    ``constants`` fixes the values of inputs, which are then no longer inputs; shapes may depend on
    them. No tensor may have more than ``max_bytes``. ``maps`` says what a ZipMap returns: the array
    of scores, or a dictionary for each row. Raises InvalidModelError if ``origin`` is not
    a valid model, UnsupportedError that lists everything unsupported, and InputError for constants
    that do not match.
    """

    fingerprint: str | None = None
    symbols: Sequence[Symbol] = ()

    def __init__(
        self,
        origin: Origin,
        *,
        constants: Mapping[str, npt.ArrayLike] | None = None,
        max_bytes: int = MAX_BYTES,
        maps: Maps = "arrays",
    ) -> None:
        model = open_model(origin)
        self._open(with_arrays(model) if maps == "arrays" else model, max_bytes)
        self.files = self._model.files
        """Files with data of the model's tensors, relative to the model's file."""
        issues = unsupported(self._model)
        if issues:
            raise UnsupportedError(issues)
        values = self._inputs
        self._constants = _constants(values, constants or {})
        self._inputs = [value for value in values if value.name not in self._constants]
        self._find_determining()

    def _open(self, model: OnnxModel, max_bytes: int) -> None:
        self._model = model
        self._max_bytes = max_bytes
        self._constants: Mapping[str, Tensor] = {}
        self._inputs = list(model.graph.free_inputs)

    def _subprogram(self, model: OnnxModel) -> OnnxSource:
        """Return the source of a subprogram of the model."""
        source = OnnxSource.__new__(OnnxSource)
        source._open(model, self._max_bytes)
        source._find_determining()
        return source

    def _find_determining(self) -> None:
        self._readers = determining(self._model, self._tensors)
        self.determining: Sequence[str] = tuple(self._readers)

    @property
    def inputs(self) -> list[ValueInfo]:
        """The inputs that a caller passes; unknown dimensions are symbols."""
        return [_info(value) for value in self._inputs]

    @property
    def outputs(self) -> list[ValueInfo]:
        """The declared outputs; unknown dimensions are symbols.

        If a shape or type is not declared but follows from the input shapes, the model is imported
        to infer it; otherwise the shape is the single symbol ``name:*``.
        """
        values = self._model.graph.outputs
        shapes = {info.name: info.shape for info in self.inputs}
        undeclared = any(
            (value.shape is None and value.type not in HELD) or value.type == UNKNOWN
            for value in values
        )
        is_open = any(isinstance(d, str) for shape in shapes.values() for d in shape)
        if undeclared and not is_open and not self.determining:
            graph = self.graph({name: tuple(map(int, shape)) for name, shape in shapes.items()})
            if graph.rest is None:
                return signature(graph.module)[1]
        return [_info(value) for value in values]

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the program for these input shapes, which may be symbolic, and values of some
        inputs. See ``Source``.

        Raises UnknownValueError with the names of all values that are missing, UnsupportedError
        that lists everything unsupported for these shapes, ShapeError for shapes that do not match
        or cannot be determined, ResourceError for a tensor that is too large, and
        UndecidedSizeError for symbols that must be numbers.
        """
        if missing := [name for name in self.determining if name not in (values or {})]:
            where = self._readers[missing[0]]
            raise UnknownValueError("a value on which shapes depend", missing, where=where)
        sizes = self._shapes(shapes)
        given = (np.reshape(value, -1) for value in (values or {}).values() if holds_sizes(value))
        every = [*sizes.values(), *map(tuple, given)]
        symbols = sorted(symbols_of(size for each in every for size in each))
        try:
            return self._graph(sizes, values or {}, symbols)
        except UnknownValueError:
            raise
        except (ShapeError, UnsupportedError) as error:
            if not symbols:
                raise
            # shapes that do not fit with symbols may fit with numbers
            undecided = UndecidedSizeError(error.what, (symbol.name for symbol in symbols))
            raise undecided.at(error.where or "the graph") from error

    def _graph(
        self,
        sizes: Mapping[str, tuple[Size, ...]],
        values: Mapping[str, Array],
        symbols: Sequence[Symbol],
        *,
        divided: bool = False,
    ) -> Graph:
        """Return the program. If it is ``divided``, a graph break follows the ops that define
        symbols; this is so too if the nodes after them need numbers."""
        for value in self._tensors:
            dtype, where = DTYPES[value.type], f"input {value.name!r}"
            check_size(sizes[value.name], dtype, self._max_bytes, where)
        elements = {name: value for name, value in values.items() if holds_sizes(value)}
        fixed = {name: value for name, value in values.items() if name not in elements}
        constants = {**self._constants, **_constants(self._inputs, fixed)}
        inputs = [value for value in self._tensors if value.name not in constants]
        names = [value.name for value in inputs]
        types = [tensor(element_type(DTYPES[v.type]), sizes[v.name]) for v in inputs]
        sizes_of = {name: each.reshape(-1).tolist() for name, each in elements.items()}
        func = make_main(names, types, sizes_of)
        build = Builder(func.body.block, self._max_bytes, symbols)
        again = partial(self._graph, sizes, values, symbols, divided=True)
        arguments: dict[str, Known] = dict(
            zip(names, build.values(func.body.block.args), strict=True)
        )
        arguments |= {value.name: Handed() for value in self._inputs if value.type in HELD}
        for value in inputs:
            if value.name in elements:
                arguments[value.name] = build.sizes_as(elements[value.name], DTYPES[value.type])
        parts = self._model, build, names, self._subprogram
        try:
            returned, rest = GraphConversion(*parts, divided=divided).run(arguments, constants)
        except (ShapeError, UndecidedSizeError, UnsupportedError):
            if divided or not build.defined:
                raise
            return again()
        # a graph may list one value as an output twice
        wanted = [value.name for value in self._model.graph.outputs] if rest is None else returned
        finish_main(func, list(wanted), [returned[name].ssa for name in wanted])
        module = build.module(func)
        declare_symbols(module, [*symbols, *build.defined])
        is_whole = bool(build.defined) and not divided
        return Graph(module, build.weights, rest=rest, divided=again if is_whole else None)

    @property
    def _tensors(self) -> list[GraphValue]:
        return [value for value in self._inputs if value.type not in HELD]

    def _shapes(self, shapes: Mapping[str, tuple[Size, ...]]) -> dict[str, tuple[Size, ...]]:
        missing = [value.name for value in self._inputs if value.name not in shapes]
        extra = sorted(shapes.keys() - {value.name for value in self._inputs})
        if missing or extra:
            raise InputError(
                "shapes for the wrong inputs",
                expected=", ".join(value.name for value in self._inputs) or "none",
                found=", ".join(shapes) or "none",
            )
        symbols: dict[str, Size] = {}
        return {v.name: _matched(v, tuple(shapes[v.name]), symbols) for v in self._inputs}


def _info(value: GraphValue) -> ValueInfo:
    if value.type in HELD:
        return ValueInfo(value.name, value.type, ())
    shape = (f"{value.name}:*",) if value.shape is None else value.shape
    return ValueInfo(value.name, value.type, shape)


def _matched(
    value: GraphValue, shape: tuple[Size, ...], symbols: dict[str, Size]
) -> tuple[Size, ...]:
    """Return ``shape`` if it matches the input's declared shape, otherwise raise ShapeError.

    ``symbols`` maps the declared symbols to sizes, and gets those of this input: equal symbols must
    have equal sizes.
    """
    declared = value.shape or ()
    fits = len(shape) == len(declared) and all(
        size >= 0 and size == (dim if isinstance(dim, int) else symbols.setdefault(dim, size))
        for size, dim in zip(shape, declared, strict=True)
    )
    if not fits:
        known = [
            f"{dim}={symbols[dim]}" for dim in declared if isinstance(dim, str) and dim in symbols
        ]
        raise ShapeError(
            "an input's shape does not fit the model",
            where=f"input {value.name!r}",
            expected=f"[{', '.join(map(str, declared))}]"
            + (f" with {', '.join(known)}" if known else ""),
            found=str(list(shape)),
        )
    return shape


def _constants(
    inputs: Iterable[GraphValue], given: Mapping[str, npt.ArrayLike]
) -> dict[str, Tensor]:
    values = {value.name: value for value in inputs}
    return {name: _constant(name, values, array) for name, array in given.items()}


def _constant(name: str, values: Mapping[str, GraphValue], given: npt.ArrayLike) -> Tensor:
    if name not in values:
        raise InputError(
            "a value for an input that the model does not have",
            expected=f"one of {', '.join(values)}",
            found=repr(name),
        )
    check_dense(given, f"input {name!r}")
    array: Array = as_own(np.asarray(given))
    if values[name].type in DTYPES and array.dtype != DTYPES[values[name].type]:
        raise InputError(
            "a value of the wrong type",
            where=f"input {name!r}",
            expected=values[name].type,
            found=dtype_name(array.dtype),
        )
    _matched(values[name], array.shape, {})
    return Tensor.of(name, array)
