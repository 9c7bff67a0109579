"""Requests and answers of the Open Inference Protocol.

A body is a JSON document. With the header ``Inference-Header-Content-Length``, which has the size
of the document, the binary data of tensors follows the document.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NoReturn, TypeVar, cast

import numpy.typing as npt

from tessella.runtime.signature import ValueInfo, fits
from tessella.tools.serve import tensors
from tessella.tools.serve.refusal import LARGE, RequestError

Array = npt.NDArray[Any]
Document = Mapping[str, Any]
X = TypeVar("X")

HEADER = "inference-header-content-length"
"""The HTTP header with the size of the JSON document before binary data."""

MAX_JSON = 16 << 20
"""The largest size of a JSON document in bytes. Its values take up to 30 times as much memory."""


@dataclass(frozen=True)
class RequestedOutput:
    """An output that a request wants returned."""

    position: int
    is_binary: bool


@dataclass(frozen=True)
class InferenceRequest:
    """A request that has been checked against the signature of its model."""

    id: str | None
    feeds: Mapping[str, Array]
    outputs: Sequence[RequestedOutput]


def request_of(
    body: bytes,
    json_size: str | None,
    inputs: Sequence[ValueInfo],
    outputs: Sequence[ValueInfo],
    most_elements: int,
) -> InferenceRequest:
    """Return the request in a body. Raises RequestError."""
    document, binary = _document(body, json_size)
    feeds = _feeds(document, binary, inputs, most_elements)
    parameters = _parameters(document, "the request")
    is_binary = _flag(parameters, "binary_data_output", "the request")
    return InferenceRequest(
        _optional(document, "id", str, "the request"),
        feeds,
        _outputs(document, [info.name for info in outputs], is_binary),
    )


def answer_of(
    name: str, request: InferenceRequest, outputs: Sequence[ValueInfo], results: Sequence[Array]
) -> tuple[bytes, dict[str, str]]:
    """Return the body and the headers of the answer. Raises RequestError for results that JSON
    cannot represent."""
    listed: list[dict[str, Any]] = []
    binary: list[bytes] = []
    for each in request.outputs:
        info, array = outputs[each.position], results[each.position]
        where = f"output {info.name!r}"
        datatype = tensors.datatype_of_array(array)
        if datatype is None:
            raise RequestError(f"the protocol lacks the type {array.dtype}", where=where)
        shape = [*array.shape]
        entry: dict[str, Any] = {"name": info.name, "datatype": datatype, "shape": shape}
        if each.is_binary:
            binary.append(tensors.to_binary(array))
            entry["parameters"] = {"binary_data_size": len(binary[-1])}
        else:
            entry["data"] = tensors.to_json(array, where)
        listed.append(entry)
    head = {} if request.id is None else {"id": request.id}
    document = {**head, "model_name": name, "model_version": "1", "outputs": listed}
    encoded = json.dumps(document).encode()
    if not binary:
        return encoded, {"content-type": "application/json"}
    headers = {"content-type": "application/octet-stream", HEADER: str(len(encoded))}
    return b"".join([encoded, *binary]), headers


def metadata_of(info: ValueInfo) -> dict[str, Any]:
    """Return the protocol's description of an input or output; -1 is a symbolic dimension."""
    shape = [size if isinstance(size, int) else -1 for size in info.shape]
    return {"name": info.name, "datatype": tensors.datatype_of(info.dtype), "shape": shape}


