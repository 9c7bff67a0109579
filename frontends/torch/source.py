"""A graph of PyTorch as a source of programs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tessella.dialects.graph import Graph, finish_main, make_main
from tessella.dialects.nn.core import element_type, tensor
from tessella.dialects.sizes import declare_symbols
from tessella.driver.specialise.open_sizes import Bounds
from tessella.frontends.emitter import Array, Emitter, Value
from tessella.frontends.torch.conversion import AtenConversion, Known, Node, is_tensor
from tessella.frontends.torch.sizes import (
    bounds_of,
    evaluated,
    expression_of,
    kind_of,
    ranges_of,
    symbols_of,
    text_of,
)
from tessella.frontends.torch.tensors import array_of, dtype_of
from tessella.runtime.elements import dtype_name
from tessella.runtime.signature import ValueInfo
from tessella.support import sizes
from tessella.support.errors import (
    TessellaError,
    UnknownValueError,
)
from tessella.support.sizes import Size

INT64, FLOAT = np.dtype(np.int64), np.dtype(np.float64)
"""The element types of numbers that are inputs or results."""


@dataclass(frozen=True)
class Result:
    """A result of a graph: its name, and the node or the number that it is."""

    name: str
    value: Any


class TorchSource:
    """A graph of torch.fx as a source of programs.

    Placeholders with an entry in ``constants`` become constants. Sizes that the shapes of other
    inputs determine are no inputs.
    """

    fingerprint: str | None = None
    symbols: Sequence[sizes.Symbol] = ()

    def __init__(
        self,
        module: Any,
        results: Sequence[Result],
        constants: Mapping[str, Any],
        names: Mapping[str, str] | None = None,
        ranges: Mapping[Any, Any] | None = None,
    ) -> None:
        """``constants`` are tensors by the names of placeholders, ``names`` the names of inputs, if
        they differ from those of the placeholders. ``ranges`` are PyTorch's ranges of the symbols,
        if they differ from those that it knows with the sizes."""
        self._ranges = ranges
        self._module = module
        self._results = results
        self._constants = constants
        nodes = [node for node in module.graph.nodes if node.op == "placeholder"]
        self._names: dict[str, str] = {node.name: node.name for node in nodes} | {**(names or {})}
        self._placeholders: Sequence[Node] = [n for n in nodes if n.name not in constants]
        tensors = [n.meta["val"] for n in self._placeholders if is_tensor(n.meta["val"])]
        plain = {text_of(d) for value in tensors for d in value.shape}
        self.taken: list[Node] = [
            n
            for n in self._placeholders
            if _is_value(n.meta["val"]) or self._is_asked(n.meta["val"], plain)
        ]
        """The placeholders that are inputs, in order."""
        self.inputs: Sequence[ValueInfo] = [self._info(node) for node in self.taken]
        self.outputs: Sequence[ValueInfo] = [
            ValueInfo(r.name, *_type(_meta(r.value))) for r in results
        ]

    def _is_asked(self, value: Any, plain: set[int | str]) -> bool:
        """Return whether a number is an input: a size that no shape determines."""
        return kind_of(value) is int and not plain >= {*map(str, symbols_of(value))}

    def _info(self, node: Node) -> ValueInfo:
        return ValueInfo(self._names[node.name], *_type(node.meta["val"]))

    @property
    def numbers(self) -> Sequence[Callable[[float], Any] | None]:
        """For each result that is a number, the type that it has in Python; None for a tensor."""
        return [
            None if is_tensor(_meta(each.value)) else _kind(each.value) for each in self._results
        ]

    @property
    def elements(self) -> Mapping[str, tuple[int | str, ...]]:
        """The names of the sizes that are inputs, by the names of these inputs."""
        numbers = (n for n in self.taken if not _is_value(n.meta["val"]))
        return {self._info(n).name: (text_of(n.meta["val"]),) for n in numbers}

    @property
    def determining(self) -> Sequence[str]:
        """The names of the sizes that are inputs."""
        return [*self.elements]

    @property
    def bounds(self) -> Mapping[str, Bounds]:
        """The bounds of the symbols, by name."""
        found: dict[str, Bounds] = {}
        for node in self._placeholders:
            value = node.meta["val"]
            for size in value.shape if is_tensor(value) else [value]:
                if kind_of(size) is int:
                    ranges = self._ranges or ranges_of(size)
                    found |= {str(s): bounds_of(s, ranges) for s in symbols_of(size)}
        names = {d for i in self.inputs for d in (*i.shape, *self.elements.get(i.name, ()))}
        return {name: each for name, each in found.items() if name in names}

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the program for these shapes. See ``Source``. Raises TessellaError."""
        given = values or {}
        known = self._sizes(shapes, given)
        symbolic = {n: a.reshape(-1).tolist() for n, a in given.items() if a.dtype == object}
        columns = zip(self.taken, self.inputs, strict=True)
        # a size that is a number in the program is not an input of it
        taken = [(n, i) for n, i in columns if i.name not in given or i.name in symbolic]
        names = [info.name for _, info in taken]
        types = [tensor(element_type(_dtype(n.meta["val"])), shapes[i.name]) for n, i in taken]
        main = make_main(names, types, symbolic)
        emit = Emitter(main.body.block, lambda: conversion.where)
        conversion = _Program(emit, self._attribute)
        arguments = dict(zip(names, emit.values(main.body.block.args), strict=True))
        inputs: dict[Node, str] = dict.fromkeys(self._placeholders, "")
        inputs.update((n, i.name) for n, i in zip(self.taken, self.inputs, strict=True))
        for node in self._placeholders:
            name = inputs[node]
            is_value = name in arguments and name not in symbolic
            conversion.known[node] = arguments[name] if is_value else known.of(node.meta["val"])
        returned = conversion.run(self._module.graph.nodes, self._constants, self._results)
        finish_main(main, [r.name for r in self._results], [value.ssa for value in returned])
        module = emit.module(main)
        declare_symbols(module, known.symbols)
        return Graph(module, emit.weights)

    def _attribute(self, name: str) -> Any:
        found = self._module
        for part in name.split("."):
            found = getattr(found, part)
        return found

    def _sizes(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array]
    ) -> _KnownSizes:
        texts: dict[str, Size] = {}
        missing: list[str] = []
        for info, node in zip(self.inputs, self.taken, strict=True):
            pairs = zip(info.shape, shapes[info.name], strict=True)
            texts |= {dim: size for dim, size in pairs if isinstance(dim, str)}
            if _is_value(node.meta["val"]):
                continue
            if info.name not in values:
                missing.append(info.name)
                continue
            text = str(expression_of(node.meta["val"]))
            texts[text] = values[info.name].reshape(-1).tolist()[0]
        if missing:
            raise UnknownValueError("a size", missing)
        return _KnownSizes(texts)


