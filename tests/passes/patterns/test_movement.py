"""Ops that move elements, spelled with reshapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.passes.patterns.spelling import check, kernels_of, sample


def shuffle(grouped: str) -> str:
    """A channel shuffle of x[2, 6, 4, 5] by way of a shape."""
    perm = "[0, 2, 1, 3, 4]" if grouped.count(",") == 4 else "[0, 2, 1, 3]"
    return (
        f"s = Constant <value_ints = [{grouped}]> () t = Constant <value_ints = [2, 6, 4, 5]> () "
        f"a = Reshape(x, s) b = Transpose <perm = {perm}> (a) y = Reshape(b, t)"
    )


@pytest.mark.parametrize("grouped", ["2, 3, 2, 4, 5", "2, 2, 3, 4, 5", "2, 2, 3, 20"])
def test_channel_shuffle(grouped: str) -> None:
    model = check(shuffle(grouped), ["channel_shuffle"], {"x": sample(0, 2, 6, 4, 5)})
    assert len(kernels_of(model)) == 1


def test_channel_shuffle_takes_the_layout_of_its_neighbours() -> None:
    body = (
        "x = Conv(image, w) " + shuffle("2, 3, 2, 4, 5").replace("y =", "z =") + " y = Conv(z, w)"
    )
    model = check(
        body,
        ["conv", "channel_shuffle", "conv"],
        {"image": sample(0, 2, 6, 4, 5)},
        {"w": sample(1, 6, 6, 1, 1)},
        tolerance=1e-4,
    )
    assert model.as_text("placed").count("place.relayout") <= 2  # at the ends


def test_batched_transpose_joins_the_one_before() -> None:
    body = (
        "s = Constant <value_ints = [6, 5, 4]> () t = Constant <value_ints = [2, 3, 4, 5]> () "
        "h = Transpose <perm = [0, 2, 1, 3]> (x) a = Reshape(h, s) "
        "b = Transpose <perm = [0, 2, 1]> (a) y = Reshape(b, t)"
    )
    x: dict[str, Any] = {"x": np.arange(120, dtype=np.float32).reshape(2, 5, 3, 4)}
    check(body, ["transpose"], x, tolerance=0)
