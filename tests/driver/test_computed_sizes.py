"""Sizes that are computed from data, such as how many elements of a mask hold, against ONNX
Runtime: they stay symbols."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

import tessella
from tessella.driver.specialise.open_sizes import MAX_VERSIONS
from tessella.runtime.program import Program
from tessella.support.errors import InputError, TessellaError
from tests.frontends.onnx.models import Array, model, same, value
from tests.generators.scans import make
from tests.native import normal

COUNTS = [3, 0, 1, 2, 15, 16, 1000, *range(4, 15), *range(17, 30)]
"""How many elements of the masks hold."""

RANGES = 5
"""Programs for all counts: what counts, and what follows for 0, 1, few, and many."""


def ints(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


WEIGHTS: Mapping[str, Array] = {
    **{name: np.array(n) for name, n in (("zero", 0), ("one", 1), ("two", 2), ("big", 1 << 40))},
    "first": ints(0),
    "second": ints(1),
    "twice": ints(2),
    "four": ints(4),
    "rest": ints(-1),
    "ten": ints(10),
    "row": normal(*(1, 4), seed=1),
    "half": np.array(0.5, np.float32),
    "table": normal(*(1000, 4), seed=2),
    "column": normal(*(1000,), seed=3),
    "ends": np.array([-1, 1], np.float32),
    "indices": ints(0, 1, 5, -1),
    "size": ints(1000),
    "most": ints(2**63 - 1),
}

COUNTING = [
    *make(("Cast", "mask", "held"), to=TensorProto.INT64),
    *make(("ReduceSum", "held", "count"), keepdims=0),
]
LISTED = make(("Unsqueeze", "count first", "counts"))


def concat(inputs: str, name: str = "shape") -> list[NodeProto]:
    return make(("Concat", inputs, name), axis=0)


def counted(nodes: Sequence[NodeProto], dtype: Any = np.float32, size: Any = "n") -> Any:
    """A model that computes `y` from how many elements of `mask` hold."""
    read = {name for node in nodes for name in node.input}
    weights = {name: array for name, array in WEIGHTS.items() if name in read}
    inputs, outputs = [value("mask", [size], np.bool_)], [value("y", None, dtype)]
    return model([*COUNTING, *nodes], inputs, outputs, weights=weights)


def mask(count: int, size: int = 1000) -> Mapping[str, Array]:
    return {"mask": np.arange(size) < count}


def check(compiled: Any, proto: onnx.ModelProto, *calls: Mapping[str, Array]) -> None:
    """The answers are those of ONNX Runtime."""
    session = onnxruntime.InferenceSession(proto.SerializeToString())
    for feeds in calls:
        same(compiled.run(None, feeds), list(session.run(None, dict(feeds))))


RANGE = make(("Range", "zero count one", "r"), ("Mul", "r r", "y"))
EXPAND = [*LISTED, *concat("counts four"), *make(("Expand", "row shape", "y"))]
FLAT = [*LISTED, *concat("counts four"), *make(("Expand", "row shape", "e"))]


@pytest.mark.sweep
@pytest.mark.parametrize(
    "nodes, dtype",
    [
        (RANGE, np.int64),
        (EXPAND, np.float32),
        ([*LISTED, *concat("counts four"), *make(("ConstantOfShape", "shape", "y"))], np.float32),
        ([*LISTED, *concat("counts twice"), *make(("Tile", "row shape", "y"))], np.float32),
        (
            [*LISTED, *concat("first first counts first"), *make(("Pad", "row shape", "y"))],
            np.float32,
        ),
        ([*FLAT, *concat("counts twice twice", "to"), *make(("Reshape", "e to", "y"))], np.float32),
        ([*FLAT, *concat("rest twice", "to"), *make(("Reshape", "e to", "y"))], np.float32),
        ([*FLAT, *make(("Slice", "e second counts", "y"))], np.float32),
        ([*FLAT, *make(("Neg", "counts", "n"), ("Slice", "e n counts", "y"))], np.float32),
        (
            [
                *make(("Div", "count two", "h"), ("Max", "h one", "m"), ("Add", "m count", "end")),
                *make(("Range", "count end one", "y")),
            ],
            np.int64,
        ),
    ],
    ids=[
        *("Range", "Expand", "ConstantOfShape", "Tile", "Pad", "Reshape", "what is left", "Slice"),
        *("Slice from the end", "arithmetic"),
    ],
)
def test_a_new_count_costs_no_compilation(
    nodes: Sequence[NodeProto], dtype: Any, compiled: list[str]
) -> None:
    proto = counted(nodes, dtype)
    program = tessella.compile(proto)
    check(program, proto, *map(mask, COUNTS))
    assert len(compiled) <= RANGES
    program.run(None, mask(20))
    [(where, after)] = program.explain().subprograms
    assert where == "after a size that is computed"
    assert after.sizes == ["count: open, from 16"]


OF_A_TABLE = [
    make(("Slice", "table first counts", "y")),
    make(("Neg", "counts", "back"), ("Slice", "table back most", "y")),
    make(("TopK", "column counts", "y at")),
    make(("Trilu", "table count", "y")),
    [
        *make(("Sub", "size counts", "left")),
        *concat("counts left", "parts"),
        *make(("Split", "table parts", "y others")),
    ],
    make(("OneHot", "indices count ends", "y")),
]


@pytest.mark.parametrize("nodes", OF_A_TABLE, ids=lambda nodes: nodes[-1].op_type)
def test_a_count_of_rows_of_a_table(nodes: Sequence[NodeProto], compiled: list[str]) -> None:
    """The ranges are divided where there are no more rows."""
    proto = counted([*LISTED, *nodes])
    program = tessella.compile(proto)
    check(program, proto, *(mask(count) for count in COUNTS if count))
    assert len(compiled) <= RANGES + 1
    program.run(None, mask(20))
    [told] = program.explain().subprograms[0][1].sizes
    assert told.startswith("count: open, from 16")


def test_a_count_that_is_rounded(compiled: list[str]) -> None:
    """A count that is computed with fractions is data until it is rounded to an integer."""
    nodes = make(("Cast", "count", "f"), to=TensorProto.FLOAT) + make(("Mul", "f half", "h"))
    nodes += make(("Cast", "h", "halves"), to=TensorProto.INT64)
    proto = counted([*nodes, *make(("Range", "zero halves one", "y"))], np.int64)
    program = tessella.compile(proto)
    check(program, proto, *map(mask, COUNTS))
    assert len(compiled) == RANGES
    assert program.explain().subprograms[0][1].sizes == ["halves: open, from 2 to 15"]


def test_the_length_of_the_mask_stays_open(compiled: list[str]) -> None:
    """A shape of both: what follows has the symbol of each."""
    nodes = [
        *LISTED,
        *make(("Shape", "mask", "n")),
        *concat("n counts"),
        *make(("ConstantOfShape", "shape", "z"), ("Range", "zero count one", "r")),
        *make(("Cast", "r", "f"), to=TensorProto.FLOAT),
        *make(("Add", "z f", "y")),
    ]
    proto = counted(nodes)
    program = tessella.compile(proto, dims={"n": (16, 1000)})
    check(program, proto, *(mask(c, n) for c in (17, 40, 20) for n in (50, 60, 70)))
    assert len(compiled) == 2
    sizes = program.explain().subprograms[0][1].sizes
    assert sorted(sizes) == ["count: open, from 16", "n: open, from 16 to 1000"]


def test_a_count_is_one_symbol_in_all_that_follows(compiled: list[str]) -> None:
    """A step cuts the rest again; the count is read as a shape before it and after it."""
    nodes = [
        *make(("Range", "zero count one", "r"), ("Mod", "r two", "odd"), ("NonZero", "odd", "at")),
        *make(("Squeeze", "at first", "odds")),
        *LISTED,
        *make(("Shape", "odds", "m")),
        *concat("m counts"),
        *make(("Expand", "one shape", "e"), ("Add", "e r", "y")),
    ]
    proto = counted(nodes, np.int64)
    program = tessella.compile(proto)
    check(program, proto, *map(mask, (40, 33, 50, 60, 100)))
    assert len(compiled) == 2
    [(_, rest)] = program.explain().subprograms
    assert not rest.subprograms
    [count, found] = rest.sizes
    assert count == "count: open, from 16"
    assert found.startswith("count_0: defined by NonZero_")


def test_two_counts(compiled: list[str]) -> None:
    nodes = make(("Cast", "other", "o"), to=TensorProto.INT32)
    nodes += make(("ReduceSum", "o", "total"), keepdims=0)
    nodes += make(("Cast", "total", "wide"), to=TensorProto.INT64)
    nodes += make(("Range", "zero count one", "r"), ("Range", "zero wide one", "s"))
    nodes += make(("Unsqueeze", "r second", "a"), ("Mul", "a s", "y"))
    inputs = [value(name, ["n"], np.bool_) for name in ("mask", "other")]
    weights = {name: WEIGHTS[name] for name in ("zero", "one", "second")}
    outputs = [value("y", None, np.int64)]
    proto = model([*COUNTING, *nodes], inputs, outputs, weights=weights)
    program = tessella.compile(proto)
    counts = [(a, b) for a in (0, 1, 2, 9, 20, 50) for b in (0, 1, 3, 15, 16, 40)]
    calls = ({"mask": mask(a, 50)["mask"], "other": mask(b, 50)["mask"]} for a, b in counts)
    check(program, proto, *calls)
    assert len(compiled) <= 1 + 4 * 4


def test_values_that_are_no_sizes_have_programs_of_their_own(compiled: list[str]) -> None:
    """A Reshape to `-1`, and to a count."""
    nodes = make(("Less", "count ten", "few"), ("Where", "few rest ten", "to"))
    nodes += make(("Range", "zero count one", "r"), ("Reshape", "r to", "z"), ("Mul", "z ten", "y"))
    proto = counted(nodes, np.int64)
    program = tessella.compile(proto)
    check(program, proto, *map(mask, (5, 3, 9, 2, 10, 1, 7)))
    assert len(compiled) <= 8
    with pytest.raises(TessellaError, match="Reshape"):
        program.run(None, mask(20))


@pytest.mark.parametrize("save", [True, False], ids=["saved", "pickled"])
def test_artifacts_have_the_symbols(
    save: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proto = counted(EXPAND)
    program = tessella.compile(proto)
    program.prepare({"mask": (1000,)})
    if save:
        program.save(tmp_path / "model.tsl")
        loaded: Any = tessella.load(tmp_path / "model.tsl")
    else:
        loaded = pickle.loads(pickle.dumps(program))
    check(loaded, proto, *map(mask, COUNTS))
    assert "[count]" in program.as_text()
    assert loaded.profile(mask(20)).rows


def test_all_counts_are_prepared(compiled: list[str]) -> None:
    proto = counted(RANGE, np.int64, 1000)
    program = tessella.compile(proto)
    program.prepare()
    assert len(compiled) == RANGES
    check(program, proto, *map(mask, COUNTS))
    assert len(compiled) == RANGES


def test_absurd_counts() -> None:
    nodes = [*make(("Mul", "count big", "many"), ("Range", "zero many one", "y"))]
    program = tessella.compile(counted(nodes, np.int64))
    for count in (1, 2, 900):
        with pytest.raises(TessellaError, match="too large"):
            program.run(None, mask(count))
    assert program.run(None, mask(0))[0].shape == (0,)


# ** inputs **


@pytest.mark.parametrize("dims", ["auto", {}])
def test_an_input_that_is_a_shape_is_open_once_it_varies(dims: Any, compiled: list[str]) -> None:
    nodes = make(("Expand", "row shape", "y"))
    inputs = [value("shape", [2], np.int64)]
    proto = model(nodes, inputs, [value("y", None)], weights={"row": WEIGHTS["row"]})
    program = tessella.compile(proto, dims=dims)
    check(program, proto, *({"shape": ints(n, 4)} for n in COUNTS))
    assert len(compiled) <= RANGES
    program.run(None, {"shape": ints(50, 4)})
    told = program.explain().sizes
    assert told[0] == "shape[0]: open, from 16"
    assert told[1] == ("shape[1]: 4, not open so far" if dims == "auto" else told[1])


def test_a_value_that_is_asked_for_has_a_program_of_its_own(compiled: list[str]) -> None:
    nodes = make(("Expand", "row shape", "y"))
    inputs = [value("shape", [2], np.int64)]
    proto = model(nodes, inputs, [value("y", None)], weights={"row": WEIGHTS["row"]})
    program = tessella.compile(proto)
    for rows in (20, 30):
        program.prepare({}, {"shape": [rows, 4]})
    for rows in (20, 30):
        assert program.run(None, {"shape": ints(rows, 4)})[0].shape == (rows, 4)
    assert len(compiled) == 2
    check(program, proto, *({"shape": ints(rows, 4)} for rows in (40, 50)))
    assert len(compiled) == 3


def test_an_input_whose_value_is_fixed(compiled: list[str]) -> None:
    proto = model(
        make(("Expand", "row shape", "y")),
        [value("shape", [2], np.int64)],
        [value("y", None)],
        weights={"row": WEIGHTS["row"]},
    )
    program = tessella.compile(proto, dims="fixed")
    check(program, proto, *({"shape": ints(n, 4)} for n in (3, 4, 5)))
    assert len(compiled) == 3


def test_threads_that_learn_together(compiled: list[str]) -> None:
    proto = model(
        make(("Range", "zero n one", "y")),
        [value("n", [], np.int64)],
        [value("y", None, np.int64)],
        weights={name: WEIGHTS[name] for name in ("zero", "one")},
    )
    program = tessella.compile(proto, dims={})
    failures: list[Exception] = []

    def call(count: int) -> Callable[[], None]:
        def run() -> None:
            try:
                assert program.run(None, {"n": np.array(count)})[0].shape == (count,)
            except Exception as error:
                failures.append(error)

        return run

    threads = [Thread(target=call(count)) for count in (20, 30, 5, 40, 6, 50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures
    assert len(compiled) == 2


def test_unsigned_sizes_wrap() -> None:
    """A difference below 0 is a large number."""
    nodes = make(("Sub", "n twenty", "d"), ("Max", "d five", "m"), ("Min", "m forty", "e"))
    nodes += make(("Cast", "e", "size"), to=TensorProto.INT64) + make(("Expand", "row size", "y"))
    numbers = {name: np.array([n], np.uint32) for name, n in (("five", 5), ("forty", 40))}
    weights = {**numbers, "twenty": np.array([20], np.uint32), "row": np.ones(1, np.float32)}
    proto = model(nodes, [value("n", [1], np.uint32)], [value("y", None)], weights=weights)
    program, oracle = tessella.compile(proto, dims={}), ReferenceEvaluator(proto)
    for n in (50, 30, 19, 20, 21, 16, 15, 2, 1, 0, 100):
        feeds = {"n": np.array([n], np.uint32)}
        same(program.run(None, feeds), list(oracle.run(None, feeds)))


@pytest.mark.parametrize("fmod", [0, 1])
@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_a_size_that_is_divided_by_0(op: str, fmod: int) -> None:
    """The result is 0, as NumPy's; the other sizes stay open."""
    settings = {"fmod": fmod} if op == "Mod" else {}
    nodes = make(("Shape", "x", "s"))
    nodes += make((op, "s divisors", "q"), **settings) + make(("ConstantOfShape", "q", "y"))
    divisors = ints(2, 0)
    proto = model(
        nodes,
        [value("x", ["seq", 7], np.float32)],
        [value("y", None)],
        weights={"divisors": divisors},
    )
    program = tessella.compile(proto, dims={})
    compute = np.floor_divide if op == "Div" else np.remainder
    for n in (0, 1, 5, 20, 33):
        with np.errstate(divide="ignore"):
            expected = compute(np.array([n, 7]), divisors)
        assert program(np.zeros((n, 7), np.float32)).shape == tuple(expected)
    if op == "Div":
        assert "seq: open, from 16" in program.explain().sizes


