"""Casts against NumPy, and constants of every type."""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest

from tessella import targets
from tessella.codegen.lltypes import float_constant
from tessella.targets import Target
from tests.codegen.harness import DTYPES, Array, Case, call, elementwise, kernel_text

FLOATS = np.array(
    [
        *(0.0, -0.0, 0.9, -0.9, 1.5, -1.5, 127.4, 128.0, -129.0, 255.9, 256.0, 1e10, -1e10, 1e30),
        *(np.inf, -np.inf, np.nan, 2.0**31, 2.0**63, -(2.0**63), 32767.5, 65535.9, 3.0, -3.0),
    ]
)
INTS = np.array([0, 1, -1, 100, -100, 127, -128, 2**31 - 1, -(2**31), 2**24 + 1, 2**63 - 1, -7])


def _padded(values: Array) -> Array:
    return np.resize(values, 64)


def _saturated(x: Array, bits: int, signed: bool) -> Array:
    """Truncated, then the nearest value of the type; 0 for NaN."""
    least, most = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if signed else (0, (1 << bits) - 1)
    numbers = [
        0 if np.isnan(v) else most if v >= most else least if v <= least else int(v) for v in x
    ]
    return np.array([n & ((1 << bits) - 1) for n in numbers], np.uint64)


@pytest.mark.parametrize("lanes", [0, 8, 16])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_float_to_int(any_target: Target, element: str, lanes: int) -> None:
    x = _padded(FLOATS).astype(DTYPES[element])
    cases = {
        f"{op}_{bits}": Case(f"arith.{op}", ("x",), f"i{bits}")
        for op in ("fptosi", "fptoui")
        for bits in (8, 16, 32, 64)
    }
    results = elementwise(any_target, lanes, {"x": (element, x)}, cases)
    for name, result in results.items():
        op, _, bits = name.partition("_")
        expected = _saturated(x, int(bits), op == "fptosi")
        unsigned = result.view(np.dtype(f"u{int(bits) // 8}"))
        np.testing.assert_array_equal(unsigned, expected, err_msg=name)


@pytest.mark.parametrize("lanes", [0, 8, 16])
@pytest.mark.parametrize("bits", [8, 16, 32, 64])
def test_int_to_float(any_target: Target, bits: int, lanes: int) -> None:
    with np.errstate(all="ignore"):
        x = _padded(INTS).astype(DTYPES[f"i{bits}"])
    cases = {
        f"{op}_{element}": Case(f"arith.{op}", ("x",), element)
        for op in ("sitofp", "uitofp")
        for element in ("f32", "f64")
    }
    results = elementwise(any_target, lanes, {"x": (f"i{bits}", x)}, cases)
    for name, result in results.items():
        source = x if name.startswith("si") else x.view(np.dtype(f"u{bits // 8}"))
        np.testing.assert_array_equal(result, source.astype(result.dtype), err_msg=name)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_lanes_that_all_fit_into_i32(any_target: Target, element: str, lanes: int) -> None:
    """And those of which one does not."""
    dtype = DTYPES[element]
    x = np.linspace(-(2.0**31) + 300, 2.0**31 - 300, 64).astype(dtype)
    x[:8] = [0.9, -0.9, 2.0**31 - 128, 128 - 2.0**31, -0.0, 1.5, -1.5, 7]
    one = x.copy()
    one[::16] = [2.0**31, 2.0**40, np.nan, np.inf]
    for given in (x, np.abs(x), one, np.abs(one)):
        cases = {op: Case(f"arith.{op}", ("x",), "i64") for op in ("fptosi", "fptoui")}
        results = elementwise(any_target, lanes, {"x": (element, given)}, cases)
        for op, result in results.items():
            expected = _saturated(given, 64, op == "fptosi")
            np.testing.assert_array_equal(result.view(np.uint64), expected, err_msg=op)


@pytest.mark.parametrize("lanes", [4, 8, 16])
@pytest.mark.parametrize("wide", [0, 1 << 31, -(1 << 31) - 1, 1 << 62, -1])
def test_longs_that_fit_into_i32(any_target: Target, lanes: int, wide: int) -> None:
    x = np.arange(64) * 33_000_000 - 1_000_000_000
    x[5::16] = wide
    for numbers in (x, np.abs(x)):
        cases = {
            f"{op}_{element}": Case(f"arith.{op}", ("x",), element)
            for op in ("sitofp", "uitofp")
            for element in ("f32", "f64")
        }
        results = elementwise(any_target, lanes, {"x": ("i64", numbers)}, cases)
        for name, result in results.items():
            source = numbers if name.startswith("si") else numbers.view(np.uint64)
            np.testing.assert_array_equal(result, source.astype(result.dtype), err_msg=name)


