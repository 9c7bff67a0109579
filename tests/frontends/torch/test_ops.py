"""ATen ops that no module of the tests has, against PyTorch: several in one program."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812

from tessella.frontends.torch.backend import compile_graph
from tessella.frontends.torch.report import REPORTS


@pytest.fixture(autouse=True)
def _new() -> None:
    torch.manual_seed(0)
    torch._dynamo.reset()
    REPORTS.clear()


def check(
    function: Callable[..., Any], *arguments: Any, tolerance: float = 1e-5, least: float = 0
) -> None:
    """Compare a program with PyTorch. PyTorch must run none of its ops itself."""
    run = torch.compile(function, backend=compile_graph)
    got, want = run(*arguments), function(*arguments)
    torch.testing.assert_close(got, want, rtol=tolerance, atol=least, equal_nan=True)
    assert not any(report.left for report in REPORTS.graphs), str(REPORTS.graphs)


def check_gradients(function: Callable[..., Any], *arguments: Any) -> None:
    """Compare the gradients of the sum of squares of a function's results."""
    found: list[Any] = []
    run = torch.compile(function, backend=compile_graph, options={"places": ["host"]})
    for each in (run, function):
        own = [x.clone().requires_grad_(x.is_floating_point()) for x in arguments]
        total = sum(y.square().sum() for y in each(*own))
        found.append(torch.autograd.grad(total, [x for x in own if x.requires_grad]))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    assert not any(report.left for report in REPORTS.graphs), str(REPORTS.graphs)


def test_searches() -> None:
    row, rows = torch.tensor([-1.0, 0, 0, 2, 5]), torch.randn(2, 3, 6)
    values = torch.tensor([[-2.0, 0, 1], [2, 9, torch.nan]])

    def search(row: Any, rows: Any, values: Any) -> Any:
        ordered = rows.sort(-1)
        given = values.expand(3, 2, 3).transpose(0, 1).contiguous()
        return (
            torch.searchsorted(row, values),
            torch.searchsorted(row, values, side="right", out_int32=True),
            torch.searchsorted(row, 0),
            torch.searchsorted(ordered.values, given, right=True),
            torch.searchsorted(rows, given, sorter=ordered.indices),
            torch.bucketize(values, row),
            torch.bucketize(values.nan_to_num().int(), row, right=True),
        )

    check(search, row, rows, values)


BAGS = torch.tensor([1, 7, 3, 3, 0, 7, 2]), torch.tensor([0, 2, 2, 5])
"""Indices, and the first of each bag; one of the bags is empty."""


def bags(table: Any, weights: Any, indices: Any, offsets: Any) -> Any:
    ends = torch.cat([offsets, offsets.new_full((1,), 7)])
    return (
        *(F.embedding_bag(indices, table, offsets, mode=mode) for mode in ("sum", "mean", "max")),
        F.embedding_bag(indices, table, offsets, per_sample_weights=weights, mode="sum"),
        *(
            F.embedding_bag(
                indices, table, ends, mode=mode, padding_idx=7, include_last_offset=True
            )
            for mode in ("sum", "mean", "max")
        ),
        F.embedding_bag(indices[:6].view(2, 3), table, mode="sum", scale_grad_by_freq=True),
    )


def test_bags_of_embeddings() -> None:
    check(bags, torch.randn(8, 4), torch.randn(7), *BAGS)


def test_gradients_of_bags() -> None:
    check_gradients(bags, torch.randn(8, 4), torch.randn(7), *BAGS)


def test_medians_of_numbers() -> None:
    x = torch.randn(4, 5)
    x[0, 1:3], x[2] = torch.nan, torch.nan

    def medians(x: Any) -> Any:
        found = (
            x.nanmedian(0),
            x.nanmedian(1, keepdim=True),
            (x * 10).nan_to_num().int().nanmedian(1),
        )
        return (*(each.values for each in found), found[0].indices, x.nanmedian())

    check(medians, x)


def distances(x: Any, y: Any) -> Any:
    orders = (0.5, 1, 2, 3, torch.inf)
    return (*(F.pdist(x, p) for p in orders), *(torch.dist(x, y, p) for p in orders))


