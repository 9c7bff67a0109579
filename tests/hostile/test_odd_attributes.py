"""Nodes with attributes that few models have, beside ONNX Runtime, on every vector width."""

from __future__ import annotations

import io
import math
from contextlib import redirect_stderr
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st

import tessella
from tessella.support.errors import TessellaError
from tessella.targets import can_run, get
from tests.hostile.models import one
from tests.sampling import sampled

Array = npt.NDArray[Any]
Draw = Any

TARGETS = [name for name in ("avx512", "avx2", "sse", "neon") if can_run(get(name))]
SMALL = st.integers(1, 3)


def normal(*shape: int) -> Array:
    return np.random.default_rng(math.prod(shape)).standard_normal(shape).astype(np.float32)


def some(draw: Draw, values: Any, size: int) -> list[Any]:
    return draw(st.lists(values, min_size=size, max_size=size))


def window(draw: Draw, kernel: list[int], rank: int) -> dict[str, Any]:
    """Strides and padding of a window."""
    settings: dict[str, Any] = {"strides": some(draw, st.integers(1, 4), rank)}
    match draw(st.sampled_from(["NOTSET", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID"])):
        case "NOTSET":
            ends = [draw(st.integers(0, k - 1)) for k in kernel * 2]
            settings["pads"] = ends
        case mode:
            settings["auto_pad"] = mode
    return settings


def conv(draw: Draw) -> onnx.ModelProto:
    rank, groups = draw(SMALL), draw(SMALL)
    kernel = some(draw, SMALL, rank)
    per_group, out = draw(SMALL), draw(st.integers(1, 9))
    sizes = [draw(st.integers(3 * k, 3 * k + 8)) for k in kernel]
    w, b = normal(groups * out, per_group, *kernel), normal(groups * out)
    x = [draw(st.integers(1, 2)), groups * per_group, *sizes]
    settings: dict[str, Any] = window(draw, kernel, rank) | {
        "dilations": some(draw, st.integers(1, 2), rank)
    }
    if draw(st.booleans()):
        return one("Conv", {"x": x, "w": w, "b": b}, group=groups, **settings)
    return one("Conv", {"x": x, "w": w}, group=groups, **settings)


def conv_transpose(draw: Draw) -> onnx.ModelProto:
    rank, groups = draw(st.integers(1, 2)), draw(SMALL)
    kernel, strides = some(draw, SMALL, rank), some(draw, SMALL, rank)
    w = normal(groups * draw(SMALL), draw(st.integers(1, 5)), *kernel)
    pads = [draw(st.integers(0, k - 1)) for k in kernel * 2]
    extra = [draw(st.integers(0, s - 1)) for s in strides]
    x = [1, len(w), *some(draw, st.integers(3, 6), rank)]
    settings = {"strides": strides, "pads": pads, "output_padding": extra}
    return one("ConvTranspose", {"x": x, "w": w}, 1, 18, group=groups, **settings)


def pool(draw: Draw) -> onnx.ModelProto:
    rank = draw(st.integers(1, 3))
    kernel = some(draw, SMALL, rank)
    settings: dict[str, Any] = window(draw, kernel, rank) | {"kernel_shape": kernel}
    settings["ceil_mode"] = int(draw(st.booleans()) and "pads" in settings)
    op = draw(st.sampled_from(["MaxPool", "AveragePool"]))
    if op == "AveragePool":
        settings["count_include_pad"] = draw(st.integers(0, 1))
    elif "auto_pad" not in settings:
        settings["dilations"] = some(draw, st.integers(1, 2), rank)
    sizes = [draw(st.integers(2 * k + 1, 2 * k + 9)) for k in kernel]
    return one(op, {"x": [draw(SMALL), draw(st.integers(1, 18)), *sizes]}, opset=19, **settings)


def slices(draw: Draw) -> onnx.ModelProto:
    rank = draw(SMALL)
    start = st.one_of(st.integers(-9, 9), st.sampled_from([-(1 << 63), (1 << 63) - 1]))
    # ONNX Runtime takes the largest end for the smallest where the step is negative
    end = st.one_of(st.integers(-9, 9), st.just(-(1 << 63)))
    steps = some(draw, st.integers(-3, 3).filter(bool), rank)
    axes = draw(st.permutations([d - rank * (d % 2) for d in range(rank)]))
    lists = [some(draw, start, rank), some(draw, end, rank), axes, steps]
    operands = {name: np.array(x, np.int64) for name, x in zip("abcd", lists, strict=True)}
    return one("Slice", {"x": some(draw, st.integers(1, 20), rank), **operands})


def pad(draw: Draw) -> onnx.ModelProto:
    shape = some(draw, st.integers(3, 9), draw(SMALL))
    mode = draw(st.sampled_from(["constant", "reflect", "edge", "wrap"]))
    low = 0 if mode == "wrap" else -1
    pads = np.array([draw(st.integers(low, 2)) for _ in shape * 2], np.int64)
    return one("Pad", {"x": shape, "p": pads, "v": np.array(0.5, np.float32)}, opset=19, mode=mode)


def reduction(draw: Draw) -> onnx.ModelProto:
    shape = some(draw, st.integers(1, 19), draw(SMALL))
    axes = draw(st.lists(st.integers(0, len(shape) - 1), unique=True))
    signs = [axis - len(shape) * draw(st.integers(0, 1)) for axis in axes]
    names = ["Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "LogSumExp", "SumSquare"]
    op = draw(st.sampled_from(names))
    settings = {
        "keepdims": draw(st.integers(0, 1)),
        "noop_with_empty_axes": draw(st.integers(0, 1)),
    }
    return one(f"Reduce{op}", {"x": shape, "a": np.array(signs, np.int64)}, **settings)


def along_an_axis(draw: Draw) -> onnx.ModelProto:
    shape = some(draw, st.integers(1, 19), draw(SMALL))
    axis = draw(st.integers(-len(shape), len(shape) - 1))
    flags = draw(st.integers(0, 1)), draw(st.integers(0, 1))
    match draw(st.integers(0, 4)):
        case 0:
            settings = {"keepdims": flags[0], "select_last_index": flags[1]}
            op = draw(st.sampled_from(["ArgMax", "ArgMin"]))
            return one(op, {"x": shape}, axis=axis, **settings)
        case 1:
            operands = {"x": shape, "a": np.array(axis)}
            return one("CumSum", operands, exclusive=flags[0], reverse=flags[1])
        case 2:
            k = np.array([draw(st.integers(1, shape[axis]))])
            return one("TopK", {"x": shape, "k": k}, outputs=2, axis=axis, largest=flags[0])
        case 3:
            size = shape[axis]
            indices = np.array(draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=5)))
            return one("Gather", {"x": shape, "i": indices}, axis=axis)
        case _:
            op = draw(st.sampled_from(["Softmax", "LogSoftmax", "Hardmax"]))
            return one(op, {"x": shape}, axis=axis)


def resize(draw: Draw) -> onnx.ModelProto:
    """A Resize that ONNX Runtime can run: two dimensions, and scales whose product with the size is
    whole."""
    sizes = some(draw, st.integers(2, 7), 2)
    new = np.array([1, 2, *(n * draw(st.sampled_from([1, 2, 3])) for n in sizes)], np.int64)
    mode = draw(st.sampled_from(["nearest", "linear", "cubic"]))
    settings: dict[str, Any] = {
        "mode": mode,
        "coordinate_transformation_mode": draw(
            st.sampled_from(["half_pixel", "asymmetric", "align_corners", "pytorch_half_pixel"])
        ),
    }
    if mode == "nearest":
        settings["nearest_mode"] = draw(
            st.sampled_from(["floor", "ceil", "round_prefer_floor", "round_prefer_ceil"])
        )
    if mode == "cubic":
        settings |= {"cubic_coeff_a": -0.5, "exclude_outside": draw(st.integers(0, 1))}
    none = np.array([], np.float32)
    return one("Resize", {"x": [1, 2, *sizes], "r": none, "s": none, "z": new}, **settings)


FAMILIES = [conv, conv_transpose, pool, slices, pad, reduction, along_an_axis, resize]


@st.composite
def nodes(draw: Draw) -> onnx.ModelProto:
    return draw(st.sampled_from(FAMILIES))(draw)


def onnxruntime_outputs(proto: onnx.ModelProto, x: Array) -> list[Array] | None:
    """None where it refuses the model."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    options.intra_op_num_threads = 1
    try:
        session = onnxruntime.InferenceSession(
            proto.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        return [np.asarray(y) for y in session.run(None, {"x": x})]
    except Exception:  # its errors have no common base
        return None


@settings(max_examples=sampled(60))
@given(nodes(), st.sampled_from(TARGETS))
def test_odd_attributes(proto: onnx.ModelProto, target: str) -> None:
    x = normal(*(d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim))
    expected = onnxruntime_outputs(proto, x)
    try:
        with redirect_stderr(io.StringIO()):
            found = tessella.compile(proto, target=target).run(None, {"x": x})
    except TessellaError:
        if expected is not None:
            raise
        return
    if expected is None:
        return
    for y, wanted in zip(found, expected, strict=True):
        assert (y.dtype, y.shape) == (wanted.dtype, wanted.shape)
        np.testing.assert_allclose(y, wanted, rtol=1e-3, atol=1e-4)
