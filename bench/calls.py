"""The time of a call of small models: the path to native code and back.

    python -m bench.calls [NAME ...] --repeat 20 --json calls.json

There are three models: one op on 16 floats, a small perceptron, and the network that reads digits.
They are compiled for fixed sizes, and with a dynamic first dimension whose programs are compiled
beforehand. Calls keep one size, or alternate between a few. ONNX Runtime's `session.run` does the
same, interleaved.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
from onnx import TensorProto, helper, numpy_helper

import tessella
from bench.command import Command, show_machine, write_figures
from tessella.tools.measure import interleave
from tests.models import with_open_batch

DIGITS = Path(__file__).parents[1] / "examples" / "digits" / "digits.onnx"
SIZES = {"fixed": (1,), "open": (5,), "alternating": (3, 5, 20)}
"""The first dimension in the calls of each row; fixed digits are read one at a time.

The last size is in another range than those before it, and has another program.
"""
PEER = "onnxruntime"
CALLERS = ("model(x)", "model.run", "loaded.run", "jit", "ops", PEER)
ROUNDS = 16
"""Calls with each size that are timed together."""
TURN = 0.01
"""Seconds that a turn times."""

Array = npt.NDArray[Any]
Call = Callable[[Array], Any]
Function = Callable[[Array], Any]


@dataclass(frozen=True)
class Case:
    """A model with the input `x`, and the same as a function and as an op, if it is one."""

    shape: tuple[int, ...]
    """The dimensions after the first."""
    model: Callable[[], onnx.ModelProto]
    function: Callable[[], Function] | None = None
    op: Function | None = None


@dataclass(frozen=True)
class Row:
    """Median microseconds of a call, by callee."""

    model: str
    sizes: str
    us: Mapping[str, float]

    @property
    def ratio(self) -> float | None:
        """The time of `model.run` over ONNX Runtime's, if known."""
        return self.us["model.run"] / self.us[PEER] if PEER in self.us else None


def relu() -> onnx.ModelProto:
    """One elementwise op."""
    return _model([helper.make_node("Relu", ["x"], ["y"])], (16,), {})


def perceptron() -> onnx.ModelProto:
    """16 inputs, 16 hidden units, 8 outputs."""
    nodes = [
        helper.make_node("Gemm", ["x", "a", "b"], ["product"]),
        helper.make_node("Relu", ["product"], ["hidden"]),
        helper.make_node("Gemm", ["hidden", "c", "d"], ["y"]),
    ]
    return _model(nodes, (16,), _weights())


def perceptron_function() -> Function:
    """The perceptron in NumPy."""
    a, b, c, d = _weights().values()
    return lambda x: np.maximum(x @ a + b, np.float32(0)) @ c + d


def _weights() -> dict[str, Array]:
    rng = np.random.default_rng(0)
    shapes = {"a": (16, 16), "b": (16,), "c": (16, 8), "d": (8,)}
    return {name: rng.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _model(
    nodes: Sequence[onnx.NodeProto], shape: tuple[int, ...], weights: Mapping[str, Array]
) -> onnx.ModelProto:
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *shape])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    kept = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "small", [x], [y], kept)
    return helper.make_model(graph, ir_version=8, opset_imports=[helper.make_opsetid("", 17)])


CASES = {
    "relu": Case((16,), relu, lambda: lambda x: np.maximum(x, np.float32(0)), tessella.ops.relu),
    "perceptron": Case((16,), perceptron, perceptron_function),
    "digits": Case((1, 8, 8), lambda: onnx.load(DIGITS)),
}


def callers(case: Case, sizes: str, folder: Path) -> Iterator[tuple[str, Call]]:
    """Yield functions of one array, and their names."""
    is_open = sizes != "fixed"
    proto = with_open_batch(case.model()) if is_open else case.model()
    name = proto.graph.input[0].name
    model = tessella.compile(proto, threads=1, dims={} if is_open else "fixed")
    yield "model(x)", model
    yield "model.run", lambda x: model.run(None, {name: x})
    for array in arrays(case, sizes):
        model(array)
    model.save(folder / "model.tsl")
    loaded = tessella.load(folder / "model.tsl", threads=1)
    yield "loaded.run", lambda x: loaded.run(None, {name: x})
    if case.function is not None:
        function = case.function()
        if is_open:
            yield "jit", tessella.jit(function, threads=1, dim_names={"x": {0: "n"}})
        else:
            yield "jit", tessella.jit(function, threads=1, dims="fixed")
    if case.op is not None:
        yield "ops", case.op
    if importlib.util.find_spec(PEER) is not None:
        session = _session(proto)
        yield PEER, lambda x: session.run(None, {name: x})


def _session(proto: onnx.ModelProto) -> Any:
    ort: Any = importlib.import_module(PEER)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.log_severity_level = 3
    providers = ["CPUExecutionProvider"]
    return ort.InferenceSession(proto.SerializeToString(), options, providers=providers)


def arrays(case: Case, sizes: str) -> list[Array]:
    """Return the inputs of a row's calls, in order."""
    rng = np.random.default_rng(1)
    return [rng.standard_normal((n, *case.shape), np.float32) for n in SIZES[sizes]]


def measure(name: str, sizes: str, repeat: int) -> Row:
    """Time the calls of a row."""
    case = CASES[name]
    inputs = arrays(case, sizes)
    with TemporaryDirectory() as folder:
        called = dict(callers(case, sizes, Path(folder)))
        turns = {caller: _turn(call, inputs) for caller, call in called.items()}
        timings = interleave(turns, repeat=repeat, turn=TURN)
    each = ROUNDS * len(inputs)
    return Row(name, sizes, {caller: t.median / each * 1e6 for caller, t in timings.items()})


def _turn(call: Call, inputs: Sequence[Array]) -> Callable[[], None]:
    def turn() -> None:
        for _ in range(ROUNDS):
            for array in inputs:
                call(array)

    return turn


def lines(rows: Sequence[Row]) -> Iterator[str]:
    """Yield a table of microseconds."""
    yield f"{'model, sizes':<26}{''.join(f'{name:>13}' for name in CALLERS)}{'ratio':>8}"
    for row in rows:
        times = "".join(f"{row.us[c]:13.2f}" if c in row.us else " " * 13 for c in CALLERS)
        ratio = "" if row.ratio is None else f"{row.ratio:8.2f}"
        yield f"{f'{row.model}, {row.sizes}':<26}{times}{ratio}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    parser = Command("calls", "Compare the time of a call of small models.")
    parser.add_names("model", CASES)
    parser.add_repeat(20)
    options = parser.parse(arguments)
    where = show_machine()
    rows = [measure(name, sizes, options.repeat) for name in options.names for sizes in SIZES]
    print("\n".join(lines(rows)))
    print("microseconds of a call; the ratio is that of model.run to ONNX Runtime")
    write_figures(options.json, where, rows=[asdict(row) for row in rows])
    return 0


if __name__ == "__main__":
    sys.exit(main())
