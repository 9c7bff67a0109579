"""A short test of each area: `make smoke` runs them in seconds.

The tests beside the code are thorough. These tell at once whether anything works at all.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tessella
from tessella.dialects import nn
from tessella.tools.cli import main
from tests import run_lines
from tests.models import run_onnxruntime
from tests.native import Array, check_op, normal
from tests.passes.patterns.test_reuse import FUSIONS, check

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"


KERNELS: dict[type[nn.NnOp], tuple[list[Array], dict[str, Any]]] = {
    nn.AddOp: ([normal(3, 17), normal(17)], {}),
    nn.FcOp: ([normal(3, 9), normal(9, 17), normal(17)], {"transpose_w": False}),
    nn.ConvOp: (
        [normal(1, 3, 7, 7), normal(5, 3, 3, 3)],
        {"strides": (1, 1), "pads": (1, 1, 1, 1), "dilations": (1, 1), "groups": 1},
    ),
    nn.AttentionOp: (
        [normal(2, 5, 8), normal(2, 7, 8), normal(2, 7, 9)],
        {"scale": 0.5, "transposed_k": False, "causal": False, "past": 0, "nan_as_zero": False},
    ),
    nn.SoftmaxOp: ([normal(5, 19)], {"axis": 1}),
    nn.ReduceMaxOp: ([normal(5, 19)], {"axes": (0,), "keepdims": True}),
    nn.LayerNormOp: ([normal(5, 19), normal(19), normal(19)], {"axis": 1, "epsilon": 0.1}),
    nn.TransposeOp: ([normal(5, 19)], {"perm": (1, 0)}),
    nn.GatherOp: ([normal(5, 19), np.asarray([4, 0, -1])], {"axis": 0}),
}


@pytest.mark.parametrize("kind", KERNELS, ids=lambda kind: kind.name)
def test_a_kernel_of_each_family(kind: type[nn.NnOp]) -> None:
    operands, settings = KERNELS[kind]
    check_op(kind, operands, **settings)


def test_a_model() -> None:
    onnx = pytest.importorskip("onnx")
    x = normal(1, 1, 28, 28)
    proto = onnx.load(DIGITS)
    model = tessella.compile(proto)
    feeds = {
        info.name: np.resize(x, [d if isinstance(d, int) else 1 for d in info.shape])
        for info in model.get_inputs()
    }
    for y, wanted in zip(model.run(None, feeds), run_onnxruntime(proto, feeds), strict=True):
        np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)


def test_a_function() -> None:
    x, w = normal(3, 8), normal(8, 5)
    product = tessella.jit(lambda x, w: tessella.relu(x @ w))
    np.testing.assert_allclose(product(x, w), np.maximum(x @ w, 0), rtol=1e-5, atol=1e-5)


def test_a_tile_program() -> None:
    rows = tessella.tile("function (A[M, N]) -> (S) { S[m : M] = +(A[m, n]); }")
    np.testing.assert_allclose(rows(normal(3, 5)), normal(3, 5).sum(1), rtol=1e-5)


def test_a_pattern() -> None:
    assert any("gelu-erf" in check(seed, FUSIONS["gelu-erf"]) for seed in range(8))


@pytest.mark.parametrize("file", ["passes/fuse_elementwise.mlir", "lowering/tile_loops.mlir"])
def test_a_filecheck_file(file: str) -> None:
    for command in run_lines.commands(run_lines.FOLDER / file):
        run_lines.run(command)


def test_the_tool(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", str(DIGITS)]) == 0
    assert "conv" in capsys.readouterr().out
