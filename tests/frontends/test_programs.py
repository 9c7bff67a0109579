"""Programs of frontends, which are inspected and compiled any number of times."""

from __future__ import annotations

import numpy as np

import tessella as ts


def test_compiling_a_program_leaves_it_as_it_was() -> None:
    """Passes fold, pack and drop weights: those of one compilation."""
    rng = np.random.default_rng(0)
    x, v, w = (rng.standard_normal((24, 24)).astype(np.float32) for _ in range(3))
    lowered = ts.jit(lambda x: x @ (v + w)).lower(x)
    texts = [lowered.as_text("loops") for _ in range(2)]
    assert texts[0] == texts[1]
    for _ in range(2):
        np.testing.assert_allclose(lowered.compile()(x), x @ (v + w), rtol=1e-4, atol=1e-4)
