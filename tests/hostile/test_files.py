"""Stage files, weights and IR text that somebody else wrote."""

from __future__ import annotations

import io
import os
import re
import zipfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import redirect_stderr
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import tessella
from tessella.dialects.layout import Layout, Piece
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.driver.stages.stage_file import load_stage, save_stage, weights_path
from tessella.driver.stages.stages import IR_STAGES
from tessella.frontends.onnx import OnnxSource
from tessella.runtime.weights import WeightStore
from tessella.support.decisions import known, known_all
from tessella.support.errors import InvalidModelError, OptionError, TessellaError
from tessella.tools.commands.arrays import read_array
from tessella.tools.opt import main as opt
from tests.hostile.limits import gigabytes
from tests.hostile.models import X, Y, mixed

Array = npt.NDArray[Any]


def write(path: Path) -> Path:
    """The stage of a model that the path's extension names."""
    source, stage = OnnxSource(mixed()), path.suffix[1:]
    graph = source.graph({"x": (3, 5)})
    if stage == "nn":
        save_stage(path, graph.module, graph.weights)
    else:
        lowered = lower(graph, make_options(), stop=stage)
        save_stage(path, lowered.stages[stage], lowered.weights)
    return path


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every stage, each with a file of weights of its own."""
    made = tmp_path_factory.mktemp("stages")
    for stage in IR_STAGES:
        np.testing.assert_allclose(tessella.compile(write(made / f"{stage}.{stage}"))(X), Y, 1e-5)
    return made


# ** memory around native code **

SPLAT = "nn.splat 3.0 : f32 : tensor<3x5xf32, #place.at<x86, f32, nchw>>"


@pytest.mark.parametrize("stage", ["tile", "loops"])
def test_a_splat_that_native_code_reads(folder: Path, tmp_path: Path, stage: str) -> None:
    """It is one element in memory, and the segment reads 15."""
    text = (folder / f"{stage}.{stage}").read_text()
    text, count = re.subn(
        r"(\n *)(%\w+ = rt.launch @segment_0\()%x\)", rf"\1%s = {SPLAT}\1\2%s)", text
    )
    assert count == 1
    path = tmp_path / f"m.{stage}"
    path.write_text(text)
    weights_path(path).write_bytes(weights_path(folder / f"{stage}.{stage}").read_bytes())
    expected = tessella.compile(mixed())(np.full((3, 5), 3, np.float32))
    np.testing.assert_array_equal(tessella.compile(path)(X), expected)


RELAYOUT = """builtin.module {{
  func.func @main(%x: {a} {{nn.name = "x"}}) -> ({a} {{nn.name = "y"}}) {{
    %r = nn.relu %x {{node = "r", kernel = "relu", places = [{p}, {p}]}} : {a}
    %b = place.relayout %r : {a} -> {b}
    %c = place.relayout %b : {b} -> {a}
    func.return %c : {a}
  }}
}}
"""
RIGHT = ["nhwc", "packed<[1, 0]>"]
WRONG = [
    *("any", "image", "packed<[0]>", "packed<[1]>", "packed<[0, 1, 1]>", "packed<[7, 1]>"),
    *("packed<[0 mod 2, 1]>", "packed<[0, 1 mod 4096]>", "packed<[0 floordiv 64, 1]>"),
    *("packed<[0, 1 floordiv 16, 1 mod 8]>", "packed<[0 mod 64, 0 mod 64, 1 mod 64, 1]>"),
    f"packed<[0, 1 floordiv {1 << 62}, 1 mod {1 << 62}]>",
]


def relayout(path: Path, layout: str) -> Path:
    a, b = (f"tensor<64x70xf32, #place.at<x86, f32, {name}>>" for name in ("nchw", layout))
    path.write_text(RELAYOUT.format(a=a, b=b, p="#place.at<x86, f32, nchw>"))
    return path


@pytest.mark.parametrize("layout", RIGHT)
def test_layouts_that_are_memory_orders(tmp_path: Path, layout: str) -> None:
    x = np.arange(64 * 70, dtype=np.float32).reshape(64, 70)
    path = relayout(tmp_path / "m.placed", layout)
    np.testing.assert_array_equal(tessella.compile(path, target="avx2")(x), x)


@pytest.mark.parametrize("layout", WRONG)
def test_layouts_that_are_none(tmp_path: Path, layout: str) -> None:
    """Buffers have the size that the digits tell, and code goes through all indices."""
    with pytest.raises(InvalidModelError, match="is not a memory order"):
        tessella.compile(relayout(tmp_path / "m.placed", layout))


@given(st.lists(st.builds(Piece, *[st.integers(0, n) for n in (2, 4, 4)]), max_size=5))
def test_an_order_puts_no_two_elements_at_one_place(pieces: list[Piece]) -> None:
    pieces = [Piece(p.dim, p.div or 1, p.mod) for p in pieces]
    layout, shape = Layout("packed", tuple(pieces)), (5, 4)
    if not layout.is_order(2):
        return
    strides = known_all(layout.strides(shape))
    places = {
        sum(
            s * (index[p.dim] // p.div % p.mod if p.mod else index[p.dim] // p.div)
            for p, s in zip(pieces, strides, strict=True)
        )
        for index in np.ndindex(shape)
    }
    assert len(places) == 20
    assert max(places) < known(layout.size(shape))


LOOP = """builtin.module {
  rt.kernel @k(%x: memref<8xf32>) threads(%t, %u) {
    %i = arith.constant 0 : index
    %n = arith.constant 8 : index
    %s = arith.constant 1 : index
    %z = arith.constant 0.0 : f32
    %r = scf.for %j = %i to %n step %s iter_args(%a = %z) -> (f32) {
      %v = arith.addf %r, %a : f32
      scf.yield %v : f32
    }
    rt.return
  }
  func.func @main() {
    func.return
  }
}
"""


def test_the_result_of_a_loop_inside_of_it(tmp_path: Path) -> None:
    """xDSL's parser and verifier let it pass."""
    path = tmp_path / "m.loops"
    path.write_text(LOOP)
    with pytest.raises(InvalidModelError, match=r"addf is not defined above it[^$]*m.loops:8"):
        load_stage(path)
    path.write_text(LOOP.replace("%r, %a", "%z, %a"))
    load_stage(path)


