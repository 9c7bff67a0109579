"""The application in this process: limits, and elements of each type."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pytest

from tessella.runtime.elements import converted, dtype_named, widened
from tessella.runtime.model import CallableModel
from tessella.runtime.signature import ValueInfo
from tessella.support.elements import ELEMENTS
from tessella.tools.serve import protocol, tensors
from tessella.tools.serve.app import App, Limits
from tessella.tools.serve.bodies import inflated
from tessella.tools.serve.refusal import RequestError
from tessella.tools.serve.server import ServerSettings, application, listening

Array = npt.NDArray[Any]
Message = dict[str, Any]


class Same:
    """A model that returns its input."""

    inputs = (ValueInfo("x", "float32", ("N",)),)
    outputs = (ValueInfo("y", "float32", ("N",)),)

    def run(self, names: None, feeds: Mapping[str, Array]) -> Sequence[Array]:
        return [feeds["x"]]


def asked(messages: Sequence[Message], limits: Limits, count: int = 1) -> list[tuple[int, Any]]:
    """The answers to ``count`` equal requests that arrive at once. Each sends ``messages`` and then
    nothing."""

    async def one(app: App) -> tuple[int, Any]:
        left, sent = [*messages], list[Message]()

        async def receive() -> Message:
            if not left:
                await asyncio.Event().wait()
            return left.pop(0)

        async def send(message: Any) -> None:
            sent.append(message)

        scope: Message = {
            "type": "http",
            "method": "POST",
            "path": "/v2/models/same/infer",
            "headers": [],
        }
        await app(scope, receive, send)
        return sent[0]["status"], json.loads(sent[1]["body"])

    async def all_of_them(app: App) -> list[tuple[int, Any]]:
        return await asyncio.gather(*(one(app) for _ in range(count)))

    app, executor = application(
        {"same": cast(CallableModel, Same())}, ServerSettings(limits=limits)
    )
    with executor:
        return asyncio.run(all_of_them(app))


BODY = json.dumps(
    {"inputs": [{"name": "x", "datatype": "FP32", "shape": [3], "data": [1, 2.5, 3]}]}
).encode()
WHOLE: list[Message] = [{"type": "http.request", "body": BODY}]
HALVES: list[Message] = [
    {"type": "http.request", "body": BODY[:20], "more_body": True},
    {"type": "http.request", "body": BODY[20:], "more_body": False},
]


def test_a_body_may_come_in_parts() -> None:
    for messages in (WHOLE, HALVES):
        [(status, answer)] = asked(messages, Limits())
        assert status == 200
        assert answer["outputs"] == [
            {"name": "y", "datatype": "FP32", "shape": [3], "data": [1, 2.5, 3]}
        ]


@pytest.mark.parametrize(
    "messages, limits, status",
    [
        (HALVES[:1], Limits(seconds=0.01), 408),
        ([*HALVES[:1], {"type": "http.disconnect"}], Limits(), 408),
        (HALVES, Limits(body=len(BODY) - 1), 413),
        (WHOLE, Limits(elements=2), 413),
    ],
)
def test_limits(messages: Sequence[Message], limits: Limits, status: int) -> None:
    [(found, answer)] = asked(messages, limits)
    assert found == status
    assert answer["error"]


def test_a_busy_server_says_so() -> None:
    found = asked(HALVES[:1], Limits(requests=2, seconds=0.05), count=3)
    assert sorted(status for status, _ in found) == [408, 408, 503]


def test_bodies_are_inflated_to_the_limit() -> None:
    body = gzip.compress(bytes(1000))
    assert inflated(body, "gzip", 1000) == bytes(1000)
    with pytest.raises(RequestError, match="too large"):
        inflated(body, "gzip", 999)
    with pytest.raises(RequestError, match="beginning"):
        inflated(body[:-9], "gzip", 1000)


@pytest.mark.parametrize("name, datatype", tensors.DATATYPES.items())
def test_elements_of_each_type(name: str, datatype: str) -> None:
    dtype = tensors.dtype_of(datatype)
    public = ELEMENTS[name].public
    assert tensors.datatype_of(public) == datatype
    if datatype == "BYTES":
        array = np.array([["a", "", "ü"]], dtype)
    else:
        array = converted(np.array([[0, 1, 1]]), dtype_named(public))
    binary = memoryview(tensors.to_binary(array))
    listed = tensors.to_json(array, "y")
    for found in (
        tensors.from_binary(binary, (1, 3), datatype, "x"),
        tensors.from_json(listed, (1, 3), datatype, "x"),
        tensors.from_json([listed], (1, 3), datatype, "x"),
    ):
        assert found.dtype == dtype
        assert found.shape == (1, 3)
        assert widened(found).tolist() == widened(array).tolist()
    empty = tensors.from_json([], (0, 3), datatype, "x")
    assert (empty.shape, empty.dtype) == ((0, 3), dtype)


@pytest.mark.parametrize(
    "datatype, value", [("INT8", 128), ("UINT8", -1), ("FP16", 1e6), ("FP32", 1e39), ("INT32", 2.5)]
)
def test_numbers_that_a_type_lacks(datatype: str, value: float) -> None:
    with pytest.raises(RequestError, match=datatype):
        tensors.from_json([value], (1,), datatype, "x")


def test_json_has_no_infinity() -> None:
    with pytest.raises(RequestError, match="binary_data"):
        tensors.to_json(np.array([np.inf]), "y")


def test_strings_whose_lengths_lie() -> None:
    for data in (b"\1", b"\1\0\0\0", b"\2\0\0\0a", b"\1\0\0\0a\0\0\0\0", b"\xff\xff\xff\xffabc"):
        with pytest.raises(RequestError, match="strings"):
            tensors.from_binary(memoryview(data), (1,), "BYTES", "x")


def test_answers_are_sent_without_delay() -> None:
    with (
        listening("127.0.0.1", 0) as listener,
        socket.create_connection(listener.getsockname()),
        listener.accept()[0] as accepted,
    ):
        assert accepted.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)


def test_metadata_of_a_symbolic_dimension() -> None:
    assert protocol.metadata_of(Same.inputs[0])["shape"] == [-1]
