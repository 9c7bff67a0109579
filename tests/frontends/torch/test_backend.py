"""The backend of torch.compile: what it freezes, leaves to PyTorch, copies and tells."""

from __future__ import annotations

import copy
import logging
import tomllib
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
import torch

from tessella.frontends.torch import graphs
from tessella.frontends.torch.backend import GraphPart, compile_graph, with_order
from tessella.frontends.torch.report import REPORTS

ROOT = Path(__file__).parents[3]
IN_NUMPY = {"places": ["host"]}


@pytest.fixture(autouse=True)
def _new() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    REPORTS.clear()


def same(got: Any, want: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def compiled(function: Any, **options: Any) -> Any:
    return torch.compile(function, backend=compile_graph, **options)


def in_numpy(function: Any) -> Any:
    return compiled(function, options=IN_NUMPY)


def test_the_entry_point_is_the_backend() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, _, name = project["entry-points"]["torch_dynamo_backends"]["tessella"].partition(":")
    assert getattr(import_module(module), name) is compile_graph


# ** parameters **


@torch.no_grad()
def test_parameters_are_constants_until_they_are_written_to() -> None:
    module = torch.nn.Linear(4, 3).eval()
    run, x = compiled(module), torch.randn(2, 4)
    same(run(x), module(x))
    [report] = graphs()
    [models] = report.models
    [fixed] = models
    assert len(fixed.inputs) == 1
    module.weight.mul_(2)
    same(run(x), module(x))
    assert [len(model.inputs) for model in models] == [1, 3]
    module.weight = torch.nn.Parameter(torch.randn(3, 4))
    same(run(x), module(x))


@torch.no_grad()
def test_modules_of_one_class_have_their_own_parameters() -> None:
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    run = in_numpy(lambda layer, x: layer(x))
    x = torch.randn(2, 4)
    for layer in (*layers, *layers):
        same(run(layer, x), layer(x))


# ** memory **


@torch.no_grad()
def test_results_take_no_copy(monkeypatch: pytest.MonkeyPatch) -> None:
    pointers: list[int] = []
    forward = GraphPart.__call__

    def recorded(self: GraphPart, *args: Any) -> Any:
        results = forward(self, *args)
        pointers.extend(each.data_ptr() for each in results)
        return results

    monkeypatch.setattr(GraphPart, "__call__", recorded)
    y = in_numpy(lambda x: x * 2)(torch.randn(8))
    assert y.data_ptr() in pointers


def test_inputs_take_no_copy() -> None:
    tensors = import_module("tessella.frontends.torch.tensors")
    for x in (torch.randn(3), torch.randn(3).bfloat16(), torch.tensor(1), torch.ones(2).bool()):
        array = tensors.array_of(x)
        assert array.ctypes.data == x.data_ptr()
        back = tensors.tensor_of(array)
        assert back.data_ptr() == x.data_ptr()
        assert back.dtype == x.dtype


@torch.no_grad()
def test_buffers_are_written() -> None:
    module = torch.nn.BatchNorm1d(4)
    own, run = copy.deepcopy(module), in_numpy(module)
    for _ in range(2):
        x = torch.randn(3, 4)
        same(run(x), own(x))
    same([*module.buffers()], [*own.buffers()])


@torch.no_grad()
def test_arguments_are_written() -> None:
    def add(x: Any, y: Any) -> Any:
        x.add_(y)
        return x.sum()

    x, y = torch.randn(3), torch.randn(3)
    want = x + y
    total = in_numpy(add)(x, y)
    same(x, want)
    same(total, want.sum())


# ** what is left to PyTorch **


def gradient(function: Any, x: Any, y: Any) -> Any:
    """Return the gradient of the product of a function of ``x`` with ``y``."""
    return torch.autograd.grad(function(x), x, y)[0]


def test_pytorch_runs_other_ops_and_is_named_once(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: Any) -> Any:
        return torch.linalg.inv(x.sin().T + 3 * torch.eye(4)) * 2

    run = in_numpy(function)
    with caplog.at_level(logging.WARNING, "tessella.torch"):
        for _ in range(2):
            x, y = torch.randn(4, 4, requires_grad=True), torch.randn(4, 4)
            same(gradient(run, x, y), gradient(function, x, y), 1e-4)
    told = [record.message for record in caplog.records if record.name == "tessella.torch"]
    assert sum("aten.linalg_inv_ex.default" in text for text in told) == 1
    forward = graphs()[0]
    assert "aten.linalg_inv_ex.default" in {left.name for left in forward.left}
    assert len(forward.models) == 2
    assert "aten.linalg_inv_ex.default (1)" in str(forward)


def test_a_graph_without_any_of_our_ops() -> None:
    x = torch.eye(3)
    same(in_numpy(torch.linalg.inv)(x), x)


@torch.no_grad()
def test_ops_of_pytorch_get_the_strides_that_they_expect() -> None:
    def function(x: Any) -> Any:
        y = (x * 2).transpose(0, 1).clone(memory_format=torch.preserve_format)
        return y.as_strided((6,), (1,))

    x = torch.randn(2, 3)
    same(in_numpy(function)(x), function(x))


@pytest.mark.parametrize("gradient", [False, True])
def test_views_of_results(gradient: bool) -> None:
    def function(x: Any) -> Any:
        y = x.t() * 2
        return y, y[1], (x + 1)[:, 1:]

    x = torch.randn(2, 3, requires_grad=gradient)
    results = in_numpy(function)(x)
    for got, want in zip(results, function(x), strict=True):
        same(got, want)
    assert results[0].stride() == (1, 3)


def test_with_order() -> None:
    x = torch.randn(2, 3, 4)
    y = with_order(x, [2, 0, 1])
    assert y.stride() == (3, 1, 6)
    same(y, x)
    assert with_order(y, [2, 0, 1]) is y


@torch.no_grad()
def test_other_types_are_left() -> None:
    x = torch.randn(3).to(torch.float8_e4m3fn)
    same(in_numpy(lambda x: x.float() + 1)(x), x.float() + 1)
    assert {left.name for left in graphs()[0].left} == {"aten._to_copy.default"}


def test_complex_numbers() -> None:
    def turned(x: Any, angles: Any) -> Any:
        numbers = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
        steps = torch.polar(torch.ones_like(angles), angles)
        found = torch.view_as_real(numbers * steps.conj() + 1j).flatten(-2)
        return found * numbers.abs().sum() / 2

    x, y, angles = torch.randn(3, 4, requires_grad=True), torch.randn(3, 4), torch.randn(3, 2)
    run = in_numpy(turned)
    same(run(x, angles), turned(x, angles))
    got, want = (gradient(lambda x, f=f: f(x, angles), x, y) for f in (run, turned))
    same(got, want, 1e-4)
    assert not any(report.left for report in graphs()), str(graphs())


@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64, torch.complex128])
def test_types_of_complex_results(dtype: Any) -> None:
    def function(x: Any, row: Any, scalar: Any) -> Any:
        return x * 2j, x + row, row + scalar, row * scalar * 1j, x.sum(0), x.conj() / 2

    given = torch.ones(2, 3).to(dtype), torch.ones(3), torch.tensor(1 + 2j, dtype=torch.complex128)
    for got, want in zip(in_numpy(function)(*given), function(*given), strict=True):
        same(got, want)


