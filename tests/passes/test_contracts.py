"""After each pass the program is consistent, and what breaks a contract does not verify."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import VerifyException

import tessella
from tessella.dialects import tile
from tessella.dialects.graph import CompileContext
from tessella.dialects.verify import Verifier, verify
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.driver.stages.located import LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.frontends.onnx import OnnxSource
from tessella.runtime.weights import WeightStore
from tessella.support.errors import InvalidModelError, TessellaError
from tessella.tools.opt import main
from tests.models import BEGINNINGS, load_model
from tests.tools.networks import classifier

MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "classifier": classifier,
    **{name: lambda name=name: load_model(name) for name in BEGINNINGS},
}


@pytest.mark.parametrize("name", MODELS)
def test_every_pass_leaves_a_program_that_verifies(name: str) -> None:
    source = OnnxSource(MODELS[name]())
    shapes = {i.name: tuple(d if isinstance(d, int) else 1 for d in i.shape) for i in source.inputs}
    graph = source.graph(shapes)
    ctx, module = CompileContext(graph.weights), graph.module
    verify(module)
    for _, passes in pipeline(make_options(target="avx2")):
        for step in passes:
            step.apply(ctx, module)
            try:
                verify(module)
            except VerifyException as error:
                pytest.fail(f"after {step.name}: {error}")


TILE = """
tile.kernel @k(%x: tensor<4x6xf32>, %w: tensor<6xf32> {tile.constant}) -> (tensor<4x6xf32>) {
  %e = tile.empty : tensor<4x6xf32>
  tile.return %e : tensor<4x6xf32>
}
tile.segment @s(%x: tensor<24xf32>) -> (tensor<24xf32>) {
  %w = nn.weight @w : tensor<6xf32>
  %v = tile.view %x : tensor<24xf32> -> tensor<4x6xf32>
  %y = tile.call @k(%v, %w) : tensor<4x6xf32>
  %z = tile.view %y : tensor<4x6xf32> -> tensor<24xf32>
  tile.return %z : tensor<24xf32>
}
func.func @main(%x: tensor<24xf32>) -> tensor<24xf32> {
  %y = rt.launch @s(%x) : tensor<24xf32>
  func.return %y : tensor<24xf32>
}
"""
HALF = """
!t = tensor<4xf16, #place.at<x86, f16, nchw>>
!u = tensor<4xf16, #place.at<x86, f16, nchw>>
tile.kernel @k(%x: !t, %y: !u) -> (!t) {
  %s = tile.contract = [i: 4] (%x[i], %y[i]) -> [i] {
  ^bb0(%a: f16, %b: f16):
    %aw = arith.extf %a : f16 to f32
    %bw = arith.extf %b : f16 to f32
    %p = arith.mulf %aw, %bw : f32
    %n = arith.truncf %p : f32 to f16
    tile.yield %n : f16
  } : !t
  tile.return %s : !t
}
"""
LOOPS = """
rt.kernel @k(%x: memref<24xf32>) outs(%y: memref<24xf32>) scratch(%t: memref<6xf32>)
    threads(%i, %n) {
  rt.return
}
rt.segment @s(%x: memref<24xf32>) outs(%y: memref<24xf32>) threads(%i, %n)
    attributes {arena_bytes = 192 : i64} {
  %a = rt.arena 0 : memref<24xf32>
  %t = rt.arena 128 : memref<6xf32>
  %w = rt.weight @w slot 1 : memref<24xf32>
  rt.call @k(%w) outs(%a) scratch(%t)
    threads(%i, %n)
  rt.call @k(%a) outs(%y) scratch(%t)
    threads(%i, %n)
  rt.return
}
func.func @main(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  %y = rt.launch @s(%x) : tensor<24xf32>
  func.return %y : tensor<24xf32>
}
"""
SCAN = """
tile.kernel @k(%x: tensor<6xf32>) -> (tensor<6xf32>) {
  %e = tile.empty : tensor<6xf32>
  tile.return %e : tensor<6xf32>
}
tile.segment @t(%h: tensor<6xf32>, %x: tensor<6xf32>, %w: tensor<2xf32>)
    -> (tensor<6xf32>, tensor<6xf32>) {
  %a = tile.call @k(%h) : tensor<6xf32>
  tile.return %a, %x : tensor<6xf32>, tensor<6xf32>
}
tile.segment @s(%h: tensor<6xf32>, %x: tensor<4x6xf32>, %w: tensor<2xf32>) -> (tensor<6xf32>) {
  %a, %b = tile.scan @t(%h, %x, %w) carried 1 scanned 1 backward [1]
      : tensor<6xf32>, tensor<4x6xf32>
  tile.return %a : tensor<6xf32>
}
"""
LOOP = """
rt.kernel @k(%x: memref<6xf32>) outs(%y: memref<6xf32>) threads(%i, %n) {
  rt.return
}
rt.segment @t(%h: memref<6xf32>, %x: memref<6xf32>) outs(%k: memref<6xf32>, %y: memref<6xf32>)
    threads(%i, %n) attributes {arena_bytes = 64 : i64} {
  %a = rt.arena 0 : memref<6xf32>
  rt.call @k(%h) outs(%a) threads(%i, %n)
  rt.call @k(%a) outs(%k) threads(%i, %n)
  rt.return
}
rt.segment @s(%h: memref<6xf32>, %x: memref<24xf32>) outs(%k: memref<6xf32>, %y: memref<24xf32>)
    threads(%i, %n) attributes {arena_bytes = 128 : i64, private_bytes = 64 : i64} {
  %p = rt.arena 0 : memref<6xf32>
  %a = rt.arena 64 : memref<64xi8>
  rt.scan @t(%h, %x) outs(%k, %y) scratch(%p, %a) threads(%i, %n)
    steps 4 carried 1 scanned 1 backward []
  rt.return
}
"""
STEP = """
func.func @f(%h: tensor<6xf32>, %x: tensor<6xf32>, %w: tensor<2xf32>)
    -> (tensor<6xf32>, tensor<6xf32>) {
  %0 = nn.add %h, %x : tensor<6xf32>
  func.return %0, %x : tensor<6xf32>, tensor<6xf32>
}
func.func @main(%h: tensor<6xf32>, %x: tensor<4x6xf32>, %w: tensor<2xf32>) -> tensor<6xf32> {
  %a, %b = nn.scan @f %h, %x, %w carried 1 scanned 1 : tensor<6xf32>, tensor<4x6xf32>
  func.return %a : tensor<6xf32>
}
"""
MUTATIONS = {
    "a call of nothing": (TILE, "call @k", "call @l", "no tile.kernel or device.kernel @l"),
    "a call of a segment": (TILE, "call @k", "call @s", "no tile.kernel or device.kernel @s"),
    "a call with too few operands": (
        TILE,
        "call @k(%v, %w)",
        "call @k(%v)",
        "the operands differ",
    ),
    "a call whose kernel changed": (TILE, "@k(%x: tensor<4x6x", "@k(%x: tensor<6x4x", "operands"),
    "a kernel that returns more": (TILE, "%w: tensor<6xf32> {", "%w: tensor<7xf32> {", "operands"),
    "a constant that is computed": (
        TILE,
        "%w = nn.weight @w : tensor<6xf32>",
        '%s = nn.splat 1.0 : f32 : tensor<6xf32>\n  %w = nn.relu %s {node = "r"} : tensor<6xf32>',
        "operand 1 has to be a weight",
    ),
    "an argument with another mark": (TILE, "tile.constant", "tile.constat", "no tile.constat"),
    "a packed argument without an order": (
        TILE,
        "{tile.constant}",
        "{tile.constant, tile.packed = #place.at<x86, f32, packed<[1, 0]>>}",
        "is not a memory order",
    ),
    "a packed argument of other elements": (
        HALF,
        "%y: !u",
        "%y: !u {tile.packed = #place.at<x86, f32, nchw>}",
        "tile.packed changes",
    ),
    "an argument of other elements than its place has": (
        HALF,
        "!u = tensor<4xf16, #place.at<x86, f16",
        "!u = tensor<4xf16, #place.at<x86, f32",
        "elements of the place's precision f32",
    ),
    "arguments at two devices": (
        HALF,
        "!u = tensor<4xf16, #place.at<x86",
        "!u = tensor<4xf16, #place.at<arm",
        "at one device",
    ),
    "arithmetic with what is only stored": (
        HALF,
        "%p = arith.mulf %aw, %bw : f32\n    %n = arith.truncf %p : f32 to f16",
        "%n = arith.mulf %a, %b : f16",
        "arith.mulf computes in f16",
    ),
    "a sum in what is only stored": (
        HALF,
        "contract = [i: 4] (%x[i], %y[i]) -> [i]",
        "contract + [i: 4 | j: 4] (%x[j], %y[i]) -> [i]",
        "nothing sums in it",
    ),
    "a view of fewer elements": (
        TILE,
        "tensor<24xf32>",
        "tensor<23xf32>",
        "have different elements",
    ),
    "a view that turns": (
        TILE,
        "tensor<24xf32>",
        "tensor<4x6xf32, #place.at<x86, f32, packed<[1, 0]>>>",
        "different places in memory",
    ),
    "a launch of a kernel": (TILE, "launch @s", "launch @k", "no tile.segment or rt.segment @k"),
    "a launch of other tensors": (
        TILE,
        "@main(%x: tensor<24xf32>) -> tensor<24xf32> {",
        "@main(%x: tensor<25xf32>) -> tensor<24xf32> {",
        "the operands differ",
    ),
    "a segment without an end": (TILE, "  tile.return %z : tensor<24xf32>\n", "", "tile"),
    "a use above the definition": (
        TILE,
        "tile.view %y : tensor<4x6xf32> -> tensor<24xf32>",
        "tile.view %z : tensor<24xf32> -> tensor<24xf32>",
        "not defined above",
    ),
    "a launch of other buffers": (LOOPS, "tensor<4x6xf32>", "tensor<4x7xf32>", "operands differ"),
    "a launch of integers": (LOOPS, "tensor<4x6xf32>", "tensor<4x6xi32>", "operands differ"),
    "a call of no kernel": (LOOPS, "call @k", "call @l", "no rt.kernel or device.kernel @l"),
    "a kernel with other inputs": (LOOPS, "@k(%x: memref<24", "@k(%x: memref<23", "the inputs"),
    "a kernel with other outputs": (LOOPS, "outs(%y: memref<24xf32>) sc", "outs() sc", "outputs"),
    "a kernel with other scratch": (LOOPS, "scratch(%t: memref<6", "scratch(%t: memref<7", "scrat"),
    "an output over an input": (LOOPS, "@k(%w) ", "@k(%a) ", "overlaps another"),
    "scratch over an output": (LOOPS, "rt.arena 128", "rt.arena 64", "overlaps another"),
    "a buffer beyond the arena": (LOOPS, "= 192", "= 128", "reaches out of the arena"),
    "a buffer at an odd place": (LOOPS, "rt.arena 128", "rt.arena 100", "multiple of 64"),
    "a weight in a negative slot": (LOOPS, "slot 1", "slot -1", "a slot of 0 or more"),
    "a kernel of tensors": (LOOPS, "@k(%x: memref<24xf32>", "@k(%x: tensor<24xf32>", "memref"),
    "a loop around nothing": (SCAN, "scan @t", "scan @u", "no tile.segment @u"),
    "a loop around a kernel": (SCAN, "scan @t", "scan @k", "no tile.segment @k"),
    "a loop around itself": (SCAN, "scan @t", "scan @s", "above the function that runs it"),
    "a loop that carries all": (SCAN, "carried 1 s", "carried 3 s", "all that it carries"),
    "a loop that carries less than nothing": (SCAN, "carried 1 s", "carried -1 s", "carries and"),
    "a loop that carries a sequence": (SCAN, "carried 1 s", "carried 2 s", "numbers below 1"),
    "a loop without sequences": (SCAN, "scanned 1", "scanned 0", "a sequence or a condition"),
    "a loop with a third direction": (SCAN, "backward [1]", "backward [2]", "numbers below 2"),
    "a loop that turns twice": (SCAN, "backward [1]", "backward [1, 1]", "each once"),
    "a sequence of other elements": (
        SCAN,
        "%w: tensor<2xf32>)\n    -> (tensor<6xf32>, tensor<6xf32>)",
        "%w: tensor<2xi32>)\n    -> (tensor<6xf32>, tensor<6xf32>)",
        "the operands, step by step,",
    ),
    "a longer result": (
        SCAN,
        ": tensor<6xf32>, tensor<4x6xf32>\n  tile.return %a :",
        ": tensor<6xf32>, tensor<5x6xf32>\n  tile.return %a :",
        "differ in length",
    ),
    "a value that becomes another": (
        SCAN,
        "tile.scan @t(%h, %x, %w)",
        "tile.scan @t(%w, %x, %w)",
        "the operands, step by step,",
    ),
    "a loop of buffers around nothing": (LOOP, "scan @t", "scan @u", "no rt.segment @u"),
    "a loop of buffers around itself": (LOOP, "scan @t", "scan @s", "above the function"),
    "a loop with other steps": (LOOP, "steps 4", "steps 3", "inputs, step by step,"),
    "a loop with steps in part": (LOOP, "steps 4", "steps 5", "do not have 5 elements"),
    "a loop without steps": (LOOP, "steps 4", "steps 0", "do not have 0 elements"),
    "a loop with a small arena": (LOOP, "memref<64xi8>", "memref<32xi8>", "there is room for 32"),
    "a loop without an arena": (LOOP, "scratch(%p, %a)", "scratch(%p)", "there is room for 0"),
    "a loop without a spare buffer": (LOOP, "scratch(%p, %a)", "scratch()", "the spare buffers"),
    "a loop with a wrong spare buffer": (
        LOOP,
        "0 : memref<6xf32>\n  %a = rt.arena 64",
        "0 : memref<5xf32>\n  %a = rt.arena 64",
        "spare buffers",
    ),
    "a spare buffer over the arena": (
        LOOP,
        "%a = rt.arena 64",
        "%a = rt.arena 0",
        "overlaps another",
    ),
    "a loop without memory of each thread": (
        LOOP,
        "arena_bytes = 64 : i64}",
        "arena_bytes = 64 : i64, private_bytes = 64 : i64}",
        "each thread's own memory of @t has 64 bytes, and there is room for 0",
    ),
    "a loop whose arena is each thread's own": (
        LOOP,
        "%a = rt.arena 64 : memref<64xi8>",
        "%a = rt.arena 0 {private} : memref<64xi8>",
        "the arena of @t has 64 bytes, and there is room for 0",
    ),
    "an output that is spare": (LOOP, "scratch(%p, %a)", "scratch(%k, %a)", "overlaps another"),
    "a loop of a function below": (STEP, "scan @f", "scan @main", "above the function that runs"),
    "a loop of no function": (STEP, "scan @f", "scan @g", "no function @g"),
    "a loop of other operands": (
        STEP,
        "%w: tensor<2xf32>)\n    ->",
        "%w: tensor<3xf32>)\n    ->",
        "does not fit the operands",
    ),
    "a loop of other results": (
        STEP,
        "scanned 1 : tensor<6xf32>, tensor<4x6xf32>",
        "scanned 1 : tensor<6xf32>, tensor<5x6xf32>",
        "result 1: expected",
    ),
    "a loop of an empty sequence": (
        STEP,
        "%x: tensor<4x6xf32>",
        "%x: tensor<0x6xf32>",
        "no elements",
    ),
    "a loop whose condition is a row": (
        SCAN,
        "backward [1]",
        "backward [1] conditional true",
        "expected a condition",
    ),
    "a loop of buffers whose condition is a row": (
        LOOP,
        "backward []",
        "backward [] conditional true",
        "expected a condition",
    ),
    "a loop of a function whose condition is a row": (
        STEP,
        "scanned 1 :",
        "scanned 1 conditional true :",
        "is not a condition",
    ),
    "a loop that returns a sequence of unknown length": (
        SCAN,
        "carried 1 scanned 1 backward [1]",
        "carried 1 scanned 0 backward [] conditional true",
        "a sequence of unknown length",
    ),
    "a loop of buffers without steps": (LOOP, "steps 4 ", "", "steps where there are sequences"),
    "a kernel of open size": (LOOPS, "@k(%x: memref<24x", "@k(%x: memref<?x", "of known size"),
}


def parsed(text: str) -> ModuleOp:
    module = LocatedParser(stage_context(), text, "text").parse()
    assert isinstance(module, ModuleOp), module
    return module


@pytest.mark.parametrize("text", [TILE, HALF, LOOPS, SCAN, LOOP, STEP])
def test_the_texts_verify_before_they_are_changed(text: str) -> None:
    verify(parsed(text))


@pytest.mark.parametrize("what", MUTATIONS)
def test_a_broken_contract_does_not_verify(what: str) -> None:
    text, old, new, message = MUTATIONS[what]
    assert old in text
    verifier = Verifier()
    verifier.verify(parsed(text))
    for each in (verify, verifier.verify):
        with pytest.raises(VerifyException, match=re.escape(message)):
            each(parsed(text.replace(old, new)))


def test_what_no_pass_has_changed_is_verified_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel by itself, a segment with all that it calls."""
    seen: list[str] = []

    def count(kind: type[Operation]) -> None:
        verify_ = kind.verify_

        def counted(op: Any) -> None:
            seen.append(op.name)
            verify_(op)

        monkeypatch.setattr(kind, "verify_", counted)

    count(tile.KernelOp)
    count(tile.SegmentOp)
    verifier = Verifier()
    for text, expected in (
        (TILE, ["tile.kernel", "tile.segment"]),
        (TILE, []),
        (TILE.replace("@w ", "@v "), ["tile.segment"]),
        (TILE.replace("%e", "%f"), []),
    ):
        module = parsed(text)
        seen.clear()
        verifier.verify(module)
        assert seen == expected


