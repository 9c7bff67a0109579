"""Elements that have no native code, stored, moved and converted, against ml_dtypes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import save_stage
from tessella.frontends.onnx import OnnxSource
from tessella.frontends.onnx.tensors import element_code, element_name
from tessella.runtime.elements import DTYPES
from tessella.support.elements import ELEMENTS

Array = npt.NDArray[Any]

SMALL = [name for name, e in ELEMENTS.items() if e.is_tagged and not e.is_native]


def foreign(name: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, ELEMENTS[name].foreign))


def numbers(name: str, *shape: int) -> Array:
    """Numbers that each of these elements represents, and some that repeat."""
    return np.resize([1, 0, 1, 1] if ELEMENTS[name].signed else [1, 2, 4, 1], shape).astype(
        foreign(name)
    )


def bits(array: Array) -> Array:
    return array.view(np.uint8) if array.dtype.itemsize == 1 else array


def model(
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Array],
    outputs: str,
    constants: Sequence[onnx.TensorProto] = (),
) -> onnx.ModelProto:
    graph = helper.make_graph(
        nodes,
        "g",
        [
            helper.make_tensor_value_info(
                name, helper.np_dtype_to_tensor_dtype(array.dtype), array.shape
            )
            for name, array in inputs.items()
        ],
        [
            helper.make_tensor_value_info(name, TensorProto.UNDEFINED, None)
            for name in outputs.split()
        ],
        constants,
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])


def check(found: Sequence[Array], wanted: Sequence[Array]) -> None:
    for each, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(bits(each), bits(expected))


@pytest.mark.parametrize("name", SMALL)
def test_names_of_types(name: str) -> None:
    dtype = DTYPES[name]
    code = element_code(dtype)
    assert code == helper.np_dtype_to_tensor_dtype(foreign(name))
    assert element_name(code) == ELEMENTS[name].foreign


@pytest.mark.parametrize("is_raw", [True, False])
@pytest.mark.parametrize("name", SMALL)
def test_constants_move_with_inputs(name: str, is_raw: bool, tmp_path: Path) -> None:
    """Constants of several and of equal elements are joined with an input, in a program and in the
    artifact of it."""
    x, w, same = numbers(name, 3, 5), numbers(name, 2, 5), np.ones((1, 5), foreign(name))
    code = helper.np_dtype_to_tensor_dtype(foreign(name))
    proto = model(
        [
            helper.make_node("Concat", ["x", "w", "same"], ["c"], axis=0),
            helper.make_node("Transpose", ["c"], ["y"]),
            helper.make_node("Gather", ["c", "i"], ["g"], axis=0),
            helper.make_node("Where", ["b", "x", "same"], ["z"]),
            helper.make_node("Reshape", ["w", "shape"], ["r"]),
            helper.make_node("Cast", ["w"], ["f"], to=TensorProto.FLOAT),
        ],
        {"x": x, "i": np.array([4, 0, 5]), "b": np.eye(3, 5, dtype=bool)},
        "y g z r f",
        [
            helper.make_tensor("w", code, w.shape, _values(w, is_raw), raw=is_raw),
            helper.make_tensor("same", code, same.shape, _values(same, is_raw), raw=is_raw),
            numpy_helper.from_array(np.array([5, 2]), "shape"),
        ],
    )
    feeds = {"x": x, "i": np.array([4, 0, 5]), "b": np.eye(3, 5, dtype=bool)}
    compiled = tessella.compile(proto)
    every = np.concatenate([bits(x), bits(w), bits(same)])
    wanted = [
        every.T,
        every[[4, 0, 5]],
        np.where(feeds["b"], bits(x), bits(same)),
        bits(w).reshape(5, 2),
        w.astype(np.float32),
    ]
    check(compiled.run(None, feeds), wanted)
    compiled.save(tmp_path / "m.tsl")
    check(tessella.load(tmp_path / "m.tsl").run(None, feeds), wanted)


def _values(array: Array, is_raw: bool) -> Any:
    return array if is_raw else array.reshape(-1).astype(np.float32)


@pytest.mark.parametrize("kind", ["E4M3FN", "E4M3FNUZ", "E5M2", "E5M2FNUZ"])
def test_floats_saturate_or_not(kind: str) -> None:
    x = np.array([0.3, -0.0, 1e6, -1e6, np.inf, -np.inf, np.nan, 447, 465], np.float32)
    to = getattr(TensorProto, f"FLOAT8{kind}")
    nodes = [
        helper.make_node("Cast", ["x"], ["y"], to=to),
        helper.make_node("Cast", ["x"], ["z"], to=to, saturate=0),
    ]
    y, z = tessella.compile(model(nodes, {"x": x}, "y z")).run(None, {"x": x})
    dtype = helper.tensor_dtype_to_np_dtype(to)
    limit = float(ml_dtypes.finfo(dtype).max)
    with np.errstate(all="ignore"):
        check([y, z], [np.clip(x, -limit, limit).astype(dtype), x.astype(dtype)])


@pytest.mark.parametrize(
    "mode, wanted",
    [
        ("up", [-127, 127, 127, 1, 1, 2, -1]),
        ("down", [-127, 127, 127, 0, 0, 1, -2]),
        ("nearest", [-127, 127, 127, 0, 1, 1, -2]),
    ],
)
def test_powers_of_two(mode: str, wanted: list[int]) -> None:
    x = np.array([0, np.inf, 3e38, 1.25, 1.5, 2.5, 0.3], np.float32)
    cast = helper.make_node("Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode=mode)
    [y] = tessella.compile(model([cast], {"x": x}, "y")).run(None, {"x": x})
    assert bits(y).astype(int).tolist() == [127 + power for power in wanted]


def test_powers_of_two_out_of_range() -> None:
    x = np.array([0, np.inf, 3e38, np.nan, 1e-39, 2], np.float32)
    cast = helper.make_node(
        "Cast", ["x"], ["y"], to=TensorProto.FLOAT8E8M0, round_mode="nearest", saturate=0
    )
    [y] = tessella.compile(model([cast], {"x": x}, "y")).run(None, {"x": x})
    assert bits(y).tolist() == [255, 255, 255, 255, 255, 128]


def test_floats_as_small_integers_keep_their_lowest_bits() -> None:
    x = np.arange(-9, 16).astype(np.float32) + 0.25
    nodes = [
        helper.make_node("Cast", ["x"], [name], to=getattr(TensorProto, name))
        for name in ("INT4", "UINT4", "INT2", "UINT2")
    ]
    found = tessella.compile(model(nodes, {"x": x}, "INT4 UINT4 INT2 UINT2")).run(None, {"x": x})
    dtypes = (ml_dtypes.int4, ml_dtypes.uint4, ml_dtypes.int2, ml_dtypes.uint2)
    check(found, [np.trunc(x).astype(np.int64).astype(dtype) for dtype in dtypes])


@pytest.mark.parametrize("name", ["bf16", *SMALL])
def test_results_are_arrays_of_ml_dtypes(name: str, tmp_path: Path) -> None:
    x = np.ones((2, 3), foreign(name))
    nodes = [
        helper.make_node("Transpose", ["x"], ["y"]),
        helper.make_node("SequenceConstruct", ["x", "y"], ["s"]),
    ]
    proto, code = model(nodes, {"x": x}, "y s"), helper.np_dtype_to_tensor_dtype(x.dtype)
    del proto.graph.output[:]
    proto.graph.output.extend(
        [
            helper.make_tensor_value_info("y", code, (3, 2)),
            helper.make_tensor_sequence_value_info("s", code, None),
        ]
    )
    compiled = tessella.compile(proto)
    compiled(x)
    compiled.save(tmp_path / "m.tsl")
    for each in (compiled, tessella.load(tmp_path / "m.tsl")):
        y, s = each(x)
        for found in (y, *s):
            assert found.dtype == x.dtype
        given = np.empty((3, 2), x.dtype)
        assert each.run(["y"], {"x": x}, out=[given])[0] is given
        assert given.tolist() == x.T.tolist()
    assert tessella.jit(lambda x: x.T)(x).dtype == x.dtype
    assert tessella.ops.transpose(x, perm=(1, 0)).dtype == x.dtype


@pytest.mark.parametrize("stage", ["nn", "placed", "loops"])
@pytest.mark.parametrize("name", [*SMALL, "string"])
def test_a_stage_file_gives_the_same(name: str, stage: str, tmp_path: Path) -> None:
    """Its weights are packed, also those with several dimensions."""
    picked = np.zeros((3, 4, 5), int)
    picked[0, 1] = picked[2, 3] = 1
    is_text = name == "string"
    values = np.array(["one", "größe"], object) if is_text else np.array([1, 2], foreign(name))
    w = values[picked]
    x = w[:, :1]
    node = helper.make_node("Concat", ["x", "w"], ["y"], axis=1)
    proto = model([node], {"x": x}, "y", [numpy_helper.from_array(w, "w")])
    graph = OnnxSource(proto).graph({"x": x.shape})
    if stage != "nn":
        graph.module = lower(graph, make_options(), stop=stage).stages[stage]
    save_stage(tmp_path / f"m.{stage}", graph.module, graph.weights)
    [found] = tessella.compile(tmp_path / f"m.{stage}").run(None, {"x": x})
    assert found.tolist() == np.concatenate([x, w], 1).tolist()


@pytest.mark.parametrize("blocks", [0, 3])
@pytest.mark.parametrize("name", [name for name in SMALL if ELEMENTS[name].signed])
def test_quantization_by_axis_and_by_block(name: str, blocks: int) -> None:
    element, dtype = ELEMENTS[name], foreign(name)
    x = np.random.default_rng(1).standard_normal((4, 6)).astype(np.float32)
    x *= 2 * element_limit(name)
    shape = (4, 6 // blocks) if blocks else (6,)
    scale = np.linspace(0.5, 2, int(np.prod(shape)), dtype=np.float32).reshape(shape)
    zero = np.resize([0, 1] if element.is_integer else [0], shape).astype(dtype)
    settings: dict[str, Any] = {"axis": 1, **({"block_size": blocks} if blocks else {})}
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["q"], **settings),
        helper.make_node("DequantizeLinear", ["q", "scale", "zero"], ["y"], **settings),
    ]
    feeds = {"x": x, "scale": scale, "zero": zero}
    q, y = tessella.compile(model(nodes, feeds, "q y")).run(None, feeds)
    wide_scale, wide_zero = (
        np.repeat(a.astype(np.float32), blocks or 1, 1) if blocks else a.astype(np.float32)
        for a in (scale, zero)
    )
    exact = x / wide_scale
    if element.is_integer:
        low, high = ml_dtypes.iinfo(dtype).min, ml_dtypes.iinfo(dtype).max
        wanted = np.clip(np.rint(exact) + wide_zero, low, high).astype(np.int64).astype(dtype)
    else:
        limit = np.float32(ml_dtypes.finfo(dtype).max)
        wanted = np.clip(exact, -limit, limit).astype(dtype)
    check([q, y], [wanted, (wanted.astype(np.float32) - wide_zero) * wide_scale])


def element_limit(name: str) -> float:
    """The largest number of an element."""
    element = ELEMENTS[name]
    return element.largest if element.is_float else float(ml_dtypes.iinfo(foreign(name)).max)


@pytest.mark.parametrize("name", ["i4", "u4", "i2", "u2"])
def test_small_integers_saturate_when_they_are_quantized(name: str) -> None:
    x = np.array([np.nan, np.inf, -np.inf, 1e9, -1e9, 0.5, 1.5], np.float32)
    zero = np.ones((), foreign(name))
    node = helper.make_node("QuantizeLinear", ["x", "s", "zero"], ["q"])
    feeds = {"x": x, "s": np.ones((), np.float32), "zero": zero}
    compiled = tessella.compile(model([node], feeds, "q"))
    low, high = int(ml_dtypes.iinfo(zero.dtype).min), int(ml_dtypes.iinfo(zero.dtype).max)
    wanted = [low, high, low, high, low, 1, min(3, high)]
    assert compiled.run(None, feeds)[0].astype(int).tolist() == wanted
    kernels = {op["op"]: op["kernel"] for op in compiled.explain().ops}
    assert kernels["nn.quantize"] != "host"