def test_graphs_agree_with_dynamo() -> None:
    def function(x: Any) -> Any:
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    x = torch.randn(3)
    in_numpy(function)(x)
    mine = len(graphs())
    torch._dynamo.reset()
    assert torch._dynamo.explain(function)(x).graph_count == mine


# ** sizes, types, threads, options **


@torch.no_grad()
def test_numbers_that_change_are_sizes() -> None:
    def function(x: Any, n: int) -> Any:
        return x.repeat(n, 1)[1 : n + 1] / x.shape[0], n * 2

    run = in_numpy(function)
    for size, count in ((3, 4), (5, 6), (7, 8), (4, 9)):
        x = torch.randn(size, 2)
        got, number = run(x, count)
        want, wanted = function(x, count)
        same(got, want)
        assert number == wanted
    assert len(graphs()) <= 3


def test_sizes_reach_the_backward_graph() -> None:
    def function(x: Any) -> Any:
        return (x.mean(0) * x.shape[0] * 0.5).square().sum() / (x.shape[0] + 1)

    run = compiled(function, options=IN_NUMPY, dynamic=True)
    for size in (3, 5, 7):
        x, y = torch.randn(size, 2, requires_grad=True), torch.ones(())
        same(gradient(run, x, y), gradient(function, x, y))
    assert len(graphs()) == 2


@pytest.mark.parametrize("dynamic", [True, None])
def test_further_sizes_compile_nothing(dynamic: bool | None) -> None:
    def compilations() -> int:
        models = [model for each in graphs() for part in each.models for model in part]
        return sum(len(model.compiled().programs) for model in models)

    module = torch.nn.Sequential(torch.nn.Linear(4, 3), torch.nn.ReLU(), torch.nn.Linear(3, 2))
    run = compiled(module, options=IN_NUMPY, dynamic=dynamic)
    counts: list[int] = []
    for size in (5, 7, 9, 12):
        run(torch.randn(size, 4)).sum().backward()
        counts.append(compilations())
    # without `dynamic`, PyTorch captures another graph when the size varies
    first = 0 if dynamic else 1
    assert counts[first] > 0
    assert len({*counts[first:]}) == 1, counts


@torch.no_grad()
def test_autocast_computes_in_bfloat16() -> None:
    module = torch.nn.Linear(8, 8)
    run, x = compiled(module), torch.randn(4, 8)
    with torch.autocast("cpu", torch.bfloat16):
        got, want = run(x), module(x)
    assert got.dtype == torch.bfloat16
    same(got, want, 2e-2)


@torch.no_grad()
def test_programs_run_on_the_threads_of_pytorch() -> None:
    run, x, before = in_numpy(lambda x: x + 1), torch.randn(3), torch.get_num_threads()
    try:
        for count in (1, 2):
            torch.set_num_threads(count)
            run(x)
            [[model]] = graphs()[-1].models
            assert model.threads == count
    finally:
        torch.set_num_threads(before)


def test_a_wrong_option() -> None:
    with pytest.raises(Exception, match="nowhere") as caught:
        compiled(lambda x: x + 1, options={"places": ["nowhere"]})(torch.randn(3))
    assert isinstance(caught.value.__cause__ or caught.value, Exception)


@torch.no_grad()
def test_recurrent_modules_in_graphs() -> None:
    module = torch.nn.LSTM(4, 5, batch_first=True, bidirectional=True).eval()
    x = torch.randn(2, 3, 4)
    with torch._dynamo.config.patch(allow_rnn=True):
        got = in_numpy(module)(x)
    same(got, module(x))
    assert graphs()


def test_explanations_of_programs() -> None:
    with torch.no_grad():
        compiled(lambda x: x.exp() + 1)(torch.randn(3))
    [explanation] = graphs()[0].explain()
    assert "exp" in str(explanation)


def test_results_without_elements_have_the_strides_of_pytorchs() -> None:
    def function(x: Any) -> Any:
        return x[:0] * 2, x[:0].softmax(1), x[:, :0] + 1

    x = torch.randn(3, 4)
    got = torch.compile(function, backend=compile_graph)(x)
    assert [y.stride() for y in got] == [y.stride() for y in function(x)]
