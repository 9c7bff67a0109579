"""The tile that PlaidML's search chooses on a device, against tiles drawn by a seed.

    python -m bench.device_tiles [product] [--device opencl] [--others 30] [--seed 0]

Each case is one statement. The candidates are the chosen tile and others that fit the device's
local memory and registers. Each candidate's result is compared with NumPy's; then all candidates
are launched in turns. The ratio is the time of the fastest of the others over that of the chosen
tile: above 1, the chosen one is the fastest.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from statistics import median
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx.parser

from bench.command import Command, show_machine, write_figures
from tessella import targets
from tessella.codegen.semtree.emitter import TreeEmitter
from tessella.codegen.semtree.kernel import kernel_tree
from tessella.codegen.semtree.plan import search_tile
from tessella.dialects.interpret import Interpreter
from tessella.dialects.layout import pack, unpack
from tessella.dialects.nn.core import shape_of
from tessella.dialects.tile import KernelOp
from tessella.dialects.tile.flat import layout_of
from tessella.driver.build.build import lower
from tessella.driver.build.pipeline import pipeline
from tessella.driver.options import make_options
from tessella.frontends.compile import open_source
from tessella.lowering.emit_device_kernels import EmitDeviceKernelsPass
from tessella.passes.emitter import emitter_of
from tessella.passes.plaidml.model import OVER, Tile
from tessella.passes.plaidml.search import SearchResult
from tessella.passes.tile_fuse_maps import TileFuseMapsPass
from tessella.runtime.devices import Device, Memory, Source, device
from tessella.support.decisions import known, known_all

Array = npt.NDArray[Any]

TOLERANCE = 1e-4
"""The largest error of a result, as a fraction of its largest element."""


CASES = {
    "product": "(float[256,256] a, float[256,256] b) => (float[256,256] y) {y = MatMul(a, b)}",
    "convolution": "(float[1,32,30,30] x, float[32,32,3,3] w) => (float[1,32,28,28] y) "
    "{y = Conv(x, w)}",
    "reduction": "(float[512,2048] x) => (float[512] y) {y = ReduceMean<axes=[1], keepdims=0>(x)}",
}
"""Models of one statement, in ONNX's text form."""


@dataclass(frozen=True)
class Figures:
    """The times of the candidates of a case."""

    case: str
    chosen: float
    """Seconds of a launch with the chosen tile."""
    tile: Tile
    best: float
    """Seconds of a launch with the fastest other tile."""
    best_tile: Tile
    others: int

    @property
    def ratio(self) -> float:
        """The speed of the chosen tile, as a fraction of that of the fastest other one."""
        return self.best / self.chosen

    def __str__(self) -> str:
        return (
            f"{self.case:12} {self.ratio:5.2f}  {self.chosen * 1e6:9.1f} us {list(self.tile)}, "
            f"fastest of {self.others}: {self.best * 1e6:9.1f} us {list(self.best_tile)}"
        )


@dataclass(frozen=True)
class Problem:
    """A kernel of one statement on a device, with arguments and the result that NumPy computes."""

    kernel: KernelOp
    arguments: Sequence[Array]
    wanted: Array
    device: Device
    emitter: TreeEmitter

    @cached_property
    def found(self) -> SearchResult:
        """The search for the tile."""
        [statement] = self.kernel.statements
        return search_tile(statement, self.device.facts)

    def source(self, tile: Tile) -> Source:
        """Return the kernel with a tile."""
        stats = self.found.stats(tile)
        return self.emitter.source(
            kernel_tree(self.kernel, self.device.facts, lambda op, facts: stats)
        )

    def launcher(self, source: Source) -> Callable[[], None]:
        """Return a function that launches a kernel and waits for it. Raises ValueError if its
        result is not NumPy's."""
        [result] = self.kernel.returned.values
        inputs = zip(self.kernel.body.block.args, self.arguments, strict=True)
        packed = [pack(array, layout_of(value)) for value, array in inputs]
        out = np.empty(known(layout_of(result).size(shape_of(result))), self.wanted.dtype)
        memories = [Memory(self.device, array.nbytes) for array in (*packed, out)]
        for memory, array in zip(memories, packed, strict=False):
            self.device.write(memory.slice(), array)
        built, sizes = self.device.built(source), source.launch({})

        def launch() -> None:
            self.device.launch(built, [memory.slice() for memory in memories], sizes)
            self.device.finish()

        launch()
        self.device.read(memories[-1].slice(), out)
        found = unpack(out, layout_of(result), self.wanted.shape)
        error = np.abs(found - self.wanted).max() / np.abs(self.wanted).max()
        if not error <= TOLERANCE:
            raise ValueError(f"a result differs from NumPy's by {error}")
        return launch


