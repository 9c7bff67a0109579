"""`tessella serve` in a process: clients, hostile requests, and shutdown."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.tools.serve.running import TABLE, Running, document, rows, running, write_lookup

INFER = "/v2/models/lookup/infer"
BINARY = "Inference-Header-Content-Length"


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_lookup(tmp_path_factory.mktemp("lookup"))


@pytest.fixture(scope="module")
def server(artifact: Path) -> Generator[Running]:
    with running([artifact], "--batch", "16", "--wait", "0.3", "--max-body", "1") as found:
        yield found


def test_the_server_describes_itself(server: Running) -> None:
    assert server.ask("/v2/health/live")[0] == server.ask("/v2/health/ready")[0] == 200
    assert server.ask("/v2/models/lookup/versions/1/ready")[0] == 200
    assert server.ask("/v2")[1]["extensions"] == ["binary_tensor_data"]
    assert server.ask("/v2/models/lookup")[1] == {
        "name": "lookup",
        "versions": ["1"],
        "platform": "tessella",
        "inputs": [
            {"name": "index", "datatype": "INT64", "shape": [-1]},
            {"name": "text", "datatype": "BYTES", "shape": [-1]},
        ],
        "outputs": [
            {"name": "row", "datatype": "FP32", "shape": [-1, 3]},
            {"name": "same", "datatype": "BYTES", "shape": [-1]},
        ],
    }
    for path, status in (("/v2/models/none", 404), ("/v2/models/lookup/versions/2", 404)):
        found, answer = server.ask(path)
        assert found == status
        assert "expected: lookup, version 1" in answer["error"]
    assert server.ask("/nowhere")[0] == 404
    assert server.ask(INFER)[0] == server.ask("/v2", b"")[0] == 405


@pytest.mark.parametrize("is_binary", [False, True])
def test_the_client_of_triton_works(server: Running, is_binary: bool) -> None:
    client: Any = pytest.importorskip("tritonclient.http")
    with client.InferenceServerClient(f"127.0.0.1:{server.port}") as connection:
        assert connection.is_server_live()
        assert connection.is_server_ready()
        assert connection.is_model_ready("lookup", "1")
        assert connection.get_model_metadata("lookup")["inputs"][0]["name"] == "index"
        index, text = (
            client.InferInput("index", [2], "INT64"),
            client.InferInput("text", [2], "BYTES"),
        )
        index.set_data_from_numpy(np.array([4, 7]), binary_data=is_binary)
        text.set_data_from_numpy(np.array(["a", "ü"], np.object_), binary_data=is_binary)
        names = ("same", "row")
        outputs = [client.InferRequestedOutput(n, binary_data=is_binary) for n in names]
        for compression in (None, "gzip", "deflate"):
            found = connection.infer(
                "lookup",
                [index, text],
                outputs=outputs,
                request_id="9",
                request_compression_algorithm=compression,
            )
            assert found.get_response()["id"] == "9"
            assert np.array_equal(found.as_numpy("row"), TABLE[[4, 7]])
            same = [t.decode() if isinstance(t, bytes) else t for t in found.as_numpy("same")]
            assert same == ["a", "ü"]
        with pytest.raises(client.InferenceServerException, match="input 'text'"):
            connection.infer("lookup", [index, client.InferInput("text", [1, 2], "BYTES")])


def test_requests_run_together_and_a_wrong_one_fails_alone(server: Running) -> None:
    answers: dict[int, tuple[int, Any]] = {}

    def ask(index: int) -> None:
        answers[index] = server.ask(INFER, document([index]))

    threads = [threading.Thread(target=ask, args=(i,)) for i in (1, 2, 3, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index in (1, 2, 3):
        assert np.array_equal(rows(answers[index][1]), TABLE[[index]])
    status, answer = answers[50]
    assert status == 400
    assert "out of range" in answer["error"]
    metrics = server.ask("/metrics")[1]
    assert 'tessella_requests_total{model="lookup",status="400"}' in metrics
    runs, requests = (
        _metric(metrics, f"tessella_run_requests_{kind}") for kind in ("count", "sum")
    )
    assert runs < requests


def _metric(text: str, name: str) -> float:
    [line] = [line for line in text.splitlines() if line.startswith(f"{name}{{")]
    return float(line.split()[-1])


def _tensor(**changes: object) -> bytes:
    """A request with changes of its first input; a value of None leaves an entry out."""
    found = json.loads(document([1]))
    first = {**found["inputs"][0], **changes}
    found["inputs"][0] = {name: value for name, value in first.items() if value is not None}
    return json.dumps(found).encode()


def _sized(size: object, data: bytes = b"\1" + bytes(7)) -> bytes:
    return _tensor(data=None, parameters={"binary_data_size": size}) + data


def _json_size(body: bytes) -> dict[str, str]:
    return {BINARY: str(body.rindex(b"}") + 1)}


DEEP = b'{"inputs":' + b"[" * 200_000
HOSTILE: dict[str, tuple[bytes, dict[str, str]]] = {
    "nothing": (b"", {}),
    "no JSON": (b"\xff\xfe{", {}),
    "a list": (b"[]", {}),
    "deep JSON": (DEEP, {}),
    "deep data": (_tensor(data=json.loads("[" * 500 + "]" * 500)), {}),
    "NaN": (document([1]).replace(b"[1]", b"[NaN]"), {}),
    "Infinity": (document([1]).replace(b"[1]", b"[-Infinity]"), {}),
    "a large float": (_tensor(data=[1e300]), {}),
    "a large integer": (_tensor(data=[10**30]), {}),
    "too many digits": (document([1]).replace(b"[1]", b"[" + b"9" * 5000 + b"]"), {}),
    "a boolean": (_tensor(data=[True]), {}),
    "a string": (_tensor(data=["1"]), {}),
    "null": (_tensor(data=[None]), {}),
    "an object": (_tensor(data=[{}]), {}),
    "unequal lists": (_tensor(data=[[1], [2, 3]], shape=[3]), {}),
    "too few elements": (_tensor(shape=[2]), {}),
    "a huge shape": (_tensor(shape=[10**18]), {}),
    "a shape beyond 64 bits": (_tensor(shape=[10**40]), {}),
    "a negative shape": (_tensor(shape=[-1]), {}),
    "a float as a size": (_tensor(shape=[1.0]), {}),
    "a boolean as a size": (_tensor(shape=[True]), {}),
    "a wrong rank": (_tensor(shape=[1, 1]), {}),
    "two sizes of one dimension": (_tensor(shape=[2], data=[1, 2]), {}),
    "a wrong datatype": (_tensor(datatype="FP32"), {}),
    "an unknown datatype": (_tensor(datatype="é" * 1000), {}),
    "no name": (_tensor(name=None), {}),
    "an unknown name": (_tensor(name="x" * 100_000), {}),
    "an input twice": (_tensor(name="text"), {}),
    "no data": (_tensor(data=None), {}),
    "shared memory": (_tensor(parameters={"shared_memory_region": "a"}), {}),
    "an input that is no object": (b'{"inputs": [1]}', {}),
    "an unknown output": (document([1], outputs=[{"name": "z"}]), {}),
    "a lone surrogate": (document([1], ["\ud800"]), {}),
    "a negative size": (_sized(-1), _json_size(_sized(-1))),
    "a size beyond the body": (_sized(9), _json_size(_sized(9))),
    "a size that does not fit": (_sized(7), _json_size(_sized(7))),
    "bytes that are left": (_sized(8, bytes(12)), _json_size(_sized(8, bytes(12)))),
    "a size that is a string": (_sized("8"), _json_size(_sized("8"))),
    "JSON beyond the body": (document([1]), {BINARY: "100000"}),
    "a negative JSON": (document([1]), {BINARY: "-5"}),
    "an unknown encoding": (document([1]), {"Content-Encoding": "br"}),
    "no gzip": (document([1]), {"Content-Encoding": "gzip"}),
    "a large body": (b" " * (2 << 20), {}),
}


def test_hostile_requests_get_an_error_and_hurt_no_other(server: Running) -> None:
    good = json.loads(document([5]))
    wrong: dict[str, object] = {}
    for name, (body, headers) in HOSTILE.items():
        status, answer = server.ask(INFER, body, headers)
        if not (400 <= status < 500 and "bug" not in answer["error"]):
            wrong[name] = status, answer
        assert len(str(answer)) < 2000, name
    assert wrong == {}
    status, answer = server.ask(INFER, json.dumps(good).encode())
    assert np.array_equal(rows(answer), TABLE[[5]])


POST = b"POST %b HTTP/1.1\r\nHost: x\r\n" % INFER.encode()
LINES = (
    b"\x16\x03\x01 no HTTP at all\r\n\r\n",
    b"GET /v2 HTTP/1.1\r\nHost: x\r\nA: " + b"a" * (1 << 20),
    POST + b"Content-Length: 99999999999999999999\r\n\r\n{",
    POST + b"Content-Length: -1\r\n\r\n{",
    POST + b"Content-Length: 2\r\n\r\n{}{}{}{}\r\n\r\n",
    POST + b"Content-Length: 500\r\n\r\n{",
    POST + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n",
)


def test_broken_connections_hurt_no_other(server: Running) -> None:
    kept = server.connect()
    for line in LINES:
        with socket.create_connection(("127.0.0.1", server.port), timeout=60) as connection:
            try:
                connection.sendall(line)
                connection.shutdown(socket.SHUT_WR)
                found = connection.recv(1 << 16)
            except (ConnectionError, OSError):  # the server has closed it
                found = b""
        assert not found or found.split()[1].startswith(b"4"), line
        kept.request("POST", INFER, document([6]))
        assert np.array_equal(rows(json.loads(kept.getresponse().read())), TABLE[[6]])
    kept.close()


def test_requests_in_flight_are_answered_when_the_server_stops(artifact: Path) -> None:
    with running([artifact], "--batch", "64", "--wait", "3") as server:
        connection = server.connect()
        connection.request("POST", INFER, document([3, 4]))
        seen = ("requests_in_flight 1", "requests_total{")  # in flight, or already answered
        while not any(map(server.ask("/metrics")[1].__contains__, seen)):
            time.sleep(0.01)
        server.process.terminate()
        answer = connection.getresponse()
        assert answer.status == 200
        assert np.array_equal(rows(json.loads(answer.read())), TABLE[[3, 4]])
        connection.close()
        assert server.process.wait(60) == 0


def test_serving_needs_no_compiler() -> None:
    names = "{'xdsl', 'llvmlite', 'onnx'}"
    code = f"import sys, tessella.tools.commands.serve; assert not {names} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)
