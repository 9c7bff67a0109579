"""The reader of a model's tensors: types, shapes and data are checked before decoding."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx

from tessella.frontends.onnx.external import ExternalFiles, location
from tessella.frontends.onnx.model import DTYPES, Array, Tensor
from tessella.runtime.elements import dtype_name, unpacked
from tessella.runtime.texts import of_list
from tessella.support.elements import ELEMENTS
from tessella.support.errors import InvalidModelError

_ELEMENTS = {element.public: element for element in ELEMENTS.values()}
_BY_CODE = {element.onnx: element for element in ELEMENTS.values() if element.onnx}
_STORED = {"float16": "uint16", "complex64": "float32", "complex128": "float64"}
"""The dtypes in which a tensor's field stores elements as their bits, where these are not the
dtypes of the elements' storage."""


# The protobuf field that holds the elements of a tensor without raw data, by element type.
_FIELDS: dict[str, Callable[[onnx.TensorProto], Any]] = {
    "float32": lambda t: t.float_data,
    "float64": lambda t: t.double_data,
    "complex64": lambda t: t.float_data,
    "complex128": lambda t: t.double_data,
    "int64": lambda t: t.int64_data,
    "uint32": lambda t: t.uint64_data,
    "uint64": lambda t: t.uint64_data,
    **{n: lambda t: t.int32_data for n in ("bool", "int8", "int16", "int32", "uint8", "uint16")},
    "float16": lambda t: t.int32_data,
    **{name: lambda t: t.int32_data for name in DTYPES if _ELEMENTS[name].is_tagged},
}


def element_name(code: int) -> str:
    """Return NumPy's name of an ONNX element type, that of ``ml_dtypes`` if NumPy does not have the
    type, or ONNX's own name."""
    if code in _BY_CODE:
        return _BY_CODE[code].public
    try:
        return onnx.TensorProto.DataType.Name(code).lower()
    except ValueError:
        return f"type number {code}"


def element_code(dtype: np.dtype[Any]) -> int:
    """Return the ONNX element type of a dtype, the inverse of ``element_name``."""
    return _ELEMENTS[dtype_name(dtype)].onnx


class TensorReader:
    """The reader that creates ``Tensor`` values from the protobuf tensors of one model."""

    def __init__(self, files: ExternalFiles) -> None:
        self._files = files

    def tensor(self, proto: onnx.TensorProto, where: str) -> Tensor:
        """Return a tensor from protobuf. Raises InvalidModelError if its data does not match its
        shape."""
        type, shape = element_name(proto.data_type), checked_shape(proto.dims, where)
        name = checked_name(proto.name)
        if proto.HasField("segment"):
            raise InvalidModelError("a tensor in segments, which nothing writes", where=where)
        if type not in DTYPES:
            return Tensor(name, type, shape, _unreadable(type, where))
        return Tensor(name, type, shape, self._reader(proto, type, shape, where))

    def sparse(self, proto: onnx.SparseTensorProto, where: str) -> Tensor:
        """Return a sparse tensor from protobuf in dense form, which is computed when the tensor is
        read."""
        values = self.tensor(proto.values, where)
        indices = self.tensor(proto.indices, where)
        shape = checked_shape(proto.dims, where)
        if not values.supported:
            return Tensor(values.name, values.type, shape, values.read)
        return Tensor(
            values.name, values.type, shape, lambda: _dense(values, indices, shape, where)
        )

    def _reader(
        self, proto: onnx.TensorProto, type: str, shape: tuple[int, ...], where: str
    ) -> Callable[[], Array]:
        if type == "string":
            return _strings(proto, shape, where)
        dtype = DTYPES[type].newbyteorder("<")
        element = _ELEMENTS[type]
        size = element.bytes(math.prod(shape))
        if proto.data_location == onnx.TensorProto.EXTERNAL:
            entries = {entry.key: entry.value for entry in proto.external_data}
            place = location(entries, size, where)
            self._files.check(place, where)
            return lambda: _from_bytes(self._files.read(place, where), dtype, shape)
        if proto.HasField("raw_data"):
            raw = proto.raw_data
            _check_size(len(raw), size, "bytes", where)
            return lambda: _from_bytes(raw, dtype, shape)
        field, is_packed = _FIELDS[type](proto), element.bits < 8
        count = size if is_packed else math.prod(shape) * (1 + element.is_complex)
        _check_size(len(field), count, "bytes" if is_packed else "elements", where)
        array = np.array(field, np.uint64 if type.startswith("u") else None)
        # an unsafe cast, as int32_data also stores smaller integers, which are in range in
        # well-formed files
        stored = array.astype(_STORED.get(type, element.dtype), casting="unsafe")
        decoded = _from_bytes(stored.tobytes(), dtype, shape)
        return lambda: decoded


