"""The server's ASGI application: its paths, limits and answers."""

from __future__ import annotations

import asyncio
import json
import logging
import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import tessella
from tessella.runtime.model import CallableModel
from tessella.support.errors import OptionError, TessellaError
from tessella.tools.serve import protocol, tensors
from tessella.tools.serve.batching import Batcher
from tessella.tools.serve.bodies import inflated
from tessella.tools.serve.metrics import Metrics
from tessella.tools.serve.refusal import BUSY, LARGE, METHOD, PATH, SLOW, RequestError, status_of

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]

_LOG = logging.getLogger("tessella.serve")
_CLOSING = (LARGE, SLOW)
"""Statuses after which the connection is closed, because the rest of the request is not read."""


@dataclass(frozen=True)
class Limits:
    """Bounds on requests."""

    body: int = 64 << 20
    """The largest size of a body in bytes, before and after decompression."""
    elements: int = 1 << 26
    """The largest number of elements of a tensor."""
    requests: int = 64
    """The largest number of requests that are read or computed at the same time."""
    seconds: float = 30.0
    """The longest time in seconds for reading the body of a request."""


@dataclass(frozen=True)
class Endpoint:
    """A model that is served under a name."""

    name: str
    model: CallableModel
    batcher: Batcher

    def metadata(self) -> dict[str, Any]:
        """Return the protocol's description of the model."""
        return {
            "name": self.name,
            "versions": ["1"],
            "platform": "tessella",
            "inputs": [*map(protocol.metadata_of, self.model.inputs)],
            "outputs": [*map(protocol.metadata_of, self.model.outputs)],
        }


def check_types(model: CallableModel, where: str) -> None:
    """Raise OptionError if the protocol lacks the type of an input or output of a model."""
    infos = [*model.inputs, *model.outputs]
    lacking = [str(info) for info in infos if tensors.datatype_of(info.dtype) is None]
    if lacking:
        raise OptionError(
            "the Open Inference Protocol lacks types that the model uses",
            where=where,
            expected=f"tensors of {', '.join(tensors.DATATYPES)}",
            found=", ".join(lacking),
        )


@dataclass(frozen=True)
class _Answer:
    status: int
    body: bytes
    headers: Mapping[str, str]


def _json(document: object, status: int = 200) -> _Answer:
    return _Answer(status, json.dumps(document).encode(), {"content-type": "application/json"})


_MODEL = r"/v2/models/(?P<name>[^/]+)(?:/versions/(?P<version>[^/]+))?"