def test_a_kernel_that_a_pass_breaks_does_not_verify_again() -> None:
    module, verifier = parsed(TILE), Verifier()
    verifier.verify(module)
    kernel = next(op for op in module.ops if isinstance(op, tile.KernelOp))
    marks, kernel.arg_attrs = kernel.arg_attrs, ArrayAttr[DictionaryAttr]([])
    for _ in range(2):
        with pytest.raises(VerifyException, match="expected attributes of 2 arguments"):
            verifier.verify(module)
    kernel.arg_attrs = marks
    verifier.verify(module)


NOT_A_VIEW = TILE.replace(
    "tile.view %y : tensor<4x6xf32> -> tensor<24xf32>",
    'nn.reshape %y shape [24] {node = "r"} : tensor<24xf32>',
)
ADD = TILE.replace(
    "tile.view %y : tensor<4x6xf32> -> tensor<24xf32>",
    'nn.add %x, %x {node = "a"} : tensor<24xf32>',
)
RETURNED = TILE.replace("tile.return %e", "tile.return %x")


@pytest.mark.parametrize(
    "text, message",
    [
        (ADD, "nn.add does not belong into a segment"),
        (NOT_A_VIEW, "nn.reshape does not belong into a segment"),
        (RETURNED, "returns an argument"),
    ],
    ids=["add", "reshape", "argument"],
)
def test_what_is_no_view_is_an_error(tmp_path: Path, text: str, message: str) -> None:
    """An op that is left in a segment was once taken for a view, and gave its operand."""
    path = tmp_path / "m.tile"
    path.write_text(text)
    store = WeightStore()
    store.add("w", np.zeros(6, np.float32))
    store.save(tmp_path / "m.weights")
    with pytest.raises(TessellaError, match=message):
        tessella.compile(path)


def test_an_op_that_uses_its_own_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    # --disable-verify replaces it for the rest of the process
    monkeypatch.setattr(Attribute, "__post_init__", Attribute.__post_init__)
    path = tmp_path / "m.mlir"
    path.write_text(
        "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n"
        '  %y = "nn.relu"(%y) {kernel = "relu"} : (tensor<4xf32>) -> tensor<4xf32>\n'
        "  func.return %y : tensor<4xf32>\n}\n"
    )
    assert main([str(path), "-p", "outline-segments"]) == 1
    assert (
        "m.mlir:2: error: an operand of nn.relu is not defined above it" in capsys.readouterr().err
    )
    assert main([str(path), "-p", "outline-segments", "--disable-verify"]) == 1
    assert "waits for its own result" in capsys.readouterr().err
    path.rename(tmp_path / "m.placed")
    with pytest.raises(InvalidModelError, match="not defined above"):
        tessella.compile(tmp_path / "m.placed")
