"""Cost estimates for NumPy kernels: interpreter calls, arithmetic, and memory.

Work is counted in cycles, which vary less between machines than seconds. Costs that depend on
vector width or on the BLAS are derived from the target. ``bench/host.py`` compares estimates with
times.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from xdsl.dialects.builtin import AnyFloat

from tessella.dialects.nn.attention import AttentionOp
from tessella.dialects.nn.core import NnOp, shape_of, tensor_type
from tessella.kernels.cost import CANDIDATES, bytes_of, moving
from tessella.support.sizes import Size, estimated, product
from tessella.targets import Target

START = 8000
"""Cycles to start a NumPy kernel and store its result in the program's table."""
CALL = 4000
"""Cycles of one call into NumPy from Python."""
PADDING = 15
"""The number of calls that ``np.pad`` makes."""
PRODUCT_RATE = 0.5
"""The fraction of the peak that NumPy's BLAS reaches with large matrices."""
OWN_LOOP = 5.0
"""Cycles of a multiply-add in NumPy's own loops, used for integers and products with one
summand."""
SMOOTH = 28.0
"""Cycles of exp on a vector of f64, casts from and to f32 included."""
FAULT = 1500
"""Cycles to fault in a fresh page of zeroed memory."""
FRESH = 32 << 20
"""Bytes from which an array always occupies fresh memory: the allocator's largest threshold."""

Cycles = Callable[[NnOp, Target], float]
"""``cycles(op, target)``: the cycles of the calls and the arithmetic of an op's NumPy kernel."""


@dataclass(frozen=True)
class SweepWork:
    """The calls and the arithmetic of a kernel that sweeps over arrays."""

    calls: float = 1
    cycles: float = 0.3
    """Cycles of each operation, including cache traffic."""
    temporaries: int = 0
    """Bytes of temporary arrays for each operation."""

    def __call__(self, op: NnOp, target: Target) -> float:
        operations = estimated(
            op.operations
        )  # symbolic if the op is a loop and its function has symbols
        return self.calls * CALL + self.cycles * operations + self.faults(operations, target)

    def faults(self, operations: int, target: Target) -> float:
        """Return the cycles to fault in the pages of temporary arrays."""
        size = self.temporaries * operations
        return FAULT * size / target.page if size >= FRESH else 0.0


@dataclass(frozen=True)
class Smooth(SweepWork):
    """The work of a kernel that computes functions like exp in f64, counted in vectors of f64."""

    calls: float = 3
    cycles: float = 1.0
    """Cycles of each operation, relative to an exp."""
    temporaries: int = 16

    def __call__(self, op: NnOp, target: Target) -> float:
        each = self.cycles * SMOOTH / target.lanes(64)
        return SweepWork(self.calls, each, self.temporaries)(op, target)


@dataclass(frozen=True)
class WindowSweep(SweepWork):
    """Work that sweeps over the result once for each position of a window."""

    padded: int = 1
    """The number of arrays that the kernel pads."""

    def __call__(self, op: NnOp, target: Target) -> float:
        positions = estimated(product(_window(op)))
        calls = PADDING * self.padded + self.calls * positions
        return SweepWork(calls, self.cycles)(op, target)


def _window(op: NnOp) -> tuple[Size, ...]:
    """Return the extents of the window that an op moves over its operand."""
    settings = op.settings
    return settings["kernel_shape"] if "kernel_shape" in settings else shape_of(op.operands[1])[2:]


def _product(op: NnOp, target: Target) -> float:
    return 2 * CALL + estimated(op.operations) * _multiply_add(op, _summands(op), target)


def _convolution(op: NnOp, target: Target) -> float:
    """Return the cycles of a convolution, which has a matrix product and a sum for each position of
    the window."""
    positions = estimated(product(_window(op)))
    swept = positions * estimated(product(shape_of(op.results[0])))
    calls = PADDING + 6 + 4.5 * positions
    summands = shape_of(op.operands[0])[1] // op.settings["groups"]
    arithmetic = estimated(op.operations) * _multiply_add(op, summands, target)
    return calls * CALL + swept + arithmetic


