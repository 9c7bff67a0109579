"""Numbers for the symbols of a program."""

from __future__ import annotations

import pytest

from tessella.dialects.bound import bound, bound_by
from tessella.dialects.printing import to_text
from tessella.dialects.sizes import symbols_in
from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.support.errors import InputError
from tessella.support.sizes import Symbol

TEXT = """
builtin.module attributes {symbols = [#nn.symbol<n, 2 to 9>]} {
  func.func @main(%x: tensor<[n]x4xf32>) -> (tensor<[4 * n]xf32>, tensor<2xi64>) {
    %y = nn.reshape %x shape [[4 * n]] : tensor<[4 * n]xf32>
    %s = nn.sizes values [[n], 7] : tensor<2xi64>
    %i = nn.iota count [n + 1] : tensor<[n + 1]xi64>
    func.return %y, %s : tensor<[4 * n]xf32>, tensor<2xi64>
  }
}"""
NUMBERS = """
builtin.module {
  func.func @main(%x: tensor<3x4xf32>) -> (tensor<12xf32>, tensor<2xi64>) {
    %y = nn.reshape %x shape [12] : tensor<12xf32>
    %s = nn.sizes values [3, 7] : tensor<2xi64>
    %i = nn.iota count 4 : tensor<4xi64>
    func.return %y, %s : tensor<12xf32>, tensor<2xi64>
  }
}"""


def test_sizes_become_numbers() -> None:
    module, expected = (
        LocatedParser(stage_context(), text, "text").parse_module() for text in (TEXT, NUMBERS)
    )
    found = bound(module, {"n": 3})
    found.verify()
    assert to_text(found) == to_text(expected)
    assert bound(expected, {}) is expected
    assert symbols_in(module)  # it stays as it was


@pytest.mark.parametrize("values", [{}, {"n": 1}, {"n": 10}], ids=str)
def test_values_out_of_range(values: dict[str, int]) -> None:
    module = LocatedParser(stage_context(), TEXT, "text").parse_module()
    with pytest.raises(InputError, match="a size out of range: n"):
        bound(module, values)


def test_values_from_shapes() -> None:
    n, m = Symbol("n", 2, 9), Symbol("m", 2, 9)
    shapes = [((4 * n.size, 3), (12, 3)), ((m.size, n.size), (5, 3))]
    assert bound_by([n, m], shapes) == {"n": 3, "m": 5}
