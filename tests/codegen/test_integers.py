"""Integer arithmetic, comparisons and shifts against Python's integers, wrapped to the type."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.arith import CMPI_COMPARISON_OPERATIONS

from tessella.targets import Target
from tests.codegen.harness import DTYPES, Array, Case, call, elementwise

Oracle = Callable[[int, int, int], int]
"""Of two signed integers and the bits of their type; the result is wrapped to the type."""


def _unsigned(value: int, bits: int) -> int:
    return value & ((1 << bits) - 1)


def _wrapped(value: int, bits: int) -> int:
    value = _unsigned(value, bits)
    return value - (1 << bits) if value >> (bits - 1) else value


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _with_unsigned(function: Callable[[int, int], int]) -> Oracle:
    return lambda a, b, bits: function(_unsigned(a, bits), _unsigned(b, bits))


def _shift(function: Callable[[int, int], int], too_far: Callable[[int], int]) -> Oracle:
    def oracle(a: int, b: int, bits: int) -> int:
        amount = _unsigned(b, bits)
        return function(a, amount) if amount < bits else too_far(a)

    return oracle


ARITHMETIC: dict[str, Oracle] = {
    "arith.addi": lambda a, b, bits: a + b,
    "arith.subi": lambda a, b, bits: a - b,
    "arith.muli": lambda a, b, bits: a * b,
    "arith.divsi": lambda a, b, bits: _truncated(a, b) if b else 0,
    "arith.divui": _with_unsigned(lambda a, b: a // b if b else 0),
    "arith.remsi": lambda a, b, bits: a - b * _truncated(a, b) if b else 0,
    "arith.remui": _with_unsigned(lambda a, b: a % b if b else 0),
    "arith.floordivsi": lambda a, b, bits: a // b if b else 0,
    "arith.ceildivsi": lambda a, b, bits: -(-a // b) if b else 0,
    "arith.ceildivui": _with_unsigned(lambda a, b: -(-a // b) if b else 0),
    "arith.minsi": lambda a, b, bits: min(a, b),
    "arith.maxsi": lambda a, b, bits: max(a, b),
    "arith.minui": _with_unsigned(min),
    "arith.maxui": _with_unsigned(max),
    "arith.andi": lambda a, b, bits: a & b,
    "arith.ori": lambda a, b, bits: a | b,
    "arith.xori": lambda a, b, bits: a ^ b,
    "arith.shli": _shift(lambda a, b: a << b, lambda a: 0),
    "arith.shrsi": _shift(lambda a, b: a >> b, lambda a: -1 if a < 0 else 0),
    "math.absi": lambda a, b, bits: abs(a),
}
_COMPARE: dict[str, Callable[[int, int], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


def _shift_right_unsigned(a: int, b: int, bits: int) -> int:
    amount = _unsigned(b, bits)
    return _unsigned(a, bits) >> amount if amount < bits else 0


ARITHMETIC["arith.shrui"] = _shift_right_unsigned


def _pairs(bits: int) -> tuple[Array, Array]:
    """Every pair of small and of extreme values, and random ones; a multiple of 64 of them."""
    least = -(1 << (bits - 1))
    special = [0, 1, 2, 3, 7, -1, -2, -3, -7, bits - 1, bits, bits + 1]
    special += [least, least + 1, -least - 1, -least - 2, least // 2, 100, -100]
    pairs = np.array(list(itertools.product(special, special)), np.int64)
    drawn = np.random.default_rng(3).integers(least, -least, (512, 2), np.int64, endpoint=False)
    both = np.concatenate([pairs, drawn])
    both = both[: len(both) // 64 * 64].astype(DTYPES[f"i{bits}"])
    return both[:, 0].copy(), both[:, 1].copy()


def _lanes(target: Target, bits: int, scalar: bool) -> int:
    return 0 if scalar else target.lanes(bits)


@pytest.mark.parametrize("scalar", [True, False], ids=["scalar", "vector"])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_arithmetic(any_target: Target, bits: int, scalar: bool) -> None:
    a, b = _pairs(bits)
    element = f"i{bits}"
    cases = {
        name.replace(".", "_"): Case(name, ("a", "b")[: 1 + (name != "math.absi")], element)
        for name in ARITHMETIC
    }
    inputs = {"a": (element, a), "b": (element, b)}
    results = elementwise(any_target, _lanes(any_target, bits, scalar), inputs, cases)
    for name, oracle in ARITHMETIC.items():
        expected = [
            _wrapped(oracle(x, y, bits), bits) for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(results[name.replace(".", "_")], expected, err_msg=name)


@pytest.mark.parametrize("wide", [0, 1 << 31, -(1 << 31) - 1, 1 << 62, -1])
def test_divisions_whose_lanes_fit_into_fewer_bits(any_target: Target, wide: int) -> None:
    """And those of which one lane does not."""
    rng = np.random.default_rng(wide & 0xFF)
    a = rng.integers(-(1 << 31), 1 << 31, 128)
    b = np.concatenate([rng.integers(-9, 10, 64), rng.integers(-(1 << 31), 1 << 31, 64)])
    a[:4], b[:4] = [-(1 << 31), (1 << 31) - 1, -(1 << 31), 0], [-1, -1, 1, 0]
    a[40::32] = b[70::16] = wide
    names = [name for name in ARITHMETIC if "div" in name or "rem" in name]
    cases = {name: Case(name, ("a", "b"), "i64") for name in names}
    results = elementwise(any_target, 8, {"a": ("i64", a), "b": ("i64", b)}, cases)
    for name in names:
        pairs = zip(a.tolist(), b.tolist(), strict=True)
        wanted = [_wrapped(ARITHMETIC[name](x, y, 64), 64) for x, y in pairs]
        assert results[name].tolist() == wanted, name


@pytest.mark.parametrize("scalar", [True, False], ids=["scalar", "vector"])
@pytest.mark.parametrize("bits", [8, 32, 64])
def test_comparisons(any_target: Target, bits: int, scalar: bool) -> None:
    a, b = _pairs(bits)
    element = f"i{bits}"
    cases = {
        name: Case("arith.cmpi", ("a", "b"), "i1", f"predicate = {number} : i64")
        for number, name in enumerate(CMPI_COMPARISON_OPERATIONS)
    }
    inputs = {"a": (element, a), "b": (element, b)}
    results = elementwise(any_target, _lanes(any_target, bits, scalar), inputs, cases)
    for name in cases:
        compare = _COMPARE[name[-2:]]
        unsigned = name[0] == "u"
        expected = [
            compare(_unsigned(x, bits), _unsigned(y, bits)) if unsigned else compare(x, y)
            for x, y in zip(a.tolist(), b.tolist(), strict=True)
        ]
        np.testing.assert_array_equal(results[name], expected, err_msg=name)


@pytest.mark.sweep
@pytest.mark.parametrize("op", ["divsi", "divui", "remsi", "remui", "floordivsi", "ceildivsi"])
@pytest.mark.parametrize("divisor", [-1, 0, 1, 3, -7, 8])
def test_division_by_a_constant(target: Target, op: str, divisor: int) -> None:
    a, _ = _pairs(32)
    source = f"""
    rt.kernel @k(%a: memref<{len(a)}xi32>, %o: memref<{len(a)}xi32>) threads(%thread, %threads) {{
      %from = arith.constant 0 : index
      %to = arith.constant {len(a)} : index
      %by = arith.constant 8 : index
      %d = arith.constant dense<{divisor}> : vector<8xi32>
      scf.for %i = %from to %to step %by {{
        %x = vector.load %a[%i] : memref<{len(a)}xi32>, vector<8xi32>
        %r = arith.{op} %x, %d : vector<8xi32>
        vector.store %r, %o[%i] : memref<{len(a)}xi32>, vector<8xi32>
      }}
      rt.return
    }}"""
    result = np.zeros_like(a)
    call(source, target, a, result)
    oracle = ARITHMETIC[f"arith.{op}"]
    expected = [_wrapped(oracle(x, divisor, 32), 32) for x in a.tolist()]
    np.testing.assert_array_equal(result, expected)


def test_masks_combine_as_bits(target: Target) -> None:
    a = np.array([0, 0, 1, 1] * 16, np.uint8)
    b = np.array([0, 1, 0, 1] * 16, np.uint8)
    ops = {"andi": a & b, "ori": a | b, "xori": a ^ b}
    cases = {name: Case(f"arith.{name}", ("a", "b"), "i1") for name in ops}
    results = elementwise(target, 16, {"a": ("i1", a), "b": ("i1", b)}, cases)
    for name, expected in ops.items():
        np.testing.assert_array_equal(results[name], expected, err_msg=name)
