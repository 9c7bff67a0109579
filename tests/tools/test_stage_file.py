"""Stages on disk: written, read again, run; and files that are broken."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import TensorProto, helper
from xdsl.dialects.builtin import ModuleOp

import tessella
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import load_stage, save_stage, stage_context
from tessella.driver.stages.stages import IR_STAGES
from tessella.frontends.compile import open_source
from tessella.runtime.weights import WeightStore
from tessella.support.errors import (
    InvalidModelError,
    OptionError,
    ShapeError,
)
from tessella.tools.cli import main
from tests.tools.networks import classifier, network

Array = npt.NDArray[Any]

X = np.random.default_rng(1).standard_normal((1, 3, 8, 8)).astype(np.float32)


def write(model: onnx.ModelProto, path: Path, places: Sequence[str] | None = None) -> None:
    """Lower a model to the stage that the path's extension names, and write it."""
    source = open_source(model)
    shapes = {
        info.name: tuple(d for d in info.shape if isinstance(d, int)) for info in source.inputs
    }
    stage = path.suffix[1:]
    lowered = lower(source.graph(shapes), make_options(places=places), stop=stage)
    save_stage(path, lowered.stages[stage], lowered.weights)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the classifier at every stage, each with weights of its own."""
    folder = tmp_path_factory.mktemp("stages")
    for stage in IR_STAGES:
        (folder / stage).mkdir()
        write(classifier(), folder / stage / f"m.{stage}")
    return folder


@pytest.fixture(scope="module")
def expected() -> Array:
    return tessella.compile(classifier())(X)


@pytest.mark.sweep
@pytest.mark.parametrize("stage", IR_STAGES)
def test_a_stage_resumes_with_the_same_bits(written: Path, expected: Array, stage: str) -> None:
    model = tessella.compile(written / stage / f"m.{stage}")
    assert [info.name for info in model.inputs] == ["x"]
    assert model.outputs[0].shape == (1, 10)
    np.testing.assert_array_equal(model(X), expected)


@pytest.mark.parametrize("stage", IR_STAGES)
def test_reading_and_writing_changes_nothing(written: Path, tmp_path: Path, stage: str) -> None:
    path = written / stage / f"m.{stage}"
    loaded, graph = load_stage(str(path))
    assert loaded == graph.stage == stage
    save_stage(tmp_path / path.name, graph.module, graph.weights)
    assert (tmp_path / path.name).read_text() == path.read_text()
    again = WeightStore.load(tmp_path / "m.weights")
    assert set(again) == set(graph.weights)
    for symbol in again:
        np.testing.assert_array_equal(again[symbol], graph.weights[symbol])


def test_stages_of_one_model_share_weights(tmp_path: Path, expected: Array) -> None:
    for stage in reversed(IR_STAGES):
        write(classifier(), tmp_path / f"m.{stage}")
    for stage in IR_STAGES:
        np.testing.assert_array_equal(tessella.compile(tmp_path / f"m.{stage}")(X), expected)


def test_the_weights_of_another_model_are_not_overwritten(tmp_path: Path) -> None:
    text = """func.func @main() -> tensor<2xf32> {
      %w = nn.weight @w : tensor<2xf32>
      func.return %w : tensor<2xf32>
    }"""
    module = LocatedParser(stage_context(), text, "text").parse()
    assert isinstance(module, ModuleOp)
    mine, others = WeightStore(), WeightStore()
    mine.add("w", np.array([np.nan, 0], np.float32))
    others.add("w", np.array([np.nan, -0.0], np.float32))
    save_stage(tmp_path / "m.nn", module, mine)
    save_stage(tmp_path / "m.placed", module, mine)
    with pytest.raises(OptionError, match="another weight @w"):
        save_stage(tmp_path / "m.placed", module, others)
    (tmp_path / "m.placed").unlink()
    save_stage(tmp_path / "m.nn", module, others)  # nobody else needs the old one
    assert load_stage(tmp_path / "m.nn")[1].weights["w"].tobytes() == others["w"].tobytes()


def test_files_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="cannot write"):
        save_stage(tmp_path / "no folder" / "m.nn", ModuleOp([]), WeightStore())
    with pytest.raises(OptionError, match="name of the file of weights"):
        save_stage(tmp_path / "m.weights", ModuleOp([]), WeightStore())


def test_a_stage_loads_without_onnx(written: Path) -> None:
    code = (
        "import sys, tessella; sys.modules['onnx'] = None; "
        f"print(tessella.compile({str(written / 'nn' / 'm.nn')!r}).outputs[0].name)"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert result.stdout == "y\n", result.stderr


@pytest.mark.parametrize("stage", IR_STAGES)
def test_steps_on_the_host_load_again(tmp_path: Path, stage: str) -> None:
    model = classifier()
    write(model, tmp_path / f"m.{stage}", ["host"])
    loaded = tessella.compile(tmp_path / f"m.{stage}", places=["host"])
    np.testing.assert_array_equal(loaded(X), tessella.compile(model, places=["host"])(X))


def test_a_program_without_weights_has_no_file_of_weights(tmp_path: Path) -> None:
    relu = network([onnx.helper.make_node("Relu", ["x"], ["y"])], {"x": (4,)}, {"y": (4,)}, {})
    write(relu, tmp_path / "m.tile")
    assert [path.name for path in tmp_path.iterdir()] == ["m.tile"]
    x = np.array([-1, 0, 1, 2], np.float32)
    np.testing.assert_array_equal(tessella.compile(tmp_path / "m.tile")(x), np.maximum(x, 0))


@pytest.mark.parametrize("stage", IR_STAGES)
def test_explain_says_what_a_late_stage_has_forgotten(written: Path, stage: str) -> None:
    explanation = tessella.compile(written / stage / f"m.{stage}").explain()
    late = stage in ("tile", "loops")
    assert {"conv", "relu", "matmul"} <= {entry["node"] for entry in explanation.ops}
    assert bool(explanation.note) == late
    assert (repr(stage) in str(explanation)) == late
    assert ('"note"' in explanation.json()) == late


def test_stages_before_the_loaded_one_are_not_known(written: Path) -> None:
    model = tessella.compile(written / "tile" / "m.tile")
    assert "tile.kernel" in model.as_text("tile")
    assert "define" in model.as_text("llvm")
    with pytest.raises(OptionError, match="no stage 'nn'"):
        model.as_text("nn")


def test_a_stage_is_made_for_its_shapes(written: Path) -> None:
    source = open_source(written / "tile" / "m.tile")
    with pytest.raises(ShapeError, match="other shapes"):
        source.graph({"x": (2, 3, 8, 8)})


def test_a_stage_of_wide_open_sizes(tmp_path: Path) -> None:
    """Its tensors may be larger than any memory; those that are in use are not."""
    info = [helper.make_tensor_value_info(n, TensorProto.FLOAT, ["n", "m"]) for n in "xy"]
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", info[:1], info[1:])
    onnx.save(helper.make_model(graph), tmp_path / "m.onnx")
    wide = [each for name in "nm" for each in ("--dim", f"{name}=16..2147483647")]
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tile"), *wide]) == 0
    x = np.arange(17 * 18, dtype=np.float32).reshape(17, 18)
    np.testing.assert_array_equal(tessella.compile(tmp_path / "m.tile")(x), -x)


# ** broken files **


def broken(written: Path, tmp_path: Path, stage: str, pattern: str, new: str) -> Path:
    """A copy of a stage with a change in its text."""
    shutil.copytree(written / stage, tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"m.{stage}"
    text, count = re.subn(pattern, lambda _: new, path.read_text())
    assert count, f"{pattern} is not in the text"
    path.write_text(text)
    return path


BROKEN = {
    "text that does not parse": ("nn", "nn.relu", "nn.rleu", "nn.rleu is not registered"),
    "a string without an end": ("nn", 'node = "conv"', 'node = "conv', "a string is not closed"),
    "types that disagree": ("nn", ": tensor<1x512xf32>", ": tensor<1x511xf32>", "1x511xf32"),
    "a type that is not the op's": ("nn", "nn.softmax %n", "nn.softmax %n axis 7", "axis"),
    "a weight without a name": ("nn", "@b ", "@nobody ", "@nobody is not in the file"),
    "another weight": ("nn", "@b : tensor<8xf32>", "@s : tensor<8xf32>", "@s does not fit"),
    "no main": ("nn", "@main", "@mian", "func.func @main is missing"),
    "an op of another stage": (
        "nn",
        "func.return",
        "%z = tile.empty : tensor<4xf32>\n    func.return",
        "tile.empty does not belong",
    ),
    "a place that does not exist": ("placed", r"#place.at<\w+", "#place.at<x68", "'x68'"),
    "a kernel that does not exist": ("tile", r"tile.call @\w+", "tile.call @k", "device.kernel @k"),
    "a value used above its definition": (
        "nn",
        r"%r = nn.relu %c(.*)\n",
        '%r = nn.relu %f0 {node = "relu"} : tensor<1x8x8x8xf32>\n'
        '    %f0 = nn.relu %c {node = "relu"} : tensor<1x8x8x8xf32>\n',
        "%f0 is used before it is defined",
    ),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_broken_text_is_an_error_with_a_line(written: Path, tmp_path: Path, what: str) -> None:
    stage, pattern, new, message = BROKEN[what]
    path = broken(written, tmp_path, stage, pattern, new)
    with pytest.raises(InvalidModelError) as caught:
        tessella.compile(path)
    assert message in str(caught.value)
    assert re.fullmatch(rf"{re.escape(str(path))}:\d+", caught.value.where or "")


LOOPS = """
rt.kernel @k(%x: memref<8xf32>) outs(%y: memref<8xf32>) scratch(%t: memref<8xf32>)
    threads(%i, %n) {
  %c = rt.context : memref<16xi64>
  rt.return
}
rt.segment @segment_0(%x: memref<8xf32>) outs(%y: memref<8xf32>) threads(%i, %n)
    attributes {arena_bytes = 192 : i64} {
  %a = rt.arena 0 : memref<8xf32>
  %b = rt.arena 64 : memref<16xf32>
  %c = rt.arena 128 : memref<8xf32>
  %w = rt.weight @w slot 0 : memref<8xf32>
  %v = rt.weight @v slot 1 : memref<3xf32>
  rt.call @k(%w) outs(%a) scratch(%c)
    threads(%i, %n)
  "memref.copy"(%a, %y) : (memref<8xf32>, memref<8xf32>) -> ()
  rt.return
}
func.func @main(%x: tensor<2x4xf32>) -> tensor<2x4xf32> {
  %y = rt.launch @segment_0(%x) : tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}
