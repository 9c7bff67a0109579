"""Programs that calls have compiled in another process: that they are the same, share weights, and
what happens where that process fails."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest

import tessella
from tessella.codegen import workers
from tessella.codegen.workers import SharedPool, Worker
from tessella.driver.model import compilation
from tessella.driver.options import make_options
from tessella.driver.worker import client
from tessella.driver.worker.server import Compiler
from tessella.frontends.compile import open_onnx
from tessella.support.errors import (
    CompileTimeoutError,
    InvalidModelError,
    ResourceError,
    UnsupportedError,
)
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
    pool = SharedPool(client.MODULE, 1)
    yield pool
    pool.close()


@pytest.fixture
def compilers(
    processes: SharedPool, monkeypatch: pytest.MonkeyPatch
) -> Iterator[pytest.MonkeyPatch]:
    """Every compilation in a call is one in another process: no model is small, and there is
    another thread."""
    monkeypatch.setattr(client, "COMPILERS", processes)
    monkeypatch.setattr(compilation, "OPS", 0)
    done = threading.Event()
    thread = threading.Thread(target=done.wait)
    thread.start()
    yield monkeypatch
    done.set()
    thread.join()


@pytest.fixture
def own(compilers: pytest.MonkeyPatch) -> Iterator[None]:
    """The processes of a test are its own."""
    pool = SharedPool(client.MODULE, 1)
    compilers.setattr(client, "COMPILERS", pool)
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
        assert compilation.WAITING in model.timings
    assert compiled == []
    known = [program.weights for program in model._known_programs()]
    large = [array for weights in known for array in weights if array.size > 1 << 16]
    assert len(large) == 3
    few, many = large[1:]
    assert np.shares_memory(few, many)
    if cache == "on":
        again = tessella.compile(origin, dims={})
        check(proto, again, x=normal(40, 256))
        assert set(again.timings) == {"fetch"}


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
    assert compilation.WAITING in model.timings


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
    monkeypatch.setattr(compilation, "OPS", 2)
    tessella.compile(open_batch(), dims={})(normal(2, 4))
    assert len(compiled) == 1
    monkeypatch.setattr(compilation, "OPS", 0)
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
    monkeypatch.setattr(workers._SHARED, "_pool", workers.WorkerPool(0))
    assert tessella.compile(open_batch(), dims={})(normal(2, 4)).shape == (2, 3)
    assert len(compiled) == 1


def test_a_process_that_hangs(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pids = pids_of(monkeypatch, READY + SLEEPS)
    model = tessella.compile(open_batch(), dims={}, timeout=2)
    with pytest.raises(CompileTimeoutError, match="in a process that compiles") as caught:
        model(normal(2, 4))
    assert f"the worker process {pids[0]} gave no answer" in str(caught.value.found)
    assert wait_until_gone(pids[0])
    monkeypatch.setattr(client, "SECONDS", 1.0)
    with pytest.raises(CompileTimeoutError, match="a process has not compiled a program after 1 s"):
        tessella.compile(open_batch(), dims={})(normal(2, 4))
    assert not any(map(is_there, pids))


def test_a_deadline_in_the_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    graph = open_onnx(wide().SerializeToString()).graph({"x": (Symbol("N", 2, 15).size, 256)})
    compiler, flat = Compiler(), graph.weights["w"].reshape(-1).view(np.uint8)
    request = client._request(graph, {"w": "name"}, make_options(), end=0.0)
    assert compiler.answer(request) == client.MISSING + b'["name"]'
    assert compiler.answer(client.SEND + client.bundle({"name": flat})) == client.WEIGHTS
    answer = compiler.answer(request)
    assert answer[:1] == client.LATE
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
    monkeypatch.setattr(workers._SHARED, "_pool", workers.WorkerPool(0))
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


def norm(x: Array) -> Array:
    """More ops than a small program has."""
    centered = x - x.mean(axis=1, keepdims=True)
    scaled = centered / np.sqrt((centered * centered).mean(axis=1, keepdims=True) + 1e-5)
    return np.maximum(scaled @ WEIGHTS, 0) * np.exp(-np.abs(scaled @ WEIGHTS))


WEIGHTS = normal(256, 512, seed=3)
TILE = """function (A[N, K], B[K, M]) -> (R) {
    C[n, m : N, M] = +(A[n, k] * B[k, m]);
    R = C > 0 ? C : 0.1 * C;
}"""


def by_jit(*arrays: Array) -> Array:
    return tessella.jit(norm)(arrays[0])


def by_tile(*arrays: Array) -> Array:
    return tessella.tile(TILE)(arrays[0], WEIGHTS)


@pytest.mark.parametrize("call", [by_jit, by_tile])
def test_functions(
    call: Callable[..., Array],
    compilers: pytest.MonkeyPatch,
    compiled: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    x = normal(5, 256)
    found = call(x)
    assert compiled == []
    monkeypatch.setattr(compilation, "OPS", 1 << 30)
    assert call(x).tobytes() == found.tobytes()
    assert compiled == ["program"]


def test_sizes_of_a_function(compilers: pytest.MonkeyPatch, compiled: list[str]) -> None:
    """The second one opens a dimension; the function is traced again to explain it."""
    f = tessella.jit(norm)
    for count in (5, 20, 70):
        np.testing.assert_allclose(f(normal(count, 256)), norm(normal(count, 256)), 1e-4, 1e-4)
    assert compiled == []
    assert "open, from 16" in str(f.explain())
    tile = tessella.tile(TILE)
    for count in (5, 20):
        wanted = normal(count, 256) @ WEIGHTS
        wanted = np.where(wanted > 0, wanted, 0.1 * wanted)
        np.testing.assert_allclose(tile(normal(count, 256), WEIGHTS), wanted, 1e-4, 1e-4)
    assert compiled == []


LOOP = """<ir_version: 10, opset_import: ["" : 17]>
g (float[n] x, float[4] h) => (float[4] last, float[k, 4] all) {
    at = NonZero(x)
    count = Size(at)
    go = Constant<value = bool {1}>()
    last, all = Loop(count, go, h) <body = step (int64 i, bool c, float[4] s) =>
        (bool c2, float[4] t, float[4] each) {
        c2 = Identity(c)
        u = Tanh(s)
        v = Exp(u)
        t = Mul(v, u)
        each = Neg(t)
    }>
}"""


def test_subprograms(compilers: pytest.MonkeyPatch, compiled: list[str]) -> None:
    """What follows a step, and the body of a loop."""
    proto = onnx.parser.parse_model(LOOP)
    model = tessella.compile(proto, dims={})
    for count in (3, 5):
        check(proto, model, x=np.arange(count, dtype=np.float32), h=normal(4))
    rests = [each.rest for each in model._table.programs.made() if each.rest is not None]
    assert any(list(rest.models()) for rest in rests)
    assert compiled == []


def test_few_weights_at_a_time(
    own: None, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are sent once, whatever the sizes of a call."""
    monkeypatch.setattr(client, "BUNDLE", 1000)
    sent: list[bytes] = []
    ask = Worker.ask

    def counted(one: Worker, request: bytes, until: float) -> bytes:
        sent.append(request[:1])
        return ask(one, request, until)

    monkeypatch.setattr(Worker, "ask", counted)
    nodes = [
        onnx.helper.make_node("MatMul", ["x", "v"], ["t"]),
        onnx.helper.make_node("MatMul", ["t", "w"], ["y"]),
    ]
    shapes = {"v": (256, 256), "w": (256, 512)}
    proto = network(nodes, {"x": ("N", 256)}, {"y": ("N", 512)}, shapes)
    model = tessella.compile(proto, dims={})
    for count in (1, 20):
        check(proto, model, x=normal(count, 256))
    assert compiled == []
    assert sent.count(client.SEND) == 2
    assert sent.count(client.COMPILE) == 3


