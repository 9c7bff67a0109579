"""Servers in separate processes, and requests to them."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

import tessella

TABLE = np.arange(30, dtype=np.float32).reshape(10, 3)


def write_lookup(folder: Path) -> Path:
    """Write an artifact of a model that looks up a row of ``TABLE`` for each index, and echoes a
    string."""
    graph = helper.make_graph(
        [
            helper.make_node("Gather", ["table", "index"], ["row"]),
            helper.make_node("Identity", ["text"], ["same"]),
        ],
        "lookup",
        [
            helper.make_tensor_value_info("index", TensorProto.INT64, ["N"]),
            helper.make_tensor_value_info("text", TensorProto.STRING, ["N"]),
        ],
        [
            helper.make_tensor_value_info("row", TensorProto.FLOAT, ["N", 3]),
            helper.make_tensor_value_info("same", TensorProto.STRING, ["N"]),
        ],
        [numpy_helper.from_array(TABLE, "table")],
    )
    opset = helper.make_opsetid("", 17)
    proto = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    onnx.checker.check_model(proto)
    path = folder / "lookup.tsl"
    tessella.compile(proto, dims={"N": (1, 64)}, prepare=True).save(path)
    return path


@dataclass
class Running:
    """A server."""

    process: subprocess.Popen[str]
    port: int

    def connect(self) -> HTTPConnection:
        return HTTPConnection("127.0.0.1", self.port, timeout=60)

    def ask(
        self,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        method: str | None = None,
    ) -> tuple[int, Any]:
        """The status and the JSON, or text, of an answer."""
        connection = self.connect()
        try:
            method = method or ("GET" if body is None else "POST")
            connection.request(method, path, body, dict(headers or {}))
            answer = connection.getresponse()
            text = answer.read().decode()
        finally:
            connection.close()
        is_json = answer.headers["content-type"] == "application/json"
        return answer.status, json.loads(text) if is_json else text


@contextmanager
def running(paths: Sequence[Path], *options: str) -> Generator[Running]:
    """Serve artifacts at a free port, until the block ends."""
    command = [sys.executable, "-m", "tessella", "serve", *map(str, paths), "--port", "0", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            line = process.stdout.readline()
            assert line.startswith("serving "), line
            yield Running(process, int(line.rpartition(":")[2]))
        finally:
            process.terminate()
            process.wait(60)


def document(index: object, text: object = None, **more: object) -> bytes:
    """The JSON of a request for rows of the table."""
    size = [len(index)] if isinstance(index, list) else []
    texts = ["x"] * sum(size) if text is None else text
    inputs = [
        {"name": "index", "datatype": "INT64", "shape": size, "data": index},
        {"name": "text", "datatype": "BYTES", "shape": size, "data": texts},
    ]
    return json.dumps({"inputs": inputs, **more}).encode()


def rows(answer: Mapping[str, Any]) -> npt.NDArray[np.float32]:
    """The rows in an answer."""
    [output] = [each for each in answer["outputs"] if each["name"] == "row"]
    return np.array(output["data"], np.float32).reshape(output["shape"])
