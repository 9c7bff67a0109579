"""Float arithmetic, comparisons, minimum and maximum, casts and constants against NumPy."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.arith import CMPF_COMPARISON_OPERATIONS

from tessella.codegen.llvm import assembly
from tessella.targets import Target, get
from tests.codegen.harness import DTYPES, Array, Case, call, elementwise, kernel_text

Unary = Callable[[Array], Array]
Binary = Callable[[Array, Array], Array]

ARITHMETIC: dict[str, Binary] = {
    "addf": np.add,
    "subf": np.subtract,
    "mulf": np.multiply,
    "divf": np.divide,
    "maximumf": np.maximum,
    "minimumf": np.minimum,
    "maxnumf": np.fmax,
    "minnumf": np.fmin,
}

ROUNDINGS: dict[str, Unary] = {
    "arith.negf": np.negative,
    "math.absf": np.abs,
    "math.ceil": np.ceil,
    "math.floor": np.floor,
    "math.trunc": np.trunc,
    "math.round": lambda x: np.copysign(np.trunc(np.abs(x.astype(np.longdouble)) + 0.5), x),
    "math.roundeven": np.rint,
    "math.sqrt": np.sqrt,
}


def _values(dtype: npt.DTypeLike) -> Array:
    """Ordinary and special values, a multiple of 64 of them."""
    info = np.finfo(dtype)
    special = [0.0, -0.0, np.inf, -np.inf, np.nan, info.max, info.min, info.tiny, 0.5, -0.5]
    special += [1.5, 2.5, -1.5, -2.5, 0.49999997, -0.49999997, 8388609.0, 2.0**31, -(2.0**63)]
    special += [info.smallest_subnormal, 2.0**32, 2.0**52 + 1, 255.7, -128.9, 65535.5, 1e9]
    random = np.random.default_rng(5).normal(size=640 - len(special)) * 100
    return np.concatenate([np.array(special), random]).astype(dtype)


def _pairs(dtype: npt.DTypeLike) -> tuple[Array, Array]:
    values = _values(dtype)[:48]
    pairs = np.array(list(itertools.product(values, values)), dtype)
    return pairs[:, 0].copy(), pairs[:, 1].copy()


def _same(result: Array, expected: Array, name: str) -> None:
    """Equal, NaN where NaN; the sign of zeros is not compared."""
    np.testing.assert_array_equal(result, expected, err_msg=name)


LANES = {"scalar": lambda target, bits: 0, "vector": lambda target, bits: target.lanes(bits)}


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", [32, 64])
def test_arithmetic(any_target: Target, bits: int, lanes: str) -> None:
    a, b = _pairs(DTYPES[f"f{bits}"])
    element = f"f{bits}"
    inputs = {"a": (element, a), "b": (element, b)}
    cases = {name: Case(f"arith.{name}", ("a", "b"), element) for name in ARITHMETIC}
    cases["copysign"] = Case("math.copysign", ("a", "b"), element)
    results = elementwise(any_target, LANES[lanes](any_target, bits), inputs, cases)
    with np.errstate(all="ignore"):
        for name, oracle in {**ARITHMETIC, "copysign": np.copysign}.items():
            _same(results[name], oracle(a, b), name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", [32, 64])
def test_unary(any_target: Target, bits: int, lanes: str) -> None:
    element = f"f{bits}"
    x = _values(DTYPES[element])
    cases = {name.partition(".")[2]: Case(name, ("x",), element) for name in ROUNDINGS}
    results = elementwise(any_target, LANES[lanes](any_target, bits), {"x": (element, x)}, cases)
    with np.errstate(all="ignore"):
        for name, oracle in ROUNDINGS.items():
            _same(results[name.partition(".")[2]], oracle(x).astype(x.dtype), name)


def test_negation_and_copysign_of_zeros(target: Target) -> None:
    x = np.array([0.0, -0.0] * 8, np.float32)
    cases = {"n": Case("arith.negf", ("x",), "f32"), "c": Case("math.copysign", ("x", "x"), "f32")}
    results = elementwise(target, 4, {"x": ("f32", x)}, cases)
    np.testing.assert_array_equal(np.signbit(results["n"]), ~np.signbit(x))
    np.testing.assert_array_equal(np.signbit(results["c"]), np.signbit(x))


_ORDERED: dict[str, Binary] = {
    "eq": np.equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "lt": np.less,
    "le": np.less_equal,
    "ne": np.not_equal,
}


def _compared(name: str, a: Array, b: Array) -> Array:
    unordered = np.isnan(a) | np.isnan(b)
    if name in ("false", "true"):
        return np.full(a.shape, name == "true")
    if name in ("ord", "uno"):
        return unordered if name == "uno" else ~unordered
    compared = _ORDERED[name[1:]](a, b)
    return compared | unordered if name[0] == "u" else compared & ~unordered


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", [32, 64])
def test_comparisons(any_target: Target, bits: int, lanes: str) -> None:
    element = f"f{bits}"
    a, b = _pairs(DTYPES[element])
    cases = {
        name: Case("arith.cmpf", ("a", "b"), "i1", f"predicate = {number} : i64")
        for number, name in enumerate(CMPF_COMPARISON_OPERATIONS)
    }
    inputs = {"a": (element, a), "b": (element, b)}
    results = elementwise(any_target, LANES[lanes](any_target, bits), inputs, cases)
    for name in cases:
        _same(results[name], _compared(name, a, b), name)


@pytest.mark.parametrize("lanes", LANES)
@pytest.mark.parametrize("bits", [32, 64])
def test_fused_multiply_add(any_target: Target, bits: int, lanes: str) -> None:
    element = f"f{bits}"
    a, b = _pairs(DTYPES[element])
    c = np.roll(a, 7)
    inputs = {"a": (element, a), "b": (element, b), "c": (element, c)}
    cases = {"math": Case("math.fma", ("a", "b", "c"), element)}
    if lanes == "vector":
        cases["vector"] = Case("vector.fma", ("a", "b", "c"), element)
    results = elementwise(any_target, LANES[lanes](any_target, bits), inputs, cases)
    wide = np.longdouble if any_target.fused_multiply_add else a.dtype
    with np.errstate(all="ignore"):
        product = a.astype(wide) * b.astype(wide)
        expected = (product + c.astype(wide)).astype(a.dtype)
    # Long doubles are no exact oracle of a fused f64: they round the product to 64 bits.
    rtol = 0 if bits == 32 or not any_target.fused_multiply_add else 1e-15
    for name, result in results.items():
        np.testing.assert_allclose(result, expected, rtol=rtol, atol=0, err_msg=name)


@pytest.mark.parametrize("pair", ["f32", "f64", "i8", "i32", "i64"])
def test_select(target: Target, pair: str) -> None:
    rng = np.random.default_rng(9)
    a, b = (rng.integers(-100, 100, 128).astype(DTYPES[pair]) for _ in range(2))
    condition = rng.integers(0, 2, 128).astype(np.uint8)
    inputs = {"c": ("i1", condition), "a": (pair, a), "b": (pair, b)}
    for lanes in (0, 16):
        case = {"r": Case("arith.select", ("c", "a", "b"), pair)}
        result = elementwise(target, lanes, inputs, case)["r"]
        np.testing.assert_array_equal(result, np.where(condition != 0, a, b))


def test_select_between_vectors_by_one_condition(target: Target) -> None:
    source = """
    rt.kernel @k(%c: memref<2xi1>, %a: memref<8xf32>, %o: memref<16xf32>)
        threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      %8 = arith.constant 8 : index
      %x = vector.load %a[%0] : memref<8xf32>, vector<8xf32>
      %y = arith.negf %x : vector<8xf32>
      %first = memref.load %c[%0] : memref<2xi1>
      %second = memref.load %c[%1] : memref<2xi1>
      %r = arith.select %first, %x, %y : vector<8xf32>
      %s = arith.select %second, %x, %y : vector<8xf32>
      vector.store %r, %o[%0] : memref<16xf32>, vector<8xf32>
      vector.store %s, %o[%8] : memref<16xf32>, vector<8xf32>
      rt.return
    }"""
    x, result = np.arange(8, dtype=np.float32), np.zeros(16, np.float32)
    call(source, target, np.array([1, 0], np.uint8), x, result)
    np.testing.assert_array_equal(result, np.concatenate([x, -x]))


@pytest.mark.sweep
@pytest.mark.parametrize("kind", ["maximumf", "minimumf", "maxnumf", "minnumf"])
@pytest.mark.parametrize("constant", ["0.0", "-1.5", "0x7F800000", "0x7FC00000"])
@pytest.mark.parametrize("first", [True, False], ids=["first", "second"])
def test_extremes_with_a_constant(target: Target, kind: str, constant: str, first: bool) -> None:
    x = _values(np.float32)
    operands = "%c, %x" if first else "%x, %c"
    source = f"""
    rt.kernel @k(%a: memref<640xf32>, %o: memref<640xf32>) threads(%thread, %threads) {{
      %from = arith.constant 0 : index
      %to = arith.constant 640 : index
      %by = arith.constant 16 : index
      %s = arith.constant {constant} : f32
      %c = vector.broadcast %s : f32 to vector<16xf32>
      scf.for %i = %from to %to step %by {{
        %x = vector.load %a[%i] : memref<640xf32>, vector<16xf32>
        %r = arith.{kind} {operands} : vector<16xf32>
        vector.store %r, %o[%i] : memref<640xf32>, vector<16xf32>
      }}
      rt.return
    }}"""
    result = np.zeros_like(x)
    call(source, target, x, result)
    number = {"0x7F800000": np.inf, "0x7FC00000": np.nan}.get(constant)
    other = np.full_like(x, float(constant) if number is None else number)
    _same(result, ARITHMETIC[kind](x, other), kind)


def test_relu_is_one_instruction() -> None:
    source = """
    rt.kernel @k(%a: memref<16xf32>, %o: memref<16xf32>) threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %z = arith.constant dense<0.0> : vector<16xf32>
      %x = vector.load %a[%0] : memref<16xf32>, vector<16xf32>
      %r = arith.maximumf %x, %z : vector<16xf32>
      vector.store %r, %o[%0] : memref<16xf32>, vector<16xf32>
      rt.return
    }"""
    for name, mnemonic, count in (
        ("avx512", "vmaxps", 1),
        ("avx2", "vmaxps", 2),
        ("neon", "fmax", 4),
    ):
        text = assembly(kernel_text(source, get(name)), get(name))
        assert text.count(mnemonic) == count, text
        assert "cmp" not in text, text