@pytest.mark.parametrize("lanes", [0, 16])
def test_int_to_int(any_target: Target, lanes: int) -> None:
    with np.errstate(all="ignore"):
        narrow, wide = _padded(INTS).astype(np.int8), _padded(INTS).astype(np.int64)
    flags = np.array([0, 1] * 32, np.uint8)
    inputs = {"n": ("i8", narrow), "w": ("i64", wide), "f": ("i1", flags)}
    cases = {
        "extsi": Case("arith.extsi", ("n",), "i32"),
        "extui": Case("arith.extui", ("n",), "i32"),
        "trunci": Case("arith.trunci", ("w",), "i16"),
        "flag": Case("arith.extui", ("f",), "i32"),
        "ones": Case("arith.extsi", ("f",), "i32"),
        "odd": Case("arith.trunci", ("w",), "i1"),
    }
    results = elementwise(any_target, lanes, inputs, cases)
    np.testing.assert_array_equal(results["extsi"], narrow)
    np.testing.assert_array_equal(results["extui"], narrow.view(np.uint8))
    np.testing.assert_array_equal(results["trunci"], wide.astype(np.int16))
    np.testing.assert_array_equal(results["flag"], flags)
    np.testing.assert_array_equal(results["ones"], -flags.astype(np.int32))
    np.testing.assert_array_equal(results["odd"], wide & 1)


@pytest.mark.parametrize("lanes", [0, 4])
def test_float_to_float_and_bits(any_target: Target, lanes: int) -> None:
    x, y = _padded(FLOATS).astype(np.float32), _padded(FLOATS)
    cases = {
        "extf": Case("arith.extf", ("x",), "f64"),
        "truncf": Case("arith.truncf", ("y",), "f32"),
        "bits": Case("arith.bitcast", ("x",), "i32"),
    }
    results = elementwise(any_target, lanes, {"x": ("f32", x), "y": ("f64", y)}, cases)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(results["extf"], x.astype(np.float64))
        np.testing.assert_array_equal(results["truncf"], y.astype(np.float32))
    np.testing.assert_array_equal(results["bits"], x.view(np.int32))


def test_bfloat_rounds_to_nearest_even(any_target: Target) -> None:
    rng = np.random.default_rng(1)
    x = np.concatenate([_padded(FLOATS), rng.normal(size=960)]).astype(np.float32)
    bits = x.view(np.uint32)
    bits[-16:] = 0x7F800001  # NaN by its last bit, which bfloat has not
    source = f"""
    rt.kernel @k(%a: memref<{len(x)}xf32>, %o: memref<{len(x)}xf32>) threads(%thread, %threads) {{
      %from = arith.constant 0 : index
      %to = arith.constant {len(x)} : index
      %by = arith.constant 16 : index
      scf.for %i = %from to %to step %by {{
        %x = vector.load %a[%i] : memref<{len(x)}xf32>, vector<16xf32>
        %h = arith.truncf %x : vector<16xf32> to vector<16xbf16>
        %r = arith.extf %h : vector<16xbf16> to vector<16xf32>
        vector.store %r, %o[%i] : memref<{len(x)}xf32>, vector<16xf32>
      }}
      rt.return
    }}"""
    result = np.zeros_like(x)
    call(source, any_target, x, result)
    rounded = ((bits.astype(np.uint64) + 0x7FFF + ((bits >> 16) & 1)) >> 16 << 16).astype(np.uint32)
    expected = np.where(np.isnan(x), np.float32(np.nan), rounded.view(np.float32))
    np.testing.assert_array_equal(result, expected)


WITH_BF16 = replace(targets.get("avx512"), features=("avx512bf16",))


@pytest.mark.skipif(not targets.can_run(WITH_BF16), reason="needs avx512_bf16")
@pytest.mark.parametrize("lanes", [0, 4, 8, 16])
@pytest.mark.parametrize("element", ["f32", "f64"])
def test_an_instruction_makes_zeros_of_denormals(element: str, lanes: int) -> None:
    """All lanes, and scalars, which no instruction narrows, are alike; the rest is rounded."""
    tiny = float(np.finfo(np.float32).tiny)
    least = [tiny, tiny * (1 - 2.0**-23), tiny / 2, 2.0**-133, 2.0**-149, 0.0, 3e38, 3.4e38]
    numbers = _padded(np.array([*least, 1 + 2.0**-8, 1 + 2.0**-8 + 2.0**-20, np.inf, np.nan]))
    x = np.concatenate([numbers, -numbers]).astype(DTYPES[element])
    cases = {"h": Case("arith.truncf", ("x",), "bf16")}
    found = elementwise(WITH_BF16, lanes, {"x": (element, x)}, cases)["h"]
    normal = np.where(np.abs(x) < tiny, np.copysign(0, x), x)
    exact = normal.astype(np.float64).astype(ml_dtypes.bfloat16).astype(np.float32)
    wide = found.view(ml_dtypes.bfloat16).astype(np.float32)
    np.testing.assert_array_equal(wide, exact)
    np.testing.assert_array_equal(np.signbit(wide)[x == x], np.signbit(exact)[x == x])


