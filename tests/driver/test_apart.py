"""Programs that calls have compiled in another process: that they are the same, share weights, and
what happens where that process fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import tessella
from tessella.codegen import workers
from tessella.codegen.workers import SharedPool
from tessella.driver import apart, making
from tessella.driver.key import Key
from tessella.driver.options import make_options
from tessella.frontends.apart import Compiler
from tessella.frontends.compile import open_onnx
from tessella.support.errors import CompileTimeoutError, InvalidModelError, ResourceError
from tessella.support.sizes import Symbol
from tests.codegen.test_workers import READY, SLEEPS, is_there, pids_of, wait_until_gone
from tests.native import Array, normal
from tests.tools.networks import network, open_batch

CUT = """<ir_version: 10, opset_import: ["" : 17]>
g (float[n] x) => (int64[d, k] at, float[k] y) {
    at = NonZero(x)
    rows = Transpose(at)
    found = GatherND(x, rows)
    y = Exp(found)
}"""
UNEQUAL = """<ir_version: 10, opset_import: ["" : 17]>
g (float[a, 4] x, float[b, 4] z) => (float[c, 4] y) { y = Add(x, z) }"""


@pytest.fixture(scope="module")
def processes() -> Iterator[SharedPool]:
    """The process that most tests share."""
    pool = SharedPool(apart.MODULE, 1)
    yield pool
    pool.close()


@pytest.fixture
def compilers(
    processes: SharedPool, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """Every compilation in a call is one in another process: no model is small, and there is
    another thread."""
    monkeypatch.setattr(apart, "COMPILERS", processes)
    monkeypatch.setattr(making, "NODES", 0)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield monkeypatch
    done.set()
    thread.join()


@pytest.fixture
def own(compilers: pytest.MonkeyPatch) -> Iterator[None]:
    """The processes of a test are its own."""
    pool = SharedPool(apart.MODULE, 1)
    compilers.setattr(apart, "COMPILERS", pool)
    yield
    pool.close()


def wide() -> onnx.ModelProto:
    """A product whose weights are large enough to be sent by themselves."""
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    return network(nodes, {"x": ("N", 256)}, {"y": ("N", 512)}, {"w": (256, 512)})


def theirs(proto: onnx.ModelProto, **feeds: Array) -> Any:
    return onnxruntime.InferenceSession(proto.SerializeToString()).run(None, feeds)


def check(proto: onnx.ModelProto, model: tessella.Model, **feeds: Array) -> None:
    found = model.run(None, feeds)
    for ours, wanted in zip(found, theirs(proto, **feeds), strict=True):
        np.testing.assert_allclose(ours, wanted, rtol=1e-4, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["proto", "bytes", "path"])
@pytest.mark.parametrize("cache", ["off", "on"])
def test_ranges_are_compiled_elsewhere(
    kind: str,
    cache: str,
    compilers: pytest.MonkeyPatch,
    compiled: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", "off" if cache == "off" else str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    proto = wide()
    onnx.save(proto, "m.onnx")
    origin: Any = {"proto": proto, "bytes": proto.SerializeToString(), "path": "m.onnx"}[kind]
    model = tessella.compile(origin, dims={})
    for count in (1, 20, 7):
        check(proto, model, x=normal(count, 256))
        assert making.WAITING in model.timings
    assert compiled == []
    known = [program.weights for program in model._known_programs()]
    large = [array for weights in known for array in weights if array.size > 1 << 16]
    assert len(large) == 3
    few, many = large[1:]
    assert np.shares_memory(few, many)
    if cache == "on":  # that process has left them there; it has caches of another size than tests
        again = tessella.compile(origin, dims={})
        check(proto, again, x=normal(40, 256))
        assert set(again.timings) == {"fetch", making.WAITING}


def test_explanations_and_artifacts_are_made_anew(
    compilers: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    model = tessella.compile(wide(), dims={})
    x = normal(20, 256)
    y = model(x)
    assert "N: open, from 16" in str(model.explain())
    model.save(tmp_path / "m.tsl")
    np.testing.assert_array_equal(tessella.load(tmp_path / "m.tsl")(x), y)
    assert "func.func @main" in model.as_text()


def test_constants_and_values(compilers: pytest.MonkeyPatch, compiled: list[str]) -> None:
    """Shapes that depend on values are compiled for these."""
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
g (float[n, 4] x, float[4] c, int64[k] axes) => (float[m, 4, j] y) {
    s = Add(x, c)
    y = Unsqueeze(s, axes)
}""")
    c = normal(4)
    model = tessella.compile(proto, dims={}, values={"c": c})
    x = normal(20, 4)
    for axis in (0, 2):
        axes = np.array([axis])
        wanted = np.expand_dims(x + c, axis)
        np.testing.assert_allclose(model.run(None, {"x": x, "axes": axes})[0], wanted, rtol=1e-6)
    assert compiled == []


def test_sizes_that_cannot_stay_open(compilers: pytest.MonkeyPatch, compiled: list[str]) -> None:
    model = tessella.compile(onnx.parser.parse_model(UNEQUAL), dims={})
    x, z = normal(20, 4), normal(20, 4)
    np.testing.assert_array_equal(model(x, z), x + z)
    assert compiled == []


def test_a_cut_program(compilers: pytest.MonkeyPatch) -> None:
    proto = onnx.parser.parse_model(CUT)
    model = tessella.compile(proto, dims={})
    x = np.maximum(normal(30), 0)
    check(proto, model, x=x)
    assert making.WAITING in model.timings