def _attention(op: NnOp, target: Target) -> float:
    assert isinstance(op, AttentionOp)
    scores = estimated(product(op.scores_shape))
    softmax = 12 * CALL + 1.5 * scores * SMOOTH * 2 / target.lanes(64)
    summands = shape_of(op.q)[-1]
    return softmax + estimated(op.operations) * _multiply_add(op, summands, target)


def _summands(op: NnOp) -> Size:
    return next((shape_of(op.operands[i])[dim] for i, dim in op.contracted.items()), 1)


def _multiply_add(op: NnOp, summands: Size, target: Target) -> float:
    """Return the cycles of one multiply-add in a product."""
    element = tensor_type(op.results[0]).element_type
    if not isinstance(element, AnyFloat) or summands == 1:
        return OWN_LOOP
    bits = max(32, element.bitwidth)  # Narrower floats are widened.
    return 1 / (PRODUCT_RATE * target.fma_ports * target.lanes(bits))


def _sort(op: NnOp, target: Target) -> float:
    axis: int = op.settings["axis"]
    extent = estimated(shape_of(op.operands[0])[axis])
    return SweepWork(9, 11 * math.log2(max(2, extent)))(op, target)


def _suppression(op: NnOp, target: Target) -> float:
    """Return the cycles of a selection of boxes: each selected box is compared with all remaining
    candidates."""
    batches, classes, boxes = map(estimated, shape_of(op.operands[1]))
    kept = min(estimated(op.settings["room"]), CANDIDATES * boxes)
    return batches * classes * (10 * CALL + kept * (30 * CALL + 20 * CANDIDATES * boxes))


def _regions(op: NnOp, target: Target) -> float:
    """Return the cycles of sampling regions: the elements around the points are gathered one region
    after the other."""
    samples = estimated(op.settings["samples"]) or 2
    points = estimated(product(shape_of(op.results[0]))) * samples**2
    return estimated(shape_of(op.operands[1])[0]) * 80 * CALL + 4 * 10.0 * points


def _pooled_regions(op: NnOp, target: Target) -> float:
    """Return the cycles of maxima over regions. The estimate assumes a few calls for each part of a
    region, and parts of a quarter of the image."""
    count = estimated(shape_of(op.operands[1])[0])
    parts = estimated(product(op.settings["sizes"]))
    pixels = estimated(product(shape_of(op.operands[0])[1:])) / 4
    return count * (20 * CALL + parts * 6 * CALL + pixels)


def _trees(op: NnOp, target: Target) -> float:
    """Return the cycles of tree ensembles: a few calls for each step through each tree."""
    settings = op.settings
    steps = settings["trees"] * (settings["levels"] + 1)
    return steps * (6 * CALL + 40.0 * estimated(shape_of(op.operands[0])[0]))


def _by_index(calls: float, cycles: float, lines: int) -> Cycles:
    """Return the cost function of a gather or scatter: ``calls`` calls into NumPy, and ``cycles``
    for each index. An index also loads ``lines`` cache lines if the data is beyond the second
    cache level."""

    def estimate(op: NnOp, target: Target) -> float:
        size = bytes_of(op.operands[0])
        missed = lines * target.cache_line / target.bandwidth(size) if target.is_far(size) else 0.0
        count = estimated(product(shape_of(op.operands[1])))
        return calls * CALL + count * (cycles + missed)

    return estimate


PLAIN = SweepWork()
REDUCED = SweepWork(2, 1.8)
NORMALIZED = SweepWork(12, 11.0, 40)
BY_ELEMENT = SweepWork(4, 200.0)
"""The work of a kernel that calls a Python function for each element."""

_LOGARITHMS = ("nn.log", "nn.log2", "nn.log10")

