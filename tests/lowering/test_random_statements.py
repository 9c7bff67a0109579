"""Random statements under random schedules, and what they mean point by point."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, note, settings
from hypothesis import strategies as st

from tessella.targets import Target
from tests.codegen.harness import RUNNABLE
from tests.generators.schedules import Fences, prepare
from tests.generators.tile_statements import statement
from tests.sampling import sampled

every_target = pytest.mark.parametrize("target", RUNNABLE, ids=lambda t: t.name)
randoms = st.randoms(use_true_random=False)
quick = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@every_target
@settings(quick, max_examples=sampled(70))
@given(random=randoms)
def test_any_schedule(target: Target, random: Random) -> None:
    prepared = prepare(random, statement(random), target)
    note(str(prepared.module))
    assume(prepared.is_small)
    fences = Fences()
    np.testing.assert_array_equal(prepared.run(fences.place), prepared.wanted)
    fences.check()