"""
TILE = """
tile.kernel @k(%x: tensor<3x4xf32, #place.at<x86, f32, nchw>>)
    -> (tensor<3x4xf32, #place.at<x86, f32, nchw>>) {
  %y = tile.empty : tensor<3x4xf32, #place.at<x86, f32, nchw>>
  tile.return %y : tensor<3x4xf32, #place.at<x86, f32, nchw>>
}
tile.segment @segment_0(%x: tensor<3x4xf32, #place.at<x86, f32, nchw>>)
    -> (tensor<3x4xf32, #place.at<x86, f32, nchw>>) {
  %y = tile.call @k(%x) : tensor<3x4xf32, #place.at<x86, f32, nchw>>
  tile.return %y : tensor<3x4xf32, #place.at<x86, f32, nchw>>
}
func.func @main(%x: tensor<3x4xf32, #place.at<x86, f32, nchw>>)
    -> tensor<3x4xf32, #place.at<x86, f32, nchw>> {
  %y = rt.launch @segment_0(%x) : tensor<3x4xf32, #place.at<x86, f32, nchw>>
  func.return %y : tensor<3x4xf32, #place.at<x86, f32, nchw>>
}
"""
VIEW = """
tile.kernel @k(%x: tensor<3x4xf32> {tile.constant}) -> (tensor<3x4xf32>) {
  %y = tile.empty : tensor<3x4xf32>
  tile.return %y : tensor<3x4xf32>
}
tile.segment @segment_0(%x: tensor<12xf32>) -> (tensor<4x3xf32>) {
  %w = nn.weight @w : tensor<12xf32>
  %v = tile.view %w : tensor<12xf32> -> tensor<3x4xf32>
  %y = tile.call @k(%v) : tensor<3x4xf32>
  %z = tile.view %y : tensor<3x4xf32> -> tensor<4x3xf32>
  tile.return %z : tensor<4x3xf32>
}
func.func @main(%x: tensor<12xf32>) -> tensor<4x3xf32> {
  %y = rt.launch @segment_0(%x) : tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}
"""
WEIGHTS = {"loops": {"w": (8,), "v": (3,)}, "tile": {"w": (12,)}}
FAULTS = {
    "tensors larger than buffers": (LOOPS, "2x4xf32", "3x4xf32", "the operands differ"),
    "tensors of another type": (LOOPS, "2x4xf32", "2x4xi32", "the operands differ"),
    "fewer inputs": (
        LOOPS,
        "(%x: memref<8xf32>) outs(%y: memref<8xf32>) threads",
        "() outs(%y: memref<8xf32>, %x: memref<8xf32>) threads",
        "the operands differ",
    ),
    "an unknown segment": (LOOPS, "launch @segment_0", "launch @nobody", "rt.segment @nobody"),
    "a launched kernel": (LOOPS, "launch @segment_0", "launch @k", "rt.segment @k"),
    "a called segment": (
        LOOPS,
        "call @k",
        "call @segment_0",
        "no rt.kernel or device.kernel @segment_0",
    ),
    "an unknown kernel": (
        LOOPS,
        "call @k",
        "call @nobody",
        "no rt.kernel or device.kernel @nobody",
    ),
    "a kernel of other buffers": (
        LOOPS,
        "@k(%x: memref<8xf32>",
        "@k(%x: memref<9xf32>",
        "the inputs differ from those of the callee",
    ),
    "a kernel of other scratch": (
        LOOPS,
        "scratch(%t: memref<8xf32>",
        "scratch(%t: memref<9xf32>",
        "the scratch buffers differ",
    ),
    "an output over an input": (LOOPS, "@k(%w", "@k(%a", "overlaps another one"),
    "scratch over an output": (LOOPS, "%c = rt.arena 128", "%c = rt.arena 0", "overlaps another"),
    "another function": (
        LOOPS,
        "rt.kernel @k",
        "func.func @f() { func.return }\nrt.kernel @k",
        "@f is neither @main nor run by an nn.scan",
    ),
    "a main without a body": (
        LOOPS,
        "rt.kernel @k",
        "func.func private @main() -> ()\nrt.kernel @k",
        "",
    ),
    "two functions of a name": (LOOPS, "@segment_0", "@k", ""),
    "buffers of several dimensions": (
        LOOPS,
        "memref<8xf32>",
        "memref<2x4xf32>",
        "expected a one-dimensional memref",
    ),
    "buffers of open size": (LOOPS, "memref<8xf32>", "memref<?xf32>", "memref of known size"),
    "buffers with gaps": (
        LOOPS,
        "memref<8xf32>",
        "memref<8xf32, strided<[2]>>",
        "expected a one-dimensional memref",
    ),
    "a large buffer in the arena": (
        LOOPS,
        "memref<16xf32>",
        "memref<33xf32>",
        "reaches out of the arena",
    ),
    "a late buffer in the arena": (LOOPS, "rt.arena 64", "rt.arena 192", "out of the arena"),
    "an odd buffer in the arena": (LOOPS, "rt.arena 64", "rt.arena 32", "multiple of 64"),
    "an early buffer in the arena": (LOOPS, "rt.arena 64", "rt.arena -64", "multiple of 64"),
    "no arena": (LOOPS, "\n    attributes {arena_bytes = 192 : i64}", "", "out of the arena"),
    "an arena of negative size": (LOOPS, "= 192", "= -1", "the size of the arena is negative"),
    "a copy of another size": (
        LOOPS,
        '"memref.copy"(%a, %y) : (memref<8xf32>, ',
        '"memref.copy"(%b, %y) : (memref<16xf32>, ',
        "have the same shape",
    ),
    "a larger context": (LOOPS, "memref<16xi64>", "memref<17xi64>", "the context"),
    "a weight that is not there": (LOOPS, "rt.weight @w", "rt.weight @u", "@u is not in the file"),
    "a larger weight": (
        LOOPS,
        "slot 1 : memref<3xf32>",
        "slot 1 : memref<4xf32>",
        "@v does not fit",
    ),
    "a weight in another's slot": (LOOPS, "@w slot 0", "@w slot 1", "expected: slot 0"),
    "a weight far away": (LOOPS, "@v slot 1", "@v slot 4611686018427387904", "expected: slot 1"),
    "a weight in a negative slot": (LOOPS, "@w slot 0", "@w slot -1", "a slot of 0 or more"),
    "a weight nowhere": (LOOPS, "@w slot 0", "@w", "expected: slot 0"),
    "a weight in two slots": (
        LOOPS,
        "%v = rt.weight @v slot 1 : memref<3",
        "%v = rt.weight @w slot 1 : memref<8",
        "expected: slot 0",
    ),
    "padding between steps": (
        TILE,
        "f32, nchw>",
        "f32, packed<[0 floordiv 2, 1, 0 mod 2]>>",
        "has padding",
    ),
    "an input of another precision": (
        TILE,
        "x86, f32, nchw>",
        "x86, f64, nchw>",
        "of the place's precision f64",
    ),
    "a layout of no memory order": (TILE, "f32, nchw>", "f32, any>", "is not a memory order"),
    "a layout of another rank": (
        TILE,
        "f32, nchw>",
        "f32, packed<[0, 1, 2]>>",
        "is not a memory order",
    ),
    "a tile.call of another type": (
        VIEW,
        "call @k(%v)",
        "call @k(%w)",
        "the operands differ from those of the callee",
    ),
    "a launch of another type": (
        TILE,
        "@segment_0(%x: tensor<3x4xf32, #place.at<x86, f32, nchw>>)",
        "@segment_0(%x: tensor<3x4xf32, #place.at<x86, f32, nchw>>, %z: i32)",
        "the operands differ from those of the callee",
    ),
    "an unknown tile.kernel": (
        TILE,
        "call @k",
        "call @segment_0",
        "no tile.kernel or device.kernel @segment_0",
    ),
    "a constant that is computed": (
        VIEW,
        "tile.view %w : tensor<12xf32>",
        "tile.view %x : tensor<12xf32>",
        "has to be a weight",
    ),
    "a view that moves elements": (
        VIEW,
        "tensor<4x3xf32>",
        "tensor<4x3xf32, #place.at<x86, f32, packed<[1, 0]>>>",
        "different places",
    ),
    "a view of more elements": (
        VIEW,
        "tensor<4x3xf32>",
        "tensor<4x4xf32>",
        "have different elements",
    ),
    "a view of another type": (
        VIEW,
        "tensor<4x3xf32>",
        "tensor<4x3xi32>",
        "have different elements",
    ),
}


def faulty(folder: Path, text: str, old: str, new: str) -> Path:
    """A stage and its weights, with a change in its text."""
    stage = "loops" if text is LOOPS else "tile"
    path = folder / f"m.{stage}"
    path.write_text(text.replace(old, new) if old else text)
    store = WeightStore()
    for name, shape in WEIGHTS[stage].items():
        store.add(name, np.zeros(shape, np.float32))
    store.save(folder / "m.weights")
    return path


@pytest.mark.parametrize("text", [LOOPS, TILE, VIEW], ids=["loops", "tile", "view"])
def test_the_texts_are_right_before_they_are_changed(tmp_path: Path, text: str) -> None:
    load_stage(faulty(tmp_path, text, "", ""))


@pytest.mark.parametrize("what", FAULTS)
def test_memory_around_kernels_is_checked(tmp_path: Path, what: str) -> None:
    text, old, new, message = FAULTS[what]
    assert old in text
    path = faulty(tmp_path, text, old, new)
    with pytest.raises(InvalidModelError) as caught:
        load_stage(path)
    assert message in str(caught.value)


WRONG_WEIGHTS = {
    "larger": np.zeros(9, np.float32),
    "smaller": np.zeros(7, np.float32),
    "of another type": np.zeros(8, np.float64),
    "of another shape": np.zeros((4, 2), np.float32),
}


@pytest.mark.sweep
@pytest.mark.parametrize("stage", IR_STAGES)
@pytest.mark.parametrize("kind", WRONG_WEIGHTS)
def test_weights_fit_the_text(written: Path, tmp_path: Path, kind: str, stage: str) -> None:
    shutil.copytree(written / stage, tmp_path, dirs_exist_ok=True)
    old, new = WeightStore.load(tmp_path / "m.weights"), WeightStore()
    for symbol in old:
        new.add(symbol, WRONG_WEIGHTS[kind] if symbol == "b" else old[symbol])
    new.save(tmp_path / "m.weights")
    if stage == "loops" and kind == "of another shape":
        load_stage(tmp_path / "m.loops")  # buffers have no shape
        return
    with pytest.raises(InvalidModelError, match="@b does not fit its type"):
        load_stage(tmp_path / f"m.{stage}")


def test_missing_and_damaged_files(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written / "tile", tmp_path, dirs_exist_ok=True)
    path, weights = tmp_path / "m.tile", tmp_path / "m.weights"
    good = weights.read_bytes()
    for damaged in (b"", b"no archive", good[: len(good) // 2], np.arange(3).tobytes()):
        weights.write_bytes(damaged)
        with pytest.raises(InvalidModelError):
            load_stage(path)
    weights.unlink()
    with pytest.raises(InvalidModelError, match="not in the file of weights"):
        load_stage(path)
    np.save(weights.with_suffix(".npy"), np.arange(3))
    weights.with_suffix(".npy").rename(weights)
    with pytest.raises(InvalidModelError):
        load_stage(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidModelError, match="not text"):
        load_stage(path)
    path.unlink()
    with pytest.raises(InvalidModelError, match="cannot read"):
        load_stage(path)
    with pytest.raises(OptionError, match="names no stage"):
        load_stage(tmp_path / "m.txt")


def test_a_flipped_bit_in_the_weights_is_noticed(written: Path, tmp_path: Path) -> None:
    shutil.copytree(written / "nn", tmp_path, dirs_exist_ok=True)
    weights = tmp_path / "m.weights"
    data = bytearray(weights.read_bytes())
    data[len(data) // 2] ^= 4
    weights.write_bytes(data)
    with pytest.raises(InvalidModelError, match="weights"):
        load_stage(tmp_path / "m.nn")


@pytest.mark.sweep
@pytest.mark.parametrize("stage", IR_STAGES)
def test_damaged_text_never_escapes_as_another_error(
    written: Path, tmp_path: Path, stage: str
) -> None:
    """Characters replaced and lines dropped, at places drawn from a seed."""
    shutil.copytree(written / stage, tmp_path, dirs_exist_ok=True)
    path = tmp_path / f"m.{stage}"
    text = path.read_text()
    rng = np.random.default_rng(0)
    for _ in range(25):
        at = int(rng.integers(len(text)))
        kind = int(rng.integers(3))
        if kind == 0:
            path.write_text(text[:at] + chr(int(rng.integers(32, 127))) + text[at + 1 :])
        elif kind == 1:
            path.write_text(text[:at])
        else:
            lines = text.splitlines(keepends=True)
            path.write_text("".join(np.delete(np.array(lines, object), at % len(lines))))
        # the change may have been in a name, so that nothing is wrong
        with suppress(InvalidModelError):
            load_stage(path)