def test_errors_of_functions_are_those_of_this_process(
    compilers: pytest.MonkeyPatch, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A pass has found them."""
    f = tessella.jit(np.sort, places=["x86/f32/nhwc"], fallback="error")
    errors: list[str] = []
    for least in (0, 1 << 30):
        monkeypatch.setattr(compilation, "OPS", least)
        with pytest.raises(UnsupportedError, match=r"nn\.topk") as caught:
            f(normal(4, 4))
        errors.append(str(caught.value))
    assert errors[0] == errors[1]


def test_a_function_whose_process_dies(
    own: None, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    pids_of(monkeypatch, f"{READY}os.read(0, 1); os._exit(3)")
    monkeypatch.setattr(workers._SHARED, "_pool", workers.WorkerPool(0))
    x = normal(5, 256)
    np.testing.assert_allclose(tessella.jit(norm)(x), norm(x), 1e-4, 1e-4)
    assert compiled == ["program"]


def test_functions_have_deadlines(own: None, monkeypatch: pytest.MonkeyPatch) -> None:
    pids_of(monkeypatch, READY + SLEEPS)
    with pytest.raises(CompileTimeoutError, match="in a process that compiles"):
        tessella.jit(norm, timeout=1)(normal(5, 256))
    with pytest.raises(CompileTimeoutError, match="in a process that compiles"):
        tessella.tile(TILE, timeout=1)(normal(5, 256), WEIGHTS)
