"""Artifacts: what is loaded does what was compiled, and damaged files are refused."""

from __future__ import annotations

import copy
import hashlib
import multiprocessing
import os
import pickle
import subprocess
import sys
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import onnx.parser
import pytest

import tessella
from tessella import Model, targets
from tessella.driver.options import make_options
from tessella.driver.ship.ship import ship
from tessella.frontends.compile import open_source
from tessella.runtime import events, loaded, native_steps, pool
from tessella.runtime.loaded import LoadedModel
from tessella.runtime.manifest import FORMAT
from tessella.support.errors import (
    InputError,
    InvalidModelError,
    OptionError,
    ShapeError,
    TessellaError,
)
from tests.driver.test_program_cache import scaled
from tests.generators.artifact_damage import damaged, repacked, unpacked
from tests.hostile.models import X, mixed
from tests.models import load_model, random_inputs
from tests.native import Array, normal

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def digits() -> Model:
    return tessella.compile(DIGITS, threads=2)


@pytest.fixture(scope="module")
def image(digits: Model) -> Array:
    (info,) = digits.inputs
    return normal(*(size if isinstance(size, int) else 2 for size in info.shape))


@pytest.fixture(scope="module")
def data(digits: Model, image: Array, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    digits(image)
    path = tmp_path_factory.mktemp("artifact") / "d.tsl"
    digits.save(path)
    return path.read_bytes()


def saved(model: Model, path: Path) -> LoadedModel:
    model.save(path)
    return tessella.load(path)


def test_what_a_loaded_model_lacks_is_told(digits: Model, tmp_path: Path) -> None:
    model: Any = saved(digits, tmp_path / "d.tsl")
    for name in ("as_text", "compiled", "prepare", "timings"):
        assert hasattr(digits, name)
        assert not hasattr(model, name)
        with pytest.raises(TessellaError, match=f"an artifact has no {name}"):
            getattr(model, name)
    with pytest.raises(AttributeError, match="nothing"):
        model.nothing  # noqa: B018


def test_a_loaded_model_does_what_a_compiled_one_does(
    digits: Model, image: Array, tmp_path: Path
) -> None:
    want = digits(image)
    again = saved(digits, tmp_path / "d.tsl")
    np.testing.assert_array_equal(again(image), want)
    assert again.get_inputs() == digits.get_inputs()
    assert again.get_outputs() == digits.get_outputs()
    assert str(again.explain()) == str(digits.explain())
    assert again.explain().json() == digits.explain().json()
    with pytest.raises(InputError, match="missing: image"):
        again()


@pytest.mark.parametrize(
    "name, threads",
    [
        ("lstm_tagger", 3),
        *(
            pytest.param(*case, marks=pytest.mark.slow)
            for case in (("lstm_tagger", 1), ("squeezenet", 1), ("squeezenet", 3))
        ),
    ],
)
def test_models_have_the_same_bits(name: str, threads: int, tmp_path: Path) -> None:
    """The model has segments that threads share, with loops in them."""
    proto = load_model(name)
    feeds = random_inputs(proto)
    model = tessella.compile(proto, threads=threads)
    want = model.run(None, feeds)
    model.save(tmp_path / "m.tsl")
    again = tessella.load(tmp_path / "m.tsl", threads=threads)
    for got, expected in zip(again.run(None, feeds), want, strict=True):
        np.testing.assert_array_equal(got, expected, strict=True)
    again.check()


def test_steps_of_all_kinds(tmp_path: Path) -> None:
    """Host kernels with settings, and constants that they read."""
    model = tessella.compile(mixed())
    np.testing.assert_array_equal(saved(model, tmp_path / "m.tsl")(X), model(X))


def test_it_is_found_where_shapes_are_those_of_a_program(tmp_path: Path) -> None:
    model = tessella.compile(scaled(2, rows="n"), dims="fixed")
    with pytest.raises(ShapeError, match="not called yet"):
        model.save(tmp_path / "m.tsl")
    for rows in (2, 5):
        model(np.ones((rows, 4), np.float32))
    again = saved(model, tmp_path / "m.tsl")
    for rows in (5, 2, 5):
        x = normal(rows, 4)
        np.testing.assert_array_equal(again(x), model(x))
    with pytest.raises(ShapeError, match=r"x \[2, 4\] or x \[5, 4\]"):
        again(normal(3, 4))


def test_the_best_code_is_taken(image: Array, digits: Model) -> None:
    """Among the targets in the artifact that this machine can run, the best is loaded; neon serves
    AArch64 alone."""
    source = open_source(DIGITS)
    shapes = [{info.name: image.shape for info in source.inputs}]
    able = [t for t in ("sse", "avx2", "avx512", "neon") if targets.can_run(targets.get(t))]
    choices = [make_options(target=name) for name in ("sse", "avx2", "avx512", "neon")]
    model = loaded.from_bytes(b"".join(ship(source, choices, shapes)))
    assert model.target == able[-1]
    np.testing.assert_allclose(model(image), digits(image), rtol=1e-4, atol=1e-5)


def test_a_machine_without_code_is_told() -> None:
    source = open_source(DIGITS)
    other = "neon" if targets.native().arch == "x86" else "avx2"
    shapes = [{info.name: (1, *info.shape[1:]) for info in source.inputs}]
    written = b"".join(ship(source, [make_options(target=other)], shapes))  # pyright: ignore
    with pytest.raises(OptionError, match=other) as caught:
        loaded.from_bytes(written)
    assert targets.native().name in str(caught.value.expected)


def test_weights_are_mapped_and_shared(digits: Model, data: bytes, tmp_path: Path) -> None:
    again = saved(digits, tmp_path / "d.tsl")
    inside = np.frombuffer(again._data, np.uint8)
    weights = again._artifact.program(again._entries[0]).weights
    assert sum(weight.size for weight in weights) > 1 << 14
    assert all(np.may_share_memory(weight, inside) for weight in weights if weight.size)
    assert all(weight.ctypes.data % 64 == 0 for weight in weights)


def test_it_runs_where_there_is_only_numpy(
    digits: Model, image: Array, data: bytes, tmp_path: Path
) -> None:
    """No module of a layer above the runtime is imported, and none of another package."""
    (tmp_path / "d.tsl").write_bytes(data)
    np.save(tmp_path / "x.npy", image)
    source = (
        "import sys, numpy as np, tessella\n"
        "model = tessella.load('d.tsl', threads=2)\n"
        "np.save('y.npy', model(np.load('x.npy')))\n"
        "print(*sorted({'.'.join(name.split('.')[:2]) for name in sys.modules}))\n"
    )
    paths = {"PYTHONPATH": str(ROOT / "src"), "TESSELLA_VERIFY": "0"}
    done = subprocess.run(
        [sys.executable, "-c", source],
        cwd=tmp_path,
        env={**os.environ, **paths},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    imported = set(done.stdout.split())
    ours = {name.partition(".")[2] for name in imported if name.startswith("tessella.")}
    assert ours == {"runtime", "support", "targets"}
    assert not {"xdsl", "llvmlite", "onnx"} & imported
    np.testing.assert_array_equal(np.load(tmp_path / "y.npy"), digits(image))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_other_processes_get_a_model(method: str, digits: Model, image: Array) -> None:
    with multiprocessing.get_context(method).Pool(2) as processes:
        for y in processes.map(_Call(image), [digits] * 3):
            np.testing.assert_array_equal(y, digits(image))


class _Call:
    """A call that each process runs."""

    def __init__(self, x: Array) -> None:
        self.x = x

    def __call__(self, model: Model) -> Array:
        return model(self.x)


def test_a_pickled_model_is_its_artifact(digits: Model, image: Array, data: bytes) -> None:
    digits(image)
    again = pickle.loads(pickle.dumps(digits))
    np.testing.assert_array_equal(again(image), digits(image))
    assert again.threads == digits.threads
    twice = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(twice(image), digits(image))
    assert copy.deepcopy(twice) is twice
    with pytest.raises(ShapeError, match="not called yet"):
        pickle.dumps(tessella.compile(scaled(2, rows="n")))


def test_a_pickle_has_no_explanation_that_would_take_long(digits: Model) -> None:
    with pytest.raises(OptionError, match="without an explanation"):
        pickle.loads(pickle.dumps(digits)).explain()


# ** files **


def test_writing_replaces_a_file_that_others_have_mapped(
    digits: Model, image: Array, tmp_path: Path
) -> None:
    path = tmp_path / "d.tsl"
    first = saved(digits, path)
    tessella.compile(mixed()).save(path)
    np.testing.assert_array_equal(first(image), digits(image))
    first.save(tmp_path / "e.tsl")
    np.testing.assert_array_equal(tessella.load(tmp_path / "e.tsl")(image), digits(image))


def test_damaged_weights_are_found_by_check(data: bytes) -> None:
    manifest, _ = unpacked(data)
    start = len(data) - len(unpacked(data)[1])
    size, _, offset = max(manifest["weights"])
    changed = bytearray(data)
    changed[start + offset + size // 2] ^= 1
    model = loaded.from_bytes(bytes(changed))
    with pytest.raises(InvalidModelError, match="damaged"):
        model.check()


def test_damaged_code_is_not_loaded(data: bytes) -> None:
    manifest, _ = unpacked(data)
    start = len(data) - len(unpacked(data)[1])
    changed = bytearray(data)
    changed[start + manifest["programs"][0]["image"]["code"][2] + 8] ^= 1
    with pytest.raises(InvalidModelError, match="damaged"):
        loaded.from_bytes(bytes(changed))


@pytest.mark.parametrize("size", [0, 1, 8, 63, 64, 100, 1000])
def test_truncated_files(data: bytes, size: int, tmp_path: Path) -> None:
    (tmp_path / "t.tsl").write_bytes(data[:size])
    with pytest.raises(InvalidModelError):
        tessella.load(tmp_path / "t.tsl")


def test_what_is_no_artifact(tmp_path: Path) -> None:
    for path in (tmp_path, tmp_path / "none.tsl", DIGITS):
        with pytest.raises(InvalidModelError):
            tessella.load(path)


def test_a_newer_format_is_named(data: bytes) -> None:
    manifest, blobs = unpacked(data)
    newer = repacked({"format": FORMAT + 1, "something": manifest}, blobs)
    with pytest.raises(InvalidModelError, match=f"format {FORMAT + 1}"):
        loaded.from_bytes(newer)


def _first_step(manifest: Any) -> Any:
    return manifest["programs"][0]["program"]["steps"][0]


def _with_arena(manifest: Any) -> None:
    _first_step(manifest)["arena_bytes"] = -64


def _with_name(manifest: Any) -> None:
    _first_step(manifest)["name"] = "other"


def _with_value(manifest: Any) -> None:
    _first_step(manifest)["inputs"] = [40]


def _with_weight(manifest: Any) -> None:
    manifest["programs"][0]["program"]["weights"] = [1 << 40]


def _with_function(manifest: Any) -> None:
    functions = manifest["programs"][0]["image"]["functions"]
    functions[next(iter(functions))] = [1 << 30, 8, []]


def _with_import(manifest: Any) -> None:
    manifest["programs"][0]["image"]["imports"] = {"system": 8}


def _with_overlap(manifest: Any) -> None:
    manifest["weights"][0][2] = manifest["weights"][1][2]


def _with_far(manifest: Any) -> None:
    manifest["weights"][0][2] = None


def _outside(manifest: Any) -> None:
    manifest["weights"][0][2] = 1 << 40


def _overflowing(manifest: Any) -> None:
    manifest["weights"][0][0] = (1 << 64) - 1


@pytest.mark.parametrize(
    "change, message",
    [
        (_with_arena, "number from 0"),
        (_with_name, "no code of 'other'"),
        (_with_value, "no step before it"),
        (_with_weight, "reads no weight"),
        (_with_function, "outside its code"),
        (_with_import, "may not"),
        (_with_overlap, "overlap|other size|outside"),
        (_with_far, "elsewhere"),
        (_outside, "outside"),
        (_overflowing, "number from 0"),
    ],
)
def test_manifests_that_lie(data: bytes, change: Any, message: str) -> None:
    manifest, blobs = unpacked(data)
    change(manifest)
    with pytest.raises(InvalidModelError, match=message):
        loaded.from_bytes(repacked(manifest, blobs))


LOOP_LIES: list[tuple[dict[str, Any], dict[str, Any], dict[str, Any], str]] = [
    ({"scanned": 0}, {}, {}, "has no end"),
    ({"carried": 0, "conditional": True}, {}, {}, "has no condition"),
    ({"scanned": 2}, {}, {}, "has too few values"),
    ({}, {"inputs": 3}, {}, "takes other values"),
    ({}, {"results": [4]}, {}, "gives other values"),
    (
        {"carried": 2, "scanned": 0, "conditional": True},
        {"results": [4]},
        {"outputs": [5]},
        "carries more than it gives",
    ),
    ({}, {}, {"specs": []}, "outputs without shapes"),
    ({"scanned": 0, "conditional": True}, {}, {}, "outputs of unknown length"),
]
"""What a manifest may say of a loop, its body and its step that is not so."""


def looped(rows: bool) -> bytes:
    """The artifact of a loop that carries a value, and gives what it was in each step."""
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 17]> '
        "g (float[3] h, float[5, 3] x) => (float[3] last, float[5, 3] y) { y = Exp(x) "
        f" last{', rows' * rows} = Scan<num_scan_inputs = 1, body = b (float[3] s, float[3] e)"
        f" => (float[3] t{', float[3] r' * rows}) {{ t = Add(s, e) r = Exp(t) }}>(h, x) }}"
    )
    model = tessella.compile(proto, places=["host"])
    model.prepare()
    return model.__reduce__()[1][0]


def test_loops_that_lie() -> None:
    loaded.from_bytes(looped(rows=False))
    manifest, blobs = unpacked(looped(rows=True))
    loaded.from_bytes(repacked(manifest, blobs))
    for loop, body, step, message in LOOP_LIES:
        changed = copy.deepcopy(manifest)
        record = next(s for s in changed["programs"][0]["program"]["steps"] if "loop" in s)
        record.update(step)
        record["body"].update(body)
        record["loop"].update(loop)
        with pytest.raises(InvalidModelError, match=message):
            loaded.from_bytes(repacked(changed, blobs))


def test_an_output_may_be_as_large_as_its_open_sizes_let_it(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> '
        "g (float[a, b, c] x) => (float[a, b, c] y) { y = Neg(x) }"
    )
    model, x = tessella.compile(proto, dims={}), np.ones((17, 18, 19), np.float32)
    model(x)
    np.testing.assert_array_equal(saved(model, tmp_path / "m.tsl")(x), -x)


def test_a_constant_has_the_size_of_its_weight(tmp_path: Path) -> None:
    proto = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 20]> g (float[2] x) => (float[2] y, float[3] c) '
        "<float[3] w = {1, 2, 3}> { y = Exp(x) c = Identity(w) }"
    )
    tessella.compile(proto).save(tmp_path / "m.tsl")
    manifest, blobs = unpacked((tmp_path / "m.tsl").read_bytes())
    (constant,) = manifest["programs"][0]["program"]["constants"].values()
    constant["spec"]["shape"] = [4]
    with pytest.raises(InvalidModelError, match="a constant has another size"):
        loaded.from_bytes(repacked(manifest, blobs))


def test_random_damage(data: bytes, request: pytest.FixtureRequest) -> None:
    """Files are loaded, or refused; none does anything else."""
    refused, count = 0, 3_000 if request.config.getoption("--slow") else 500
    for seed in range(count):
        try:
            loaded.from_bytes(damaged(data, Random(seed)), 1)
        except TessellaError:
            refused += 1
    assert count * 2 // 3 < refused


def test_a_change_of_calls_is_a_change_of_the_format() -> None:
    """Code in artifacts relies on these. Who changes one raises FORMAT, and this test."""
    functions = (pool._GROW, pool._ENTER, native_steps.SEGMENT)
    arguments = [kind.__name__ for each in functions for kind in each._argtypes_]
    layouts = (
        pool.TABLE,
        pool.RECORD,
        pool.SLOT,
        pool.ELASTIC,
        pool.CONTEXT,
        pool.LINE,
        pool.RECORDS,
    )
    calls = (*layouts, arguments, events.EVENT, events.END, events.CLOCK, events.AFTER)
    found = hashlib.sha256(repr(calls).encode()).hexdigest()[:12]
    assert (FORMAT, found) == (20, "caae6786232d")
