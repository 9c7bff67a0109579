"""Random statements under random schedules, and what they mean point by point.

Their sizes may be open.
"""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, note, reject, settings
from hypothesis import strategies as st

from tessella.dialects.printing import to_text
from tessella.support.sizes import UndecidedSizeError
from tessella.targets import Target
from tests.codegen.harness import EMULATED, RUNNABLE
from tests.generators.open_sizes import CLOSED, open_sizes
from tests.generators.schedules import Fences, Prepared, prepare
from tests.generators.tile_statements import statement
from tests.sampling import sampled

every_target = pytest.mark.parametrize("target", RUNNABLE, ids=lambda t: t.name)
randoms = st.randoms(use_true_random=False)
quick = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@every_target
@settings(quick, max_examples=sampled(70))
@given(random=randoms)
def test_any_schedule(target: Target, random: Random) -> None:
    check(prepare(random, statement(random, CLOSED), target))


@pytest.mark.parametrize("target", [*RUNNABLE, *EMULATED], ids=lambda t: t.name)
@settings(quick, max_examples=sampled(24), deadline=None)
@given(random=randoms)
def test_any_schedule_of_open_sizes(target: Target, random: Random) -> None:
    """One code for many sizes; what can be compiled for numbers only is left out."""
    drawn = statement(random, open_sizes(random))
    try:
        prepared = prepare(random, drawn, target)
    except UndecidedSizeError:
        reject()
    check(prepared)


def check(prepared: Prepared) -> None:
    note(f"{prepared.statement.sizes}\n{to_text(prepared.module)}")
    assume(prepared.is_small)
    fences = Fences()
    prepared.check(fences.place)
    fences.check()
