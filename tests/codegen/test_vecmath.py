"""The errors of the vector math, measured in ULP over dense samples, and its special cases."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest

from tessella.codegen.emit_math import MATH
from tessella.codegen.vecmath import FUNCTIONS
from tessella.support.errors import InternalError
from tessella.targets import Target, get
from tessella.targets.vectormath import BOUNDS, supports
from tests.codegen.harness import DTYPES, Array, Case, elementwise, elementwise_source, kernel_text

WIDE = {32: np.float64, 64: np.longdouble}
"""The type in which the oracle computes."""

ORACLES: dict[str, tuple[Callable[[Array], Array], float, float]] = {
    "math.exp": (np.exp, -105, 90),
    "math.exp2": (np.exp2, -151, 129),
    "math.expm1": (np.expm1, -20, 90),
    "math.log": (np.log, 0, 10),
    "math.log2": (np.log2, 0, 10),
    "math.log10": (np.log10, 0, 10),
    "math.log1p": (np.log1p, -1, 10),
    "math.sinh": (np.sinh, -90, 90),
    "math.cosh": (np.cosh, -90, 90),
    "math.tanh": (np.tanh, -10, 10),
    "math.asinh": (np.arcsinh, -10, 10),
    "math.acosh": (np.arccosh, 0.9, 10),
    "math.atanh": (np.arctanh, -1.01, 1.01),
    "math.erf": (np.vectorize(math.erf, otypes=[np.float64]), -4.5, 4.5),
    "math.sin": (np.sin, -1e4, 1e4),
    "math.cos": (np.cos, -1e4, 1e4),
    "math.tan": (np.tan, -1e4, 1e4),
    "math.asin": (np.arcsin, -1.01, 1.01),
    "math.acos": (np.arccos, -1.01, 1.01),
    "math.atan": (np.arctan, -10, 10),
    "math.rsqrt": (lambda x: 1 / np.sqrt(x), 0, 10),
    "math.sqrt": (np.sqrt, 0, 10),
}
"""NumPy's function, and the range in which it is sampled densely."""

COVERED_ELSEWHERE = set("absf absi ceil copysign floor fma round roundeven trunc".split())
"""Of `math`: those that tests of floats and integers compare exactly."""

PAIRS = [(name, bits) for name in ORACLES for bits in BOUNDS[name]]


def test_every_op_has_a_bound_and_a_test() -> None:
    names = {op.name for op in MATH}
    assert names - {"math.absi"} == set(BOUNDS)
    assert set(FUNCTIONS) <= names
    tested = {*ORACLES, "math.powf", "arith.remf", *(f"math.{name}" for name in COVERED_ELSEWHERE)}
    assert names <= tested


def _sample(low: float, high: float, bits: int) -> Array:
    """Return a sample of all floats, of the range, of its middle, and around zero, with special
    values."""
    dtype = DTYPES[f"f{bits}"]
    rng = np.random.default_rng(11)
    integers = np.linspace(0, 2.0**bits, 40_000, endpoint=False).astype(f"u{bits // 8}")
    with np.errstate(all="ignore"):
        everything = integers.view(f"f{bits // 8}")
        parts = [
            _special(bits),
            everything,
            rng.uniform(low, high, 60_000),
            rng.uniform(low, high, 20_000) / 50,
            np.exp(rng.uniform(-30, math.log(high), 10_000)),
            -np.exp(rng.uniform(-30, math.log(high), 10_000)),
            np.arange(-400, 400) / 8,
        ]
        sample: Array = np.concatenate([part.astype(dtype) for part in parts])
    return sample[: len(sample) // 64 * 64].copy()


def _special(bits: int) -> Array:
    info = np.finfo(f"f{bits // 8}")
    numbers = [0.0, np.inf, np.nan, 1.0, 0.5, 2.0, float(info.max), float(info.tiny)]
    numbers += [float(info.smallest_subnormal), float(info.tiny) / 8, float(info.eps), 1e20]
    # Where exp and exp2 overflow, become denormal, and round to 0.
    numbers += [88.72283, 88.72284, 87.33655, 103.97208, 103.972084, 127.99999, 128, 149, 150]
    numbers += [709.782712893384, 709.7827128933841, 708.4, 745.13, 745.14, 1024, 1074, 1075]
    return np.array([*numbers, *(-n for n in numbers)])


def _errors(result: Array, exact: Array) -> Array:
    """Units in the last place of the result's type; infinity where one is NaN or infinite alone."""
    with np.errstate(all="ignore"):
        rounded = exact.astype(result.dtype)
        spacing = np.spacing(np.abs(rounded)).astype(exact.dtype)
        errors = np.abs(result.astype(exact.dtype) - exact) / spacing
    both_nan = np.isnan(result) & np.isnan(rounded)
    errors[both_nan | (result == rounded)] = np.minimum(errors[both_nan | (result == rounded)], 0.5)
    errors[both_nan | (np.isinf(result) & (result == rounded))] = 0
    errors[np.isnan(result) != np.isnan(rounded)] = np.inf
    return np.nan_to_num(errors, nan=np.inf, posinf=np.inf)


def _bound(name: str, bits: int, target: Target) -> float:
    return BOUNDS[name][bits] + (not target.fused_multiply_add)


@pytest.mark.sweep
@pytest.mark.parametrize("name,bits", PAIRS, ids=[f"{name}-{bits}" for name, bits in PAIRS])
def test_errors_are_within_their_bounds(any_target: Target, name: str, bits: int) -> None:
    if bits == 64 and np.finfo(np.longdouble).nmant < 60:
        pytest.skip("no type to compute the oracle in")
    oracle, low, high = ORACLES[name]
    element = f"f{bits}"
    x = _sample(low, high, bits)
    inputs, case = {"x": (element, x)}, {"r": Case(name, ("x",), element)}
    result = elementwise(any_target, any_target.lanes(bits), inputs, case)["r"]
    with np.errstate(all="ignore"):
        exact = oracle(x.astype(WIDE[bits]))
    errors = _errors(result, exact)
    worst = int(np.argmax(errors))
    found = f"{name}({x[worst]!r}) = {result[worst]!r}, not {exact[worst]!r}"
    assert errors[worst] <= _bound(name, bits, any_target), found
    zeros = exact == 0
    np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))
    # One lane computes what many do.
    scalars = elementwise(any_target, 0, {"x": (element, x[:4096].copy())}, case)["r"]
    np.testing.assert_array_equal(scalars, result[:4096])


