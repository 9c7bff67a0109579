"""Models for C: what a program of C computes with them, and the objects for other machines."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

import tessella
import tessella.driver.build.build as driver
from tessella.codegen.link import link
from tessella.codegen.llvm import optimize_and_emit
from tessella.codegen.object_file import object_file
from tessella.driver.options import make_options
from tessella.driver.ship.ship import ship_c
from tessella.frontends.compile import open_source
from tessella.runtime.image import Image, Library
from tessella.runtime.pool import CONTEXT, ENTER, GROW
from tessella.support.errors import OptionError
from tessella.targets import get
from tessella.targets.table import TARGETS, family_of
from tests.codegen import aarch64
from tests.codegen.test_link import MOVES
from tests.frontends.onnx import models
from tests.generators.scans import make
from tests.hostile.models import mixed, one
from tests.models import load_model, random_inputs
from tests.native import Array

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits"
CC = shutil.which("cc")

needs_cc = pytest.mark.skipif(CC is None, reason="there is no compiler of C")

MAIN = """
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include "m.h"
_Static_assert(sizeof(struct m_context) == 128, "contexts are lines");
enum { MOST = 128 };
static _Alignas(64) unsigned char workspace[M_WORKSPACE_OF(MOST)];
$ARRAYS
struct part { void (*task)(void *, int); void *argument; int thread; };
static void *run_part(void *pointer)
{
  struct part *part = pointer;
  part->task(part->argument, part->thread);
  return NULL;
}
static int runs;
static void parallel(void *self, int count, void (*task)(void *, int), void *argument)
{
  pthread_t threads[MOST];
  struct part parts[MOST];
  ++*(int *)self;
  for (int i = 0; i < count; i++) {
    parts[i] = (struct part){task, argument, i};
    if (pthread_create(&threads[i], NULL, run_part, &parts[i])) exit(4);
  }
  for (int i = 0; i < count; i++) pthread_join(threads[i], NULL);
}
int main(int count, char **arguments)
{
  struct m_threads threads = {count > 1 ? atoi(arguments[1]) : 0, parallel, &runs};
  memset(workspace, 255, sizeof workspace);
  for (int again = 0; again < 2; again++) {
    rewind(stdin);
    $READ
    int status = threads.count ? m_run_on($NAMES, workspace, &threads) : m_run($NAMES, workspace);
    if (status) return 3;
  }
  if (threads.count < 2 ? runs : runs < 2 || runs % 2) return 5;
  $WRITE
  return 0;
}
"""


@dataclass
class InC:
    """A program that reads arrays, runs a model twice in one workspace, and writes arrays."""

    folder: Path
    outputs: Sequence[Array]
    emulator: Sequence[str] = ()

    def run(self, *arguments: str) -> list[Array]:
        """Compile the emitted C program, run it with these arguments, and return what it prints."""
        with (self.folder / "in").open("rb") as file:
            command = [*self.emulator, self.folder / "program", *arguments]
            printed = subprocess.run(command, stdin=file, capture_output=True, check=True)
        data, found = printed.stdout, list[Array]()
        for y in self.outputs:
            found.append(np.frombuffer(data[: y.nbytes], y.dtype).reshape(y.shape))
            data = data[y.nbytes :]
        return found


def in_c(
    model: onnx.ModelProto,
    feeds: Sequence[Array],
    outputs: Sequence[Array],
    folder: Path,
    weights: str = "object",
    target: str = "native",
    compiler: Sequence[str] = (),
) -> InC:
    """The program for a model, built."""
    source = open_source(model)
    shapes = {info.name: x.shape for info, x in zip(source.inputs, feeds, strict=True)}
    made = ship_c("m", source, make_options(target=target), shapes, weights=weights)
    (folder / "m.o").write_bytes(made.object)
    (folder / "m.h").write_text(made.header)
    (folder / "main.c").write_text(_main(feeds, outputs, made.weights))
    build(folder, "main.c", "m.o", compiler=compiler)
    data = [x.tobytes() for x in feeds]
    (folder / "in").write_bytes(b"".join([*data, made.weights or b""]))
    return InC(folder, outputs)


def _main(feeds: Sequence[Array], outputs: Sequence[Array], weights: bytes | None) -> str:
    """Weights that are apart are read after the inputs."""
    sizes = [str(array.nbytes) for array in (*feeds, *outputs)]
    names = [f"a{i}" for i in range(len(sizes))]
    taken, given = names[: len(feeds)], names[len(feeds) :]
    passed = [*names]
    if weights is not None:
        sizes, names = [*sizes, "M_WEIGHTS_BYTES"], [*names, "weights"]
        taken, passed = [*taken, "weights"], [*passed, "weights"]
    pairs = zip(names, sizes, strict=True)
    arrays = [f"static _Alignas(64) unsigned char {name}[{size}];" for name, size in pairs]
    parts = {
        "$ARRAYS": "\n".join(arrays),
        "$READ": "".join(f"if (!fread({n}, sizeof {n}, 1, stdin)) return 2;\n" for n in taken),
        "$NAMES": ", ".join(f"(void *){name}" for name in passed),
        "$WRITE": "".join(f"fwrite({n}, sizeof {n}, 1, stdout);" for n in given),
    }
    text = MAIN
    for key, value in parts.items():
        text = text.replace(key, value)
    return text


def build(folder: Path, *files: str, compiler: Sequence[str] = ()) -> None:
    """Compile and link a program, without a warning."""
    flags = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-O1", "-pthread", "-o", "program"]
    command = [*(compiler or [CC or "cc"]), *flags, *files]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@needs_cc
@pytest.mark.parametrize(
    "name, weights",
    [
        ("two fires", "file"),
        pytest.param("gru_tagger", "file", marks=pytest.mark.slow),
        pytest.param("gru_tagger", "object", marks=pytest.mark.slow),
    ],
)
def test_models_compute_the_same_bits(name: str, weights: str, tmp_path: Path) -> None:
    """The C program gives the bits of the model in Python, on one thread and on several."""
    model = load_model(name)
    feeds = random_inputs(model)
    compiled = tessella.compile(model, threads=1)
    wanted = compiled.run(None, feeds)
    arrays = [feeds[info.name] for info in compiled.inputs]
    program = in_c(model, arrays, wanted, tmp_path, weights)
    for arguments in ([], ["1"], ["2"], ["4"]):
        for got, expected in zip(program.run(*arguments), wanted, strict=True):
            np.testing.assert_array_equal(got, expected)


@needs_cc
@pytest.mark.usefixtures("divide_all")
def test_a_condition_ends_a_loop(tmp_path: Path) -> None:
    """On so many threads that barriers take all of a context."""
    nodes = make(("Add", "h x", "k")) + make(("ReduceMax", "k", "top"), keepdims=0)
    nodes += make(("Less", "top limit", "again"))
    known = [models.value("i", [], np.int64), models.value("c", [], np.bool_)]
    results = [models.value("again", [], np.bool_), models.value("k", [4000])]
    body = helper.make_graph(nodes, "body", [*known, models.value("h", [4000])], results)
    loop = helper.make_node("Loop", ["", "", "x"], ["y"], body=body)
    x, y = (models.value(name, [4000]) for name in "xy")
    proto = models.model([loop], [x], [y], weights={"limit": np.array(9, np.float32)})
    feeds = [np.linspace(0, 1, 4000, dtype=np.float32)]
    wanted = tessella.compile(proto, threads=1).run(None, {"x": feeds[0]})
    np.testing.assert_allclose(wanted[0], 9 * feeds[0], rtol=1e-5)
    program = in_c(proto, feeds, wanted, tmp_path)
    for arguments in ([], ["2"], ["100"]):
        np.testing.assert_array_equal(program.run(*arguments)[0], wanted[0])


@needs_cc
@pytest.mark.usefixtures("divide_all")  # the network is small: it would not be divided
def test_the_example_knows_digits(tmp_path: Path) -> None:
    digits_in_c(tmp_path)
    for threads in ("1", "2"):
        check_digits([str(tmp_path / "program"), threads])


def digits_in_c(folder: Path, target: str = "native", compiler: Sequence[str] = ()) -> None:
    """Build the example."""
    source = open_source(DIGITS / "digits.onnx")
    shapes = {source.inputs[0].name: (1, 1, 8, 8)}
    made = ship_c("digits_net", source, make_options(target=target), shapes)
    (folder / "digits_net.o").write_bytes(made.object)
    (folder / "digits_net.h").write_text(made.header)
    shutil.copy(ROOT / "examples" / "c" / "digits.c", folder)
    build(folder, "digits.c", "digits_net.o", compiler=compiler)


def check_digits(command: Sequence[str]) -> None:
    """Assert that the example says what the model does."""
    images, digits = images_and_digits()
    printed = subprocess.run(command, input=images, capture_output=True, text=True, check=True)
    assert printed.stdout.split() == digits


def images_and_digits() -> tuple[str, Sequence[str]]:
    """Return images as the example reads them, and the digits that the model sees in them."""
    images = np.random.default_rng(0).random((5, 1, 1, 8, 8)).astype(np.float32)
    model = tessella.compile(DIGITS / "digits.onnx")
    digits = [str(int(np.argmax(model(x)))) for x in images]
    return "\n".join(repr(float(x)) for x in images.flat), digits


def test_code_for_callers_with_threads_has_no_pool_and_no_events() -> None:
    size, weights = [512, 512], {"w": np.ones((512, 512), np.float32)}
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    product = open_source(
        models.model([node], [models.value("x", size)], [models.value("y", size)], weights=weights)
    )
    whole, bare = (
        driver.build(product.graph({"x": (512, 512)}), make_options(), bare=bare).program.library
        for bare in (False, True)
    )
    left_out = whole.image.functions.keys() - bare.image.functions.keys()
    assert {GROW, ENTER, "stamp", "stamp.end"} <= left_out
    assert len(bare.image.code) < len(whole.image.code)


@needs_cc
@pytest.mark.skipif(shutil.which("nm") is None, reason="there is no nm")
def test_it_needs_the_library_of_c_alone(tmp_path: Path) -> None:
    digits = open_source(DIGITS / "digits.onnx")
    made = ship_c("d", digits, make_options(), {digits.inputs[0].name: (1, 1, 8, 8)})
    (tmp_path / "d.o").write_bytes(made.object)
    assert undefined(tmp_path / "d.o") <= {"memcpy", "memmove", "memset"}
    (tmp_path / "d.h").write_text(made.header)
    text = '#include "d.h"\nint (*run)(const float *, float *, void *) = d_run;\n'
    (tmp_path / "run.c").write_text(text)
    for compiler, standard in (("cc", "-std=c99"), ("c++", "-std=c++11")):
        if shutil.which(compiler) is not None:
            flags = [standard, "-O2", "-Wall", "-Wextra", "-Werror", "-c", "-o", "run.o"]
            kind = ["-x", "c++"] if compiler == "c++" else []
            command = [compiler, *kind, *flags, "run.c"]
            subprocess.run(command, cwd=tmp_path, check=True)
            names = undefined(tmp_path / "run.o") - {"d_weights", "d_segment_0"}
            assert names <= {"memcpy", "memmove", "memset", "_GLOBAL_OFFSET_TABLE_"}


def undefined(path: Path) -> set[str]:
    """The symbols that an object needs."""
    listed = subprocess.run(["nm", "-u", path], capture_output=True, text=True, check=True)
    return {line.split()[-1] for line in listed.stdout.splitlines()}


@pytest.mark.usefixtures("sums_in_numpy")
def test_a_model_that_needs_numpy_is_refused() -> None:
    with pytest.raises(OptionError, match="cumsum"):
        ship_c("m", open_source(mixed()), make_options(), {"x": (3, 5)})
    with pytest.raises(OptionError, match=r"nn\.trim"):
        ship_c("m", open_source(one("NonZero", {"x": [4]})), make_options(), {"x": (4,)})


def test_contexts_begin_as_those_of_the_pool() -> None:
    assert CONTEXT[:3] == ("status", "launch", "watch")
    assert CONTEXT.index("shares") == 5


def test_a_name_must_be_one_of_c() -> None:
    source = open_source(one("Relu", {"x": [4]}))
    with pytest.raises(OptionError, match="identifier"):
        ship_c("my-model", source, make_options(), {"x": (4,)})


@needs_cc
def test_names_of_inputs_become_identifiers(tmp_path: Path) -> None:
    """Whatever they are, and also where two become one."""
    model = one("Sub", {"int": [3], "*/ #error \\\n": [3]})
    x, y = np.array([1, 2, 3], np.float32), np.array([4, 4, 4], np.float32)
    [got] = in_c(model, [x, y], [x - y], tmp_path).run()
    np.testing.assert_array_equal(got, x - y)


@pytest.mark.parametrize("name", sorted(TARGETS))
def test_objects_have_what_images_have(name: str) -> None:
    """Linked again, with calls of the system's functions."""
    target = get(name)
    image = link({"k": optimize_and_emit(MOVES, target)})
    again = link({"k": object_file(family_of(target), image, {"k": "k"}, {"w": b"weights"})})
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
