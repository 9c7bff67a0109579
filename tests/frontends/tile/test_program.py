"""The functions of `tessella.tile`: arguments and results, programs for shapes, stages, options."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import tessella
from tessella.dialects.graph import Graph
from tessella.dialects.nn.core import shown
from tessella.driver.build.build import lower
from tessella.driver.build.compile_graph import compile_graph
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import load_stage, save_stage
from tessella.frontends import programs
from tessella.frontends import tile as frontend
from tessella.frontends.tile import program as tile_program
from tessella.frontends.tile.bind import BoundProgram
from tessella.support.errors import OptionError
from tests.frontends.tile.checks import numbers, same

CONV = """
    function (D[N, X, Y, CI], K[I, J, CO, CI]) -> (R) {
        O[n, x, y, co : N, X, Y, CO] = +(D[n, x+i-1, y+j-1, ci] * K[i, j, co, ci]);
        R = (O > 0 ? O : 0);
    }"""
SPECS = (tessella.Spec((1, 8, 8, 4)), tessella.Spec((3, 3, 16, 4)))
SCALE = "function (A[N], S[]) -> (R) { R = A * S; }"


def test_arguments_by_position_and_by_name() -> None:
    f = tessella.tile("function (A[N], B[N]) -> (R) { R = A - B; }")
    a, b = numbers(4), numbers(4, seed=1)
    for got in (f(a, b), f(a, B=b), f(B=b, A=a)):
        same(got, a - b)
    assert (f.inputs, f.outputs) == (("A", "B"), ("R",))


def test_arguments_of_every_kind() -> None:
    f = tessella.tile(SCALE)
    a = numbers(4)
    for array in (a[::-1], np.asfortranarray(a), a.astype(">f4"), a.tolist()):
        want = np.asarray(array, "float64" if isinstance(array, list) else "float32") * 2
        same(f(array, 2), want)
    assert [f(a, s).dtype for s in (2, 2.5, True)] == [np.float32] * 3
    assert [f(numbers(4, dtype="int8"), s).dtype for s in (2, 2.5, True)] == [
        "int32",
        "float32",
        "int8",
    ]


def test_several_outputs_are_a_tuple() -> None:
    f = tessella.tile("function (A[N]) -> (S, A, P) { S[] = +(A[i]); P[] = *(A[i]); }")
    a = numbers(5, low=1)
    s, kept, p = f(a)
    assert (s, p) == (a.sum(), a.prod())
    same(kept, a)
    kept[:] = 0
    assert a.all()


def compiled(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The shapes of the first inputs for which programs are built from now on."""
    made: list[str] = []
    build = tile_program.build

    def recorded(program: BoundProgram, arch: str) -> Graph:
        made.append(shown(next(iter(program.inputs.values())).shape))
        return build(program, arch)

    monkeypatch.setattr(tile_program, "build", recorded)
    return made


def test_a_program_is_compiled_once_for_shapes_and_dtypes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "MAX_PROGRAMS", 3)
    made = compiled(monkeypatch)
    f = tessella.tile("function (A[N]) -> (R) { R = A + 1; }", dims="fixed")
    for size in (2, 3, 2, 3):
        f(numbers(size))
    f(numbers(2, dtype="int8"))
    for size in (4, 5, 2):
        f(numbers(size))
    assert made == ["2", "3", "2", "4", "5", "2"]


def test_threads_share_programs() -> None:
    f = tessella.tile(CONV)
    start = threading.Barrier(4)
    results: list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]] = []

    def work() -> None:
        start.wait()
        k = numbers(3, 3, 4, 3)
        results.extend(f(numbers(1, size, 7, 3), k) for size in (5, 6, 5))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for size in (5, 6):
        same_size = [r for r in results if r.shape[1] == size]
        assert len(same_size) == (8 if size == 5 else 4)
        for result in same_size:
            same(result, same_size[0])


def test_the_kernel_of_a_convolution() -> None:
    lowered = tessella.tile(CONV).lower(*SPECS)
    placed, tiled = lowered.as_text("placed"), lowered.as_text("tile")
    assert lowered.as_text() == placed
    assert placed.count("tile.contract") == 2
    # at the stage tile, ReLU is part of the convolution; the other kernel copies K for its vectors
    assert tiled.count("tile.contract") == 2
    assert "tile.kernel @relayout_1(%K" in tiled
    assert "arith.cmpf ogt" in tiled.split("tile.kernel @tile_O_R")[1]
    access = "(%D[0, x + i - 1, y + j - 1, ci], %K[i, j, co, ci]) -> [0, x, y, co] {"
    assert f"+ [x: 8, y: 8, co: 16 | i: 3, j: 3, ci: 4] {access}" in " ".join(placed.split())