ROWS = model(
    [*make(("Slice", "table first n", "rows")), *make(("Add", "rows rows", "y"))],
    [value("n", [1], np.int64)],
    [value("y", None)],
    weights={name: WEIGHTS[name] for name in ("table", "first")},
)


@pytest.mark.parametrize("count", [5000, 1001, -5, 3, 1])
@pytest.mark.parametrize("is_loaded", [False, True], ids=["compiled", "loaded"])
def test_a_size_that_another_thread_changes_during_the_call(
    is_loaded: bool, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Native code does not read more rows than there are."""
    program: Any = tessella.compile(ROWS, dims={})
    assert program.run(None, {"n": ints(20)})[0].shape == (20, 4)
    if is_loaded:
        program.save(tmp_path / "model.tsl")
        program = tessella.load(tmp_path / "model.tsl")
    run = Program.run

    def changed(self: Program, arrays: Sequence[Array], *rest: Any) -> list[Array]:
        arrays[0][0] = count
        return run(self, arrays, *rest)

    monkeypatch.setattr(Program, "run", changed)
    with pytest.raises(InputError, match="changed during the call"):
        program.run(None, {"n": ints(20)})


def test_sizes_that_do_not_fit_are_not_prepared(compiled: list[str]) -> None:
    nodes = [*make(("Reshape", "row shape", "r")), *make(("Mul", "r r", "y"))]
    inputs = [value("shape", [2], np.int64)]
    proto = model(nodes, inputs, [value("y", None)], weights={"row": WEIGHTS["row"]})
    program = tessella.compile(proto, dims={})
    program.prepare()
    check(program, proto, *({"shape": ints(*shape)} for shape in ((1, 4), (4, 1), (2, 2))))


def test_more_sizes_than_programs_are_not_prepared(compiled: list[str]) -> None:
    inputs = [value("shape", [8], np.int64)]
    nodes = make(("Expand", "row shape", "y"))
    proto = model(nodes, inputs, [value("y", None)], weights={"row": WEIGHTS["row"]})
    program = tessella.compile(proto, dims={})
    with pytest.raises(InputError, match=f"at most {MAX_VERSIONS}"):
        program.prepare()
    assert not compiled