def _document(body: bytes, json_size: str | None) -> tuple[Document, memoryview]:
    size = len(body) if json_size is None else _size(json_size, len(body))
    if size > MAX_JSON:
        raise RequestError(
            "the JSON document is too large",
            status=LARGE,
            expected=f"at most {MAX_JSON} bytes",
            found=f"{size} bytes",
            hint="send tensors as binary data",
        )
    try:
        found = json.loads(body[:size].decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise RequestError("the request is not JSON", found=str(error)[:200]) from error
    if not isinstance(found, dict):
        raise RequestError("the request is not a JSON object", found=type(found).__name__)
    return cast(Document, found), memoryview(body)[size:]


def _no_constant(text: str) -> NoReturn:
    raise ValueError(f"{text}, which JSON lacks; send such numbers as binary data")


def _size(text: str, most: int) -> int:
    if text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= most:
        return int(text)
    raise RequestError(
        f"the header {HEADER} is wrong",
        expected=f"a number of bytes up to the size of the body, {most}",
        found=text[:40],
    )


def _feeds(
    document: Document, binary: memoryview, inputs: Sequence[ValueInfo], most_elements: int
) -> dict[str, Array]:
    """Return the arrays of the inputs by name."""
    infos = {info.name: info for info in inputs}
    feeds: dict[str, Array] = {}
    for entry in _list(document, "inputs", "the request"):
        name = _needed(entry, "name", str, "an input")
        if name not in infos or name in feeds:
            raise RequestError(
                f"the model has no input {name[:100]!r}"
                if name not in infos
                else f"the input {name!r} is given twice",
                expected=", ".join(infos) or "no inputs",
            )
        feeds[name], binary = _array(entry, infos[name], binary, most_elements)
    if len(binary):
        raise RequestError(
            "the body has bytes that belong to no input",
            expected="the sum of the parameters binary_data_size of all inputs",
            found=f"{len(binary)} more",
        )
    if missing := [name for name in infos if name not in feeds]:
        raise RequestError(f"inputs are missing: {', '.join(missing)}")
    return {name: feeds[name] for name in infos}


def _array(
    entry: Document, info: ValueInfo, binary: memoryview, most_elements: int
) -> tuple[Array, memoryview]:
    """Return the array of an input, and the binary data of the inputs after it."""
    where = f"input {info.name!r}"
    shape = _shape(entry, info, most_elements, where)
    datatype = _needed(entry, "datatype", str, where)
    wanted = tensors.datatype_of(info.dtype)
    if datatype != wanted:
        raise RequestError(
            "the datatype is wrong", where=where, expected=wanted, found=datatype[:40]
        )
    size = _optional(_parameters(entry, where), "binary_data_size", int, where)
    if size is None:
        return tensors.from_json(entry.get("data"), shape, datatype, where), binary
    if "data" in entry or not 0 <= size <= len(binary):
        raise RequestError(
            "binary_data_size is wrong",
            where=where,
            expected=f"no 'data', and a size from 0 to {len(binary)}, the bytes that are left",
            found=str(size)[:40],
        )
    return tensors.from_binary(binary[:size], shape, datatype, where), binary[size:]


def _shape(entry: Document, info: ValueInfo, most_elements: int, where: str) -> tuple[int, ...]:
    sizes = cast(list[Any], _needed(entry, "shape", list, where))
    expected = f"[{', '.join(map(str, info.shape))}]"
    if not all(type(size) is int for size in sizes) or not fits(sizes, info.shape):
        raise RequestError(
            "the shape is wrong", where=where, expected=expected, found=f"{sizes}"[:200]
        )
    # NumPy also refuses large sizes beside a 0
    if prod(max(size, 1) for size in sizes) > most_elements:
        raise RequestError(
            "the tensor is too large",
            status=LARGE,
            where=where,
            expected=f"at most {most_elements} elements",
            found=f"{sizes}"[:200],
        )
    return tuple(sizes)


def _outputs(
    document: Document, names: Sequence[str], is_binary: bool
) -> Sequence[RequestedOutput]:
    entries = _list(document, "outputs", "the request") if document.get("outputs") else []
    if not entries:
        return [RequestedOutput(position, is_binary) for position in range(len(names))]
    found: dict[str, RequestedOutput] = {}
    for entry in entries:
        name = _needed(entry, "name", str, "an output")
        if name not in names or name in found:
            raise RequestError(
                f"the output {name[:100]!r} is unknown, or requested twice",
                expected=f"some of {', '.join(names)}",
            )
        where = f"output {name!r}"
        parameters = _parameters(entry, where)
        found[name] = RequestedOutput(
            names.index(name), _flag(parameters, "binary_data", where, is_binary)
        )
    return [*found.values()]


_UNSUPPORTED = ("shared_memory_region", "classification", "sequence_id")
"""Parameters of Triton's extensions that change the meaning of a request."""


def _parameters(entry: Document, where: str) -> Document:
    parameters = cast(Document, _optional(entry, "parameters", dict, where) or {})
    for name in _UNSUPPORTED:
        if parameters.get(name):
            raise RequestError(f"the parameter {name!r} is not supported", where=where)
    return parameters


def _flag(parameters: Document, name: str, where: str, default: bool = False) -> bool:
    found = _optional(parameters, name, bool, where)
    return default if found is None else found


def _list(document: Document, name: str, where: str) -> list[Document]:
    entries = cast(list[Any], _needed(document, name, list, where))
    if not all(isinstance(entry, dict) for entry in entries):
        raise RequestError(f"{name!r} has entries that are not objects", where=where)
    return entries


def _needed(entry: Document, name: str, kind: type[X], where: str) -> X:
    found = _optional(entry, name, kind, where)
    if found is None:
        raise RequestError(f"{name!r} is missing", where=where, expected=_KINDS[kind])
    return found


def _optional(entry: Document, name: str, kind: type[X], where: str) -> X | None:
    found = entry.get(name)
    if found is None or type(found) is kind:
        return found
    raise RequestError(
        f"{name!r} has the wrong type",
        where=where,
        expected=_KINDS[kind],
        found=type(found).__name__,
    )


_KINDS: dict[type, str] = {
    str: "a string",
    int: "an integer",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}
"""JSON's names of types."""
