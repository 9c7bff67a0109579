"""`tessella batch`: columns, order, lost workers, failed blocks and resumed runs."""

from __future__ import annotations

import os
import signal
from concurrent.futures import Future, wait
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

import tessella
from tessella.runtime.signature import ValueInfo
from tessella.support.errors import InputError
from tessella.tools.batch import engines, parts
from tessella.tools.batch.columns import array_of, column_of
from tessella.tools.batch.predictor import Predictor
from tessella.tools.batch.run import BatchRun, blocks_of, places_of
from tessella.tools.cli import main

pa: Any = pytest.importorskip("pyarrow")
pq: Any = pytest.importorskip("pyarrow.parquet")

Out = pytest.CaptureFixture[str]
TABLE = np.arange(40, dtype=np.float32).reshape(10, 2, 2)
INDEX = np.arange(50) % 10


@pytest.fixture(scope="module")
def artifact(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model that looks up a matrix for each index."""
    graph = helper.make_graph(
        [helper.make_node("Gather", ["table", "index"], ["found"])],
        "lookup",
        [helper.make_tensor_value_info("index", TensorProto.INT64, ["N"])],
        [helper.make_tensor_value_info("found", TensorProto.FLOAT, ["N", 2, 2])],
        [numpy_helper.from_array(TABLE, "table")],
    )
    opset = helper.make_opsetid("", 17)
    proto = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    path = tmp_path_factory.mktemp("batch") / "lookup.tsl"
    tessella.compile(proto, dims={"N": (1, 64)}, prepare=True).save(path)
    return path


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return written(tmp_path, INDEX)


def written(folder: Path, index: np.ndarray[Any, Any]) -> Path:
    """A table in row groups of 20 rows."""
    path = folder / "data.parquet"
    table = pa.table({"id": [f"row {i}" for i in range(len(index))], "index": index})
    pq.write_table(table, path, row_group_size=20)
    return path


def found(path: Path) -> tuple[list[str], np.ndarray[Any, Any]]:
    table = pq.read_table(path)
    assert table.column_names == ["id", "found"]
    return table["id"].to_pylist(), np.array(table["found"].to_pylist(), np.float32)


def check(path: Path) -> None:
    names, values = found(path)
    assert names == [f"row {i}" for i in range(len(INDEX))]
    assert np.array_equal(values, TABLE[INDEX])
    assert not path.with_name(f"{path.name}.parts").exists()


class Here(engines.Engine):
    """An engine that runs blocks immediately in this process, and loses the blocks that begin with
    a row in ``losing``."""

    lost = (ConnectionError,)

    def __init__(self, path: Path, losing: dict[int, int]) -> None:
        self.worker = engines.BlockWorker(str(path), 1)
        self.losing = losing
        self.renewed = self.submitted = 0

    def submit(self, block: bytes) -> Future[bytes | str]:
        future: Future[bytes | str] = Future()
        first = int(engines.batch_of(block)["id"][0].as_py().split()[1])
        self.submitted += 1
        if self.losing.get(first, 0):
            self.losing[first] -= 1
            future.set_exception(ConnectionError("lost"))
        else:
            future.set_result(self.worker.run(block))
        return future

    def renew(self) -> None:
        self.renewed += 1

    def close(self) -> None:
        pass


def run_here(artifact: Path, data: Path, output: Path, losing: dict[int, int]) -> Any:
    """Run blocks of 8 rows on the engine ``Here``. Returns the run and the engine."""
    kept = parts.Parts(output, parts.description(artifact, data, 8))
    engine, rows = Here(artifact, losing), list[int]()
    with pq.ParquetFile(data) as file:
        made = BatchRun(engine, kept, 3, rows.append)
        places = places_of(file, 8)
        made.over(blocks_of(file, 8, places, kept))
    if not made.failed:
        kept.finish(len(places))
    return made, engine, sum(rows)


def test_blocks_of_lost_workers_run_again(artifact: Path, data: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.parquet"
    made, engine, rows = run_here(artifact, data, output, {0: 2, 20: 1})
    assert (made.failed, made.retried, rows) == ({}, 3, 50)
    assert engine.renewed == 3
    check(output)


def test_a_run_goes_on_where_it_was(
    artifact: Path, data: Path, tmp_path: Path, capsys: Out
) -> None:
    output = tmp_path / "out.parquet"
    made, _, rows = run_here(artifact, data, output, {16: 9})
    assert [*made.failed] == ["block 2 (rows 16 to 19)"]
    assert "failed in 3 attempts: lost" in made.failed["block 2 (rows 16 to 19)"]
    assert rows == 46
    assert not output.exists()
    command = ["batch", str(artifact), str(data), "-o", str(output)]
    assert main([*command, "--rows", "9"]) == 2
    assert "finished blocks belong to another run" in capsys.readouterr().err
    made, engine, rows = run_here(artifact, data, output, {})
    assert (engine.submitted, rows) == (1, 4)
    check(output)


def test_a_wrong_block_is_reported(artifact: Path, tmp_path: Path, capsys: Out) -> None:
    index = INDEX.copy()
    index[21] = 99
    data, output = written(tmp_path, index), tmp_path / "out.parquet"
    command = ["batch", str(artifact), str(data), "-o", str(output), "--workers", "1"]
    assert main([*command, "--rows", "20"]) == 1
    error = capsys.readouterr().err
    assert "block 1 (rows 20 to 39) failed: an index is out of range" in error
    assert "1 blocks failed" in error
    assert not output.exists()


class Killing(engines.Processes):
    """Processes, one of which is killed while blocks are in flight."""

    killed = False

    def submit(self, block: bytes) -> Future[bytes | str]:
        future = super().submit(block)
        if not self.killed:
            self.killed = True
            os.kill(next(iter(self._pool._processes)), signal.SIGKILL)
        return future


def test_a_process_may_be_killed(
    artifact: Path, data: Path, tmp_path: Path, capsys: Out, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(engines.ENGINES, "processes", Killing)
    output = tmp_path / "out.parquet"
    command = ["batch", str(artifact), str(data), "-o", str(output), "--rows", "8"]
    assert main([*command, "--workers", "2"]) == 0
    assert "retried blocks: " in capsys.readouterr().err
    check(output)


def test_no_block_of_a_killed_process_stays_open(artifact: Path) -> None:
    engine = engines.Processes(str(artifact), 1, 1)
    block = engines.stream_of(pa.RecordBatch.from_pydict({"index": [1]}))
    futures = [engine.submit(block) for _ in range(6)]
    os.kill(next(iter(engine._pool._processes)), signal.SIGKILL)
    engine.renew()
    assert not wait(futures, timeout=60).not_done
    assert all(isinstance(future.exception(), engine.lost) for future in futures)
    engine.close()


class KillingActors(engines.RayActors):
    """Actors, one of which is killed while blocks are in flight."""

    killed = False

    def submit(self, block: bytes) -> Future[bytes | str]:
        future = super().submit(block)
        if not self.killed:
            self.killed = True
            self._ray.kill(self._actors[0], no_restart=False)
        return future


@pytest.mark.slow
def test_an_actor_of_ray_may_be_killed(
    artifact: Path, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ray: Any = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    try:
        monkeypatch.setitem(engines.ENGINES, "ray", KillingActors)
        output = tmp_path / "out.parquet"
        command = ["batch", str(artifact), str(data), "-o", str(output), "--engine", "ray"]
        assert main([*command, "--rows", "8", "--workers", "2"]) == 0
        check(output)
    finally:
        ray.shutdown()


def test_map_batches_takes_the_class(artifact: Path) -> None:
    from tessella.ray import Predictor as Exported

    assert Exported is Predictor
    batch = {"id": np.arange(3), "index": np.array([1, 2, 3])}
    made = Predictor(artifact)(batch)
    assert [*made] == ["id", "found"]
    assert np.array_equal(made["found"], TABLE[[1, 2, 3]])
    with pytest.raises(InputError, match="no column index"):
        Predictor(artifact)({"id": np.arange(3)})


def test_a_model_with_a_number_of_rows_is_called_several_times(tmp_path: Path) -> None:
    value = helper.make_tensor_value_info("x", TensorProto.FLOAT, [2, 3])
    result = helper.make_tensor_value_info("y", TensorProto.FLOAT, [2, 3])
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"])], "g", [value], [result])
    opset = helper.make_opsetid("", 17)
    proto = helper.make_model(graph, opset_imports=[opset], ir_version=8)
    tessella.compile(proto, prepare=True).save(tmp_path / "two.tsl")
    predictor = Predictor(tmp_path / "two.tsl")
    x = np.arange(15, dtype=np.float32).reshape(5, 3)
    assert np.array_equal(predictor({"x": x})["y"], -x)
    rows = np.empty(5, object)
    rows[:] = [*x]
    assert np.array_equal(predictor({"x": rows})["y"], -x)
    rows[1] = x[0, :2]
    with pytest.raises(InputError, match="unequal shapes"):
        predictor({"x": rows})


@pytest.mark.parametrize(
    "column, shape",
    [
        ([[[1, 2], [3, 4]], [[5, 6], [7, 8]]], ("N", "a", 2)),
        ([[1, 2, 3, 4], [5, 6, 7, 8]], ("N", 2, 2)),
        ([1, 2], ("N",)),
        ([1.5, 2.0], ("N",)),
    ],
)
def test_columns_are_arrays(column: list[Any], shape: tuple[int | str, ...]) -> None:
    info = ValueInfo("x", "float32", shape)
    batch = pa.RecordBatch.from_pydict({"x": column})
    for each in (batch, pa.RecordBatch.from_pydict({"x": column_of(array_of(batch, info))})):
        array = array_of(each, info)
        assert array.dtype == np.float32
        assert array.ravel().tolist() == np.ravel(column).tolist()
        assert array.ndim == len(shape)


def test_columns_of_tensors() -> None:
    array = np.arange(12, dtype=np.float32).reshape(2, 3, 2)
    column = pa.FixedShapeTensorArray.from_numpy_ndarray(array)
    info = ValueInfo("x", "float32", ("N", 3, 2))
    np.testing.assert_array_equal(array_of(pa.RecordBatch.from_pydict({"x": column}), info), array)
    kind = pa.fixed_shape_tensor(pa.float32(), [2, 3], permutation=[1, 0])
    permuted = pa.ExtensionArray.from_storage(kind, column.storage)
    with pytest.raises(InputError, match="permuted"):
        array_of(pa.RecordBatch.from_pydict({"x": permuted}), info)


@pytest.mark.parametrize(
    "column, text",
    [
        ([[1, 2], [3]], "unequal lengths"),
        ([[1, 2], None], "null"),
        ([[1, None], [2, 3]], "null"),
        ([[1, 2, 3]], "wrong shape"),
        ([1, 2], "wrong shape"),
        ([["a", "b"]], "cannot be int32"),
        ([[1, 2**40]], "cannot be int32"),
        ([[1.5, 2.0]], "cannot be int32"),
        ([[{"a": 1}, {"a": 2}]], "cannot be int32"),
    ],
)
def test_columns_that_are_no_arrays(column: list[Any], text: str) -> None:
    batch = pa.RecordBatch.from_pydict({"x": column})
    with pytest.raises(InputError, match=text):
        array_of(batch, ValueInfo("x", "int32", ("N", 2)))


def test_complex_numbers_are_no_columns() -> None:
    x = np.array([[1j, 2]], np.complex64)
    with pytest.raises(InputError, match="Parquet has no complex numbers"):
        column_of(x)
    batch = pa.RecordBatch.from_pydict({"x": [[1.0, 2.0]]})
    with pytest.raises(InputError, match="cannot be complex64"):
        array_of(batch, ValueInfo("x", "complex64", ("N", 2)))


def test_columns_are_checked_first(artifact: Path, tmp_path: Path, capsys: Out) -> None:
    path = tmp_path / "data.parquet"
    command = ["batch", str(artifact), str(path), "-o", str(tmp_path / "out")]
    for columns, text in (
        ({"id": [1]}, "no column index"),
        ({"index": [1], "found": [1]}, "name of an output"),
        ({"index": np.zeros(0, np.int64)}, "no rows"),
    ):
        pq.write_table(pa.table(columns), path)
        assert main(command) == 2
        assert text in capsys.readouterr().err
    path.write_text("no table")
    assert main(command) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert main(["batch", "model.onnx", *command[2:]]) == 2
    assert "tessella compile model.onnx" in capsys.readouterr().err
