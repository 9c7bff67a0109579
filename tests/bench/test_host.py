"""The costs of NumPy kernels, against what they take."""

from __future__ import annotations

import pytest
from xdsl.ir import Block

from bench import host
from tessella import targets
from tessella.dialects.nn.core import type_of
from tessella.kernels.host_cost import host_seconds


def estimate(case: host.Case, target: str) -> float:
    operands = Block(arg_types=list(map(type_of, case.arrays()))).args
    return host_seconds(case.kind.make(operands, **case.settings), targets.get(target))


@pytest.mark.parametrize("name", ["nn.add 4096", "product 64x64x64", "max pool 8x8x8"])
def test_a_case_runs(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    host.main([name])
    assert name in capsys.readouterr().out


def test_costs_follow_the_vectors_where_the_code_is_that_of_vectors() -> None:
    wide = ["nn.exp 131072", "product 512x512x512", "conv 3x3 64x56x56"]
    for name in wide:
        assert estimate(host.CASES[name], "sse") > 2 * estimate(host.CASES[name], "avx512")
    python = host.CASES["nn.erf 131072"]
    assert estimate(python, "sse") < 2 * estimate(python, "avx512")
