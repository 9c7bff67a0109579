"""Operations on lists of arrays, against `onnx.reference`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from tessella.runtime import sequences
from tessella.support.errors import ShapeError
from tests.native import normal

PARTS = [normal(2, 3), normal(1, 3), normal(4, 3)]


def reference(operator: str, inputs: dict[str, Any], **settings: Any) -> Any:
    node = helper.make_node(operator, [*inputs], ["y"], **settings)
    (found,) = ReferenceEvaluator(node).run(None, inputs)
    return found


def assert_equal(found: Any, expected: Any) -> None:
    assert len(found) == len(expected)
    for one, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, wanted)


@pytest.mark.parametrize("position", [None, 0, 2, -3])
def test_an_element_is_erased(position: int | None) -> None:
    at = {} if position is None else {"at": np.array(position)}
    (found,) = sequences.erase([PARTS, *at.values()])
    assert_equal(found, reference("SequenceErase", {"s": PARTS, **at}))


@pytest.mark.parametrize("sizes", [[4, 0, 3], [0, 0, 7], [7]])
def test_parts_may_be_empty(sizes: list[int]) -> None:
    x, split = normal(7, 2), np.array(sizes)
    (found,) = sequences.split([x, split], axis=0, keeps=True)
    assert_equal(found, reference("SplitToSequence", {"x": x, "split": split}, axis=0))


def test_parts_of_one_size_are_not_empty() -> None:
    with pytest.raises(ShapeError, match="not positive"):
        sequences.part_sizes(7, np.array(0))