# ** weights **


def archive(path: Path, write: Callable[[zipfile.ZipFile], None], kind: int = 0) -> Path:
    with zipfile.ZipFile(path, "w", kind) as file:
        write(file)
    return path


def npy(array: Array) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array)
    return stream.getvalue()


def test_weights_that_unpack_to_more_than_they_are(tmp_path: Path) -> None:
    data = npy(np.zeros(1 << 22, np.float32))
    packed = archive(
        tmp_path / "packed", lambda z: z.writestr("w:w.npy", data), zipfile.ZIP_DEFLATED
    )
    assert packed.stat().st_size < len(data) // 100

    def overlapping(file: zipfile.ZipFile) -> None:
        file.writestr("w:w.npy", data)
        file.filelist *= 10  # all of them the same bytes

    for path in (packed, archive(tmp_path / "overlapping", overlapping)):
        with gigabytes(1), pytest.raises(InvalidModelError, match="unpacks to"):
            WeightStore.load(path)


def test_weights_that_say_they_are_large(tmp_path: Path) -> None:
    for shape in ("1099511627776,", "4294967296, 4294967296", "0, 4611686018427387904, 4", "-1,"):
        header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({shape})}}".ljust(117) + "\n"
        data = b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header.encode()
        path = archive(tmp_path / "w", lambda z, data=data: z.writestr("w:w.npy", data + b"abcd"))
        with gigabytes(1), pytest.raises(InvalidModelError, match="cannot read the weights"):
            WeightStore.load(path)


def test_weights_that_are_code(tmp_path: Path) -> None:
    class Code:
        def __reduce__(self) -> tuple[Any, ...]:
            return os.mkdir, (str(tmp_path / "made"),)

    stream = io.BytesIO()
    np.save(stream, np.array([Code()], object), allow_pickle=True)
    path = archive(tmp_path / "w", lambda z: z.writestr("w:w.npy", stream.getvalue()))
    with pytest.raises(InvalidModelError):
        WeightStore.load(path)
    assert not (tmp_path / "made").exists()


def test_weights_in_any_order_and_of_any_name(tmp_path: Path) -> None:
    """Names that end as files do, and memory orders that native code would not know."""
    store = WeightStore()
    names = ["w", "w.npy", "w.npy.npy", "a/b", "..", "/etc", "é", "\0", "a\0b", "", "x" * 70_000]
    symbols = [
        store.add(n, np.arange(6.0).reshape(2, 3, order="F") + i) for i, n in enumerate(names)
    ]
    store.save(tmp_path / "w")
    loaded = WeightStore.load(tmp_path / "w")
    assert sorted(loaded) == sorted(symbols)
    assert len(set(symbols)) == len(names)
    for symbol in symbols:
        np.testing.assert_array_equal(loaded[symbol], store[symbol])
        assert loaded[symbol].flags.c_contiguous


def test_what_is_written_is_a_plain_file(tmp_path: Path) -> None:
    """Devices and pipes are not replaced by files."""
    pipe = tmp_path / "m.nn"
    os.mkfifo(pipe)
    with pytest.raises(OptionError, match="not a plain file"):
        save_stage(pipe, ModuleOp([]), WeightStore())
    assert pipe.is_fifo()


def test_a_pipe_keeps_no_reader_waiting(tmp_path: Path) -> None:
    readers: Mapping[str, Callable[[Path], Any]] = {
        "m.tsl": tessella.load,
        "m.nn": tessella.compile,
        "m.weights": WeightStore.load,
        "x.npy": lambda path: read_array(str(path)),
    }
    for name, read in readers.items():
        os.mkfifo(tmp_path / name)
        with pytest.raises(TessellaError, match="it is not a regular file"):
            in_thread(read, tmp_path / name).result(timeout=20)


def in_thread(function: Callable[[Path], Any], path: Path) -> Future[Any]:
    """The result of a call that may never end."""
    future: Future[Any] = Future()

    def run() -> None:
        try:
            future.set_result(function(path))
        except TessellaError as error:
            future.set_exception(error)

    Thread(target=run, daemon=True).start()
    return future


# ** text **


def test_numbers_that_no_attribute_holds(tmp_path: Path) -> None:
    """An error that xDSL's parser raises instead of its own becomes a TessellaError."""
    path = tmp_path / "in.mlir"
    path.write_text(
        "%x = nn.splat 1.0 : f32 : tensor<2xf32>\n%y = nn.reduce_sum %x {axes = array<i8: 300>}"
    )
    with redirect_stderr(io.StringIO()) as output:
        assert opt([str(path)]) == 1
    assert "in.mlir:2: error" in output.getvalue()