def problem_of(text: str, name: str) -> Problem:
    """Return the problem of a model on a device. Raises ValueError if the model is not one
    statement there."""
    options = make_options(places=(f"{name}/f32", "host"))
    header = '<ir_version: 8, opset_import: ["": 17]> case '
    source = open_source(onnx.parser.parse_model(header + text))
    graph = source.graph({info.name: (*map(int, info.shape),) for info in source.inputs})
    stages = [
        (stage, [step for step in steps if not isinstance(step, EmitDeviceKernelsPass)])
        for stage, steps in pipeline(options)
    ]
    module = lower(graph, options, start=graph.stage, stop="tile", stages=stages).stages["tile"]
    kernels = [op for op in module.ops if isinstance(op, KernelOp) and op.device is not None]
    for op in kernels:
        TileFuseMapsPass().rewrite(op, targets.resolve("native"))
    if len(kernels) != 1 or len(kernels[0].statements) != 1:
        raise ValueError(f"the model is not one statement on {name}")
    [kernel] = kernels
    random = np.random.default_rng(0)
    shapes = [known_all(shape_of(value)) for value in kernel.body.block.args]
    arguments = [random.standard_normal(shape, np.float32) for shape in shapes]
    [wanted] = Interpreter(graph.weights).block(kernel.body.block, arguments)
    emitter = emitter_of(name)
    assert isinstance(emitter, TreeEmitter)
    return Problem(kernel, arguments, wanted, device(name), emitter)


def measure(case: str, name: str, others: int, repeat: int, seed: int) -> Figures:
    """Measure the chosen tile and ``others`` others, in turns."""
    problem = problem_of(CASES[case], name)
    found = problem.found
    fitting = [tile for tile, score in found.scores.items() if score != OVER]
    rivals = [tile for tile in fitting if tile != found.chosen]
    drawn = random.Random(seed).sample(rivals, min(others, len(rivals)))
    launchers = {tile: problem.launcher(problem.source(tile)) for tile in (found.chosen, *drawn)}
    times: dict[Tile, list[float]] = {tile: [] for tile in launchers}
    for _ in range(repeat):
        for tile, launch in launchers.items():
            start = time.perf_counter()
            launch()
            times[tile].append(time.perf_counter() - start)
    seconds = {tile: median(each) for tile, each in times.items()}
    chosen = seconds.pop(found.chosen)
    best = min(seconds, key=seconds.__getitem__)
    return Figures(case, chosen, found.chosen, seconds[best], best, len(drawn))


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    command = Command("device_tiles", "Measure the tile that the search chooses on a device.")
    command.add_names("case", CASES)
    command.add_argument("--device", default="opencl", help="(default: opencl)")
    command.add_argument("--others", type=int, default=30, help="other tiles (default: 30)")
    command.add_argument("--seed", type=int, default=0, help="of the other tiles (default: 0)")
    command.add_repeat(15)
    options = command.parse(arguments)
    where = show_machine()
    rows: list[Figures] = []
    for name in options.names:
        row = measure(name, options.device, options.others, options.repeat, options.seed)
        rows.append(row)
        print(row, flush=True)
    figures = [asdict(row) | {"ratio": row.ratio} for row in rows]
    write_figures(options.json, where, device=options.device, rows=figures)
    return 0


if __name__ == "__main__":
    sys.exit(main())