@pytest.mark.parametrize("bits", [32, 64])
def test_approximate_exponentials_have_no_denormals(any_target: Target, bits: int) -> None:
    element = f"f{bits}"
    x = _sample(-105, 90, bits)
    cases = {
        "exact": Case("math.exp", ("x",), element),
        "r": Case("math.exp", ("x",), element, "fastmath = #arith.fastmath<afn>"),
    }
    results = elementwise(any_target, any_target.lanes(bits), {"x": (element, x)}, cases)
    exact, least = results["exact"], float(np.finfo(f"f{bits // 8}").tiny)
    wanted = np.where(exact < least, 0, exact)
    is_border = np.abs(exact - least) < 1e-4 * least
    np.testing.assert_array_equal(results["r"][~is_border], wanted[~is_border])
    assert (exact[~is_border] != wanted[~is_border]).any()


@pytest.mark.parametrize("lanes", [3, 8, 32])
def test_any_number_of_lanes(target: Target, lanes: int) -> None:
    x = np.linspace(-3, 3, 96, dtype=np.float32)
    names = [name for name in ORACLES if 32 in BOUNDS[name]]
    cases = {name.replace(".", "_"): Case(name, ("x",), "f32") for name in names}
    one, many = (elementwise(target, n, {"x": ("f32", x)}, cases) for n in (0, lanes))
    for name in cases:
        np.testing.assert_array_equal(one[name], many[name], err_msg=name)


@pytest.mark.parametrize("bits, most", [(32, 3.4e38), (64, 1.7e308)])
def test_huge_angles_are_reduced_exactly(any_target: Target, bits: int, most: float) -> None:
    element, wide = f"f{bits}", WIDE[bits]
    exponents = np.exp(np.linspace(math.log(1e4), math.log(most), 4000))
    x = np.concatenate([exponents, -exponents, [1e5] * 32, [np.nan, np.inf] * 16])
    x = x.astype(DTYPES[element])
    names = ("sin", "cos", "tan")
    cases = {name: Case(f"math.{name}", ("x",), element) for name in names}
    results = elementwise(any_target, 16, {"x": (element, x)}, cases)
    with np.errstate(invalid="ignore"):
        for name in names:
            exact = ORACLES[f"math.{name}"][0](x.astype(wide))
            errors = _errors(results[name], exact)
            assert errors.max() <= _bound(f"math.{name}", bits, any_target), name


