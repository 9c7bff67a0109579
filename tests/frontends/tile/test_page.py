"""The page about the Tile language lists what is there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import tessella
from tessella.frontends.tile.functions import CASTS, FUNCTIONS, WITHOUT_CODE
from tessella.frontends.tile.tensor_functions import TENSOR_FUNCTIONS
from tessella.support.errors import TileError

PAGE = (Path(__file__).parents[3] / "docs" / "tile-language.md").read_text()


def test_the_error_is_as_shown() -> None:
    [shown] = re.findall(r"```\n(unknown.*?)\n```", PAGE, re.DOTALL)
    with pytest.raises(TileError) as caught:
        tessella.tile("function (A[N, M]) -> (B) { B[n : N] = +(A[n+CI, m]); }")
    assert str(caught.value) == shown


def test_all_functions_are_listed() -> None:
    listed = set(re.findall(r"\b[a-z][a-z0-9_]*\b", PAGE))
    assert listed >= {*FUNCTIONS, *CASTS, *TENSOR_FUNCTIONS}
    assert not WITHOUT_CODE & {*FUNCTIONS, *CASTS, *TENSOR_FUNCTIONS}
