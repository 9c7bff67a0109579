"""Random programs that use values again, before and after what fuses ops."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import StringAttr
from xdsl.passes import ModulePass

from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.dialects.interpret import interpret
from tessella.passes.base import PATTERN
from tessella.passes.eliminate_identities import EliminateIdentitiesPass
from tessella.passes.fold_batch_norm import FoldBatchNormPass
from tessella.passes.fold_constants import FoldConstantsPass
from tessella.passes.fuse_elementwise import FuseElementwisePass
from tessella.passes.fuse_patterns import FusePatternsPass
from tessella.passes.insert_conversions import InsertConversionsPass
from tessella.passes.patterns import PATTERNS
from tessella.passes.patterns.nodes import AnyValue, Node, op
from tessella.passes.pick_kernels import PickKernelsPass
from tests.generators.pattern_programs import Unsuited, inputs, spelled
from tests.passes.harness import apply
from tests.sampling import sampled

PROGRAMS = sampled(80)
"""For each fusion, and more until it has been applied ``APPLIED`` times."""
APPLIED = sampled(8)
MOST = 200 * APPLIED


@dataclass(frozen=True)
class Fusion:
    """A spelling of a fusion, and the passes that apply it."""

    roots: Sequence[Sequence[Node]]
    """The roots of each of its patterns."""
    passes: Sequence[ModulePass]
    dtype: npt.DTypeLike = np.float64


def _patterns() -> dict[str, Fusion]:
    found: dict[str, list[Sequence[Node]]] = {}
    for pattern in PATTERNS:
        found.setdefault(pattern.name, []).append((pattern.root, *pattern.others))
    return {name: Fusion(roots, [FusePatternsPass(only=(name,))]) for name, roots in found.items()}


_ARITHMETIC = (nn.AddOp, nn.SubOp, nn.MulOp, nn.DivOp)
_SCALED = op(_ARITHMETIC, op(nn.MatmulOp, AnyValue("x"), AnyValue("w")), AnyValue("c"))
_MAPS = op(
    _ARITHMETIC,
    op((nn.ExpOp, nn.NegOp), op(_ARITHMETIC, AnyValue("x"), AnyValue("y"))),
    AnyValue("z"),
)

FUSIONS = {
    **_patterns(),
    "fold-batch-norm": Fusion(
        [(_SCALED,), (op(_ARITHMETIC, _SCALED, AnyValue("d")),)], [FoldBatchNormPass()]
    ),
    "fused": Fusion(
        [(_MAPS,), (op(_ARITHMETIC, _MAPS, AnyValue("y")),)],
        [PickKernelsPass(), InsertConversionsPass(), FuseElementwisePass()],
        np.float32,
    ),
}
ALL = (
    EliminateIdentitiesPass(), FusePatternsPass(), FoldBatchNormPass(), FoldConstantsPass(),
    EliminateIdentitiesPass(),
)  # fmt: skip


def applied(graph: Graph) -> set[str]:
    """Return the names of patterns and groups that made the ops of a program."""
    made = list(graph.module.walk())
    found = (op.attributes.get(PATTERN) for op in made)
    groups = {"fused" for op in made if isinstance(op, nn.FusedOp)}
    return {name.data for name in found if isinstance(name, StringAttr)} | groups


def check(seed: int, fusion: Fusion, count: int = 1) -> set[str]:
    """Assert that a random program computes the same after the passes; what they applied."""
    random = Random(seed)
    roots = random.choices(fusion.roots, k=count)
    arrays = inputs(random, fusion.dtype)
    try:
        graph, before = (spelled(Random(seed), arrays, *roots) for _ in range(2))
    except Unsuited:
        return set()
    with np.errstate(all="ignore"):
        wanted = interpret(before, arrays)
        found = interpret(apply(graph, *fusion.passes), arrays)
    for y, expected in zip(found, wanted, strict=True):
        np.testing.assert_allclose(y, expected, rtol=1e-9, atol=1e-9)
    return applied(graph)


@pytest.mark.sweep
@pytest.mark.parametrize("name", FUSIONS)
def test_alone(name: str) -> None:
    count = seed = 0
    while seed < PROGRAMS or (count < APPLIED and seed < MOST):
        count += name in check(seed, FUSIONS[name])
        seed += 1
    assert count >= APPLIED


def test_together() -> None:
    """Several in one program, of which the later ones read what the earlier ones compute."""
    roots = [nodes for fusion in FUSIONS.values() for nodes in fusion.roots]
    names = [
        name for seed in range(8 * len(FUSIONS)) for name in check(seed, Fusion(roots, ALL), 3)
    ]
    assert len(set(names)) > len(FUSIONS) // 2
