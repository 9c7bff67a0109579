"""Modules under torch.compile, at two batch sizes and trained, against PyTorch itself."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch

from tessella.frontends.torch.backend import compile_graph
from tessella.frontends.torch.report import REPORTS
from tests.frontends.torch.modules import MODULES, TRAINED

SIZES = (3, 5)
CHECKS = ("aten._assert_async.msg",)
"""The ops that PyTorch runs between programs."""


@pytest.fixture(autouse=True)
def _new() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    REPORTS.clear()


def same(got: Any, want: Any, tolerance: float = 2e-5) -> None:
    torch.testing.assert_close(got, want, rtol=tolerance, atol=tolerance)


def flat(result: Any) -> list[Any]:
    return [*result] if isinstance(result, tuple | list) else [result]


@pytest.mark.parametrize("name", MODULES)
def test_a_module_gives_what_pytorch_gives(name: str) -> None:
    case = MODULES[name]
    module = case.make().eval()
    own = copy.deepcopy(module)
    compiled = torch.compile(module, backend=compile_graph)
    with torch.no_grad():
        for size in SIZES:
            arguments = case.arguments(size)
            for each in arguments:
                if each.shape[0] == size:
                    torch._dynamo.mark_dynamic(each, 0)
            for got, want in zip(flat(compiled(*arguments)), flat(own(*arguments)), strict=True):
                same(got, want)
    same([*module.buffers()], [*own.buffers()])
    [report] = REPORTS.graphs  # the second size needs no other graph
    assert {left.name for left in report.left} <= {*CHECKS}, str(report)


@pytest.mark.parametrize("name", TRAINED)
def test_a_trained_module_has_the_parameters_that_pytorch_finds(name: str) -> None:
    case = MODULES[name]
    module = case.make().train()
    start, arguments = copy.deepcopy(module.state_dict()), case.arguments(4)
    compiled = torch.compile(module, backend=compile_graph)
    for optimizer in (
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        # a larger epsilon, as the sign of a gradient near 0 is a matter of rounding
        lambda parameters: torch.optim.Adam(parameters, lr=0.01, eps=1e-3),
    ):
        found = []
        for run in (compiled, module):
            module.load_state_dict(start)
            losses = trained(run, optimizer(module.parameters()), arguments)
            found.append((losses, copy.deepcopy(module.state_dict())))
        (losses, state), (wanted, wanted_state) = found
        same(losses, wanted, 1e-3)
        same(state, wanted_state, 1e-3)
        assert wanted[-1] < wanted[0]
    assert {report.kind for report in REPORTS.graphs} == {"forward", "backward"}
    assert not any(report.left for report in REPORTS.graphs), str(REPORTS.graphs)


def trained(run: Any, optimizer: Any, arguments: tuple[Any, ...]) -> list[float]:
    """Take 20 steps. Returns the loss before each."""
    losses: list[float] = []
    for _ in range(20):
        optimizer.zero_grad()
        loss = run(*arguments).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses
