"""Models that keep outputs for the next call."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.support.errors import InputError, TessellaError

Array = np.ndarray[Any, Any]


def cache_model() -> onnx.ModelProto:
    """Return a model that appends to a cache and sums it: ``present = concat(past, x)``."""
    nodes = [
        helper.make_node("Concat", ["past", "x"], ["present"], axis=0),
        helper.make_node("ReduceSum", ["present"], ["total"], keepdims=0),
    ]
    infos = [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, shape)
        for name, shape in (
            *(("x", [1, 3]), ("past", ["past", 3])),
            *(("total", []), ("present", ["past + 1", 3])),
        )
    ]
    graph = helper.make_graph(nodes, "cache", infos[:2], infos[2:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def ones(rows: int) -> Array:
    return np.ones((rows, 3), np.float32)


@pytest.mark.parametrize("dims", ["auto", {}])
def test_a_cache_that_grows(dims: Any) -> None:
    model = tessella.compile(cache_model(), dims=dims)
    bound = model.bind({"past": "present"}, {"past": ones(0)})
    for count in range(1, 25):
        assert bound(x=ones(1)) == 3 * count
        np.testing.assert_array_equal(bound.state["past"], ones(count))
    bound.reset({"past": ones(7)})
    assert bound.run({"x": ones(1)}).keys() == {"total"}
    assert bound.state["past"].shape == (8, 3)


def test_nothing_is_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    model = tessella.compile(cache_model())
    bound = model.bind({"past": "present"}, {"past": ones(4)})
    given: list[Array] = []
    run = type(model).run

    def watched(self: Any, names: Any, feeds: dict[str, Array]) -> list[Array]:
        given.append(feeds["past"])
        return run(self, names, feeds)

    monkeypatch.setattr(type(model), "run", watched)
    bound(x=ones(1))
    kept = bound.state["past"]
    bound(x=ones(1))
    assert given[1] is kept


def test_an_error_keeps_the_state() -> None:
    bound = tessella.compile(cache_model()).bind({"past": "present"}, {"past": ones(2)})
    with pytest.raises(TessellaError):
        bound(x=ones(2))
    assert bound.state["past"].shape == (2, 3)
    assert bound(x=ones(1)) == 9


def test_a_sequence_that_grows() -> None:
    listed = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, None))
    nodes = [
        helper.make_node("SequenceInsert", ["past", "x"], ["present"]),
        helper.make_node("ConcatFromSequence", ["present"], ["y"], axis=0),
    ]
    x, y = (
        helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", [2]), ("y", None))
    )
    past, present = (helper.make_value_info(name, listed) for name in ("past", "present"))
    graph = helper.make_graph(nodes, "list", [x, past], [y, present])
    opsets = [helper.make_opsetid("", 17)]
    model = tessella.compile(helper.make_model(graph, opset_imports=opsets, ir_version=10))
    first = [np.zeros(2, np.float32), np.zeros(1, np.float32)]
    bound = model.bind({"past": "present"}, {"past": first})
    for i in range(1, 5):
        result = bound(x=np.full(2, i, np.float32))
        assert result.tolist() == [0, 0, 0, *(j for k in range(1, i + 1) for j in (k, k))]
        result.fill(-1)
    assert len(first) == 2
    bound.reset({"past": ()})
    assert bound(x=np.ones(2, np.float32)).tolist() == [1, 1]
    with pytest.raises(InputError, match="'past' is not a sequence"):
        bound.reset({"past": np.zeros(2, np.float32)})
    assert len(bound.state["past"]) == 1


def test_first_values_are_checked() -> None:
    with pytest.raises(InputError, match="'past' has the wrong shape"):
        tessella.compile(cache_model()).bind({"past": "present"}, {"past": np.float32(0)})


def test_wrong_names() -> None:
    model = tessella.compile(cache_model())
    with pytest.raises(InputError, match="no input 'cache' or no output 'present'"):
        model.bind({"cache": "present"}, {"cache": ones(0)})
    with pytest.raises(InputError, match="need their first values"):
        model.bind({"past": "present"}, {})
    bound = model.bind({"past": "present"}, {"past": ones(1)})
    with pytest.raises(InputError, match="'past' is kept"):
        bound(x=ones(1), past=ones(1))
    with pytest.raises(InputError, match="x"):
        bound()
