"""KServe's Python client against `tessella serve`: the client where it is installed, and otherwise
the requests that its version 0.21 sends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Generator, Mapping
from typing import Any

import numpy as np
import pytest

from tests.tools.serve.running import TABLE, Running, running, write_lookup

INDEX, TEXT = np.array([4, 7]), ("a", "ü")
RAW = (b"\4\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", b"\1\0\0\0a\2\0\0\0\xc3\xbc")
"""The elements as binary data: integers, and strings after their lengths."""
PATH = "/v2/models/lookup/infer"


def request(*, is_binary: bool) -> tuple[bytes, Mapping[str, str]]:
    """The body and the headers that `InferenceRESTClient.infer` sends."""
    inputs: list[dict[str, Any]] = [
        {"name": "index", "shape": [2], "datatype": "INT64"},
        {"name": "text", "shape": [2], "datatype": "BYTES"},
    ]
    for tensor, raw, data in zip(inputs, RAW, ([4, 7], [*TEXT]), strict=True):
        if is_binary:
            tensor["parameters"] = {"binary_data_size": len(raw)}
        else:
            tensor["data"] = data
    document = {"id": "7", "model_name": "lookup", "inputs": inputs}
    if not is_binary:
        return _encoded(document), {"content-type": "application/json"}
    text = _encoded({**document, "parameters": {"binary_data_output": True}})
    headers = {
        "inference-header-content-length": str(len(text)),
        "content-type": "application/octet-stream",
    }
    return b"".join((text, *RAW)), headers


def _encoded(document: object) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Generator[Running]:
    with running([write_lookup(tmp_path_factory.mktemp("lookup"))]) as found:
        yield found


def test_states(server: Running) -> None:
    assert server.ask("/v2/health/live")[1]["live"] is True
    assert server.ask("/v2/health/ready")[1]["ready"] is True
    assert server.ask("/v2/models/lookup/ready")[1]["ready"] is True


def test_a_request_as_json(server: Running) -> None:
    status, answer = server.ask(PATH, *request(is_binary=False))
    assert (status, answer["id"], answer["model_name"]) == (200, "7", "lookup")
    found = {each["name"]: each for each in answer["outputs"]}
    assert found["row"] == {
        "name": "row",
        "datatype": "FP32",
        "shape": [2, 3],
        "data": TABLE[INDEX].ravel().tolist(),
    }
    assert found["same"]["data"] == [*TEXT]


def test_a_request_as_binary_data(server: Running) -> None:
    connection = server.connect()
    body, headers = request(is_binary=True)
    connection.request("POST", PATH, body, dict(headers))
    answer = connection.getresponse()
    data = answer.read()
    connection.close()
    size = int(answer.headers["inference-header-content-length"])
    document, raw = json.loads(data[:size]), data[size:]
    assert (answer.status, document["id"], document["model_name"]) == (200, "7", "lookup")
    sizes = {each["name"]: each["parameters"]["binary_data_size"] for each in document["outputs"]}
    assert sizes == {"row": 24, "same": len(RAW[1])}
    assert raw == TABLE[INDEX].tobytes() + RAW[1]


@pytest.mark.parametrize("is_binary", [False, True])
def test_the_client(server: Running, is_binary: bool) -> None:
    kserve: Any = pytest.importorskip("kserve")
    httpx: Any = pytest.importorskip("httpx")
    url = f"http://127.0.0.1:{server.port}"
    index = kserve.InferInput("index", [2], "INT64")
    index.set_data_from_numpy(INDEX, binary_data=is_binary)
    text = kserve.InferInput("text", [2], "BYTES")
    text.set_data_from_numpy(np.array(TEXT, np.object_), binary_data=is_binary)
    wanted = {"binary_data_output": True} if is_binary else None
    given = kserve.InferRequest("lookup", [index, text], request_id="7", parameters=wanted)
    sent, _ = given.to_rest()
    assert (sent if is_binary else _encoded(sent)) == request(is_binary=is_binary)[0]

    async def talk() -> Any:
        client = kserve.InferenceRESTClient(kserve.RESTConfig(protocol="v2"))
        assert await client.is_server_live(url)
        assert await client.is_server_ready(url)
        assert await client.is_model_ready(url, "lookup")
        with pytest.raises(httpx.HTTPStatusError, match="there is no such model"):
            await client.infer(url, given, model_name="none")
        found = await client.infer(url, given, model_name="lookup")
        await client.close()
        return found

    found = asyncio.run(talk())
    assert (found.id, found.model_name) == ("7", "lookup")
    row, same = (found.get_output_by_name(name) for name in ("row", "same"))
    np.testing.assert_array_equal(row.as_numpy(), TABLE[INDEX])
    assert same.as_numpy().tolist() == [*TEXT]