def _strings(proto: onnx.TensorProto, shape: tuple[int, ...], where: str) -> Callable[[], Array]:
    if proto.HasField("raw_data") or proto.data_location == onnx.TensorProto.EXTERNAL:
        raise InvalidModelError("a tensor of strings has its data as bytes", where=where)
    data = proto.string_data
    _check_size(len(data), math.prod(shape), "elements", where)
    try:
        array = of_list([text.decode() for text in data], shape)
    except UnicodeDecodeError as error:
        raise InvalidModelError("a string is not UTF-8", where=where) from error
    return lambda: array


def external_tensors(graph: onnx.GraphProto) -> Iterator[onnx.TensorProto]:
    """Yield the tensors of a graph, and of graphs in its nodes, whose data is in files."""
    tensors = list(graph.initializer)
    for attribute in (a for node in graph.node for a in node.attribute):
        tensors += [attribute.t, *attribute.tensors]
        for inner in (attribute.g, *attribute.graphs):
            yield from external_tensors(inner)
    yield from (t for t in tensors if t.data_location == onnx.TensorProto.EXTERNAL)


def checked_name(text: object) -> str:
    """Return a string of the protobuf. Raises InvalidModelError if it is not UTF-8, in which case
    protobuf returns bytes."""
    if not isinstance(text, str):
        raise InvalidModelError("a name in the model is not UTF-8", found=repr(text)[:80])
    return text


def checked_shape(dims: Any, where: str) -> tuple[int, ...]:
    """Return a tensor's dimensions as a shape. Raises InvalidModelError for a negative
    dimension."""
    shape = tuple(int(dim) for dim in dims)
    if any(dim < 0 for dim in shape):
        raise InvalidModelError("a dimension is negative", where=where, found=str(list(shape)))
    return shape


def _check_size(found: int, expected: int, unit: str, where: str) -> None:
    if found != expected:
        raise InvalidModelError(
            "a tensor's data does not fit its shape and type",
            where=where,
            expected=f"{expected} {unit}",
            found=str(found),
        )


def _from_bytes(data: bytes | bytearray, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    if dtype.kind == "b":
        # any byte other than 0 is true; NumPy's bool allows only 0 and 1
        return (np.frombuffer(data, np.uint8) != 0).reshape(shape)
    if _ELEMENTS[dtype_name(dtype)].bits < 8:
        return unpacked(np.frombuffer(data, np.uint8), shape, dtype)
    array = np.frombuffer(data, dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="), copy=False)


def _unreadable(type: str, where: str) -> Callable[[], Array]:
    def read() -> Array:
        raise InvalidModelError(f"a tensor of type {type} cannot be read", where=where)

    return read


def _dense(values: Tensor, indices: Tensor, shape: tuple[int, ...], where: str) -> Array:
    dense = np.zeros(math.prod(shape), values.array.dtype)
    places = indices.array.astype(np.int64)
    broken = InvalidModelError("a sparse tensor's indices do not fit its shape", where=where)
    if places.ndim == 2 and places.shape == (values.array.size, len(shape)):
        if not ((places >= 0) & (places < np.array(shape, np.int64))).all():
            raise broken
        places = np.ravel_multi_index(tuple(places.T), shape)
    if places.shape != (values.array.size,) or not ((places >= 0) & (places < dense.size)).all():
        raise broken
    dense[places] = values.array.reshape(-1)
    return dense.reshape(shape)
