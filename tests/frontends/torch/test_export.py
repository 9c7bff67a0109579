"""Exported programs and modules as models, and their artifacts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.export import Dim, export

import tessella
from tests.frontends.torch.modules import MODULES, Of


def same(got: Any, want: Any) -> None:
    np.testing.assert_allclose(got, want.detach().numpy(), rtol=2e-5, atol=2e-5)


def linear() -> Any:
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU()).eval()


def test_open_dimensions_are_symbolic_within_their_constraints() -> None:
    module = linear()
    exported = export(module, (torch.randn(3, 4),), dynamic_shapes=({0: Dim("batch", max=9)},))
    model = tessella.compile(exported)
    [(name, _)] = [info.shape for info in model.inputs]
    assert isinstance(name, str)
    for size in (2, 9):
        x = torch.randn(size, 4)
        same(model(x), module(x))
    with pytest.raises(tessella.InputError, match="out of its bounds"):
        model(torch.randn(10, 4))


def test_bf16_tensors_are_inputs_of_any_layout() -> None:
    module, x = linear().bfloat16(), torch.randn(4, 3).bfloat16()
    model = tessella.compile(export(module, (x.T,)))
    wanted = module(x.T).detach().float().numpy()
    for given in (x.T, x.T.contiguous(), x.T.contiguous().view(torch.int16).numpy()):
        if isinstance(given, np.ndarray):
            given = given.view(ml_dtypes.bfloat16)
        y = model(given)
        assert y.dtype == ml_dtypes.bfloat16
        np.testing.assert_allclose(y.astype(np.float32), wanted, rtol=0.02, atol=0.02)


def test_bf16_tensors_are_operands() -> None:
    x = torch.randn(3, 5).bfloat16()
    found = np.asarray(tessella.ops.mul(x, x)).astype(np.float32)
    np.testing.assert_allclose(found, (x * x).float().numpy(), rtol=0.01)


def test_a_tensor_that_needs_a_gradient_is_refused() -> None:
    for x in (torch.randn(3, 4), torch.randn(3, 4).bfloat16()):
        model = tessella.compile(export(linear().to(x.dtype), (x,)))
        with pytest.raises(tessella.InputError, match="requires grad"):
            model(x.requires_grad_())


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact", "bilinear"])
def test_open_dimensions_are_resized_by_factors(mode: str) -> None:
    module = torch.nn.Upsample(scale_factor=(2, 1.5), mode=mode)
    image = torch.randn(1, 2, 5, 7)
    model = tessella.compile(export(module, (image,), dynamic_shapes=({2: Dim("h", max=20)},)))
    for height in (5, 13):
        x = torch.randn(1, 2, height, 7)
        same(model(x), module(x))


def test_heads_share_keys() -> None:
    class Shared(torch.nn.Module):
        def forward(self, q: Any, k: Any) -> Any:
            attention = torch.nn.functional.scaled_dot_product_attention
            return attention(q, k, k, is_causal=True, enable_gqa=True)

    q, k = torch.randn(2, 6, 5, 4), torch.randn(2, 3, 5, 4)
    same(tessella.compile(export(Shared(), (q, k)))(q, k), Shared()(q, k))


def test_an_artifact_runs_without_pytorch(tmp_path: Path) -> None:
    module, x = linear(), torch.randn(3, 4)
    model = tessella.compile(module, (x,))
    model.save(tmp_path / "module.tsl")
    np.save(tmp_path / "x.npy", x)
    code = (
        "import sys, numpy, tessella\n"
        "numpy.save('y.npy', tessella.load('module.tsl')(numpy.load('x.npy')))\n"
        "assert not {'torch', 'xdsl'} & sys.modules.keys()"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, timeout=100)
    same(np.load(tmp_path / "y.npy"), module(x))


def test_results_have_names_and_buffers_are_passed_on() -> None:
    module = MODULES["cache"].make()
    model = tessella.compile(module, MODULES["cache"].arguments(3))
    assert [info.name for info in model.inputs] == ["keys", "values", "steps", "x"]
    assert [info.name for info in model.outputs] == ["output", "keys", "values", "steps"]
    state = [np.asarray(buffer).copy() for buffer in module.buffers()]
    for _ in range(2):
        (x,) = MODULES["cache"].arguments(3)
        y, *state = model(*state, x)
        same(y, module(x))
    same(state[0], module.keys)


def test_lists_and_numbers() -> None:
    def forward(m: Any, x: Any, *, others: Any) -> Any:
        return {"sum": x + others[0], "size": x.shape[0]}, others[1] * 2

    function = Of(lambda m, x, others: forward(m, x, others=others))
    arguments = torch.randn(2, 3), [torch.randn(3), torch.randn(())]
    model = tessella.compile(function, arguments)
    x, (first, second) = arguments
    total, size, double = model(x, first, second)
    same(total, x + first)
    assert size == 2
    same(double, second * 2)


def test_all_ops_without_a_converter_are_listed() -> None:
    def forward(m: Any, x: Any) -> Any:
        return torch.fft.rfft(x).real, torch.linalg.inv(x)

    with pytest.raises(tessella.UnsupportedError, match=r"docs/aten\.md") as caught:
        tessella.compile(Of(forward), (torch.eye(3),))
    names = {issue.op for issue in caught.value.issues}
    assert {"aten._fft_r2c.default", "aten.linalg_inv_ex.default"} <= names


@pytest.mark.parametrize(
    "arguments, options, message",
    [
        ((linear,), {}, "needs example inputs"),
        ((linear, (torch.randn(3, 4),)), {"max_bytes": 1}, "'max_bytes' is for ONNX models"),
        ((linear, (torch.randn(3, 4),)), {"values": {}}, "'values' is for ONNX models"),
    ],
)
def test_arguments_that_do_not_fit(
    arguments: tuple[Any, ...], options: dict[str, Any], message: str
) -> None:
    make, *inputs = arguments
    with pytest.raises(tessella.OptionError, match=message):
        tessella.compile(make(), *inputs, **options)


def test_a_module_that_cannot_be_exported() -> None:
    def forward(m: Any, x: Any) -> Any:
        return x if x.sum() > 0 else -x

    with pytest.raises(tessella.InvalidModelError, match="cannot export the module"):
        tessella.compile(Of(forward), (torch.randn(3),))


def test_example_inputs_are_for_modules() -> None:
    with pytest.raises(tessella.OptionError, match="'example_inputs' is for modules of PyTorch"):
        tessella.compile(b"", ())


def test_searches_in_rows_of_any_length_are_shipped(tmp_path: Path) -> None:
    search = Of(lambda m, row, values: torch.searchsorted(row, values))
    row, values = torch.arange(5), torch.arange(-1, 10)
    shapes = (({0: Dim("n", min=2, max=15)}, None),)
    exported = export(search, (row, values), dynamic_shapes=shapes)
    model = tessella.compile(exported, places=["host"])
    model(row, values)
    model.save(tmp_path / "search.tsl")
    shipped = tessella.load(tmp_path / "search.tsl")
    for size in (2, 3, 9):
        row = torch.arange(size)
        np.testing.assert_array_equal(shipped(row, values), torch.searchsorted(row, values))