HOST_CYCLES: Mapping[str, Cycles] = {
    **dict.fromkeys(("nn.relu", "nn.clip", "nn.sqrt"), SweepWork(1, 1.1)),
    **dict.fromkeys(("nn.exp", *_LOGARITHMS, "nn.sin", "nn.cos"), Smooth()),
    **dict.fromkeys(("nn.tanh", "nn.tan", "nn.asin", "nn.acos", "nn.atan"), Smooth(cycles=1.2)),
    **dict.fromkeys(("nn.sinh", "nn.cosh", "nn.asinh", "nn.acosh", "nn.atanh"), Smooth(cycles=2)),
    **dict.fromkeys(("nn.sigmoid", "nn.silu", "nn.softplus"), Smooth(5, 1.5, 32)),
    "nn.gelu_tanh": Smooth(10, 3, 64),
    **dict.fromkeys(("nn.erf", "nn.gelu"), BY_ELEMENT),
    "nn.pow": SweepWork(1, 7.0),
    "nn.quantize": SweepWork(9, 6.0, 24),
    "nn.dequantize": SweepWork(5, 1.3, 12),
    **dict.fromkeys(("nn.mod", "nn.fmod"), SweepWork(1, 24.0)),
    **dict.fromkeys(("nn.reduce_sum", "nn.reduce_prod", "nn.reduce_mean"), REDUCED),
    **dict.fromkeys(("nn.reduce_max", "nn.reduce_min"), REDUCED),
    **dict.fromkeys(("nn.arg_max", "nn.arg_min"), SweepWork(2, 0.7)),
    **dict.fromkeys(("nn.softmax", "nn.log_softmax"), Smooth(7, 3.0, 40)),
    **dict.fromkeys(("nn.layer_norm", "nn.rms_norm", "nn.group_norm"), NORMALIZED),
    "nn.batch_norm": SweepWork(8, 6.0, 32),
    "nn.lrn": SweepWork(14, 16.0, 40),
    **dict.fromkeys(("nn.cumsum", "nn.cumprod", "nn.cummax", "nn.cummin"), SweepWork(3, 13.0, 8)),
    "nn.transpose": SweepWork(1, 1.5),
    **dict.fromkeys(("nn.gather", "nn.gather_nd"), _by_index(5, 10.0, 0)),
    "nn.gather_elements": _by_index(7, 16.0, 3),
    **dict.fromkeys(("nn.scatter_elements", "nn.scatter_nd"), _by_index(8, 44.0, 6)),
    **dict.fromkeys(("nn.topk", "nn.unique"), _sort),
    **dict.fromkeys(("nn.string_concat", "nn.string_match", "nn.string_find"), BY_ELEMENT),
    **dict.fromkeys(("nn.string_split", "nn.string_normalize", "nn.string_tokens"), BY_ELEMENT),
    "nn.count_ngrams": BY_ELEMENT,
    "nn.non_max_suppression": _suppression,
    "nn.roi_align": _regions,
    "nn.max_roi_pool": _pooled_regions,
    "nn.tree_ensemble": _trees,
    "nn.max_pool": WindowSweep(4, 3.0),
    "nn.avg_pool": WindowSweep(7, 6.0, padded=3),
    **dict.fromkeys(("nn.matmul", "nn.fc"), _product),
    **dict.fromkeys(("nn.conv", "nn.conv_transpose"), _convolution),
    "nn.attention": _attention,
    "nn.pad": SweepWork(PADDING),
    "nn.resize": SweepWork(20, 12.0, 24),
}
"""The cost function of each op's NumPy kernel, by op name; other ops use ``PLAIN``."""


def host_seconds(op: NnOp, target: Target) -> float:
    """Return the seconds of an op's NumPy kernel."""
    own = HOST_CYCLES.get(op.name, PLAIN)(op, target)
    written = sum(map(bytes_of, op.results))
    read = sum(map(bytes_of, op.operands))
    # Loads overlap with arithmetic.
    hidden = min(own, PLAIN.cycles * estimated(op.operations)) / (target.ghz * 1e9)
    computing = (START + own) / (target.ghz * 1e9)
    return computing + max(0.0, moving(read, written, target) - hidden)
