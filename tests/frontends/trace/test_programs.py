"""Random functions: ops of every family on each other's results, compiled, against NumPy.

``python -m tests.fuzz jit`` runs many more.
"""

from __future__ import annotations

import pytest

from tests.fuzz.functions import FUZZER
from tests.sampling import sample


@pytest.mark.parametrize("seed", sample(range(60)))
def test_random_functions(seed: int) -> None:
    FUZZER.check(FUZZER.case(seed))