def test_weights_are_shared_with_programs_of_this_process(
    compilers: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    model = tessella.compile(wide(), dims={})
    model.prepare({"x": (20, 256)})
    assert len(compiled) == 1
    check(wide(), model, x=normal(7, 256))
    assert len(compiled) == 1
    first, second = [program.weights[0] for program in model._known_programs()]
    assert first.size > 1 << 16
    assert np.shares_memory(first, second)


def test_small_models_and_lonely_threads_compile_here(
    compilers: pytest.MonkeyPatch, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(making, "NODES", 2)
    tessella.compile(open_batch(), dims={})(normal(2, 4))
    assert len(compiled) == 1
    monkeypatch.setattr(making, "NODES", 0)
    monkeypatch.setattr(threading, "active_count", lambda: 1)
    tessella.compile(open_batch(), dims={})(normal(2, 4))
    assert len(compiled) == 2


def test_what_is_compiled_ahead_is_compiled_here(
    compilers: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    tessella.compile(open_batch(), prepare=True)
    assert len(compiled) == 4


@pytest.mark.parametrize("knob", [0, None])
def test_no_process_can_be_started(
    knob: int | None,
    own: None,
    compiled: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(workers.KNOBS, "workers", knob)
    monkeypatch.setattr("sys.executable", "/nowhere/python")
    monkeypatch.setattr(workers._SHARED, "_pool", workers.Pool(0))
    assert tessella.compile(open_batch(), dims={})(normal(2, 4)).shape == (2, 3)
    assert len(compiled) == 1


def test_a_process_that_hangs(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = pids_of(monkeypatch, READY + SLEEPS)
    model = tessella.compile(open_batch(), dims={}, timeout=2)
    with pytest.raises(CompileTimeoutError, match="in a process that compiles") as caught:
        model(normal(2, 4))
    assert f"the worker process {pids[0]} gave no answer" in str(caught.value.found)
    assert wait_until_gone(pids[0])
    monkeypatch.setattr(apart, "SECONDS", 1.0)
    with pytest.raises(CompileTimeoutError, match="a process has not compiled a program after 1 s"):
        tessella.compile(open_batch(), dims={})(normal(2, 4))
    assert not any(map(is_there, pids))


def test_a_deadline_in_the_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    source, compiler = open_onnx(open_batch().SerializeToString()), Compiler()
    key = Key(((Symbol("N", 2, 15).size, 4),))
    request = apart.COMPILE + apart._request(source.origin(), key, make_options(), end=0.0)
    assert compiler.answer(request) == apart.UNKNOWN
    answer = compiler.answer(request + source.data())
    assert answer[:1] == apart.LATE
    assert b"before the pass" in answer


@pytest.mark.parametrize("end, outcome", [("os._exit(3)", "here"), ("os.kill(os.getpid(), 9)", "")])
def test_a_process_that_dies(
    end: str,
    outcome: str,
    own: None,
    compiled: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A killed worker was out of memory; this process must not repeat its work and run out as
    well."""
    pids_of(monkeypatch, f"{READY}os.read(0, 1); {end}")
    monkeypatch.setattr(workers._SHARED, "_pool", workers.Pool(0))
    model = tessella.compile(open_batch(), dims={})
    if outcome == "here":
        assert model(normal(2, 4)).shape == (2, 3)
        assert len(compiled) == 1
        return
    with pytest.raises(ResourceError, match="not enough memory"):
        model(normal(2, 4))


def test_a_file_that_changes(
    compilers: pytest.MonkeyPatch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No program is made of another model."""
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    onnx.save(open_batch(), tmp_path / "m.onnx")
    holds = tessella.compile(tmp_path / "m.onnx", dims={})
    knows = tessella.compile(tmp_path / "m.onnx", dims={})
    for model in (holds, knows):
        check(open_batch(), model, x=normal(2, 4))
    os.replace(_other(tmp_path), tmp_path / "m.onnx")
    with pytest.raises(InvalidModelError, match="the model has changed since it was compiled"):
        knows(normal(30, 4))
    check(open_batch(), holds, x=normal(30, 4))


def _other(folder: Path) -> Path:
    proto = open_batch()
    proto.graph.initializer[0].raw_data = bytes(48)
    onnx.save(proto, folder / "other.onnx")
    return folder / "other.onnx"


def test_errors_have_all_that_there_is_to_say(
    compilers: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    """They are those of this process."""
    proto = onnx.parser.parse_model("""<ir_version: 10, opset_import: ["" : 17]>
g (float[n, 4] x) => (float[k, 5] y)
<float[3, 5] w = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}>
{ y = MatMul(x, w) }""")
    with pytest.raises(tessella.TessellaError, match="the inner sizes differ"):
        tessella.compile(proto, dims={})(normal(2, 4))


def test_threads_ask_for_different_models(
    compilers: pytest.MonkeyPatch, compiled: list[str]
) -> None:
    protos, errors = [wide(), open_batch()], list[BaseException]()

    def run(proto: onnx.ModelProto, columns: int) -> None:
        try:
            check(proto, tessella.compile(proto, dims={}), x=normal(20, columns))
        except BaseException as error:  # told by the test
            errors.append(error)

    threads = [
        threading.Thread(target=run, args=pair) for pair in zip(protos, (256, 4), strict=True)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert compiled == []
