"""NumPy semantics of random draws."""

from __future__ import annotations

import numpy as np
import pytest

from tessella.runtime import host
from tessella.support.errors import ExecutionError


def test_a_seed_fixes_the_draws() -> None:
    settings = {"shape": (4, 5), "to": np.dtype(np.float64), "seed": 7 + (1 << 32)}
    [drawn] = host.run("nn.random_normal", [], {**settings, "mean": 1.0, "scale": 2.0})
    np.testing.assert_array_equal(drawn, np.random.RandomState(7).normal(1, 2, (4, 5)))
    [drawn] = host.run("nn.random_uniform", [], {**settings, "low": 1.0, "high": 2.0})
    np.testing.assert_array_equal(drawn, np.random.RandomState(7).uniform(1, 2, (4, 5)))


def test_classes_by_their_shares() -> None:
    logits = 700 + np.array([[0, -np.inf, np.log(3)], [np.log(2), np.log(2), -np.inf]])
    draws = np.array([[0, 0.24, 0.26, 0.99], [0, 0.49, 0.51, 0.99]])
    [found] = host.run("nn.choose_classes", [logits, draws], {})
    np.testing.assert_array_equal(found, [[0, 0, 2, 2], [0, 0, 1, 1]])


def test_no_class_is_possible() -> None:
    with pytest.raises(ExecutionError, match="no probabilities"):
        host.run("nn.choose_classes", [np.full((1, 2), -np.inf), np.zeros((1, 1))], {})
