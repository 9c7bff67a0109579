"""Models for C: what a program of C computes with them, and the objects for other machines."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest

import tessella
from tessella.codegen.link import link
from tessella.codegen.llvm import optimize_and_emit
from tessella.codegen.object_file import object_file
from tessella.driver.options import make_options
from tessella.driver.ship import ship_c
from tessella.frontends.compile import open_source
from tessella.runtime.image import Image, Library
from tessella.support.errors import OptionError
from tessella.targets import get
from tessella.targets.table import TARGETS
from tests.codegen import aarch64
from tests.codegen.test_link import MOVES
from tests.hostile.models import mixed, one
from tests.models import load_model, random_inputs
from tests.native import Array

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
CC = shutil.which("cc")

needs_cc = pytest.mark.skipif(CC is None, reason="there is no compiler of C")

MAIN = """
#include <stdio.h>
#include <stdlib.h>
#include "m.h"
static _Alignas(64) unsigned char workspace[M_WORKSPACE];
$ARRAYS
int main(void)
{
  for (int again = 0; again < 2; again++) {
    rewind(stdin);
    $READ
    int status = m_run($NAMES, workspace);
    if (status) return 3;
  }
  $WRITE
  return 0;
}
"""


def run_c(
    model: onnx.ModelProto, feeds: Sequence[Array], outputs: Sequence[Array], folder: Path
) -> list[Array]:
    """What a program of C computes, in a second call with one workspace."""
    source = open_source(model)
    shapes = {info.name: x.shape for info, x in zip(source.inputs, feeds, strict=True)}
    made = ship_c("m", source, make_options(), shapes)
    (folder / "m.o").write_bytes(made.object)
    (folder / "m.h").write_text(made.header)
    sizes = [array.nbytes for array in (*feeds, *outputs)]
    names = [f"a{i}" for i in range(len(sizes))]
    pairs = zip(names, sizes, strict=True)
    arrays = [f"static _Alignas(64) unsigned char {name}[{size}];" for name, size in pairs]
    taken, given = names[: len(feeds)], names[len(feeds) :]
    parts = {
        "$ARRAYS": "\n".join(arrays),
        "$READ": "".join(f"if (!fread({n}, sizeof {n}, 1, stdin)) return 2;\n" for n in taken),
        "$NAMES": ", ".join(f"(void *){name}" for name in names),
        "$WRITE": "".join(f"fwrite({n}, sizeof {n}, 1, stdout);" for n in given),
    }
    text = MAIN
    for key, value in parts.items():
        text = text.replace(key, value)
    (folder / "main.c").write_text(text)
    build(folder, "main.c", "m.o")
    (folder / "in").write_bytes(b"".join(x.tobytes() for x in feeds))
    with (folder / "in").open("rb") as file:
        printed = subprocess.run([folder / "program"], stdin=file, capture_output=True, check=True)
    data, found = printed.stdout, list[Array]()
    for y in outputs:
        found.append(np.frombuffer(data[: y.nbytes], y.dtype).reshape(y.shape))
        data = data[y.nbytes :]
    return found


def build(folder: Path, *files: str) -> None:
    """Compile and link a program, without a warning."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-o", "program"]
    assert CC is not None
    done = subprocess.run([CC, *flags, *files], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_cc
@pytest.mark.parametrize("name", ["squeezenet", "gru_tagger"])
def test_models_compute_the_same_bits(name: str, tmp_path: Path) -> None:
    model = load_model(name)
    feeds = random_inputs(model)
    compiled = tessella.compile(model, threads=1)
    wanted = compiled.run(None, feeds)
    arrays = [feeds[info.name] for info in compiled.inputs]
    for got, expected in zip(run_c(model, arrays, wanted, tmp_path), wanted, strict=True):
        np.testing.assert_array_equal(got, expected)


@needs_cc
def test_the_example_knows_digits(tmp_path: Path) -> None:
    source = open_source(DIGITS / "digits.onnx")
    made = ship_c("digits_net", source, make_options(), {source.inputs[0].name: (1, 1, 8, 8)})
    (tmp_path / "digits_net.o").write_bytes(made.object)
    (tmp_path / "digits_net.h").write_text(made.header)
    shutil.copy(ROOT / "examples" / "c" / "digits.c", tmp_path)
    build(tmp_path, "digits.c", "digits_net.o")
    images = np.random.default_rng(0).random((5, 1, 1, 8, 8)).astype(np.float32)
    text = "\n".join(repr(float(x)) for x in images.flat)
    printed = subprocess.run([tmp_path / "program"], input=text, capture_output=True, text=True)
    model = tessella.compile(DIGITS / "digits.onnx")
    assert printed.stdout.split() == [str(int(np.argmax(model(x)))) for x in images]


def test_a_model_that_needs_numpy_is_refused() -> None:
    with pytest.raises(OptionError, match="cumsum"):
        ship_c("m", open_source(mixed()), make_options(), {"x": (3, 5)})


def test_a_name_must_be_one_of_c() -> None:
    source = open_source(one("Relu", {"x": [4]}))
    with pytest.raises(OptionError, match="identifier"):
        ship_c("my-model", source, make_options(), {"x": (4,)})


@needs_cc
def test_names_of_inputs_become_identifiers(tmp_path: Path) -> None:
    """Whatever they are, and also where two become one."""
    model = one("Sub", {"int": [3], "*/ #error \\\n": [3]})
    x, y = np.array([1, 2, 3], np.float32), np.array([4, 4, 4], np.float32)
    [got] = run_c(model, [x, y], [x - y], tmp_path)
    np.testing.assert_array_equal(got, x - y)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_objects_have_what_images_have(name: str) -> None:
    """Linked again, with calls of the system's functions."""
    target = get(name)
    image = link({"k": optimize_and_emit(MOVES, target)})
    again = link({"k": object_file(target.arch, image, {"k": "k"}, b"weights", "w")})
    assert again.imports.keys() == image.imports.keys()
    source, destination = np.full(1000, 5, np.uint8), np.zeros(1000, np.uint8)
    _call(target.arch, again, destination.ctypes.data, source.ctypes.data, 1000)
    assert (destination == 5).all()
    assert (source == 1).all()


def _call(arch: str, image: Image, *arguments: int) -> None:
    if arch == "arm":
        machine = aarch64.Machine(image, seed=0)
        machine.call(machine.functions["k"], *arguments)
    else:
        library = Library(image)
        ctypes.CFUNCTYPE(None, *[ctypes.c_int64] * 3)(library.address("k"))(*arguments)