def test_vector_bitcast_and_index_casts(target: Target) -> None:
    source = """
    rt.kernel @k(%a: memref<4xi64>, %o: memref<8xi32>, %p: memref<4xi64>)
        threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %1 = arith.constant 1 : index
      %x = vector.load %a[%0] : memref<4xi64>, vector<4xi64>
      %y = vector.bitcast %x : vector<4xi64> to vector<8xi32>
      vector.store %y, %o[%0] : memref<8xi32>, vector<8xi32>
      %s = memref.load %a[%1] : memref<4xi64>
      %i = arith.index_cast %s : i64 to index
      %n = arith.index_cast %i : index to i32
      %w = arith.index_cast %n : i32 to index
      %r = arith.index_cast %w : index to i64
      memref.store %r, %p[%0] : memref<4xi64>
      rt.return
    }"""
    x, parts, one = np.array([1, -(2**33) - 5, 3, 4]), np.zeros(8, np.int32), np.zeros(4, np.int64)
    call(source, target, x, parts, one)
    np.testing.assert_array_equal(parts, x.view(np.int32))
    assert one[0] == -5


CONSTANTS = {
    "f32": ("0x7F800000", np.inf),
    "f64": ("-1.1", -1.1),
    "i8": ("-128", -128),
    "i64": ("-9223372036854775808", -(2**63)),
    "i1": ("true", 1),
}


@pytest.mark.parametrize("element", CONSTANTS)
def test_scalar_constants(target: Target, element: str) -> None:
    text, value = CONSTANTS[element]
    typed = text if element == "i1" else f"{text} : {element}"
    source = f"""
    rt.kernel @k(%o: memref<1x{element}>) threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %c = arith.constant {typed}
      memref.store %c, %o[%0] : memref<1x{element}>
      rt.return
    }}"""
    result = np.zeros(1, DTYPES[element])
    call(source, target, result)
    assert result[0] == value


@pytest.mark.parametrize(
    "element,numbers",
    [
        ("f32", [0.1, -0.0, 3.25, 7.0]),
        ("f64", [0.1, 0.0, -0.0, 1.5]),
        ("i32", [1, -2, 3, 2147483647]),
        ("i1", [1, 0, 0, 1]),
    ],
)
def test_dense_constants(target: Target, element: str, numbers: list[float]) -> None:
    listed = ", ".join(("false", "true")[int(n)] if element == "i1" else str(n) for n in numbers)
    source = f"""
    rt.kernel @k(%o: memref<4x{element}>) threads(%thread, %threads) {{
      %0 = arith.constant 0 : index
      %c = arith.constant dense<[{listed}]> : vector<4x{element}>
      vector.store %c, %o[%0] : memref<4x{element}>, vector<4x{element}>
      rt.return
    }}"""
    result = np.zeros(4, DTYPES[element])
    call(source, target, result)
    np.testing.assert_array_equal(result, np.array(numbers, DTYPES[element]))
    if element.startswith("f"):
        np.testing.assert_array_equal(np.signbit(result), np.signbit(numbers))


def test_equal_lanes_are_written_as_a_splat(target: Target) -> None:
    source = """
    rt.kernel @k(%o: memref<4xf32>) threads(%thread, %threads) {
      %0 = arith.constant 0 : index
      %c = arith.constant dense<2.5> : vector<4xf32>
      vector.store %c, %o[%0] : memref<4xf32>, vector<4xf32>
      rt.return
    }"""
    assert "splat (float 0x4004000000000000)" in kernel_text(source, target)


@pytest.mark.parametrize(
    "value, bits",
    [
        *[(1.0, 0x3F80), (-0.0, 0x8000), (float("inf"), 0x7F80), (1e300, 0x7F80), (3.4e38, 0x7F80)],
        *[(1 + 2.0**-8, 0x3F80), (1 + 2.0**-8 + 2.0**-40, 0x3F81), (2.0**-133, 0x0001)],
    ],
)
def test_a_constant_of_bf16_is_rounded_once(value: float, bits: int) -> None:
    """Also what lies between the middle of two and the f32 beside it."""
    assert int(float_constant("bf16", value)) == bits
