"""Mixtures of experts whose tokens are sorted by expert, as transformers computes them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch.export import Dim, export

import tessella
from tessella.dialects import nn
from tessella.dialects.interpret import interpret
from tessella.frontends.emitter import Emitter
from tessella.frontends.gradients import pulled_back
from tessella.frontends.torch.backend import compile_graph
from tessella.frontends.torch.report import REPORTS
from tests.frontends.torch.modules import Of, parameter
from tests.native import GraphBuilder

EXPERTS, CHOSEN, WIDTH, INNER = 5, 2, 8, 6


def products(input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor) -> torch.Tensor:
    output, start = input.new_zeros(input.shape[0], weight.shape[2]), 0
    for matrix, end in zip(weight, offs.tolist(), strict=True):
        output[start:end] = input[start:end] @ matrix
        start = end
    return output


def gradients(
    input: torch.Tensor, weight: torch.Tensor, offs: torch.Tensor, grad_output: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    of_weight, start = torch.zeros_like(weight), 0
    for i, end in enumerate(offs.tolist()):
        of_weight[i] = input[start:end].T @ grad_output[start:end]
        start = end
    return products(grad_output, weight.mT, offs), of_weight


def define() -> None:
    """Define the ops as transformers does, which is not installed with the tests."""
    name = "transformers::grouped_mm_fallback"
    backward = f"{name}_backward"
    torch.library.custom_op(name, products, mutates_args=())
    torch.library.custom_op(backward, gradients, mutates_args=())
    torch.library.register_fake(name, lambda x, w, offs: x.new_empty(x.shape[0], w.shape[2]))
    torch.library.register_fake(
        backward, lambda x, w, offs, grad: (torch.empty_like(x), torch.empty_like(w))
    )

    def differentiate(context: Any, grad: Any) -> tuple[Any, ...]:
        op = torch.ops.transformers.grouped_mm_fallback_backward
        return (*op(*context.saved_tensors, grad), None)

    torch.library.register_autograd(
        name,
        differentiate,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )


if not hasattr(torch.ops.transformers, "grouped_mm_fallback"):
    define()


@pytest.fixture(autouse=True)
def _new() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    REPORTS.clear()


def mixture() -> Any:
    def forward(m: Any, x: torch.Tensor) -> torch.Tensor:
        weights, chosen = m.router(x).softmax(-1).topk(CHOSEN)
        experts, order = chosen.reshape(-1).sort()
        counts = torch.histc(experts.float(), EXPERTS, 0, EXPERTS - 1)
        ends = counts.cumsum(0, dtype=torch.int32)
        grouped = torch.ops.transformers.grouped_mm_fallback
        hidden = grouped(x[order // CHOSEN], m.up.mT, ends)
        given = grouped(hidden.relu(), m.down.mT, ends) * weights.reshape(-1)[order, None]
        back = torch.empty_like(order)
        back[order] = torch.arange(order.shape[0])
        return given[back].view(-1, CHOSEN, WIDTH).sum(1)

    parts = {"up": parameter(EXPERTS, INNER, WIDTH), "down": parameter(EXPERTS, WIDTH, INNER)}
    return Of(forward, router=torch.nn.Linear(WIDTH, EXPERTS), **parts)


@pytest.mark.parametrize(
    "places", [pytest.param(["host"], id="host"), pytest.param(None, marks=pytest.mark.slow)]
)
def test_an_exported_mixture_takes_any_number_of_tokens(places: list[str] | None) -> None:
    module = mixture().eval()
    shapes = (({0: Dim("tokens", min=2, max=64)},),)
    exported = export(module, (torch.randn(3, WIDTH),), dynamic_shapes=shapes)
    model = tessella.compile(exported, places=places)
    for count in (3, 16):
        x = torch.randn(count, WIDTH)
        np.testing.assert_allclose(model(x), module(x).detach(), rtol=2e-5, atol=2e-5)


def test_a_mixture_has_the_gradients_that_pytorch_finds() -> None:
    module = mixture()
    found: list[Any] = []
    compiled = torch.compile(module, backend=compile_graph, options={"places": ["host"]})
    x = torch.randn(7, WIDTH)
    for run in (compiled, module):
        module.zero_grad()
        run(x).square().sum().backward()
        found.append([each.grad for each in module.parameters()])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    assert not any(report.left for report in REPORTS.graphs), str(REPORTS.graphs)


def test_gradients_by_the_rules_of_ops() -> None:
    ends, weights = np.array([2, 2, 7, 9]), np.random.default_rng(0)
    shapes = {"x": (11, 3), "w": (4, 3, 5), "of_y": (11, 5), "of_z": (4, 3, 5)}
    feeds = {name: weights.normal(size=shape) for name, shape in shapes.items()}
    g = GraphBuilder(**feeds, ends=ends)
    x, w, of_y, of_z, places = Emitter(g.block).values([*g.inputs.values()])
    found = [
        *pulled_back(lambda: x.op(nn.GroupedMatmulOp, w, places), [x, w], of_y),
        *pulled_back(lambda: x.op(nn.GroupedOuterOp, of_y, places), [x, of_y], of_z),
    ]
    got = interpret(g.graph(*(each.ssa for each in found)), {**feeds, "ends": ends})
    given = {n: torch.tensor(each, requires_grad=True) for n, each in feeds.items()}
    a, b, c, d = given.values()
    y = products(a, b, torch.tensor(ends))
    z = torch.stack(
        [
            part.T @ grad
            for part, grad in zip(
                *(torch.tensor_split(each[:9], ends[:3].tolist()) for each in (a, c)), strict=True
            )
        ]
    )
    wanted = [*torch.autograd.grad(y, (a, b), c), *torch.autograd.grad(z, (a, c), d)]
    for each, expected in zip(got, wanted, strict=True):
        np.testing.assert_allclose(each, expected.detach(), rtol=1e-9, atol=1e-9)


def test_groups_are_rows_columns_or_both() -> None:
    def products(x: Any, w: Any, ends: Any) -> Any:
        rows = torch._grouped_mm(x, w, offs=ends)
        columns = torch._grouped_mm(w.mT, x.mT, offs=ends)
        sums = torch._grouped_mm(x.mT, 2 * x, offs=ends)
        return rows, columns, sums, torch._grouped_mm(w.mT, w)

    x = torch.randn(24, 8).bfloat16()
    arguments = x, torch.randn(4, 8, 16).bfloat16(), torch.tensor([5, 5, 16, 24]).int()
    got = torch.compile(products, backend=compile_graph)(*arguments)
    torch.testing.assert_close(got, products(*arguments), rtol=0.02, atol=0.02)
    assert not any(report.left for report in REPORTS.graphs), str(REPORTS.graphs)


def test_histograms_leave_out_what_is_out_of_range() -> None:
    def forward(m: Any, x: Any, y: Any) -> Any:
        rest = x.nan_to_num(), y * 0 + 3, y[:0]
        in_range = [torch.histc(x, bins, -1, 2) for bins in (1, 7)]
        return (*in_range, torch.histc(y, 5, 0, 4), *(torch.histc(each, 6) for each in rest))

    x = torch.tensor([[-1.5, -1, 0.25, 0.9], [2, 2.5, torch.nan, 1]])
    arguments = x, torch.arange(5.0).repeat(3)
    got = tessella.compile(export(Of(forward), arguments))(*arguments)
    for found, wanted in zip(got, forward(None, *arguments), strict=True):
        np.testing.assert_array_equal(found, wanted)