@pytest.mark.parametrize("target", ["native", "avx2", "aarch64"])
def test_text_at_every_stage(target: str) -> None:
    lowered = tessella.tile(CONV, target=target).lower(*SPECS)
    marks = {
        "placed": "#place.at<",
        "tile": "schedule",
        "loops": "scf.for",
        "llvm": "define",
        "asm": "ret",
    }
    assert {stage for stage in marks if marks[stage] not in lowered.as_text(stage)} == set()
    assert ("#place.at<arm" in lowered.as_text()) == (target == "aarch64")
    with pytest.raises(OptionError, match="no stage 'nn'"):
        lowered.as_text("nn")
    with pytest.raises(OptionError, match="no stage 'tiles'"):
        lowered.as_text("tiles")


def test_a_lowered_program_is_compiled_to_a_model() -> None:
    program = "function (A[N], B[N]) -> (R, S) { [[pid(sum)]] R = A + B; S[] = +(R[i]); }"
    a, b = numbers(4), numbers(4, seed=1)
    lowered = tessella.tile(program).lower(a, tessella.Spec((4,)))
    assert [(v.name, v.dtype, v.shape) for v in lowered.outputs] == [
        ("R", "float32", (4,)),
        ("S", "float32", ()),
    ]
    model = lowered.compile()
    r, s = model(a, b)
    same(r, a + b)
    same(s, (a + b).sum())
    assert [entry["node"] for entry in model.explain().ops] == ["sum", "S"]


def test_masks_are_computed_only_where_they_are_needed() -> None:
    def text(program: str, *sizes: int) -> str:
        specs = [tessella.Spec((size,)) for size in sizes]
        return tessella.tile(program).lower(*specs).as_text()

    pool = "function (A[N]) -> (R) { R[i : (N + 1)/2] = >(A[2*i + j - 1]), j < 3; }"
    assert "i1" not in text(pool, 9)
    # two stretches with a gap between
    apart = "function (A[N]) -> (R) { R[i : 3*N] = >(A[i - 2*N*j]), j < 2; }"
    assert "i1" in text(apart, 4)
    # the sum of nothing is 0 by itself, but a default is not
    total = "function (A[N], T[M]) -> (R) { R[i : 3*N] = +(A[i - 2*N*j]), j < 2; }"
    assert "i1" not in text(total, 4, 12)
    assert "i1" in text(total.replace("; }", " default T; }"), 4, 12)


def test_stages_load_again(tmp_path: Path) -> None:
    program = tessella.tile(CONV)
    arrays = numbers(1, 8, 8, 4), numbers(3, 3, 16, 4)
    want = program(*arrays)
    lowered = program.lower(*arrays)
    options = make_options()
    graph = lowered._program.graph()
    first = lower(graph, options, start="placed")
    for stage in ("placed", "tile", "loops"):
        path = tmp_path / f"conv.{stage}"
        save_stage(path, first.stages[stage], first.weights)
        found, loaded = load_stage(path)
        assert found == stage
        again = compile_graph(Graph(loaded.module, loaded.weights, stage), options)
        same(again.program.run(arrays)[0], want)


def test_no_defract_and_attributes_change_nothing() -> None:
    plain = "function (A[N]) -> (R) { R[2*i + j : 2*N + 1] = +(A[i]), j < 3; }"
    other = plain.replace("R[2", "[[pid(it)]] [[more(a, b)]] R[2").replace("< 3", "< 3 no_defract")
    a = numbers(7)
    same(tessella.tile(other)(a), tessella.tile(plain)(a))


def test_names_that_are_no_identifiers() -> None:
    f = tessella.tile("function (A'[N'], #b[N']) -> (R') { R' = A' + #b; }")
    a = numbers(3)
    same(f(**{"A'": a, "b": a}), a + a)
    assert f.inputs == ("A'", "b")


def test_unused_inputs_and_statements() -> None:
    program = "function (A[N], B[M]) -> (R) { S = exp(B); R[i : M] = +(A[i]); }"
    lowered = tessella.tile(program).lower(tessella.Spec((3,)), tessella.Spec((2,)))
    assert "exp" not in lowered.as_text()
    assert tessella.tile(program)(numbers(3), numbers(2)).shape == (2,)


def test_public_names() -> None:
    assert tessella.tile is frontend.tile
    assert isinstance(tessella.tile(SCALE), tessella.TileProgram)
    assert repr(tessella.tile(SCALE)) == f"tile({SCALE!r})"
    assert {"tile"} <= set(tessella.__all__)
