"""Records of programs in which a step defines a symbol: which fields may depend on it."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tessella.runtime.manifest import Blob, ProgramRecord, _verify_program
from tessella.runtime.program import HostStep
from tessella.runtime.records import decoded, encoded
from tessella.runtime.specs import Constant, TensorSpec
from tessella.runtime.symbols import DefinedSymbol, Dimension, GivenSymbol
from tessella.runtime.trim_steps import TrimStep
from tessella.support.sizes import Size, Symbol

N, K = Symbol("n", 0, 1 << 20), Symbol("k", 0, 1 << 20)
WEIGHTS = [Blob(8, "", 0)]


def spec(*shape: Size) -> TensorSpec:
    return TensorSpec(shape, np.dtype(np.int64))


FINDS = HostStep("nn.abs", "finds", (0,), (1,), {}, (spec(K.size),))
ADDS = HostStep("nn.add", "adds", (1, 3), (2,), {}, (spec(K.size),))
DEFINED = DefinedSymbol(K, 1, 0, N.size)
RECORD = ProgramRecord(
    1,
    (FINDS, ADDS),
    (2,),
    {3: Constant(0, spec(K.size))},
    (0,),
    {},
    (),
    (Dimension(N, 0, 0), DEFINED),
)


CUT = TrimStep("cuts", 0, 1, 2, spec(K.size))
CUTS = ProgramRecord(
    2, (CUT,), (2,), {}, (), {}, (), (Dimension(N, 0, 0), DefinedSymbol(K, 2, 0, N.size))
)


def defined(**changes: object) -> ProgramRecord:
    """The record with another definition."""
    return replace(RECORD, symbols=(RECORD.symbols[0], replace(DEFINED, **changes)))


def test_a_record_keeps_where_symbols_are_defined() -> None:
    for each in (RECORD, CUTS):
        _verify_program(each, WEIGHTS, None)
        assert decoded(ProgramRecord, json.loads(json.dumps(encoded(each)))) == each
    record = replace(RECORD, symbols=(*RECORD.symbols, GivenSymbol(Symbol("m", 1, 2))))
    assert decoded(ProgramRecord, json.loads(json.dumps(encoded(record)))) == record


@pytest.mark.parametrize(
    "record, message",
    [
        (lambda: replace(RECORD, steps=(ADDS, FINDS)), "reads what no step before it gives"),
        (lambda: replace(RECORD, steps=(replace(FINDS, inputs=(3,)), ADDS)), "no step before"),
        (lambda: replace(RECORD, steps=(replace(FINDS, specs=None), ADDS)), "cannot define"),
        (lambda: defined(axis=1), "no dimension of a result"),
        (lambda: defined(value=2), "depends on what is no symbol"),
        (lambda: defined(value=9), "depends on what is no symbol"),
        (lambda: defined(most=K.size), "depends on what is no symbol"),
        (lambda: replace(RECORD, symbols=(*RECORD.symbols, DEFINED)), "has two values"),
        (lambda: replace(CUTS, symbols=CUTS.symbols[:1]), "defines no symbol"),
        (lambda: replace(CUTS, steps=(replace(CUT, count=7),)), "reads what no step"),
        (lambda: replace(CUTS, steps=(replace(CUT, spec=spec()),)), "no dimension of a result"),
        (lambda: replace(CUTS, steps=(replace(CUT, spec=spec(K.size, -1)),)), "negative"),
        (
            lambda: replace(
                CUTS,
                steps=(replace(CUT, spec=spec(4, K.size)),),
                symbols=(CUTS.symbols[0], replace(CUTS.symbols[1], axis=1)),
            ),
            "another dimension than the first",
        ),
    ],
)
def test_a_symbol_is_known_once_its_step_has_run(
    record: Callable[[], ProgramRecord], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        _verify_program(record(), WEIGHTS, None)