def test_angles_near_multiples_of_half_pi(any_target: Target) -> None:
    """The reduced argument has few digits, unless pi / 2 has many."""
    n = np.concatenate([np.arange(1, 4000), np.arange(1, 660000, 331)])
    x = (n * (np.longdouble(np.pi) / 2 + np.longdouble("6.123233995736766e-17"))).astype(np.float64)
    x = np.resize(x, len(x) // 16 * 16)
    for name in ("sin", "cos"):
        case = {"r": Case(f"math.{name}", ("x",), "f64")}
        result = elementwise(any_target, 16, {"x": ("f64", x)}, case)["r"]
        errors = _errors(result, ORACLES[f"math.{name}"][0](x.astype(np.longdouble)))
        assert errors.max() <= _bound(f"math.{name}", 64, any_target), name


@pytest.mark.parametrize("bits, far", [(32, 80), (64, 700)])
def test_remainders_are_exact(any_target: Target, bits: int, far: int) -> None:
    """Remainders are exact for quotients of any size, for denormal numbers, and for quotients that
    round to an integer."""
    rng, dtype, n = np.random.default_rng(5), DTYPES[f"f{bits}"], 2048
    special = _special(bits)
    pairs = np.array(list(itertools.product(special, repeat=2)))
    divisors = rng.normal(size=n)
    x = [pairs[:, 0], np.exp(rng.uniform(-far, far, n)), rng.normal(size=n) * 100]
    y = [pairs[:, 1], -np.exp(rng.uniform(-far, far, n)), divisors]
    x += [divisors * rng.integers(1, 1 << 26, n), rng.integers(0, 1 << 20, n)]
    y += [divisors, rng.integers(1, 99, n)]
    whole = sum(map(len, x)) // 16 * 16
    x, y = (np.concatenate(parts)[:whole].astype(dtype) for parts in (x, y))
    inputs = {"x": (f"f{bits}", x), "y": (f"f{bits}", y)}
    case = {"r": Case("arith.remf", ("x", "y"), f"f{bits}")}
    with np.errstate(invalid="ignore"):
        exact = np.fmod(x, y)
    for lanes in (0, 16):
        result = elementwise(any_target, lanes, inputs, case)["r"]
        np.testing.assert_array_equal(result, exact)
        zeros = exact == 0
        np.testing.assert_array_equal(np.signbit(result[zeros]), np.signbit(exact[zeros]))


@pytest.mark.parametrize("bits, far", [(32, 80), (64, 700)])
def test_powers(any_target: Target, bits: int, far: int) -> None:
    rng = np.random.default_rng(4)
    n = 20_000
    x = [rng.uniform(0, 10, n), rng.uniform(-10, 10, n), np.exp(rng.uniform(-far, far, n))]
    y = [rng.uniform(-30, 30, n), rng.integers(-20, 20, n), rng.uniform(-2, 2, n)]
    x += [1 + rng.uniform(-1e-3, 1e-3, n), rng.uniform(0.7, 1.42, n)]
    y += [rng.uniform(-8e4, 8e4, n), rng.uniform(-2000, 2000, n)]
    _check_powers(any_target, np.concatenate(x), np.concatenate(y), bits)


@pytest.mark.parametrize("bits", [32, 64])
def test_special_cases_of_powers(any_target: Target, bits: int) -> None:
    """Special cases follow C's pow: 0^0, powers of -1 and 1, infinities, odd and even powers of
    negatives, NaN."""
    numbers = [0.0, 1.0, 0.5, 2.0, 3.0, 2.5, 1e-45, 3e38, 1e10, 2.0**24, 2.0**24 - 1, 8388607.5]
    numbers += [np.inf, np.nan, *([5e-324, 1.7e308, 2.0**53, 2.0**53 - 1] if bits == 64 else [])]
    pairs = np.array(list(itertools.product([*numbers, *(-n for n in numbers)], repeat=2)))
    _check_powers(any_target, pairs[:, 0], pairs[:, 1], bits)


def test_powers_that_are_integers_are_exact(any_target: Target) -> None:
    pairs = [(i, j) for i in range(2, 300) for j in range(1, 53) if i**j < 2**53]
    x, y = np.array(pairs[: len(pairs) // 16 * 16], np.float64).T.copy()
    case = {"r": Case("math.powf", ("x", "y"), "f64")}
    result = elementwise(any_target, 16, {"x": ("f64", x), "y": ("f64", y)}, case)["r"]
    np.testing.assert_array_equal(result, [i**j for i, j in pairs[: len(x)]])


def _check_powers(target: Target, x: Array, y: Array, bits: int) -> None:
    size, element = len(x) // 16 * 16, f"f{bits}"
    x, y = (a[:size].astype(DTYPES[element]) for a in (x, y))
    inputs = {"x": (element, x), "y": (element, y)}
    result = elementwise(target, 16, inputs, {"r": Case("math.powf", ("x", "y"), element)})["r"]
    with np.errstate(all="ignore"):
        exact = np.power(x.astype(WIDE[bits]), y.astype(WIDE[bits]))
    errors = _errors(result, exact)
    worst = int(np.argmax(errors))
    found = f"pow({x[worst]!r}, {y[worst]!r}) = {result[worst]!r}, not {exact[worst]!r}"
    assert errors[worst] <= _bound("math.powf", bits, target), found
    known = ~np.isnan(exact)
    np.testing.assert_array_equal(np.signbit(result[known]), np.signbit(exact[known]))


def test_what_is_not_supported_is_refused() -> None:
    assert supports("math.exp", 64)
    assert not supports("math.exp", 16)
    assert not supports("math.nothing", 32)
    source = elementwise_source(4, 4, {"x": "f16"}, {"r": Case("math.sin", ("x",), "f16")})
    with pytest.raises(InternalError, match=r"no vector code for math\.sin on <4 x half>"):
        kernel_text(source, get("avx2"))


def test_a_function_is_written_once() -> None:
    cases = {name: Case("math.exp", ("x",), "f32") for name in ("a", "b")}
    text = kernel_text(elementwise_source(8, 8, {"x": "f32"}, cases), get("avx2"))
    assert text.count("define internal <8 x float> @ts.exp.v8f32") == 1
    assert text.count("call <8 x float> @ts.exp.v8f32") == 2
