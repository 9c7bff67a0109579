"""The table of targets, and how this machine is found."""

from __future__ import annotations

import dataclasses

import pytest

from tessella import targets
from tessella.support.errors import OptionError
from tessella.targets import Target, x86
from tessella.targets import machine as host_machine
from tessella.targets.machine import KNOB, cpu_flags, parse_flags, parse_size
from tessella.targets.table import ALIASES, FAMILIES, TARGETS


@pytest.mark.parametrize("name", targets.names())
def test_every_name_is_found(name: str) -> None:
    assert targets.get(name).name == ALIASES.get(name, name)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(OptionError) as caught:
        targets.get("AVX-512")
    assert "avx512, avx2, sse, neon" in str(caught.value)
    assert "did you mean 'avx512'?" in str(caught.value)
    with pytest.raises(OptionError) as caught:
        targets.get("zzz")
    assert caught.value.hint is None


def test_lanes() -> None:
    wide = targets.get("avx512")
    assert [wide.lanes(bits) for bits in (1, 8, 16, 32, 64)] == [64, 64, 32, 16, 8]
    assert targets.get("neon").lanes(32) == 4
    assert targets.get("neon").lanes(256) == 1


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_facts_are_plausible(target: Target) -> None:
    assert target.arch in FAMILIES
    assert target.l1 < target.l2 < target.l3


def test_features_are_written_with_a_plus() -> None:
    target = dataclasses.replace(targets.get("avx512"), features=("avx512vnni", "avx512bf16"))
    assert target.feature_string == "+avx512vnni,+avx512bf16"


def test_host_can_run_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KNOB, raising=False)
    found = targets.native()
    assert targets.can_run(found)
    assert found.name in TARGETS


@pytest.mark.parametrize(
    "arch, flags, steady",
    [
        ("x86", "tsc constant_tsc nonstop_tsc", True),
        ("x86", "tsc constant_tsc", False),
        ("x86", "", False),
        ("arm", "", True),
    ],
)
def test_a_counter_is_steady_where_the_machine_says_so(
    arch: str, flags: str, steady: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_machine, "family", lambda: FAMILIES[arch])
    monkeypatch.setattr(host_machine, "cpu_flags", lambda: frozenset(flags.split()))
    assert host_machine.has_steady_counter() == steady


def test_the_knob_names_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    runnable = [t.name for t in TARGETS.values() if targets.can_run(t)]
    for name in runnable:
        monkeypatch.setenv(KNOB, name)
        assert targets.native().name == name
    foreign = next(t.name for t in TARGETS.values() if t.arch != targets.get(runnable[0]).arch)
    monkeypatch.setenv(KNOB, foreign)
    with pytest.raises(OptionError, match="cannot run") as caught:
        targets.native()
    assert f"{KNOB}={foreign}" in str(caught.value)
    monkeypatch.setenv(KNOB, "nonsense")
    with pytest.raises(OptionError, match="unknown target 'nonsense'"):
        targets.native()


def test_a_name_may_have_features() -> None:
    found = targets.get("avx512+avx512bf16+avx512vnni")
    assert (found.name, found.features) == ("avx512", ("avx512vnni", "avx512bf16"))
    assert targets.get("aarch64+i8mm").features == ("neon", "i8mm")
    with pytest.raises(OptionError, match=r"'avx2' has no feature 'avx512vnni'") as caught:
        targets.get("avx2+avx512vnni")
    assert "avxvnni" in str(caught.value)


LEVELS = {
    "avx512": x86.V4_FLAGS,
    "avx2": x86.V3_FLAGS,
    "sse": x86.V2_FLAGS,
}


@pytest.mark.parametrize("name", LEVELS)
def test_x86_levels_are_found_by_their_flags(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(KNOB, raising=False)
    monkeypatch.setattr(host_machine.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(host_machine, "cpu_flags", lambda: LEVELS[name] | {"avx512_vnni"})
    host_machine._detect.cache_clear()
    try:
        found = targets.native()
        assert found.name == name
        assert ("avx512vnni" in found.features) == (name == "avx512")
        # One flag too few, and the machine is of a lower level.
        monkeypatch.setattr(host_machine, "cpu_flags", lambda: LEVELS[name] - {"popcnt"})
        assert not targets.can_run(targets.get(name))
    finally:
        host_machine._detect.cache_clear()


@pytest.mark.parametrize(
    "machine,expected",
    [("AMD64", "sse"), ("x86_64", "sse"), ("arm64", "neon"), ("aarch64", "neon")],
)
def test_without_proc_the_host_is_the_least(
    machine: str, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KNOB, raising=False)
    monkeypatch.setattr(host_machine.platform, "machine", lambda: machine)
    monkeypatch.setattr(host_machine, "cpu_flags", frozenset[str])
    host_machine._detect.cache_clear()
    try:
        assert targets.native().name == expected
        monkeypatch.setattr(host_machine.platform, "machine", lambda: "sparc64")
        host_machine._detect.cache_clear()
        with pytest.raises(OptionError, match="sparc64"):
            targets.native()
    finally:
        host_machine._detect.cache_clear()


def test_flags_and_sizes_are_read() -> None:
    assert parse_flags(["processor\t: 0", "flags\t\t: fpu avx2", "flags : other"]) == {
        "fpu",
        "avx2",
    }
    assert parse_flags(["Features\t: fp asimd"]) == {"fp", "asimd"}
    assert parse_flags(["nothing"]) == frozenset()
    assert [parse_size(text) for text in ("48K\n", "2M", "64", "", "K")] == [49152, 2**21, 64, 0, 0]
    assert isinstance(cpu_flags(), frozenset)
