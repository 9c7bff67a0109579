"""The parser from ``onnx.ModelProto`` to plain typed values: the only module that walks the
protobuf."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

import onnx

from tessella.frontends.onnx.differentiated import with_graphs
from tessella.frontends.onnx.external import ExternalFiles
from tessella.frontends.onnx.model import (
    AttributeReference,
    GraphValue,
    Node,
    NodeGraph,
    OnnxFunction,
    OnnxModel,
    Opaque,
)
from tessella.frontends.onnx.tensors import TensorReader, checked_name, element_name
from tessella.runtime.signature import UNKNOWN
from tessella.support.errors import InvalidModelError

_K = TypeVar("_K", bound=Hashable)


def parse_model(proto: onnx.ModelProto, files: ExternalFiles) -> OnnxModel:
    """Return a model from protobuf. Tensors in ``files`` are checked now, and read when they are
    used."""
    parser = _ModelParser(TensorReader(files))
    functions = [parser.function(f) for f in proto.functions]
    keys = [
        (_domain(f.domain), checked_name(f.name), checked_name(f.overload)) for f in proto.functions
    ]
    for domain, name, _ in _repeated(keys):
        raise InvalidModelError("a function is defined twice", found=f"{domain}.{name}")
    graph = parser.graph(proto.graph)
    return OnnxModel(
        graph,
        _opsets(proto.opset_import),
        dict(zip(keys, functions, strict=True)),
        files=tuple(sorted(files.names)),
    )


def parse_function(data: bytes) -> OnnxFunction:
    """Parse a serialized function, the form in which ``onnx.defs`` stores the bodies of ops."""
    return _ModelParser(TensorReader(ExternalFiles(None))).function(
        onnx.FunctionProto.FromString(data)
    )


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else checked_name(name)


def _opsets(imports: Iterable[onnx.OperatorSetIdProto]) -> dict[str, int]:
    return {_domain(entry.domain): entry.version for entry in imports}


class _ModelParser:
    def __init__(self, tensors: TensorReader) -> None:
        self._tensors = tensors
        table: dict[int, Callable[[onnx.AttributeProto, str], Any]] = {
            onnx.AttributeProto.FLOAT: lambda a, _: a.f,
            onnx.AttributeProto.INT: lambda a, _: a.i,
            onnx.AttributeProto.STRING: lambda a, where: _text(a.s, where),
            onnx.AttributeProto.TENSOR: lambda a, where: tensors.tensor(a.t, where),
            onnx.AttributeProto.SPARSE_TENSOR: lambda a, where: tensors.sparse(
                a.sparse_tensor, where
            ),
            onnx.AttributeProto.GRAPH: lambda a, _: self.graph(a.g),
            onnx.AttributeProto.FLOATS: lambda a, _: tuple(a.floats),
            onnx.AttributeProto.INTS: lambda a, _: tuple(a.ints),
            onnx.AttributeProto.STRINGS: lambda a, where: tuple(_text(s, where) for s in a.strings),
        }
        self._table = table

    def graph(self, proto: onnx.GraphProto) -> NodeGraph:
        tensors = [
            self._tensors.tensor(t, f"initializer {checked_name(t.name)!r}")
            for t in proto.initializer
        ]
        tensors += [
            self._tensors.sparse(t, f"initializer {checked_name(t.values.name)!r}")
            for t in proto.sparse_initializer
        ]
        by_name = {tensor.name: tensor for tensor in tensors}
        for name in _repeated([tensor.name for tensor in tensors]):
            raise InvalidModelError("two initializers have one name", found=repr(name))
        return NodeGraph(
            checked_name(proto.name),
            self._nodes(proto.node),
            tuple(_value(value) for value in proto.input),
            tuple(_value(value) for value in proto.output),
            by_name,
        )

    def function(self, proto: onnx.FunctionProto) -> OnnxFunction:
        where = f"function {proto.name!r}"
        defaults = {checked_name(a.name): self._attribute(a, where) for a in proto.attribute_proto}
        return OnnxFunction(
            checked_name(proto.name),
            tuple(map(checked_name, proto.input)),
            tuple(map(checked_name, proto.output)),
            self._nodes(proto.node),
            defaults,
            _opsets(proto.opset_import),
        )

    def _nodes(self, protos: Iterable[onnx.NodeProto]) -> tuple[Node, ...]:
        return with_graphs(self._node(proto, index) for index, proto in enumerate(protos))

    def _node(self, proto: onnx.NodeProto, index: int) -> Node:
        name = checked_name(proto.name) or f"{proto.op_type}_{index}"
        where = f"node {name!r} ({proto.op_type})"
        return Node(
            checked_name(proto.op_type),
            _domain(proto.domain),
            checked_name(proto.overload),
            name,
            tuple(map(checked_name, proto.input)),
            tuple(map(checked_name, proto.output)),
            self._attributes(proto, where),
        )

    def _attributes(self, proto: onnx.NodeProto, where: str) -> Mapping[str, Any]:
        attributes: dict[str, Any] = {}
        for attribute in proto.attribute:
            if attribute.name in attributes:
                raise InvalidModelError(
                    "an attribute is given twice", where=where, found=repr(attribute.name)
                )
            attributes[checked_name(attribute.name)] = self._attribute(attribute, where)
        return attributes

    def _attribute(self, proto: onnx.AttributeProto, where: str) -> Any:
        if proto.ref_attr_name:
            return AttributeReference(checked_name(proto.ref_attr_name))
        if proto.type in self._table:
            return self._table[proto.type](proto, f"{where}, attribute {proto.name!r}")
        return Opaque(str(proto.type))


def _repeated(items: Iterable[_K]) -> Iterator[_K]:
    """Yield each item that has occurred before."""
    seen: set[_K] = set()
    for item in items:
        if item in seen:
            yield item
        seen.add(item)


def _text(data: bytes, where: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise InvalidModelError("a text is not UTF-8", where=where) from error


def type_of(proto: onnx.ValueInfoProto) -> str:
    """Return the element type of a tensor, or the kind of a value that is not a tensor; `UNKNOWN`
    if the model gives no type."""
    kind = proto.type.WhichOneof("value")
    if kind == "tensor_type":
        return element_name(proto.type.tensor_type.elem_type)
    return UNKNOWN if kind is None else kind.removesuffix("_type")


def _value(proto: onnx.ValueInfoProto) -> GraphValue:
    tensor, type = proto.type.tensor_type, type_of(proto)
    dims = tensor.shape.dim if tensor.HasField("shape") else None
    if dims is None:
        return GraphValue(checked_name(proto.name), type, None)
    return GraphValue(
        checked_name(proto.name),
        type,
        tuple(_dim(dim, f"{proto.name}:{i}") for i, dim in enumerate(dims)),
    )


def _dim(proto: onnx.TensorShapeProto.Dimension, unknown: str) -> int | str:
    """Return a dimension: its size, or its symbol, or else the symbol ``unknown``."""
    if proto.HasField("dim_value"):
        if proto.dim_value < 0:
            raise InvalidModelError(
                "a dimension is negative",
                where=f"value {unknown.rpartition(':')[0]!r}",
                found=str(proto.dim_value),
                hint="a dimension that is not known has a name or nothing in its place",
            )
        return proto.dim_value
    return checked_name(proto.dim_param) or unknown
