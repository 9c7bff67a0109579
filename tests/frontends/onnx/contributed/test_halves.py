"""Ops of ONNX Runtime's domain on float16: within its rounding of ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.frontends.onnx.contributed import test_attention, test_decoder, test_layers
from tests.frontends.onnx.contributed.cases import Array, Case, check


def halved(case: Case) -> Case:
    """Return a case with float16 for float32."""

    def half(x: Array | None) -> Array | None:
        return x.astype(np.float16) if x is not None and x.dtype == np.float32 else x

    return replace(case, operands=[half(x) for x in case.operands])


CASES = [
    *test_layers.SMALL[:6],
    *test_layers.PRODUCTS[:2],
    test_layers.FUSED_CONV[1],
    *test_layers.NORMS[1:5],
    *test_attention.ATTENTION[:3],
    *test_attention.MULTI_HEAD[2:4],
    *test_attention.ROTARY[:2],
    *(test_decoder.STEPS[name].case for name in ("tokens", "tokens of two lengths", "sink")),
]


@pytest.mark.sweep
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.title)
def test_as_onnxruntime(case: Case) -> None:
    check(halved(case), 2e-2)
