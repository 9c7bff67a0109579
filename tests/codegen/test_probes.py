"""The loops that a machine is measured with, as instructions."""

from __future__ import annotations

import re

import pytest

from bench.assembly import spills
from tessella.codegen.llvm import assembly
from tessella.codegen.probes import BESIDE, BLOCK, CHAIN, accumulators, probe_texts
from tessella.targets import Target
from tessella.targets.table import TARGETS

FMA = {"avx512": r"vfmadd\w*ps", "avx2": r"vfmadd\w*ps", "sse": r"mulps", "neon": r"fml[as]"}
LOAD = {"x86": r"v?(?:mov[au]|add)ps\t\S*\(\S*\), %[xyz]mm", "arm": r"ldu?r\tq"}
STORE = {"x86": r"v?mov[au]ps\t%[xyz]mm\d+, \S*\(", "arm": r"stu?r\tq"}


@pytest.fixture(scope="module", params=TARGETS.values(), ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    return request.param


@pytest.fixture(scope="module")
def texts(target: Target) -> dict[str, str]:
    """The assembly of each probe."""
    return {name: assembly(text, target) for name, text in probe_texts(target).items()}


def loops(text: str) -> list[str]:
    """Return the instructions between a label and the branch back to it, each loop once."""
    found = re.findall(r"^(\.LBB\d+_\d+):((?:(?!^\.LBB).)*?\1)$", text, re.MULTILINE | re.DOTALL)
    return [body for _, body in found]


def waits(body: str, instruction: str) -> bool:
    """Return whether each instruction of a kind reads what the one before it wrote: the register
    that AArch64 names first, x86 last."""
    lines = re.findall(rf"\b{instruction}\s+(.*)$", body, re.MULTILINE)
    read = [re.findall(r"\bv\d+|%[xyz]mm\d+", line) for line in lines]
    written = [each[0 if "v" in each[0] else -1] for each in read]
    return all(one in after for one, after in zip(written, read[1:], strict=False))


def test_nothing_is_called_or_spilled(texts: dict[str, str]) -> None:
    for name, text in texts.items():
        assert not re.search(r"\b(callq?|bl)\b", text), name
        assert spills(text)[name].registers == 0, name
        assert loops(text), name


def test_every_accumulator_takes_part(target: Target, texts: dict[str, str]) -> None:
    for body in loops(texts["multiply_adds"]):
        assert len(re.findall(FMA[target.name], body)) % accumulators(target) == 0
        assert not waits(body, FMA[target.name])


def test_accumulators_hide_the_latency(target: Target) -> None:
    assert accumulators(target) >= target.fma_ports * target.fma_latency


def test_chains_are_not_shortened(target: Target, texts: dict[str, str]) -> None:
    for body in loops(texts["multiply_add_chain"]):
        assert len(re.findall(FMA[target.name], body)) % CHAIN == 0
        assert waits(body, FMA[target.name])
    for body in loops(texts["integer_chain"]):
        chain = re.findall(r"\t(?:addq|add|xorq|eor)\t(?!.*[$#])", body)
        turns = len(re.findall(FMA[target.name], body)) // BESIDE
        assert len(chain) == CHAIN * turns > 0


def test_memory_is_touched_as_often_as_it_says(target: Target, texts: dict[str, str]) -> None:
    wanted = {"read_memory": (1, 0), "write_memory": (0, 1), "copy_memory": (1, 1)}
    wanted["add_memory"] = (2, 1)
    for name, (loads, stores) in wanted.items():
        for body in loops(texts[name]):
            assert len(re.findall(LOAD[target.arch], body)) == loads * BLOCK, name
            assert len(re.findall(STORE[target.arch], body)) == stores * BLOCK, name
