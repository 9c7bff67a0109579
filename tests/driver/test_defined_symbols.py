"""Programs with ops that define symbols: each program is one, for all values of the symbols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

import tessella
from tessella.dialects.interpret import interpret
from tessella.driver.model.model import Model
from tessella.driver.stages.stage_file import load_stage
from tessella.runtime.native_steps import NativeStep
from tessella.support.errors import ExecutionError
from tests.native import calls

Array = npt.NDArray[Any]

TEXT = """
builtin.module attributes {symbols = [#nn.symbol<n, 1 to 64>, #nn.symbol<k, 0 to 64>,
                                      #nn.symbol<m, 0 to 64>]} {
  func.func @step(%h: tensor<4xf32>, %e: tensor<4xf32>) -> tensor<4xf32> {
    %s = nn.add %h, %e : tensor<4xf32>
    func.return %s : tensor<4xf32>
  }
  func.func @last(%h: tensor<i64>, %e: tensor<i64>) -> (tensor<i64>, tensor<i64>) {
    %s = nn.sizes values [[k]] : tensor<1xi64>
    %r = nn.reshape %s shape [] : tensor<i64>
    %a = nn.add %r, %h : tensor<i64>
    func.return %a, %e : tensor<i64>, tensor<i64>
  }
  func.func @main(%x: tensor<[n]x4xf32>, %c: tensor<i64>, %d: tensor<i64>, %h: tensor<4xf32>)
      -> (tensor<4xf32>, tensor<[k]x4xf32>, tensor<[k]xi64>, tensor<i64>, tensor<[m]x4xf32>,
          tensor<3xi64>) {
    %sum = nn.scan @step %h, %x carried 1 scanned 1 : tensor<4xf32>
    %y = nn.neg %x : tensor<[n]x4xf32>
    %t = nn.trim %y, %c sizes [[k]] : tensor<[k]x4xf32>
    %e = nn.exp %t : tensor<[k]x4xf32>
    %i = nn.iota count [k] : tensor<[k]xi64>
    %j = nn.iota count [n] : tensor<[n]xi64>
    %q, %w = nn.scan @last %c, %j carried 1 scanned 1 : tensor<i64>, tensor<[n]xi64>
    %u = nn.trim %e, %d sizes [[m]] : tensor<[m]x4xf32>
    %v = nn.add %u, %sum : tensor<[m]x4xf32>
    %s = nn.sizes values [[n], [k], [m]] : tensor<3xi64>
    func.return %sum, %e, %i, %q, %v, %s : tensor<4xf32>, tensor<[k]x4xf32>, tensor<[k]xi64>,
        tensor<i64>, tensor<[m]x4xf32>, tensor<3xi64>
  }
}"""


def inputs(n: int, k: int, m: int) -> Mapping[str, Array]:
    x = np.linspace(-2, 2, n * 4, dtype=np.float32).reshape(n, 4)
    return {
        "input0": x,
        "input1": np.array(k),
        "input2": np.array(m),
        "input3": np.zeros(4, np.float32),
    }


def expected(given: Mapping[str, Array]) -> list[Array]:
    x, c, d, _ = given.values()
    n, k, m = len(x), int(c), int(d)
    total, part = x.sum(0), np.exp(-x[:k])
    return [total, part, np.arange(k), np.array(k + n * k), part[:m] + total, np.array([n, k, m])]


def check(run: Callable[[Mapping[str, Array]], list[Array]], n: int, k: int, m: int) -> None:
    given = inputs(n, k, m)
    for y, wanted in zip(run(given), expected(given), strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(y, wanted, rtol=1e-5, atol=1e-5)


SIZES = [(5, 3, 2), (5, 0, 0), (64, 64, 1), (1, 1, 1), (5, 5, 5), (33, 17, 16)]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("defined") / "program.nn"
    path.write_text(TEXT)
    return path


@pytest.fixture(scope="module")
def model(path: Path) -> Model:
    return tessella.compile(path)


def test_the_interpreter_finds_the_sizes(path: Path) -> None:
    _, graph = load_stage(path)
    for sizes in SIZES:
        check(lambda given: interpret(graph, given), *sizes)


def test_one_program_serves_all_counts(model: Model) -> None:
    for sizes in SIZES:
        check(lambda given: model.run(None, given), *sizes)
    [program] = model.compiled().programs
    assert program.rest is None
    with pytest.raises(ExecutionError, match="a count is out of range"):
        model.run(None, inputs(5, 6, 0))


def test_a_loaded_program(model: Model, tmp_path: Path) -> None:
    model.run(None, inputs(*SIZES[0]))
    model.save(tmp_path / "program.tsl")
    loaded = tessella.load(tmp_path / "program.tsl")
    for sizes in SIZES:
        check(lambda given: loaded.run(None, given), *sizes)


def test_the_explanation_names_the_symbols(model: Model) -> None:
    model.run(None, inputs(*SIZES[0]))
    text = str(model.explain())
    assert "n: open, from 1 to 64\n  k: defined by nn.trim, from 0 to 64\n  m: defined" in text
    assert "%t = nn.trim %y, %c sizes [[k]]" in model.as_text("nn")


@pytest.mark.parametrize("stage", ["placed", "tile", "loops"])
def test_a_program_of_a_later_stage(model: Model, stage: str, tmp_path: Path) -> None:
    model.run(None, inputs(*SIZES[0]))
    path = tmp_path / f"program.{stage}"
    path.write_text(model.as_text(stage))
    again = tessella.compile(path)
    check(lambda given: again.run(None, given), *SIZES[0])


CUT = """
builtin.module attributes {symbols = [#nn.symbol<k, 0 to 64>, #nn.symbol<m, 0 to 64>]} {
  func.func @main(%x: tensor<64x4xf32>, %c: tensor<i64>, %d: tensor<i64>)
      -> (tensor<[k]x4xf32>, tensor<[m]x4xf32>, tensor<[k]x4xf32>) {
    %y = nn.neg %x : tensor<64x4xf32>
    %t = nn.trim %y, %c sizes [[k]] : tensor<[k]x4xf32>
    %u = nn.trim %y, %d sizes [[m]] : tensor<[m]x4xf32>
    %e = nn.add %t, %t : tensor<[k]x4xf32>
    func.return %t, %u, %e : tensor<[k]x4xf32>, tensor<[m]x4xf32>, tensor<[k]x4xf32>
  }
}"""
INNER = """
builtin.module attributes {symbols = [#nn.symbol<k, 0 to 4096>]} {
  func.func @main(%x: tensor<4096x4xf32>, %c: tensor<i64>) -> tensor<[k]x4xf32> {
    %y = nn.neg %x : tensor<4096x4xf32>
    %n = nn.add %c, %c : tensor<i64>
    %t = nn.trim %y, %n sizes [[k]] : tensor<[k]x4xf32>
    %e = nn.add %t, %t : tensor<[k]x4xf32>
    func.return %e : tensor<[k]x4xf32>
  }
}"""


def test_cut_results_are_the_callers(tmp_path: Path) -> None:
    (tmp_path / "cut.nn").write_text(CUT)
    model = tessella.compile(tmp_path / "cut.nn")
    x = np.arange(256, dtype=np.float32).reshape(64, 4)
    for k, m in [(60, 64), (3, 2), (0, 40), (64, 64)]:
        found = model(x, np.array(k), np.array(m))
        for y, wanted in zip(found, (-x[:k], -x[:m], -2 * x[:k]), strict=True):
            np.testing.assert_array_equal(y, wanted)
            assert y.flags.writeable
            y[:] = 7
        assert not any(np.shares_memory(a, b) for a, b in combinations((x, *found), 2))


def test_calls_write_inner_values_to_the_same_memory(tmp_path: Path) -> None:
    (tmp_path / "inner.nn").write_text(INNER)
    model = tessella.compile(tmp_path / "inner.nn", threads=1)
    rng = np.random.default_rng(0)

    def check(k: int) -> tuple[Array, Array]:
        x = rng.standard_normal((4096, 4), np.float32)
        return model(x, np.array(k)), -2 * x[: 2 * k]

    model.run(None, {"input0": np.zeros((4096, 4), np.float32), "input1": np.array(1)})
    [program] = [each.program for each in model._table.programs.made()]
    native = [step for step in program.steps if isinstance(step, NativeStep)]
    assert {i for step in native[:-1] for i in step.outputs} <= program.inner
    with ThreadPoolExecutor(4) as threads:
        for y, wanted in [*threads.map(check, [5, 2048, 5, 0, 1, 2048, 77] * 8)]:
            np.testing.assert_array_equal(y, wanted)
    with pytest.raises(ExecutionError, match=r"a count is out of range(.|\n)*node"):
        check(2049)
    np.testing.assert_array_equal(*check(3))


def test_a_call_of_a_small_program_takes_few_python_calls(tmp_path: Path) -> None:
    (tmp_path / "inner.nn").write_text(INNER)
    model = tessella.compile(tmp_path / "inner.nn", threads=1)
    feeds = [{"input0": np.zeros((4096, 4), np.float32), "input1": np.array(k)} for k in (5, 9)]
    for each in feeds * 2:
        model.run(None, each)
    # the sizes of the call before, then others
    assert calls(lambda: model.run(None, feeds[1])) <= 17
    assert calls(lambda: model.run(None, feeds[0])) <= 21
