"""Models that a process compiles and runs, as one of several in a row that share a cache folder.

    python -m tests.driver.rounds 'open nodes 0'

prints, as JSON, what was wrong, and how many programs were compiled, which is none where all are in
the cache. A file that `write` has written may stand for the name of a collection.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from onnx.backend.test import BackendTest

import tessella
from tessella.codegen import kernel_cache
from tessella.driver.build import compile_graph as module
from tessella.frontends.onnx import backend
from tessella.frontends.onnx.backend import CompiledRep
from tessella.support.errors import UnsupportedError
from tests import garbage, shared_kernels
from tests.frontends.onnx.suite import (
    NETWORKS,
    SENTENCES,
    calls_of,
    node_cases,
    opened,
    rounded_often,
    runner_tests,
    wrong,
)
from tests.models import OPEN_FIXTURES, load_fixture, random_inputs, run_onnxruntime

ROOT = Path(__file__).parents[2]

EXPLAINED = 4
"""One model in so many is explained: that takes half as long as a compilation."""

Feeds = Mapping[str, Any]
Call = tuple[Feeds, Sequence[Any]]
"""Inputs, and the outputs that they should have."""
Check = tuple[str, Callable[[], str | None]]
"""The name of a case, and a function that runs it and returns why it failed."""


@dataclass(frozen=True)
class Case:
    """A model, and calls of it."""

    name: str
    model: bytes
    calls: Sequence[Call]
    dims: Any = "auto"
    rtol: float = 1e-5
    atol: float = 1e-6


@dataclass(frozen=True)
class Round:
    """The findings of one process."""

    wrong: Mapping[str, str]
    """By the name of the case."""
    compiled: Sequence[str]
    """The name of its case for each program that was compiled."""
    count: int
    """Of cases."""
    sizes: Sequence[str]
    """The explanations of the sizes of inputs, of some of the models that were compiled."""


def write(path: Path, cases: Iterable[Case]) -> None:
    """Write cases for other processes."""
    path.write_bytes(pickle.dumps([vars(case) for case in cases]))


def in_a_process(cases: str | Path, cache: Path) -> Round:
    """Run a collection, or the cases of a file, in a new process with this folder as cache."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.driver.rounds", str(cases)],
        env={**os.environ, "TESSELLA_CACHE": str(cache), "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return Round(**json.loads(done.stdout.splitlines()[-1]))


PARTS = 4
"""The number of processes that each suite is divided among: each compiles for a minute."""


def official(part: int) -> Iterator[Check]:
    """A part of the official tests of ONNX, as ONNX's own runner runs them. The weights of its
    networks would fill the disk."""
    tests = runner_tests(backend)
    for name in sorted(tests.keys() - NETWORKS)[part::PARTS]:
        yield name, lambda name=name: next(iter(wrong(tests, [name])), None)


def open_nodes(part: int) -> Iterator[Case]:
    """A part of the node suite with sizes that stay open."""
    for case in islice(node_cases(), part, None, PARTS):
        model, calls = calls_of(case)
        data = opened(model, joined=True).SerializeToString()
        yield Case(case.name, data, calls, {}, rounded_often(case))


def open_models() -> Iterator[Case]:
    """Exported networks with open dimensions, each with several sizes."""
    for name in OPEN_FIXTURES:
        proto = load_fixture(name)
        sizes = ({"batch": b, "seq": s, "past": p} for b, s, p in ((2, 9, 4), (3, 40, 17)))
        feeds = [random_inputs(proto, sizes=each) for each in sizes]
        calls = [(each, run_onnxruntime(proto, each)) for each in feeds]
        most = max(float(np.abs(y).max()) for _, found in calls for y in found)
        yield Case(name, proto.SerializeToString(), calls, {}, 0.0, 0.1 * most)


COLLECTIONS: Mapping[str, Callable[[], Iterable[Case]]] = {
    **{f"open nodes {part}": partial(open_nodes, part) for part in range(PARTS)},
    "open models": open_models,
}

OFFICIAL: Mapping[str, Callable[[], Iterable[Check]]] = {
    f"official tests {part}": partial(official, part) for part in range(PARTS)
}


def _read(path: str) -> Iterator[Case]:
    yield from (Case(**case) for case in pickle.loads(Path(path).read_bytes()))


def _checks(name: str, use: Callable[[tessella.Model], object]) -> Iterator[Check]:
    """The cases of a collection or a file, without those that are known to fail."""
    for case in COLLECTIONS[name]() if name in COLLECTIONS else _read(name):
        if case.name not in SENTENCES:
            yield case.name, partial(_wrong, case, use)


def _wrong(case: Case, use: Callable[[tessella.Model], object]) -> str | None:
    """Why a case failed; None where it did not, or where the model is not supported. A model that
    has run is used."""
    try:
        model = tessella.compile(case.model, dims=case.dims, threads=1)
        for feeds, expected in case.calls:
            found = CompiledRep(model).run(feeds)
            BackendTest.assert_similar_outputs(expected, found, case.rtol, case.atol)
        use(model)
    except UnsupportedError:
        return None
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None


def main(name: str) -> None:
    """Run the cases, and print the `Round`."""
    names, compiled, make = list[str](), list[str](), module.compile_graph

    def compile_graph(*args: Any) -> Any:
        compiled.append(names[-1])
        return make(*args)

    def note_sizes(model: tessella.Model) -> None:
        # a program from the cache would be lowered to explain it
        if compiled[-1:] == names[-1:] and len(names) % EXPLAINED == 0:
            sizes.extend(model.explain().sizes)

    garbage.collect_seldom()
    # what is compared are programs, which hold their code
    kernel_cache.FOLDER = shared_kernels.KEPT_ONLY
    module.compile_graph = compile_graph
    failed, sizes = dict[str, str](), list[str]()
    for case, check in OFFICIAL[name]() if name in OFFICIAL else _checks(name, note_sizes):
        names.append(case)
        if why := check():
            failed[case] = why
    print(json.dumps(vars(Round(failed, compiled, len(names), sizes))))


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main(sys.argv[1])
