"""The HTTP server of models: uvicorn with the application of `app.py`."""

from __future__ import annotations

import contextlib
import signal
import socket
import sys
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from importlib import import_module
from types import FrameType
from typing import Any

from tessella.runtime.model import CallableModel
from tessella.tools.serve.app import App, Endpoint, Limits, check_types
from tessella.tools.serve.batching import Batcher, check_rows
from tessella.tools.serve.metrics import Metrics
from tessella.tools.serve.refusal import missing_package

_HEAD = 64 << 10
"""The largest size of the request line and the headers, in bytes."""


@dataclass(frozen=True)
class ServerSettings:
    """The settings of a server."""

    host: str = "127.0.0.1"
    port: int = 8000
    runs: int = 1
    """The largest number of simultaneous runs of a model."""
    batch: int = 1
    """The largest number of rows that run together; with 1, each request runs alone."""
    wait: float = 0.002
    """The longest time in seconds that a request waits for others to run with."""
    grace: int = 30
    """The longest time in seconds that a stopping server waits for requests in flight."""
    limits: Limits = field(default_factory=Limits)


def serve(
    models: Mapping[str, CallableModel], settings: ServerSettings, started: Callable[[str], None]
) -> None:
    """Serve models until a signal stops the process; ``started`` is called with the URL.

    After SIGTERM or SIGINT, no connection is accepted, and requests in flight are answered. Raises
    OptionError for a model that cannot be served, and OSError if the address cannot be used.
    """
    app, executor = application(models, settings)
    with executor, listening(settings.host, settings.port) as listener:
        server = _server(app, settings)
        with _ending_on(signal.SIGTERM):
            started(_url(listener))
            server.run(sockets=[listener])


def application(
    models: Mapping[str, CallableModel], settings: ServerSettings
) -> tuple[App, ThreadPoolExecutor]:
    """Return the application that serves models, and the executor of their runs. Raises OptionError
    for a model that cannot be served."""
    metrics = Metrics()
    for name, model in models.items():
        check_types(model, name)
        if settings.batch > 1:
            check_rows(model, settings.batch, name)
    executor = ThreadPoolExecutor(settings.runs * len(models), "tessella-serve")

    def endpoint(name: str, model: CallableModel) -> Endpoint:
        observe = metrics.run_requests.labels(name).observe
        size = (settings.runs, settings.batch, settings.wait)
        return Endpoint(name, model, Batcher(model, executor, *size, observe))

    endpoints = {name: endpoint(name, model) for name, model in models.items()}
    return App(endpoints, settings.limits, metrics), executor


def _server(app: App, settings: ServerSettings) -> Any:
    try:
        uvicorn: Any = import_module("uvicorn")
    except ImportError as error:
        raise missing_package("uvicorn") from error
    config = uvicorn.Config(
        app,
        http="h11",  # h11 bounds the size of headers
        h11_max_incomplete_event_size=_HEAD,
        loop="asyncio",
        ws="none",
        lifespan="off",
        access_log=False,
        log_level="warning",
        server_header=False,
        timeout_graceful_shutdown=settings.grace,
    )
    return uvicorn.Server(config)


def listening(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address. Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.create_server((host, port), family=family, backlog=2048)
    # Connections inherit the option; asyncio sets it only if the socket names its protocol.
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def _url(listener: socket.socket) -> str:
    host, port, *_ = listener.getsockname()
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextlib.contextmanager
def _ending_on(number: int) -> Generator[None]:
    """Let a signal end the process with the exit code 0. uvicorn raises the signal again after it
    has stopped."""

    def end(_number: int, _frame: FrameType | None) -> None:
        sys.exit(0)

    before = signal.signal(number, end)
    try:
        yield
    finally:
        signal.signal(number, before)
