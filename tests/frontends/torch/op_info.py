"""PyTorch's own samples of ops (OpInfo), forward and backward, against PyTorch.

The graphs run in NumPy: what is tested is the conversion. An op without a converter is left out.

`make test-op-info` runs this file; its name keeps it out of other runs, as it takes long.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._pytree import tree_flatten, tree_unflatten

from tessella.driver.options import make_options
from tessella.frontends.torch.backend import Settings, served
from tessella.frontends.torch.decompositions import decompositions
from tessella.frontends.torch.partition import unserved

SETTINGS = Settings(make_options(places=["host"]), 1)
TABLE = decompositions()
SAMPLES = 3
"""The number of samples of an op, evenly spaced in PyTorch's list."""

OTHER = ("fft.", "linalg.", "special.", "signal.", "sparse.", "masked.", "torch.ops", "polygamma")
"""Beginnings of the names of ops that need ops without converters."""

UNDEFINED = ("empty", "empty_like", "empty_permuted", "new_empty")
"""Ops whose results have no values of their own."""

FAILING: Mapping[str, str] = {
    "kthvalue": "another of equal integers is found",
    "topk": "equal integers come in another order",
}
"""The ops that differ, and why."""


def name_of(op: Any) -> str:
    return f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name


OPS = {
    name_of(op): op for op in op_db if not op.name.startswith(OTHER) and op.name not in UNDEFINED
}


def cases() -> Iterator[object]:
    for name in OPS:
        reason = FAILING.get(name)
        marks = [] if reason is None else [pytest.mark.xfail(reason=reason)]
        yield pytest.param(name, marks=marks, id=name)


def spaced(samples: Sequence[Any]) -> Sequence[Any]:
    return samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]


def function_of(op: Any, sample: Any) -> tuple[Callable[..., list[Any]], list[Any]]:
    """Return a function of the tensors of a sample, and these."""
    flat, structure = tree_flatten((sample.input, sample.args, sample.kwargs))
    tensors = [each for each in flat if isinstance(each, torch.Tensor)]

    def call(*given: Any) -> list[Any]:
        others = iter(given)
        filled = [next(others) if isinstance(each, torch.Tensor) else each for each in flat]
        x, args, kwargs = tree_unflatten(filled, structure)
        results = tree_flatten(sample.output_process_fn_grad(op.op(x, *args, **kwargs)))[0]
        return [each for each in results if isinstance(each, torch.Tensor)]

    return call, tensors


def gradients(call: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return the function of the gradients of a function's results."""

    def backward(*tensors: Any) -> list[Any]:
        results = [each for each in call(*tensors) if each.requires_grad]
        needed = [each for each in tensors if each.requires_grad]
        given = [torch.full_like(each, 0.5) for each in results]
        found = torch.autograd.grad(results, needed, given, allow_unused=True)
        return [each for each in found if each is not None]

    return backward


def check(call: Callable[..., list[Any]], tensors: Sequence[Any]) -> bool:
    """Compare a program with PyTorch. Returns whether there is one."""
    try:
        want = call(*tensors)
    except (RuntimeError, ValueError, IndexError):  # a sample of an error, or without gradients
        return False
    own = [each.detach().clone().requires_grad_(each.requires_grad) for each in tensors]
    # a graph of gradients is traced before it is functional
    try:
        plain = make_fx(call)(*own) if any(each.requires_grad for each in own) else call
        own = [each.detach() for each in own]
        module = make_fx(torch.func.functionalize(plain), decomposition_table=TABLE)(*own)
    except RuntimeError:  # PyTorch cannot trace what depends on data, or on more than a view
        return False
    is_empty = all(node.op != "call_function" for node in module.graph.nodes)
    if not want or is_empty or unserved(module):
        return False
    with torch.no_grad():
        got = served(SETTINGS, "forward", module, own)([*own])
    for found, wanted in zip(got, want, strict=True):
        torch.testing.assert_close(found, wanted.detach(), rtol=2e-4, atol=5e-5, equal_nan=True)
    return True


@pytest.mark.sweep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [*cases()])
def test_samples(name: str) -> None:
    op, found = OPS[name], False
    for dtype, backward in itertools.product((torch.float32, torch.int64), (False, True)):
        is_float = dtype is torch.float32
        if dtype not in op.dtypes or (backward and not (is_float and op.supports_autograd)):
            continue
        torch.manual_seed(0)
        for sample in spaced([*op.sample_inputs("cpu", dtype, requires_grad=backward)]):
            call, tensors = function_of(op, sample)
            if not tensors or any(each.layout is not torch.strided for each in tensors):
                continue
            if not backward:
                found |= check(call, tensors)
            elif any(each.requires_grad for each in tensors):
                found |= check(gradients(call), tensors)
    if not found:
        pytest.skip("no sample has a program")
