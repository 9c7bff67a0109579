"""Functions that call a model over HTTP, from `tessella serve`."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Generator, Sequence
from contextlib import ExitStack, closing, contextmanager
from http.client import HTTPConnection
from pathlib import Path

import numpy as np

import tessella
from tessella.tools.peers import Feeds
from tessella.tools.serve import tensors
from tessella.tools.serve.protocol import HEADER
from tests.tools.serve.running import running

HTTP = "http"
"""The name by which `tessella serve` appears among the runtimes."""

Caller = Callable[[], object]


@contextmanager
def over_http(path: Path, threads: int, feeds: Feeds, count: int) -> Generator[Sequence[Caller]]:
    """Yield a list of ``count`` functions that call the model of an ONNX file, each over its own
    connection. The server can run ``count`` requests at the same time."""
    artifact = path.with_suffix(".tsl")
    tessella.compile(str(path), prepare=True).save(artifact)
    url = f"/v2/models/{artifact.stem}/infer"
    body, json_size = request(feeds)
    options = ("--threads", str(threads), "--runs", str(count))
    with running([artifact], *options) as server, ExitStack() as opened:
        connections = [opened.enter_context(closing(server.connect())) for _ in range(count)]
        headers = {HEADER: str(json_size)}
        yield [functools.partial(_call, each, url, body, headers) for each in connections]


def request(feeds: Feeds) -> tuple[bytes, int]:
    """Return the body of a request that asks for all outputs as binary data, and the size in bytes
    of the JSON in it."""
    arrays = {name: np.ascontiguousarray(array) for name, array in feeds.items()}
    data = {name: tensors.to_binary(array) for name, array in arrays.items()}
    inputs = [
        {
            "name": name,
            "datatype": tensors.datatype_of_array(array),
            "shape": list(array.shape),
            "parameters": {"binary_data_size": len(data[name])},
        }
        for name, array in arrays.items()
    ]
    document = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    head = json.dumps(document).encode()
    return b"".join([head, *data.values()]), len(head)


def _call(connection: HTTPConnection, url: str, body: bytes, headers: dict[str, str]) -> None:
    connection.request("POST", url, body, headers)
    answer = connection.getresponse()
    content = answer.read()
    if answer.status != 200:
        raise RuntimeError(content.decode())
    json.loads(content[: int(answer.headers[HEADER])])
