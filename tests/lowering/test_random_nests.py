"""Random kernels whose statements share loops, and what their statements mean one by one."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, assume, given, note, reject, settings
from hypothesis import strategies as st

from tessella.dialects.printing import to_text
from tessella.support.sizes import UndecidedSizeError
from tessella.targets import Target
from tests.codegen.harness import EMULATED, RUNNABLE
from tests.generators.nests import nested, with_sums_in_steps, with_windows
from tests.generators.open_sizes import open_sizes
from tests.sampling import sampled

every_target = pytest.mark.parametrize("target", RUNNABLE, ids=lambda t: t.name)
randoms = st.randoms(use_true_random=False)
quick = settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


@every_target
@settings(quick, max_examples=sampled(60), deadline=None)
@given(random=randoms)
def test_any_nest(target: Target, random: Random) -> None:
    made = nested(random, target)
    note(str(made.module))
    made.check()


@pytest.mark.parametrize("target", [*RUNNABLE, *EMULATED], ids=lambda t: t.name)
@settings(quick, max_examples=sampled(16), deadline=None)
@given(random=randoms)
def test_any_nest_of_open_sizes(target: Target, random: Random) -> None:
    """One code for many sizes; what can be compiled for numbers only is left out."""
    try:
        made = nested(random, target, open_sizes(random))
        note(f"{made.sizes}\n{to_text(made.module)}")
        made.check()
    except UndecidedSizeError:
        reject()


@every_target
@settings(quick, max_examples=sampled(60), deadline=None)
@given(random=randoms)
def test_sums_over_a_shared_loop(target: Target, random: Random) -> None:
    made = with_sums_in_steps(random, target)
    assume(made is not None)
    assert made is not None
    note(str(made.module))
    made.check()


@every_target
@settings(quick, max_examples=sampled(60), deadline=None)
@given(random=randoms)
def test_windows_of_what_a_step_writes(target: Target, random: Random) -> None:
    made = with_windows(random, target)
    assume(made is not None)
    assert made is not None
    note(str(made.module))
    made.check()
