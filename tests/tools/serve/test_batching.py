"""Which requests run together, and which models may."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper

import tessella
from tessella.runtime.model import CallableModel
from tessella.support.errors import ExecutionError, OptionError, TessellaError
from tessella.tools.serve.app import check_types
from tessella.tools.serve.batching import Batcher, check_rows
from tests.tools.networks import network, open_batch

Array = npt.NDArray[Any]


class Doubling:
    """A model that doubles rows, refuses -1, and records the shapes of its calls."""

    def __init__(self) -> None:
        self.shapes: list[tuple[int, ...]] = []

    def run(self, names: None, feeds: Mapping[str, Array]) -> Sequence[Array]:
        x = feeds["x"]
        self.shapes.append(x.shape)
        if (x == -1).any():
            raise ExecutionError("there is a -1")
        if (x == -2).any():
            raise ZeroDivisionError
        return [x * 2]


def outcomes(
    requests: Sequence[Array], most: int, wait: float
) -> tuple[list[Any], list[tuple[int, ...]]]:
    """The results or errors of requests that arrive at once, and the shapes of the model's
    calls."""
    model = Doubling()

    async def run(executor: ThreadPoolExecutor) -> list[Any]:
        batcher = Batcher(cast(CallableModel, model), executor, 1, most, wait, lambda count: None)
        runs = (batcher.run({"x": x}) for x in requests)
        return await asyncio.gather(*runs, return_exceptions=True)

    with ThreadPoolExecutor(2) as executor:
        return asyncio.run(run(executor)), model.shapes


def rows(*values: float, width: int = 2) -> Array:
    return np.repeat(np.array([values], np.float32).T, width, axis=1)


def test_requests_of_equal_sizes_run_together() -> None:
    requests = [rows(1), rows(2, 3), rows(4, width=3), rows(5), rows(6, width=3).astype("f8")]
    found, shapes = outcomes(requests, most=8, wait=0.05)
    assert sorted(shapes) == [(1, 3), (1, 3), (4, 2)]
    assert all(np.array_equal(y, 2 * x) for x, [y] in zip(requests, found, strict=True))


def test_a_run_has_no_more_rows_than_allowed() -> None:
    requests = [rows(*range(n)) for n in (3, 3, 1, 9, 2, 0)]
    found, shapes = outcomes(requests, most=4, wait=0.2)
    assert sorted(rows for rows, _ in shapes) == [0, 2, 3, 4, 9]
    assert all(np.array_equal(y, 2 * x) for x, [y] in zip(requests, found, strict=True))


def test_without_batches_each_request_runs_alone() -> None:
    found, shapes = outcomes([rows(1), rows(2)], most=1, wait=5)
    assert shapes == [(1, 2)] * 2
    assert [y[0, 0] for [y] in found] == [2, 4]


@pytest.mark.parametrize("value, kind", [(-1, ExecutionError), (-2, TessellaError)])
def test_an_error_is_of_its_request_alone(value: int, kind: type[TessellaError]) -> None:
    found, shapes = outcomes([rows(1), rows(value), rows(3)], most=8, wait=0.05)
    assert shapes == [(3, 2), *[(1, 2)] * 3]
    assert isinstance(found[1], kind)
    assert [found[i][0][0, 0] for i in (0, 2)] == [2, 6]


def over_rows() -> onnx.ModelProto:
    """A model whose softmax adds up rows."""
    nodes = [helper.make_node("Softmax", ["x"], ["y"], axis=0)]
    return network(nodes, {"x": ("N", 4)}, {"y": ("N", 4)}, {})


def test_models_that_do_not_compute_rows_are_refused() -> None:
    check_rows(tessella.compile(open_batch()), 8, "open")
    fixed = network([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 4)}, {"y": (2, 4)}, {})
    for model, text in ((over_rows(), "depends on the other rows"), (fixed, "one symbol")):
        with pytest.raises(OptionError, match=text):
            check_rows(tessella.compile(model), 8, "model")


def test_models_with_types_that_the_protocol_lacks_are_refused() -> None:
    value = helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT8E4M3FN, [2])
    same = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT8E4M3FN, [2])
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [value], [same])
    opset = helper.make_opsetid("", 19)
    proto = helper.make_model(graph, opset_imports=[opset], ir_version=9)
    with pytest.raises(OptionError, match="lacks types"):
        check_types(tessella.compile(proto), "model")