class _KnownSizes:
    """The sizes that a call tells, by their text."""

    def __init__(self, texts: Mapping[str, Size]) -> None:
        self._texts = texts
        self.symbols = sorted(sizes.symbols_of(texts.values()))

    def of(self, value: Any) -> Known:
        """Return the size of a SymInt; any other value as it is."""
        if kind_of(value) is None:
            return value
        if (text := str(expression_of(value))) in self._texts:
            return self._texts[text]
        return evaluated(expression_of(value), lambda symbol: self._texts[str(symbol)])


class _Program(AtenConversion):
    """The conversion of a whole graph."""

    def __init__(self, emit: Emitter, attribute: Callable[[str], Any]) -> None:
        super().__init__(emit, attribute)
        self.where: str | None = None

    def run(
        self, nodes: Sequence[Node], constants: Mapping[str, Any], results: Sequence[Result]
    ) -> list[Value]:
        """Convert all nodes, and return the values of results. Raises TessellaError."""
        for node in nodes:
            self.where = node.name
            if node.op == "placeholder" and node.name in constants:
                array = array_of(constants[node.name])
                self.known[node] = self.emit.constant(array, node.name)
            elif node.op not in ("placeholder", "output"):
                self.convert(node)
        return [self._result(each.value) for each in results]

    def _result(self, value: Any) -> Value:
        found = self.value(value)
        if isinstance(found, Value):
            return found
        if isinstance(found, float):
            return self.emit.scalar(found, FLOAT)
        if found is None:
            raise TessellaError("a result of a graph has no value", found=str(value))
        return self.emit.scalar(found, INT64)


def _meta(value: Any) -> Any:
    """Return what PyTorch knows of a result."""
    return value.meta["val"] if hasattr(value, "meta") else value


def _kind(value: Any) -> Callable[[float], Any]:
    """Return the type in Python of a result that is a number."""
    meta = _meta(value)
    return kind_of(meta) or type(meta)


def _is_value(value: Any) -> bool:
    """Return whether a placeholder is a value of the program: a tensor, or a float without
    dimensions."""
    return is_tensor(value) or kind_of(value) is float


def _dtype(value: Any) -> np.dtype[Any]:
    if is_tensor(value):
        return dtype_of(value.dtype)
    return FLOAT if (kind_of(value) or type(value)) is float else INT64


def _type(value: Any) -> tuple[str, tuple[int | str, ...]]:
    """Return the element type and the shape of a fake tensor or a number."""
    shape = tuple(map(text_of, value.shape)) if is_tensor(value) else ()
    return dtype_name(_dtype(value)), shape
