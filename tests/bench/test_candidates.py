"""Candidates of schedules: that they are many, differ, compute the same, and are compared."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest

import tessella
from bench import candidates, schedules
from bench.cases import attention, convolution, matmul, pool
from bench.native import Code, Kernel, Memory
from bench.schedules import (
    Candidate,
    Compiled,
    Problem,
    Rejected,
    choices,
    compile_candidate,
    nests,
    operands_of,
    problem_of,
    try_candidate,
)
from bench.schedules import candidates as listed
from tessella.dialects.layout import Layout, Piece
from tessella.dialects.tile import Nest
from tessella.tools import measure

Out = pytest.CaptureFixture[str]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "_LONGEST", 0.0)
    monkeypatch.setattr(candidates, "TURN", 0.0)


def small_convolution(activation: str | None = "Relu") -> onnx.ModelProto:
    return convolution((1, 2, 5, 6), (19, 2, 2, 3), activation, pads=[0, 1, 0, 1])


SMALL = {
    "product": lambda: matmul(9, 40, 11),
    "convolution": small_convolution,
    "attention": lambda: attention(5, 40, 24),
    "pooling": lambda: pool("MaxPool", (1, 21, 9, 9), kernel_shape=[3, 3], strides=[2, 2]),
}


FEW = {"softmax of 4096x1024": 18, "layer norm of 4096x1024": 18}
"""Candidates of statements that share the loop of all rows: 6 widths of the tile, each with 3
unrollings, are left to choose."""


@pytest.mark.sweep
@pytest.mark.parametrize("name", candidates.KERNELS)
def test_every_kernel_has_enough_candidates(name: str) -> None:
    problem = problem_of(candidates.KERNELS[name](), "avx512")
    found = choices(problem, 160)
    assert len(found) >= FEW.get(name, 100)
    assert len({(str(c.schedule), str(c.places)) for c in found}) == len(found)
    assert found == choices(problem, 160), "the same ones each time"
    assert len(choices(problem, 10)) == 10


def test_alike_kernels_have_the_same_buffers() -> None:
    code = Code("k", b"", (("float32", 6), ("float32", 9), ("int64", 9)))
    memory = Memory([np.arange(6, dtype=np.float32).reshape(2, 3)])
    rows, columns = Layout("nchw"), Layout("packed", (Piece(1), Piece(0)))
    first, again = memory.of(code, [rows]), memory.of(code, [rows])
    assert all(a is b for a, b in zip(first, again, strict=True))
    assert first[0].tolist() == [0, 1, 2, 3, 4, 5]
    other = memory.of(code, [columns])
    assert other[0].tolist() == [0, 3, 1, 4, 2, 5]
    assert other[1] is first[1]
    assert all(buffer.ctypes.data % 64 == 0 for buffer in (*first, *other))


def test_known_tiles_are_among_them() -> None:
    problem = problem_of(matmul(512, 512, 512), "avx512")
    tiles = {(c.schedule.row_tile, c.schedule.vectors) for c in choices(problem, 64)}
    assert {(6, 4), (8, 3), (14, 2), (28, 1)} <= tiles


@pytest.mark.parametrize("name", [n for n in candidates.KERNELS if n.startswith("att")])
def test_nests_are_among_them(name: str) -> None:
    """Smaller and larger steps of each loop, all of it, and none."""
    problem = problem_of(candidates.KERNELS[name](), "avx512")
    found = nests(problem)
    assert found[0] == Nest(())
    assert len(set(found)) == len(found) >= 5
    assert [candidate.nest for candidate in listed(problem, 40)][: len(found)] == found
    assert any(nest.loops and nest.loops[-1].step == nest.loops[-1].extent for nest in found)


def test_the_first_choice_is_what_the_compiler_uses() -> None:
    model = matmul(9, 40, 11)
    problem = problem_of(model)
    compiled = compile_candidate(problem, Candidate())
    program = tessella.compile(model, places=problem.options.places)
    assert compiled.schedule in program.as_text("tile")


def test_a_kernel_alone_computes_its_statement() -> None:
    problem = problem_of(matmul(9, 40, 11))
    compiled = compile_candidate(problem, Candidate())
    x, w = operands_of(problem)
    kernel = Kernel(compiled.kernel, Memory([x, w]).of(compiled.kernel, compiled.layouts))
    kernel()
    np.testing.assert_allclose(kernel.buffers[2].reshape(9, 40), x @ w, rtol=1e-4, atol=1e-5)


@pytest.mark.sweep
@pytest.mark.parametrize("name", SMALL)
def test_candidates_compute_the_same(name: str) -> None:
    result = candidates.measure(name, SMALL[name](), limit=8, repeat=1)
    assert result.wrong == []
    assert result.timed + len(result.rejected) == 8
    assert result.timed >= 5
    assert 0 < result.ratio <= 1
    assert result.best_ms <= result.choice_ms
    assert result.choice in result.all_ms


def test_a_wrong_result_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    linear = problem_of(small_convolution(None))

    def try_without_relu(_: Problem, candidate: Candidate) -> Compiled | Rejected:
        return try_candidate(linear, candidate)

    monkeypatch.setattr(candidates, "try_candidate", try_without_relu)
    result = candidates.measure("wrong", small_convolution(), limit=3, repeat=1)
    assert len(result.wrong) + len(result.rejected) == 3
    assert result.wrong
    assert "WRONG" in candidates._show(result)


def test_large_code_is_rejected_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schedules, "MAX_TEXT", 100)
    problem = problem_of(matmul(9, 40, 11))
    rejected = try_candidate(problem, Candidate(choices(problem, 1)[0]))
    assert isinstance(rejected, Rejected)
    assert "too many" in rejected.reason
    # the compiler's own choice is never too large
    assert compile_candidate(problem, Candidate()).kernel.image


def test_the_command(tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(candidates, "KERNELS", {"small": SMALL["product"]})
    file = tmp_path / "results.json"
    quick = ["--limit", "4", "--repeat", "1", "--jobs", "1"]
    assert candidates.main(["small", *quick, "--json", str(file)]) == 0
    assert "geometric mean" in capsys.readouterr().out
    document = json.loads(file.read_text())
    assert document["geometric_mean"] == document["rows"][0]["ratio"] <= 1
    with pytest.raises(SystemExit):
        candidates.main(["nothing"])