def test_distances() -> None:
    x = torch.randn(5, 3)
    x[1] = x[3]
    check(distances, x, torch.randn(3))
    check_gradients(distances, torch.randn(5, 3), torch.randn(3))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_functions_keep_their_digits(dtype: torch.dtype) -> None:
    largest = torch.finfo(dtype).max / 2
    x = torch.linspace(-7, 9, 97, dtype=dtype)
    sides = torch.tensor([0, -3, largest, torch.inf, torch.nan], dtype=dtype)
    check(
        lambda x, a: (torch.erfc(x), torch.hypot(a[:, None], a)),
        x,
        sides,
        tolerance=2e-5 if dtype == torch.float32 else 1e-13,
    )


def test_means_of_what_is_scattered() -> None:
    x, places = torch.randn(4, 3), torch.tensor([[0, 1, 1], [3, 0, 1]])

    def scattered(x: Any, places: Any, source: Any) -> Any:
        whole, given = (x * 10).int(), (source * 10).int()
        return (
            *(
                x.scatter_reduce(0, places, source, "mean", include_self=own)
                for own in (True, False)
            ),
            *(
                whole.scatter_reduce(0, places, given, name, include_self=False)
                for name in ("mean", "amax", "amin", "prod")
            ),
        )

    check(scattered, x, places, torch.randn(2, 3))


def test_gradients_of_resizes() -> None:
    linear = ("linear1d", "bilinear2d", "trilinear3d")

    def collected(*gradients: Any) -> Any:
        for rank, (grad, name) in enumerate(zip(gradients, linear, strict=True), 1):
            shapes = grad.shape[2:], (2, 3, *(5, 4, 6)[:rank])
            for mode in ("upsample_nearest", "_upsample_nearest_exact"):
                yield getattr(torch.ops.aten, f"{mode}{rank}d_backward")(grad, *shapes)
            for is_aligned in (True, False):
                op = getattr(torch.ops.aten, f"upsample_{name}_backward")
                yield op(grad, *shapes, is_aligned)

    gradients = [torch.randn(2, 3, *(7, 2, 5)[:rank]) for rank in (1, 2, 3)]
    check(lambda *gradients: (*collected(*gradients),), *gradients, least=1e-6)


def test_shifts_by_operators() -> None:
    x = torch.arange(12, dtype=torch.int32).reshape(3, 4)
    check(lambda x: (x << 2, x >> 1, x << x, x >> x.T[:3, :1]), x)


FILTERS = {
    f"{mode} {size} aligned={aligned} antialias={antialias}": {
        "size": size, "mode": mode, "align_corners": aligned, "antialias": antialias
    }
    for mode, antialias in (("bicubic", False), ("bicubic", True), ("bilinear", True))
    for size in ((3, 11), (7, 2), (1, 9))
    for aligned in (True, False)
}  # fmt: skip


def test_filtered_resizes_and_their_gradients() -> None:
    def resized(x: Any) -> Any:
        return (*(F.interpolate(x, **settings) for settings in FILTERS.values()),)

    x = torch.randn(2, 3, 5, 8)
    check_gradients(resized, x)
    check_gradients(
        lambda x: F.interpolate(x, scale_factor=(0.7, 1.3), mode="bicubic", antialias=True), x
    )


@pytest.mark.parametrize("rank", [2, 3])
def test_gradients_of_sampling_at_a_grid(rank: int) -> None:
    cases = [("bilinear", "zeros"), ("bilinear", "reflection"), ("nearest", "border")]
    cases += [("bicubic", "reflection")] if rank == 2 else []

    def sampled(x: Any, grid: Any) -> Any:
        for i, (mode, padding) in enumerate(cases):
            yield F.grid_sample(x, grid, mode, padding, align_corners=bool(i % 2))

    sizes = (5, 4, 3)[:rank]
    x, grid = torch.randn(2, 2, *sizes), torch.randn(2, *sizes[::-1], rank)
    check_gradients(lambda x, grid: (*sampled(x, grid),), x, grid)
