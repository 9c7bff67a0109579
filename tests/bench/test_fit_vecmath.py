"""The polynomials of vector math are those that the script fits, and are as exact as they say."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from bench.fit_vecmath import F64, FITS, Intervals
from tessella.codegen.vecmath import coefficients, pieces


def stated(module: ModuleType) -> dict[str, list[str]]:
    """The errors that the docstring of each table states."""
    found: dict[str, list[str]] = {}
    body = ast.parse(Path(str(module.__file__)).read_text()).body
    for statement, after in pairwise(body):
        match statement, after:
            case ast.Assign(targets=[ast.Name(name)]), ast.Expr(ast.Constant(str(text))):
                found[name] = re.findall(r"\d\.\de-\d+", text)
            case _:
                pass
    return found


STATED = stated(coefficients) | {f"pieces.{k}": v for k, v in stated(pieces).items()}


def error_of(name: str) -> str:
    """The stated error of a fit: of f32 where two are stated, then of f64."""
    table, _, bits = name.partition(" ")
    return STATED[table][int(bits == "64")]


def spacing(name: str) -> float:
    """Return the relative spacing of the element's numbers."""
    fit = FITS[name]
    wide = not isinstance(fit, Intervals) and fit.element is F64
    return float(np.finfo(np.float64 if wide else np.float32).eps)


SLOW = {"pieces.ERF", "pieces.TANH"}
NAMES = [pytest.param(name, marks=pytest.mark.slow if name in SLOW else ()) for name in FITS]


@pytest.mark.parametrize("name", NAMES)
def test_the_source_has_the_fit_and_its_error(name: str) -> None:
    fit = FITS[name]
    error = fit.error(fit.table)
    assert f"{error:.1e}" == f"{float(error_of(name)):.1e}"
    assert error <= 1.01 * fit.error(fit.fitted()) + spacing(name) / 64


def test_each_table_with_errors_has_a_fit() -> None:
    named = {name.partition(" ")[0] for name in FITS}
    assert named == {name for name, errors in STATED.items() if errors}
