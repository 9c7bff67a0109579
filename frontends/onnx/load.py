"""Loading of models from a path, bytes or protobuf.

The contents of a model are untrusted, and none of it is ever executed. Raises InvalidModelError for
data that is not an ONNX model, or that breaks the rules of the format.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError

from tessella.frontends.onnx.external import ExternalFiles
from tessella.frontends.onnx.model import OnnxModel
from tessella.frontends.onnx.parse import parse_model
from tessella.frontends.onnx.tensors import TensorReader, external_tensors
from tessella.frontends.onnx.validate import check_format, check_names, with_types
from tessella.support.errors import InvalidModelError

Origin = str | os.PathLike[str] | bytes | onnx.ModelProto

_LARGEST = 2**31 - 1  # maximum size in bytes of a protobuf message


def open_model(origin: Origin) -> OnnxModel:
    """Return the model, after checks. External data is checked now, and read when it is used."""
    proto, files = _read(origin)
    return _checked(proto, files)


def load_model(origin: Origin) -> onnx.ModelProto:
    """Return the model as protobuf, after checks, with all external data read into it."""
    proto, files = _read(origin)
    _checked(proto, files)
    reader = TensorReader(files)
    for tensor in external_tensors(proto.graph):
        array = reader.tensor(tensor, f"tensor {tensor.name!r}").array
        tensor.ClearField("external_data")
        tensor.ClearField("data_location")
        tensor.raw_data = array.tobytes()
    return proto


def _checked(proto: onnx.ModelProto, files: ExternalFiles) -> OnnxModel:
    try:
        model = parse_model(proto, files)
        check_names(model)
        skeleton = check_format(proto)
    except UnicodeDecodeError as error:
        raise InvalidModelError(
            "a name in the model is not UTF-8", found=repr(error.object[:80])
        ) from error
    return with_types(model, skeleton)


def _read(origin: Origin) -> tuple[onnx.ModelProto, ExternalFiles]:
    if isinstance(origin, onnx.ModelProto):
        return _with_graph(origin, "the ModelProto"), ExternalFiles(None)
    if isinstance(origin, bytes | bytearray | memoryview):
        return _decode(bytes(origin), "the bytes"), ExternalFiles(None)
    if not isinstance(origin, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidModelError(
            "this is not a model",
            expected="a path, the bytes of an ONNX file, or an onnx.ModelProto",
            found=f"{origin!r:.80} of type {type(origin).__name__}",
        )
    path = Path(origin)
    return _decode(_contents(path), str(path)), ExternalFiles(path)


def _contents(path: Path) -> bytes:
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            raise InvalidModelError("a model must be a plain file", where=str(path))
        size = status.st_size
        if size > _LARGEST:
            raise InvalidModelError(
                "the file is too large to be an ONNX model",
                where=str(path),
                expected=f"at most {_LARGEST} bytes",
                found=str(size),
                hint="larger models keep their tensors in a file beside them (external data)",
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:  # a path with a null character raises ValueError
        reason = error.strerror if isinstance(error, OSError) else None
        raise InvalidModelError(
            f"cannot read the model: {reason or error}", where=str(path)
        ) from error


def _decode(data: bytes, where: str) -> onnx.ModelProto:
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except (DecodeError, ValueError) as error:
        raise _no_model(where, f"{len(data)} bytes that do not parse: {error}") from error
    return _with_graph(proto, where)


def _with_graph(proto: onnx.ModelProto, where: str) -> onnx.ModelProto:
    if not proto.HasField("graph"):
        raise _no_model(where, "nothing" if not proto.ByteSize() else "a message without a graph")
    return proto


def _no_model(where: str, found: str) -> InvalidModelError:
    return InvalidModelError(
        "this is not an ONNX model, or it is truncated",
        where=where,
        expected="a serialized onnx.ModelProto",
        found=found,
    )
