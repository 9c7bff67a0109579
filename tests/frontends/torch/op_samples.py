"""PyTorch's own samples of ops (OpInfo), forward and backward, against PyTorch.

The graphs run in NumPy: what is tested is the conversion. A case is an op with one kind of samples:
floats, integers, or floats with gradients. PyTorch runs the ops of `op_left.txt`, which is
generated: `python -m tests.frontends.torch.op_samples > tests/frontends/torch/op_left.txt`.
"""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._pytree import tree_flatten, tree_unflatten

from tessella.driver.options import make_options
from tessella.frontends.torch.backend import Settings, served
from tessella.frontends.torch.decompositions import decompositions
from tessella.frontends.torch.library import library
from tessella.frontends.torch.partition import unserved

SETTINGS = Settings(make_options(places=["host"]), 1)
SAMPLES = 3
"""The number of samples of a case, evenly spaced in PyTorch's list."""

OTHERS = re.compile("empty.*|new_empty.*|jiterator.*")
"""Ops whose results have no values of their own, and ops for GPUs."""

DIFFERENT: Mapping[str, str] = {
    "kthvalue integers": "another of equal integers is found",
    "topk integers": "equal integers come in another order",
}
"""The cases whose results differ, and why."""


class Kind(NamedTuple):
    """A kind of samples."""

    dtype: torch.dtype
    backward: bool


KINDS = {
    "floats": Kind(torch.float32, False),
    "integers": Kind(torch.int64, False),
    "gradients": Kind(torch.float32, True),
}


@cache
def cases() -> Mapping[str, Any]:
    """Return the ops of all cases. PyTorch's list of ops takes seconds to import."""
    return dict(_named())


def _named() -> Iterator[tuple[str, Any]]:
    for op in library("torch.testing._internal.common_methods_invocations").op_db:
        name = f"{op.name}/{op.variant_test_name}" if op.variant_test_name else op.name
        for kind, (dtype, backward) in KINDS.items():
            has_kind = dtype in op.dtypes and (op.supports_autograd or not backward)
            if has_kind and not OTHERS.fullmatch(op.name):
                yield f"{name} {kind}", op


@cache
def left() -> Mapping[str, str]:
    """Return the ops that PyTorch runs, by case."""
    lines = Path(__file__).with_name("op_left.txt").read_text().splitlines()
    return {case: ops for case, _, ops in (line.partition(": ") for line in lines)}


class Outcome(NamedTuple):
    """What became of the samples of a case."""

    left: str
    """The ops that PyTorch runs."""
    difference: str | None
    """How a result differs from PyTorch's; None if all are equal."""


def outcome(case: str) -> Outcome:
    """Compare the samples of a case with PyTorch."""
    op, (dtype, backward) = cases()[case], KINDS[case.rpartition(" ")[2]]
    names: set[str] = set()
    difference: str | None = None
    torch.manual_seed(0)
    for sample in _spaced([*op.sample_inputs("cpu", dtype, requires_grad=backward)]):
        call, tensors = _function(op, sample)
        if not tensors or any(each.layout is not torch.strided for each in tensors):
            continue
        if backward and not any(each.requires_grad for each in tensors):
            continue
        try:
            names |= _compared(_gradients(call) if backward else call, tensors)
        except AssertionError as error:
            difference = str(error)
    return Outcome(" ".join(sorted(names)), difference)


def errors(case: str) -> Iterator[str]:
    """Yield how a case differs from what the lists of this module say."""
    found, expected = outcome(case), left().get(case, "")
    if found.left != expected:
        yield (
            f"{case}: PyTorch runs {found.left or 'nothing'}, expected {expected or 'nothing'} "
            "(tests/frontends/torch/op_left.txt)"
        )
    if (found.difference is None) == (case in DIFFERENT):
        yield f"{case}: {found.difference or 'equal now: remove it from DIFFERENT'}"


def _spaced(samples: Sequence[Any]) -> Sequence[Any]:
    return samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]


def _function(op: Any, sample: Any) -> tuple[Callable[..., list[Any]], list[Any]]:
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


def _gradients(call: Callable[..., list[Any]]) -> Callable[..., list[Any]]:
    """Return the function of the gradients of a function's results."""

    def backward(*tensors: Any) -> list[Any]:
        results = [each for each in call(*tensors) if each.requires_grad]
        needed = [each for each in tensors if each.requires_grad]
        given = [torch.full_like(each, 0.5) for each in results]
        found = torch.autograd.grad(results, needed, given, allow_unused=True)
        return [each for each in found if each is not None]

    return backward


_decompositions = cache(decompositions)


def _compared(call: Callable[..., list[Any]], tensors: Sequence[Any]) -> set[str]:
    """Compare a program with PyTorch, and return the names of the ops that PyTorch runs. Raises
    AssertionError for a difference."""
    try:
        want = call(*tensors)
    except (RuntimeError, ValueError, IndexError):  # a sample of an error, or without gradients
        return set()
    own = [each.detach().clone().requires_grad_(each.requires_grad) for each in tensors]
    # a graph of gradients is traced before it is functional
    try:
        plain = make_fx(call)(*own) if any(each.requires_grad for each in own) else call
        own = [each.detach() for each in own]
        module = make_fx(torch.func.functionalize(plain), decomposition_table=_decompositions())(
            *own
        )
    except RuntimeError:  # PyTorch cannot trace what depends on data, or on more than a view
        return set()
    is_empty = all(node.op != "call_function" for node in module.graph.nodes)
    if not want or is_empty:
        return set()
    if found := unserved(module):
        return {each.name for each in found.values()}
    with torch.no_grad():
        got = served(SETTINGS, "forward", module, own)([*own])
    for result, wanted in zip(got, want, strict=True):
        torch.testing.assert_close(result, wanted.detach(), rtol=2e-4, atol=5e-5, equal_nan=True)
    return set()


def _main() -> None:
    """Print the list of what PyTorch runs, and tell what differs."""
    warnings.simplefilter("ignore")
    for case in sorted(cases()):
        found = outcome(case)
        if found.left:
            print(f"{case}: {found.left}", flush=True)
        if found.difference is not None and case not in DIFFERENT:
            print(f"{case} differs: {found.difference}", file=sys.stderr)


if __name__ == "__main__":
    _main()
