"""Runs random Tile programs on memory that ends, or begins, at a page that nobody may touch.

A read or write beyond it ends the process: run it as one of its own.

    python -m tests.frontends.tile.guarded avx2
"""

from __future__ import annotations

import sys

import numpy as np

import tessella
from tests.frontends.tile import points
from tests.frontends.tile.checks import same
from tests.generators.tile_programs import Sketch, sketch
from tests.lowering.guarded import guarded_runtime
from tests.native import RUNNABLE
from tests.sampling import alternate
from tests.shared_kernels import share

COUNT = 40


def run(made: Sketch, target: str) -> None:
    """Compare with the points, on guarded memory."""
    with np.errstate(all="ignore"):
        wanted = list(points.run(made.source, *made.arrays).values())
    with guarded_runtime() as (end, begin, outputs):
        model = tessella.tile(made.source, target=target).lower(*made.arrays).compile()
        names = [info.name for info in model.inputs]
        for memory in (end, begin):
            outputs.memory = memory
            guarded = [memory.copy(array) for array in made.arrays]
            got = model.run(None, dict(zip(names, guarded, strict=True)))
            for result, want in zip(got, wanted, strict=True):
                same(result, want)
            memory.check()


def main(target: str) -> None:
    """Run the programs; the one that is running comes last."""
    for seed in alternate(range(COUNT), RUNNABLE.index(target)):
        made = sketch(seed, 2)
        print(seed, made, flush=True)
        run(made, target)
    print("done")


if __name__ == "__main__":
    share()
    main(sys.argv[1])
