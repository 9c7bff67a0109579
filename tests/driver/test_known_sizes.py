"""Calls with sizes that were there before: what was checked and found for them is not done again,
and what does not fit is still refused."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import tessella
from tessella.runtime.model import MAX_KNOWN
from tessella.support.errors import InputError

Array = np.ndarray[Any, Any]

SLOW = {
    *("convert", "fits", "_check_symbols", "made", "_range", "_ends", "_version"),
    *("_fitting", "_covers", "_new_sizes", "_new_outputs", "maker", "value_of"),
}
"""Functions that check shapes, find the program that serves them, and make its sizes numbers."""


def added(shape: Sequence[int | str] = ("n", "m")) -> onnx.ModelProto:
    """``a + b``, which have the same shape."""
    infos = [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in "aby"]
    graph = helper.make_graph(
        [helper.make_node("Add", ["a", "b"], ["y"])], "g", infos[:2], infos[2:]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def pair(*shape: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(shape[0])
    return rng.standard_normal(shape, np.float32), rng.standard_normal(shape, np.float32)


def opened(folder: Path) -> Callable[..., Any]:
    return tessella.compile(added(), dims={}, threads=1)


def loaded(folder: Path) -> Callable[..., Any]:
    model = tessella.compile(added(), dims={}, threads=1)
    for shape in SHAPES:
        model(*pair(*shape))
    model.save(folder / "m.tsl")
    return tessella.load(folder / "m.tsl", threads=1)


def jitted(folder: Path) -> Callable[..., Any]:
    return tessella.jit(lambda a, b: a + b, dim_names={"a": {0: "n"}, "b": {0: "n"}}, threads=1)


SHAPES = ((5, 7), (6, 7), (20, 7))
"""Of two ranges."""


def called(run: Callable[[], object]) -> list[str]:
    """The functions of Python that are called, in order."""
    found: list[str] = []

    def tell(frame: Any, event: str, _: object) -> None:
        if event == "call":
            found.append(frame.f_code.co_name)

    before = sys.getprofile()
    sys.setprofile(tell)
    try:
        run()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("make", [opened, loaded, jitted])
def test_nothing_is_found_out_twice(make: Callable[[Path], Callable[..., Any]], tmp_path: Path):
    function = make(tmp_path)
    for shape in SHAPES:
        function(*pair(*shape))
    for shape in (*SHAPES, *reversed(SHAPES)):
        a, b = pair(*shape)
        found: list[Array] = []
        names = called(lambda a=a, b=b, found=found: found.append(function(a, b)))
        assert not SLOW & set(names)
        np.testing.assert_array_equal(found[0], a + b)


def test_a_call_is_as_short_as_one_of_fixed_sizes() -> None:
    fixed, open_ = tessella.compile(added((5, 7)), threads=1), opened(Path())
    for model in (fixed, open_):
        model(*pair(5, 7))
    counts = [len(called(lambda model=model: model(*pair(5, 7)))) for model in (fixed, open_)]
    symbols = 2
    assert counts[1] <= counts[0] + symbols + 1


@pytest.mark.parametrize("make", [opened, loaded])
def test_what_does_not_fit_is_refused_beside_what_fits(
    make: Callable[[Path], Callable[..., Any]], tmp_path: Path
) -> None:
    model = make(tmp_path)
    a, b = pair(5, 7)
    model(a, b)
    for wrong, message in (
        ((a.astype(np.float64), b), "element type"),
        ((a.reshape(35), b), "wrong shape"),
        ((a, a[:4].copy()), "two sizes"),
        ((a.T, b), "two sizes"),
    ):
        for _ in range(2):  # a refusal is not remembered as what fits
            with pytest.raises(InputError, match=message):
                model(*wrong)
    np.testing.assert_array_equal(model(a, b), a + b)


def test_memory_in_any_order_is_copied_for_known_shapes() -> None:
    model = opened(Path())
    a, b = pair(5, 7)
    model(a, b)
    unaligned = np.zeros(a.nbytes + 1, np.uint8)[1:].view(np.float32).reshape(5, 7)
    unaligned[...] = a
    for other in (np.asfortranarray(a), np.repeat(a, 2, axis=1)[:, ::2], unaligned):
        np.testing.assert_array_equal(model(other, b), a + b)


def test_another_program_serves_known_sizes_where_more_are_open(compiled: list[str]) -> None:
    """Sizes that one program served are the next one's, once another dimension is open."""
    model = tessella.compile(added(), threads=1)
    for shape in ((5, 7), (6, 7), (6, 8)):
        model(*pair(*shape))
    assert len(compiled) == 3
    a, b = pair(6, 7)
    np.testing.assert_array_equal(model(a, b), a + b)
    assert model.explain().sizes == ["n: open, from 2 to 15", "m: open, from 2 to 15"]
    assert len(compiled) == 3


def test_a_program_of_its_own_serves_known_sizes() -> None:
    model = tessella.compile(added(), threads=1)
    for shape in ((5, 7), (6, 8)):
        model(*pair(*shape))
    model.prepare({"a": (6, 8), "b": (6, 8)})
    a, b = pair(6, 8)
    np.testing.assert_array_equal(model(a, b), a + b)
    assert model.explain().sizes == ["n: 6", "m: 8"]


def test_tables_of_sizes_are_bounded() -> None:
    model = tessella.compile(added(), dims={}, threads=1)
    for n in range(2, MAX_KNOWN + 20):
        a, b = pair(n, 2)
        np.testing.assert_array_equal(model(a, b), a + b)
    assert len(model._table._keys) <= MAX_KNOWN
    assert len(model._known_shapes) <= MAX_KNOWN


@pytest.mark.parametrize("value", [np.ones(3), np.ones(3, np.float32), np.ones(3, object)])
def test_an_array_is_no_sequence(value: Array) -> None:
    kind = helper.make_sequence_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, ["n"]))
    graph = helper.make_graph(
        [helper.make_node("SequenceLength", ["s"], ["y"])],
        "g",
        [helper.make_value_info("s", kind)],
        [helper.make_tensor_value_info("y", TensorProto.INT64, [])],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    with pytest.raises(InputError, match="is not a sequence"):
        tessella.compile(proto, threads=1).run(None, {"s": value})
