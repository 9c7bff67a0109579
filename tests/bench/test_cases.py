"""The kernels that are measured: what they compute, and how much of it."""

from __future__ import annotations

import numpy as np
import onnx
import pytest

from bench.cases import (
    GROUPS,
    Workload,
    add_relu,
    batched_matmul,
    bias_relu6,
    convolution,
    matmul,
    mean,
    pool,
    workload,
)
from tests.models import random_inputs, run_onnxruntime


def test_products() -> None:
    # by definition: a multiplication and an addition for each term, four bytes for each float
    assert workload(matmul(3, 5, 7)) == Workload(2 * 3 * 5 * 7, 4 * (3 * 7 + 7 * 5), 4 * 3 * 5)
    found = workload(batched_matmul(2, 3, 5, 7))
    assert found == Workload(2 * 2 * 3 * 5 * 7, 4 * 2 * (3 * 7 + 7 * 5), 4 * 2 * 3 * 5)
    assert found.bytes == found.read + found.written


def test_the_first_convolution_of_resnet() -> None:
    model = convolution((1, 3, 224, 224), (64, 3, 7, 7), pads=[3, 3, 3, 3], strides=[2, 2])
    # 118 million multiply-adds: as published for ResNet-50's conv1
    assert workload(model).flops == 2 * 118_013_952


def test_what_multiplies_nothing_has_no_flops() -> None:
    found = workload(pool("MaxPool", (1, 2, 8, 8), kernel_shape=[2, 2], strides=[2, 2]))
    assert found == Workload(0, 4 * 128, 4 * 32)


def test_models_compute_what_they_say() -> None:
    x = (1, 3, 4, 4)
    for model, expected in (
        (mean(x), lambda a: a["x"].mean(axis=(2, 3))),
        (add_relu(x), lambda a: np.maximum(a["x"] + a["y"], 0)),
    ):
        feeds = random_inputs(model)
        np.testing.assert_allclose(run_onnxruntime(model, feeds)[0], expected(feeds), rtol=1e-5)
    clipped = run_onnxruntime(bias_relu6(x), {"x": np.full(x, 5.5, np.float32)})[0]
    assert clipped.min() >= 0
    assert clipped.max() <= 6


@pytest.mark.sweep
@pytest.mark.parametrize("group", GROUPS)
def test_a_model_of_each_group_is_valid(group: str) -> None:
    cases = list(GROUPS[group]())
    assert len({case.name for case in cases}) == len(cases)
    assert all(case.group == group for case in cases)
    model = cases[-1].build()
    onnx.checker.check_model(model, full_check=True)
    assert workload(model).written > 0


def test_resnet50_has_its_distinct_convolutions() -> None:
    names = [case.name for case in GROUPS["resnet50"]()]
    # table 1 of the paper, with the strides of PyTorch's version: the stem, the 3x3 ones of four
    # stages and the three that halve, and 1x1 ones
    assert names[0] == "7x7/2 3->64 of 224x224"
    threes = {name for name in names if name.startswith("3x3")}
    assert threes == {
        "3x3 64->64 of 56x56",
        "3x3/2 128->128 of 56x56",
        "3x3 128->128 of 28x28",
        "3x3/2 256->256 of 28x28",
        "3x3 256->256 of 14x14",
        "3x3/2 512->512 of 14x14",
        "3x3 512->512 of 7x7",
    }
    assert len(names) == 23


def test_mobilenet_has_its_depthwise_convolutions() -> None:
    names = [case.name for case in GROUPS["depthwise"]()]
    # MobileNet V2, table 2: the expanded widths, at the strides of the first of each stage
    assert names == [
        "3x3 32->32 of 112x112",
        "3x3/2 96->96 of 112x112",
        "3x3 144->144 of 56x56",
        "3x3/2 144->144 of 56x56",
        "3x3 192->192 of 28x28",
        "3x3/2 192->192 of 28x28",
        "3x3 384->384 of 14x14",
        "3x3 576->576 of 14x14",
        "3x3/2 576->576 of 14x14",
        "3x3 960->960 of 7x7",
    ]
