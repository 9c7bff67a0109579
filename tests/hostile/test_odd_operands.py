"""Attributes and small operands that few models have: a result of ``onnx.reference``, ONNX Runtime
or NumPy, or an error that says what was expected, what was found and where."""

from __future__ import annotations

import re
from collections.abc import Sequence

import pytest

from tessella.support.errors import TessellaError, UnsupportedError
from tests.frontends.onnx.semantics.case import Batch, Case, difference, expected
from tests.hostile import operands
from tests.sampling import sample


def problem(case: Case, *, folded: bool, places: Sequence[str] | None = None) -> str:
    """Return what is wrong with the error in which a case should end; an empty string if
    nothing is."""
    way = f"{case} {case.operands if folded else ''}, {'folded' if folded else places}"
    try:
        found = Batch([case], folded=folded).run(places)
    except UnsupportedError as error:
        return "" if f"node '{case.op}_0'" in str(error) else f"{way}: {error}"
    except TessellaError as error:
        parts = ("what", "expected", "found", "where")
        missing = [part for part in parts if not getattr(error, part)]
        is_located = re.match(rf"node '{case.op}_0\b", error.where or "")
        return "" if is_located and not missing else f"{way}: no {missing} in {error}"
    except Exception as error:
        return f"{way}: {type(error).__name__}: {error}"
    return f"{way}: {found}"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("folded", [True, False])
def test_operands_that_make_no_sense(folded: bool) -> None:
    cases = sample(operands.refused(), folded)
    problems = (problem(case, folded=folded, places=["host"]) for case in cases)
    assert not (wrong := [*filter(None, problems)]), "\n".join(wrong)


@pytest.mark.filterwarnings("ignore")
def test_odd_operands() -> None:
    cases = operands.computed()
    for way in (Batch(cases, folded=True).run(), Batch(cases).run(["host"]), Batch(cases).run()):
        for case, results in zip(cases, way, strict=True):
            for found, wanted in zip(results, expected(case), strict=True):
                assert not (text := difference(case, found, wanted)), f"{case}: {text}"
