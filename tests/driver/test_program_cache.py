"""Programs on disk: found by whoever compiles the same again, and by nobody else."""

from __future__ import annotations

import gc
import hashlib
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella import targets
from tessella.dialects import nn
from tessella.driver.cache import program_cache
from tessella.frontends import onnx as onnx_source
from tessella.kernels import registry
from tessella.runtime import sharing
from tessella.runtime.arena import aligned
from tessella.runtime.artifact import LARGE, Artifact, CompiledModel, CompiledProgram, dump
from tessella.runtime.host_steps import HostStep
from tessella.runtime.program import Program
from tessella.runtime.records import NotStorableError
from tessella.runtime.sharing import packed
from tessella.runtime.signature import ValueInfo
from tessella.runtime.specs import Constant, TensorSpec
from tessella.support.disk import Buffer, Folder
from tessella.support.errors import InvalidModelError, OptionError
from tests.hostile.models import X, Y, mixed

ROOT = Path(__file__).parents[2]

Array = np.ndarray[Any, Any]


@pytest.fixture
def cache(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def scaled(factor: float, rows: int | str = 3, weight: Array | None = None) -> onnx.ModelProto:
    weight = np.full(4, factor, np.float32) if weight is None else weight
    nodes = [
        helper.make_node("Mul", ["x", "w"], ["t"]),
        helper.make_node("CumSum", ["t", "axis"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [rows, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [rows, 4])],
        [
            numpy_helper.from_array(weight, "w"),
            numpy_helper.from_array(np.array(1, np.int64), "axis"),
        ],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10)


def ones(rows: int = 3) -> Array:
    return np.ones((rows, 4), np.float32)


def want(factor: float, rows: int = 3) -> Array:
    return np.tile(np.cumsum(np.full(4, factor, np.float32)), (rows, 1))


# ** found **


def test_a_key_has_every_tessella_file() -> None:
    found = {str(Path(path).resolve().relative_to(ROOT)) for path in program_cache.sources()}
    folders = ("driver", "frontends", "kernels", "support")
    assert {
        str(path.relative_to(ROOT)) for name in folders for path in ROOT.glob(f"{name}/**/*.py")
    } <= found


def test_programs_do_not_depend_on_the_number_of_threads(cache: Path, compiled: list[str]) -> None:
    for threads in (1, 2, None):
        y = tessella.compile(scaled(2.0), threads=threads)(ones())
        np.testing.assert_array_equal(y, want(2.0))
    assert len(compiled) == 1


def test_what_was_compiled_is_found(cache: Path, compiled: list[str]) -> None:
    data = mixed().SerializeToString()
    cold, warm = tessella.compile(data), tessella.compile(data)
    assert len(compiled) == 1
    np.testing.assert_array_equal(cold(X), warm(X))
    np.testing.assert_allclose(warm(X), Y, rtol=1e-5)
    assert warm.inputs == cold.inputs
    assert warm.outputs == cold.outputs
    assert list(warm.timings) == ["fetch"]


def test_a_file_is_found_under_any_name(cache: Path, compiled: list[str], tmp_path: Path) -> None:
    for name in ("one.onnx", "two.onnx"):
        (tmp_path / name).write_bytes(scaled(2).SerializeToString())
        np.testing.assert_array_equal(tessella.compile(tmp_path / name)(ones()), want(2))
    assert len(compiled) == 1


def test_it_can_be_inspected(cache: Path) -> None:
    data = mixed().SerializeToString()
    cold, warm = tessella.compile(data), tessella.compile(data)
    for stage in ("nn", "placed", "tile", "loops", "llvm"):
        assert warm.as_text(stage) == cold.as_text(stage)
    assert str(warm.explain()) == str(cold.explain())


def test_each_shape_is_an_entry(cache: Path, compiled: list[str]) -> None:
    data = scaled(2, "n").SerializeToString()
    for _ in range(2):
        model = tessella.compile(data)
        for rows in (1, 5):
            np.testing.assert_array_equal(model(ones(rows)), want(2, rows))
    assert len(compiled) == 2


def test_a_failed_check_names_its_nodes(cache: Path) -> None:
    node = helper.make_node("Gather", ["x", "i"], ["y"], name="the_gather")
    infos = [
        helper.make_tensor_value_info("x", TensorProto.FLOAT, [4]),
        helper.make_tensor_value_info("i", TensorProto.INT64, [2]),
        helper.make_tensor_value_info("y", TensorProto.FLOAT, [2]),
    ]
    graph = helper.make_graph([node], "g", infos[:2], infos[2:])
    data = helper.make_model(graph, ir_version=10).SerializeToString()
    for _ in range(2):
        model = tessella.compile(data)
        with pytest.raises(tessella.TessellaError, match="the_gather"):
            model(np.zeros(4, np.float32), np.array([0, 9]))


LOOP = """
<ir_version: 10, opset_import: ["" : 17]>
g (float[n] x) => (float[m] y, float[k] z) {
    limit = Constant<value = float {10.0}>()
    true = Constant<value = bool {1}>()
    y = Loop("", true, x) <body = body (int64 i, bool c, float[d] s) => (bool c2, float[e] t) {
        t = Concat<axis = 0>(s, s)
        norm = ReduceSum<keepdims = 0>(t)
        c2 = Less(norm, limit)
    }>
    half = Constant<value = float {0.5}>()
    large = Greater(y, half)
    at = NonZero(large)
    at2 = Transpose(at)
    z = GatherND(y, at2)
}
"""


def test_programs_that_are_cut_are_found(
    cache: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs with graph breaks are found in the cache with the bodies of loops, their
    continuations, and specialised programs."""
    data = onnx.parser.parse_model(LOOP).SerializeToString()
    calls = [np.arange(size, dtype=np.float32) - 1 for size in (4, 5, 6)]
    answers: list[Sequence[Array]] = []
    choices: list[Any] = ["auto", {}]
    for dims in choices:
        for is_warm in (False, True):
            forget()
            before = len(compiled)
            with monkeypatch.context() as patch:
                if is_warm:
                    patch.setattr(onnx_source, "OnnxSource", None)
                model = tessella.compile(data, dims=dims)
                answers += [model(x) for x in calls]
            assert (len(compiled) == before) is is_warm
    for x, (y, z) in zip(calls * 4, answers, strict=True):
        doublings = int(np.ceil(np.log2(10 / x.sum())))
        wanted = np.tile(x, 2**doublings)
        np.testing.assert_array_equal(y, wanted)
        np.testing.assert_array_equal(z, wanted[wanted > 0.5])


# ** not found **


def test_whatever_is_different(cache: Path, compiled: list[str]) -> None:
    base = scaled(2).SerializeToString()
    settings: list[tuple[bytes, Mapping[str, Any]]] = [
        (base, {}),
        (scaled(3).SerializeToString(), {}),
        (base, {"places": ["host"]}),
        (base, {"options": tessella.Options(pick="grade")}),
        (base, {"max_bytes": 1000}),
    ]
    for data, options in settings:
        tessella.compile(data, **options)
    assert len(compiled) == len(settings)
    np.testing.assert_array_equal(tessella.compile(settings[1][0])(ones()), want(3))
    assert len(compiled) == len(settings)


def test_constants_are_part_of_the_model(cache: Path, compiled: list[str]) -> None:
    model = scaled(0)
    model.graph.input.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, [4]))
    del model.graph.initializer[0]
    for factor in (2, 3, 2):
        constants = {"w": np.full(4, factor, np.float32)}
        made = tessella.compile(model.SerializeToString(), values=constants)
        np.testing.assert_array_equal(made(ones()), want(factor))
    assert len(compiled) == 2


def test_another_version_compiles_again(
    cache: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = scaled(2).SerializeToString()
    tessella.compile(data)
    monkeypatch.setattr(program_cache, "_versions", lambda: "another")
    tessella.compile(data)
    assert len(compiled) == 2


def test_nothing_is_kept_beside_plugins(
    cache: Path, compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    data = scaled(2).SerializeToString()
    tessella.compile(data)
    monkeypatch.setattr(program_cache, "_has_plugins", lambda: True)
    tessella.compile(data)
    assert len(compiled) == 2


def test_nothing_is_kept_beside_kernels_of_this_process(cache: Path, compiled: list[str]) -> None:
    def twice(x: Array) -> Array:
        return x + x

    data = scaled(2).SerializeToString()
    tessella.compile(data)
    known = registry._KERNELS.setdefault("nn.relu", [])
    registry.called(nn.ReluOp, "twice", cost=lambda *_: 1.0)(twice)
    try:
        tessella.compile(data)
    finally:
        known.pop()
    tessella.compile(data)
    assert len(compiled) == 2


def write_in_two_files(path: Path, factor: float) -> None:
    path.with_suffix(".data").unlink(missing_ok=True)
    onnx.save(
        scaled(factor, weight=np.full((3, 4), factor, np.float32)),
        path,
        save_as_external_data=True,
        location=path.with_suffix(".data").name,
        size_threshold=0,
    )


def test_external_data_is_part_of_a_model(cache: Path, compiled: list[str], tmp_path: Path) -> None:
    """The model's own file stays the same when the data changes."""
    path = tmp_path / "m.onnx"
    for factor in (2, 3, 2):
        write_in_two_files(path, factor)
        np.testing.assert_array_equal(tessella.compile(path)(ones()), want(factor))
    assert len(compiled) == 2


def test_external_data_that_is_gone_or_changes(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    write_in_two_files(path, 2)
    tessella.compile(path)
    warm = tessella.compile(path)
    write_in_two_files(path, 3)
    with pytest.raises(InvalidModelError, match="has changed"):
        warm.explain()
    path.with_suffix(".data").unlink()
    with pytest.raises(InvalidModelError, match="cannot read external data"):
        tessella.compile(path)


def test_a_model_in_memory(cache: Path, compiled: list[str]) -> None:
    model = scaled(2, "n")
    tessella.compile(model)(ones(3))
    made = tessella.compile(model)
    np.testing.assert_array_equal(made(ones(3)), want(2, 3))
    assert len(compiled) == 1
    model.graph.initializer[0].CopyFrom(numpy_helper.from_array(np.full(4, 3, np.float32), "w"))
    np.testing.assert_array_equal(made(ones(3)), want(2, 3))
    np.testing.assert_array_equal(tessella.compile(model)(ones(3)), want(3, 3))
    assert len(compiled) == 2


def test_a_file_that_changes_meanwhile(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(scaled(2).SerializeToString())
    tessella.compile(path)
    warm = tessella.compile(path)
    path.write_bytes(scaled(3).SerializeToString())
    np.testing.assert_array_equal(warm(ones()), want(2))
    with pytest.raises(InvalidModelError, match="has changed"):
        warm.explain()
    np.testing.assert_array_equal(tessella.compile(path)(ones()), want(3))


@pytest.mark.parametrize("at", [5, 30, 100, -1])
def test_a_damaged_entry_is_made_again(cache: Path, compiled: list[str], at: int) -> None:
    data = scaled(2).SerializeToString()
    tessella.compile(data)
    (entry,) = (cache / "programs").iterdir()
    content = bytearray(entry.read_bytes())
    content[at] ^= 0xFF
    entry.write_bytes(content)
    np.testing.assert_array_equal(tessella.compile(data)(ones()), want(2))
    np.testing.assert_array_equal(tessella.compile(data)(ones()), want(2))
    assert len(compiled) == 2


@pytest.fixture
def entries(cache: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, dict[str, Sequence[Buffer]]]:
    """Return the entries that each folder of the cache gets, by key."""
    found: dict[str, dict[str, Sequence[Buffer]]] = {}
    put = Folder.put

    def noted(folder: Folder, key: str, *content: Buffer) -> None:
        found.setdefault(folder.name, {})[key] = content
        put(folder, key, *content)

    monkeypatch.setattr(Folder, "put", noted)
    return found


def test_an_entry_that_does_not_load_is_made_again(
    entries: dict[str, dict[str, Sequence[Buffer]]], compiled: list[str]
) -> None:
    """Whatever it is: nonsense, or a program of another signature, for other shapes or machines."""
    first, other = (scaled(2, rows).SerializeToString() for rows in (3, 5))
    tessella.compile(first)
    (key,) = entries["programs"]
    good = b"".join(entries["programs"][key])
    tessella.compile(other)
    strange = b"".join(entries["programs"].popitem()[1])
    length = 64 + int.from_bytes(good[8:16])
    text = good[64:length].replace(b'"features":[', b'"features":["none",')
    text = text.rstrip() + b" " * (-len(text.rstrip()) % 64)
    head = good[:8] + len(text).to_bytes(8) + hashlib.sha256(text).digest()
    for content in (b"", b"nonsense", strange, head.ljust(64, b"\0") + text + good[length:]):
        program_cache.FOLDER.put(key, content)
        del compiled[:]
        for _ in range(2):
            np.testing.assert_array_equal(tessella.compile(first)(ones()), want(2))
        assert len(compiled) == 1


CLOSED = """
<ir_version: 10, opset_import: ["" : 17]>
g (float[n, m] x) => (float[n, m] y) { y = Mul(x, w) }
"""


def test_what_is_known_of_a_model_and_does_not_load_is_found_again(
    entries: dict[str, dict[str, Sequence[Buffer]]], compiled: list[str]
) -> None:
    """Its signature, and why a size is a number."""
    proto, x = onnx.parser.parse_model(CLOSED), np.ones((20, 30), np.float32)
    proto.graph.initializer.append(numpy_helper.from_array(x[:, :1] * 2, "w"))
    np.testing.assert_array_equal(tessella.compile(proto, dims={})(x), 2 * x)
    good = dict(entries["signatures"])
    assert len(good) == 2
    for content in (b"", b"{}", b"[1, 2]", b'{"what": 3}'):
        for key in good:
            program_cache.SIGNATURES.put(key, content)
        np.testing.assert_array_equal(tessella.compile(proto, dims={})(x), 2 * x)
        assert entries["signatures"] == good
    assert len(compiled) == 1


def test_a_program_is_not_fetched_for_a_machine_that_cannot_run_it(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = scaled(2).SerializeToString()
    tessella.compile(data)
    monkeypatch.setattr(targets, "can_run", lambda _: False)
    with pytest.raises(OptionError, match="cannot run code"):
        tessella.compile(data)


# ** weights **


def product(columns: int = 300) -> bytes:
    """A symbolic model with one weight that is kept by itself."""
    weight = np.random.default_rng(0).standard_normal((100, columns), np.float32)
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["rows", 100])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["rows", columns])],
        [numpy_helper.from_array(weight, "w")],
    )
    opsets = [helper.make_opsetid("", 17)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString()


def answers(rows: Sequence[int]) -> list[Array]:
    model = tessella.compile(product(), dims="fixed")
    return [model(np.ones((count, 100), np.float32)) for count in rows]


def forget() -> None:
    """Be as a new process is."""
    gc.collect()
    sharing.named.clear()


def test_programs_share_weights_on_disk_and_in_memory(cache: Path, compiled: list[str]) -> None:
    cold = answers([20, 40])
    programs = list((cache / "programs").iterdir())
    (weight,) = (cache / "weights").iterdir()
    assert len(programs) == 2
    assert weight.stat().st_size > 100 * 300 * 4
    forget()
    model = tessella.compile(product(), dims="fixed")
    model.prepare({"x": (20, 100)})
    weight.unlink()  # the next program finds it in memory
    np.testing.assert_array_equal(model(np.ones((40, 100), np.float32)), cold[1])
    assert len(compiled) == 2


@pytest.mark.parametrize("damage", ["gone", "changed", "cut"])
def test_a_program_without_its_weights_is_made_again(
    cache: Path, compiled: list[str], damage: str
) -> None:
    (cold,) = answers([20])
    (weight,) = (cache / "weights").iterdir()
    content = bytearray(weight.read_bytes())
    content[-1] ^= 0xFF
    weight.unlink()
    if damage != "gone":
        weight.write_bytes(content if damage == "changed" else content[:-1])
        weight.chmod(0o600)
    for _ in range(2):
        forget()
        (again,) = answers([20])
        np.testing.assert_array_equal(again, cold)
    assert len(compiled) == 2


def test_a_model_that_is_wrong_is_no_entry(cache: Path) -> None:
    for _ in range(2):
        with pytest.raises(InvalidModelError):
            tessella.compile(b"nonsense")
    assert not cache.exists()


# ** the form **


def test_what_ends_a_compilation_does_not_close_sizes(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = tessella.compile(scaled(2.0, "n"), dims={})

    def fail(*_: object) -> None:
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr("tessella.driver.build.compile_graph.compile_graph", fail)
        with pytest.raises(OSError, match="disk full"):
            model(ones(20))
    np.testing.assert_array_equal(model(ones(20)), want(2.0, 20))
    assert "n: open, from 16" in str(model.explain())


def test_settings_come_back() -> None:
    settings: dict[str, Any] = {
        "a": None,
        "b": True,
        "c": 1,
        "d": -0.0,
        "e": float("inf"),
        "f": "ä\0",
        "g": (1, (2.5,), ()),
        "h": np.dtype(np.float16),
    }
    step = HostStep("nn.abs", "node", (0,), (4,), settings, (TensorSpec((2,), np.dtype(np.int8)),))
    strided = np.arange(12, dtype=np.int16).reshape(3, 4)[:, ::2]
    arrays = [np.arange(LARGE // 8), strided, np.array(True), np.zeros((0, 2), np.float64)]
    constants = {i: Constant(i, TensorSpec(arrays[i].shape, arrays[i].dtype)) for i in (1, 2, 3)}
    program = Program(1, (step,), (4,), constants, packed([*arrays]), {3: ("n",)})
    elsewhere: dict[str, Array] = {}

    def keep(array: Array) -> str:
        elsewhere[name := f"array {len(elsewhere)}"] = array
        return name

    info = ValueInfo("x", "float32", (2,))
    parts = dump(
        CompiledModel([info], [info], [CompiledProgram("avx2", (), [(2,)], program)]), "", keep
    )
    data = aligned(sum(len(part) for part in parts))
    data[:] = np.frombuffer(b"".join(parts), np.uint8)
    found = Artifact(data.data, lambda wanted: [elsewhere[name][:size] for name, size in wanted])
    again = found.program(found.manifest.programs[0])
    assert [array.nbytes for array in elsewhere.values()] == [arrays[0].nbytes]
    assert again.steps == program.steps
    assert repr(again.steps) == repr(program.steps)
    assert again.constants == constants
    for i, constant in constants.items():
        np.testing.assert_array_equal(constant.array(again.weights), arrays[i])
    assert again.weights[0].tobytes() == arrays[0].tobytes()
    assert again.nodes == program.nodes


def test_what_has_no_form_is_not_stored() -> None:
    step = HostStep("nn.abs", "node", (0,), (1,), {"a": object()})
    made = CompiledProgram("avx2", (), [()], Program(1, (step,), (1,), {}, []))
    with pytest.raises(NotStorableError, match="object"):
        dump(CompiledModel([], [], [made]), "")


def test_the_next_process_does_without_the_compiler(cache: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    path.write_bytes(scaled(2).SerializeToString())
    program = (
        "import sys, numpy, tessella\n"
        f"model = tessella.compile({str(path)!r})\n"
        "print(model(numpy.ones((3, 4), numpy.float32)).sum(),"
        " *(name in sys.modules for name in ('xdsl', 'onnx', 'llvmlite')))"
    )
    printed = [
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
            capture_output=True,
            text=True,
            check=True,
        ).stdout.split()
        for _ in range(2)
    ]
    assert printed == [["60.0", *["True"] * 3], ["60.0", *["False"] * 3]]
