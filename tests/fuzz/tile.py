"""Random Tile programs, statements under random schedules, and nests, against their points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np

import tessella
from tessella import targets
from tessella.dialects.printing import to_text
from tessella.support.conditions import UndecidedSizeError
from tessella.support.errors import ResourceError, TileError
from tests.codegen.harness import EMULATED
from tests.frontends.tile import points
from tests.frontends.tile.checks import same
from tests.fuzz.fuzzer import TARGETS, Fuzzer
from tests.generators.nests import (
    Nested,
    nested,
    with_chosen_loops,
    with_sums_in_steps,
    with_windows,
)
from tests.generators.open_sizes import CLOSED, open_sizes
from tests.generators.schedules import Fences, Prepared, prepare
from tests.generators.tile_programs import Sketch, sketch
from tests.generators.tile_statements import statement

# ** programs **


@dataclass(frozen=True)
class Trial:
    """A Tile program, and what it is compiled for."""

    sketch: Sketch
    target: str
    more: Sequence[int] = ()
    """How much longer the dimensions are in further calls."""


def draw_program(random: Random) -> Trial:
    """A program on small tensors, or on some that are longer than vectors."""
    seed, target = random.getrandbits(32), random.choice(TARGETS)
    more = random.sample((1, 2, 3, 5), random.choice((0, 0, 3)))
    if random.random() < 0.25:
        return Trial(sketch(seed, random.choice((1, 2)), 40), target, more)
    return Trial(sketch(seed, random.choice((1, 2, 3, 4))), target, more)


def check_program(trial: Trial) -> str:
    """Compiled, it gives what the trying of all points gives, to the bit; so it does for other
    sizes of its inputs, which are open from the second ones on."""
    program = tessella.tile(trial.sketch.source, target=trial.target)
    _check_call(program, trial.sketch.arrays)
    for more in trial.more:
        arrays = [_resized(array, more) for array in trial.sketch.arrays]
        try:
            program.lower(*arrays)
        except (TileError, ResourceError):
            continue
        _check_call(program, arrays)
    return "right"


def _check_call(program: tessella.TileProgram, arrays: Sequence[points.Array]) -> None:
    with np.errstate(all="ignore"):
        wanted = list(points.run(program.source, *arrays).values())
    got = program(*arrays)
    for result, want in zip(got if isinstance(got, tuple) else (got,), wanted, strict=True):
        same(result, want)


def _resized(array: points.Array, more: int) -> points.Array:
    """The elements again and again, in dimensions that are so much longer; those of 1 stay."""
    return np.resize(array, [size + more if size > 1 else size for size in array.shape])


def save_program(trial: Trial, folder: Path) -> None:
    """The program and its arrays."""
    (folder / "program.tile").write_text(f"{trial.sketch.source}\n")
    np.savez(folder / "inputs.npz", *trial.sketch.arrays)


# ** statements **

OPEN = 0.7
"""The share of statements and nests whose sizes are open."""
KERNEL_TARGETS = [*TARGETS, *(target.name for target in EMULATED)]
"""The targets whose kernels this machine runs."""


@dataclass(frozen=True)
class Undecided:
    """A case that can only be compiled for numbers."""

    reason: str


def draw_statement(random: Random) -> Prepared | Undecided:
    """A statement of the `tile` dialect with any schedule that it may have; mostly, sizes of it are
    open."""
    target = targets.get(random.choice(KERNEL_TARGETS))
    sizes = open_sizes(random) if random.random() < OPEN else CLOSED
    try:
        return prepare(random, statement(random, sizes), target)
    except UndecidedSizeError as error:
        return Undecided(str(error))


def check_statement(prepared: Prepared | Undecided) -> str:
    """It gives what its points give, and touches nothing else."""
    if isinstance(prepared, Undecided):
        return "undecided"
    if not prepared.is_small:
        return "too large"
    fences = Fences()
    prepared.check(fences.place)
    fences.check()
    return "right"


def save_statement(prepared: Prepared, folder: Path) -> None:
    """The kernel and its arrays."""
    head = f"// {prepared.target.name} {prepared.statement.sizes.runs} {prepared.threads}"
    (folder / "kernel.mlir").write_text(f"{head}\n{to_text(prepared.module)}\n")


# ** nests **

NESTS = (nested, with_windows, with_sums_in_steps, with_chosen_loops)
"""How nests are drawn."""


def draw_nest(random: Random) -> Nested | Undecided:
    """A kernel whose statements share loops; mostly, sizes of it are open."""
    target = targets.get(random.choice(KERNEL_TARGETS))
    sizes = open_sizes(random) if random.random() < OPEN else CLOSED
    try:
        make = random.choice(NESTS)
        return make(random, target, sizes) or nested(random, target, sizes)
    except UndecidedSizeError as error:
        return Undecided(str(error))


def check_nest(made: Nested | Undecided) -> str:
    """It gives what its statements mean, and touches nothing else."""
    if isinstance(made, Undecided):
        return "undecided"
    try:
        made.check()
    except UndecidedSizeError:
        return "undecided"
    return "right"


def save_nest(made: Nested, folder: Path) -> None:
    """The kernel."""
    head = f"// {made.target.name} {made.sizes.runs} {made.threads}"
    (folder / "kernel.mlir").write_text(f"{head}\n{to_text(made.module)}\n")


PROGRAM_FUZZER = Fuzzer(
    "tile",
    "Random Tile programs, against their points.",
    draw_program,
    check_program,
    save_program,
    sample=24,
)
STATEMENT_FUZZER = Fuzzer(
    "statements",
    "Random schedules of statements, against their points.",
    draw_statement,
    check_statement,
    save_statement,
    sample=60,
)
NEST_FUZZER = Fuzzer(
    "nests",
    "Random kernels whose statements share loops, against their points.",
    draw_nest,
    check_nest,
    save_nest,
    sample=30,
)
