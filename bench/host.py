"""Compare estimated costs of NumPy kernels with measured times.

    OPENBLAS_NUM_THREADS=1 python -m bench.host [TEXT ...] --json results.json

Each kernel runs as in a program, on arrays that stay in the caches.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from time import thread_time
from typing import Any

import numpy as np
from xdsl.ir import Block

from bench.command import Command, show_machine, write_figures
from tessella import targets
from tessella.dialects import nn
from tessella.dialects.nn.core import NnOp, dtype_of, type_of
from tessella.kernels.host_cost import FRESH, host_seconds
from tessella.runtime import host
from tessella.tools.measure import Array, geometric_mean

GOAL = 2.0
"""The acceptable factor of an estimate's error."""
TURNS, TURN = 5, 0.003
"""Turns, the fastest of which counts, and seconds of a turn."""

WINDOW: dict[str, Any] = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1)}
POOL: dict[str, Any] = {
    "kernel_shape": (3, 3),
    "strides": (2, 2),
    "pads": (1,) * 4,
    "dilations": (1, 1),
    "ceil_mode": False,
}


@dataclass(frozen=True)
class Case:
    """An op on operands of these shapes; ``indices`` are the operands that are row numbers."""

    kind: type[NnOp]
    shapes: Sequence[tuple[int, ...]]
    settings: Mapping[str, Any] = field(default_factory=dict[str, Any])
    indices: Sequence[int] = ()

    def arrays(self) -> list[Array]:
        """Return operands: positive numbers, and rows of the first operand."""
        rng, rows = np.random.default_rng(0), self.shapes[0][0]
        return [
            rng.integers(0, rows, shape)
            if i in self.indices
            else (rng.random(shape) + 0.1).astype(np.float32)
            for i, shape in enumerate(self.shapes)
        ]


def _sized(size: int) -> dict[str, Case]:
    """Return ops on ``size`` elements, some of them in rows of 64."""
    flat, rows = (size,), (size // 64, 64)
    unary = (nn.ReluOp, nn.SqrtOp, nn.ExpOp, nn.TanhOp, nn.SigmoidOp, nn.ErfOp)
    binary = (nn.AddOp, nn.DivOp, nn.PowOp, nn.LessOp)
    reductions = (nn.ReduceSumOp, nn.ReduceMeanOp, nn.ReduceMaxOp)
    listed = [
        *(Case(kind, [flat]) for kind in unary),
        *(Case(kind, [flat, flat]) for kind in binary),
        *(Case(kind, [rows], {"axes": (1,), "keepdims": False}) for kind in reductions),
        Case(nn.ArgMaxOp, [rows], {"axis": 1, "keepdims": False, "select_last_index": False}),
        Case(nn.SoftmaxOp, [rows], {"axis": 1}),
        Case(nn.LayerNormOp, [rows, (64,), (64,)], {"axis": 1, "epsilon": 1e-5}),
        Case(nn.CumsumOp, [rows], {"axis": 1, "exclusive": False, "reverse": False}),
        Case(nn.TopkOp, [rows], {"k": 8, "axis": 1, "largest": True}),
        Case(nn.TransposeOp, [rows], {"perm": (1, 0)}),
        Case(nn.ConcatOp, [rows, rows], {"axis": 1}),
        Case(nn.GatherOp, [rows, rows[:1]], {"axis": 0}, [1]),
        Case(nn.GatherElementsOp, [rows, rows], {"axis": 0}, [1]),
        Case(nn.ScatterElementsOp, [rows, rows, rows], {"axis": 0, "reduction": "add"}, [1]),
    ]
    return {f"{case.kind.name} {size}": case for case in listed}


def _on_images(channels: int, size: int) -> dict[str, Case]:
    image, groups = (1, channels, size, size), {"groups": 1}
    listed = {
        "conv 3x3": Case(nn.ConvOp, [image, (channels, channels, 3, 3)], {**WINDOW, **groups}),
        "depthwise": Case(nn.ConvOp, [image, (channels, 1, 3, 3)], {**WINDOW, "groups": channels}),
        "max pool": Case(nn.MaxPoolOp, [image], POOL),
        "average pool": Case(nn.AvgPoolOp, [image], {**POOL, "count_include_pad": False}),
    }
    return {f"{name} {channels}x{size}x{size}": case for name, case in listed.items()}


def _product(*sizes: int) -> dict[str, Case]:
    m, k, n = sizes
    case = Case(nn.MatmulOp, [(m, k), (k, n)], {"transpose_b": False})
    return {f"product {m}x{k}x{n}": case}


CASES: Mapping[str, Case] = {
    **_sized(64),
    **_sized(1 << 12),
    **_sized(1 << 17),
    **_product(8, 8, 8),
    **_product(64, 64, 64),
    **_product(512, 512, 512),
    **_product(1, 512, 512),
    **_on_images(8, 8),
    **_on_images(64, 56),
    **_on_images(256, 14),
}


@dataclass(frozen=True)
class Row:
    """A case with measured and estimated microseconds."""

    name: str
    measured: float
    estimated: float

    @property
    def ratio(self) -> float:
        """Estimated over measured."""
        return self.estimated / self.measured

    @property
    def factor(self) -> float:
        """The error factor of the estimate, at least 1."""
        return max(self.ratio, 1 / self.ratio)


def measure(name: str) -> Row:
    """Run a case."""
    case = CASES[name]
    arrays = case.arrays()
    op = case.kind.make(Block(arg_types=list(map(type_of, arrays))).args, **case.settings)
    dtypes = list(map(dtype_of, op.result_types))
    call = partial(host.run, op.name, arrays, op.settings, dtypes)
    estimated = host_seconds(op, targets.native())
    return Row(name, min(_seconds(call) for _ in range(TURNS)) * 1e6, estimated * 1e6)


def _seconds(call: Callable[[], object]) -> float:
    """Return the CPU seconds of one call on this thread, after an untimed one."""
    np.zeros(FRESH // 2, np.uint8)  # the allocator keeps memory after its first use
    call()
    start, count, elapsed = thread_time(), 0, 0.0
    while elapsed < TURN:
        call()
        count, elapsed = count + 1, thread_time() - start
    return elapsed / count


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = Command("host", "Compare the costs of NumPy kernels with times.")
    parser.add_names("case", CASES, str.__contains__)
    return parser.parse(arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print; return 1 if an estimate is wrong by more than ``GOAL``."""
    options = _parse(arguments)
    where = show_machine()
    rows = [measure(name) for name in options.names]
    print(f"\n{'':32}{'measured us':>12}{'estimated us':>14}{'ratio':>8}")
    for row in rows:
        print(f"{row.name:32}{row.measured:12.1f}{row.estimated:14.1f}{row.ratio:8.2f}")
    wrong = [row.name for row in rows if row.factor > GOAL]
    mean = geometric_mean([row.factor for row in rows])
    print(f"\ngeometric mean of the factors {mean:.2f}; beyond {GOAL:g}: {', '.join(wrong) or '-'}")
    write_figures(options.json, where, rows=[asdict(row) | {"ratio": row.ratio} for row in rows])
    return int(bool(wrong))


if __name__ == "__main__":
    raise SystemExit(main())