class App:
    """An ASGI application that serves models."""

    def __init__(self, endpoints: Mapping[str, Endpoint], limits: Limits, metrics: Metrics) -> None:
        self._endpoints = endpoints
        self._limits = limits
        self._metrics = metrics
        self._in_flight = 0
        self._routes = [
            (re.compile(path), method, answer)
            for path, method, answer in (
                ("/v2/?", "GET", self._server),
                ("/v2/health/(?:live|ready)", "GET", self._health),
                ("/metrics", "GET", self._measured),
                (_MODEL, "GET", self._metadata),
                (f"{_MODEL}/ready", "GET", self._health),
                (f"{_MODEL}/infer", "POST", self._infer),
            )
        ]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] != "http":
            return
        began = perf_counter()
        try:
            answer = await self._answer(scope, receive)
        except TessellaError as error:
            answer = _json({"error": str(error)}, status_of(error))
        except Exception as error:  # the server continues
            answer = _json({"error": f"tessella has a bug: {type(error).__name__}: {error}"}, 500)
            _LOG.exception("a request failed")
        await _sent(answer, send)
        self._count(scope["path"], answer.status, perf_counter() - began)

    async def _answer(self, scope: Scope, receive: Receive) -> _Answer:
        allowed: list[str] = []
        for path, method, answer in self._routes:
            found = path.fullmatch(scope["path"])
            if found is None:
                continue
            if method == scope["method"]:
                return await answer(found.groupdict(), scope, receive)
            allowed.append(method)
        raise RequestError(
            "the method is not allowed" if allowed else "there is no such path",
            status=METHOD if allowed else PATH,
            where=scope["path"][:200],
            expected=", ".join(allowed) or "/v2/models/NAME/infer, /v2/health/ready, /metrics",
            found=scope["method"],
        )

    async def _server(self, names: Mapping[str, str], scope: Scope, receive: Receive) -> _Answer:
        extensions = ["binary_tensor_data"]
        return _json(
            {"name": "tessella", "version": tessella.__version__, "extensions": extensions}
        )

    async def _health(self, names: Mapping[str, str], scope: Scope, receive: Receive) -> _Answer:
        if "name" not in names:
            return _json({"live": True, "ready": True})
        return _json({"name": self._endpoint(names).name, "ready": True})

    async def _measured(self, names: Mapping[str, str], scope: Scope, receive: Receive) -> _Answer:
        text, kind = self._metrics.text()
        return _Answer(200, text, {"content-type": kind})

    async def _metadata(self, names: Mapping[str, str], scope: Scope, receive: Receive) -> _Answer:
        return _json(self._endpoint(names).metadata())

    async def _infer(self, names: Mapping[str, str], scope: Scope, receive: Receive) -> _Answer:
        endpoint = self._endpoint(names)
        if self._in_flight >= self._limits.requests:
            raise RequestError(
                "the server is busy",
                status=BUSY,
                expected=f"at most {self._limits.requests} requests at the same time",
                hint="try again later, or raise --max-requests",
            )
        self._in_flight += 1
        try:
            with self._metrics.in_flight.track_inprogress():
                return await self._inferred(endpoint, _headers(scope), receive)
        finally:
            self._in_flight -= 1

    async def _inferred(
        self, endpoint: Endpoint, headers: Mapping[str, str], receive: Receive
    ) -> _Answer:
        model, limits = endpoint.model, self._limits
        body = await _body(headers, receive, limits)
        body = inflated(body, headers.get("content-encoding"), limits.body)
        json_size = headers.get(protocol.HEADER)
        signature = (model.inputs, model.outputs)
        request = protocol.request_of(body, json_size, *signature, limits.elements)
        results = await endpoint.batcher.run(request.feeds)
        return _Answer(200, *protocol.answer_of(endpoint.name, request, model.outputs, results))

    def _endpoint(self, names: Mapping[str, str | None]) -> Endpoint:
        name, version = names["name"] or "", names.get("version")
        if name in self._endpoints and version in (None, "1"):
            return self._endpoints[name]
        raise RequestError(
            "there is no such model or version",
            status=PATH,
            expected=f"{', '.join(self._endpoints)}, version 1",
            found=f"{name[:100]}, version {version or '1'}"[:200],
        )

    def _count(self, path: str, status: int, seconds: float) -> None:
        if not path.endswith("/infer"):
            return
        name = path.split("/")[3:4]
        known = name[0] if name and name[0] in self._endpoints else ""
        self._metrics.requests.labels(known, status).inc()
        self._metrics.seconds.labels(known).observe(seconds)


def _headers(scope: Scope) -> dict[str, str]:
    pairs = ((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
    return {name.lower(): value for name, value in pairs}


async def _body(headers: Mapping[str, str], receive: Receive, limits: Limits) -> bytes:
    """Return the body of a request. Raises RequestError if it is too large or too slow."""
    declared = headers.get("content-length", "0")
    if declared.isascii() and declared.isdigit() and int(declared[:20]) > limits.body:
        raise _too_large(limits, f"{declared[:20]} bytes")
    parts: list[bytes] = []
    size = 0
    try:
        async with asyncio.timeout(limits.seconds):
            more = True
            while more:
                message = await receive()
                if message["type"] == "http.disconnect":
                    raise RequestError("the client has closed the connection", status=SLOW)
                parts.append(message.get("body", b""))
                size += len(parts[-1])
                if size > limits.body:
                    raise _too_large(limits, f"more than {size - 1} bytes")
                more = message.get("more_body", False)
    except TimeoutError as error:
        raise RequestError(
            "the body of the request takes too long",
            status=SLOW,
            expected=f"all of it within {limits.seconds:g} s",
            found=f"{size} bytes",
        ) from error
    return b"".join(parts)


def _too_large(limits: Limits, found: str) -> RequestError:
    return RequestError(
        "the body of the request is too large",
        status=LARGE,
        expected=f"at most {limits.body} bytes",
        found=found,
        hint="send less, or raise --max-body",
    )


async def _sent(answer: _Answer, send: Send) -> None:
    headers = {**answer.headers, "content-length": str(len(answer.body))}
    if answer.status in _CLOSING:
        headers["connection"] = "close"
    if answer.status == BUSY:
        headers["retry-after"] = "1"
    encoded = [(name.encode(), value.encode()) for name, value in headers.items()]
    await send({"type": "http.response.start", "status": answer.status, "headers": encoded})
    await send({"type": "http.response.body", "body": answer.body})
