"""Measuring the machine: what probes do, and how figures are stored."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from tessella import targets
from tessella.driver.tune import calibrate
from tessella.driver.tune.calibrate import Probe, Probes, level_sizes, measure, store
from tessella.support.errors import OptionError
from tessella.targets import Target, machine, measured
from tessella.targets.machine import KNOB
from tessella.targets.table import TARGETS

RUNNABLE = [target for target in TARGETS.values() if targets.can_run(target)]


@pytest.fixture(autouse=True)
def _quick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Little memory, and an empty cache folder."""
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    monkeypatch.delenv(KNOB, raising=False)
    monkeypatch.setattr(calibrate, "_MEMORY", (1 << 20, 1 << 20))
    machine.forget()


@pytest.fixture(scope="module", params=RUNNABLE, ids=lambda target: target.name)
def probes(request: pytest.FixtureRequest) -> Probes:
    return Probes(request.param)


def buffers_of(probe: Probe) -> list[np.ndarray]:
    return [buffer for buffer in probe.keep if isinstance(buffer, np.ndarray)]


@pytest.mark.parametrize("size", [1, 1000, 1 << 16, (1 << 16) + 1])
def test_a_copy_copies_and_counts_both_sides(probes: Probes, size: int) -> None:
    probe = probes.copy(size)
    (buffer,) = buffers_of(probe)
    assert buffer.nbytes >= size
    half = buffer.nbytes // 2
    buffer[:half] = np.arange(half, dtype=np.uint8)
    probe()
    np.testing.assert_array_equal(buffer[half:], buffer[:half])
    assert probe.amount % buffer.nbytes == 0


def test_an_addition_adds_two_buffers(probes: Probes) -> None:
    probe = probes.add(5000)
    (buffer,) = buffers_of(probe)
    first, second, total = buffer.view(np.float32).reshape(3, -1)
    first[:] = np.arange(first.size)
    probe()
    np.testing.assert_array_equal(total, first + second)
    assert probe.amount % buffer.nbytes == 0


def test_a_write_fills_and_a_read_does_not(probes: Probes) -> None:
    writing, reading = probes.write(5000), probes.read(5000)
    for probe in (writing, reading):
        probe()
    assert not buffers_of(writing)[0].any()
    assert (buffers_of(reading)[0].view(np.float32) == 0.5).all()


def test_multiply_adds_converge(probes: Probes) -> None:
    """x * 1/2 + 1/2 tends to 1 in all accumulators, as all of them take part."""
    probe = probes.flops()
    probe()
    result = buffers_of(probe)[1].view(np.float32)
    lanes = probes.target.lanes(32)
    np.testing.assert_array_equal(result[: lanes * 12], 1.0)
    assert probe.amount % (2 * lanes) == 0


def test_the_integer_chain_is_computed(probes: Probes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_TURNS", 3)
    probe = probes.integer_chain()
    probe()
    step = value = int(np.full(2, 0.5, np.float32).view(np.uint64)[0])
    for i in range(3 * 16):
        value = value ^ step if i % 2 else (value + step) % 2**64
    assert int(buffers_of(probe)[1].view(np.uint64)[0]) == value
    assert probe.amount == 3 * 16


def test_probes_outlive_their_compiler() -> None:
    probe = Probes(RUNNABLE[0]).read(4096)
    probe()
    assert probe.rate(budget=0.0) > 0


def test_a_foreign_target_cannot_be_measured() -> None:
    foreign = next(target for target in TARGETS.values() if target not in RUNNABLE)
    with pytest.raises(OptionError, match="cannot run"):
        measure(foreign)


def test_all_figures_are_measured() -> None:
    """All figures are positive; their values depend on the machine's other load."""
    reports: list[str] = []
    figures = measure(targets.native(), reports.append, budget=0.002)
    assert figures.keys() == measured.FIGURES.keys()
    assert all(type(figures[name]) is bounds.type for name, bounds in measured.FIGURES.items())
    assert min(figures.values()) > 0
    assert len(reports) == 6


def test_figures_are_stored() -> None:
    table = targets.native()
    figures = {name: bounds.type(bounds.least * 2) for name, bounds in measured.FIGURES.items()}
    path = store(table, figures)
    assert path == measured.path(table.name, machine.processor())
    assert [file.name for file in path.parent.iterdir()] == [path.name], "nothing is left over"
    assert path.stat().st_mode & 0o077 == 0 or path.parent.stat().st_mode & 0o077 == 0
    assert {f: getattr(targets.native(), f) for f in figures} == figures
    # a second time it is replaced
    store(table, {**figures, "ghz": 1.5})
    assert targets.native().ghz == 1.5
    machine.forget()


def test_figures_beyond_bounds_are_refused() -> None:
    figures = dict.fromkeys(measured.FIGURES, 1) | {"ghz": 1e9}
    with pytest.raises(OptionError, match="not plausible"):
        store(targets.native(), figures)
    assert measured.read(targets.native().name, machine.processor()) == {}


def test_a_folder_that_cannot_be_written_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path / "file"))
    with pytest.raises(OptionError, match="cannot write") as caught:
        store(targets.native(), dict.fromkeys(measured.FIGURES, 1))
    assert str(tmp_path / "file") in str(caught.value)
    assert "TESSELLA_CACHE" in str(caught.value)


@pytest.mark.parametrize("target", TARGETS.values(), ids=lambda target: target.name)
def test_sizes_fit_their_levels(target: Target, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_MEMORY", (1 << 26, 1 << 29))
    sizes = level_sizes(target)
    assert sizes["l1"] < target.l1 < sizes["l2"] < target.l2 < sizes["l3"] < target.l3
    assert target.l3 < sizes["memory"] <= 1 << 29
    vast = dataclasses.replace(target, l3=1 << 34)
    assert level_sizes(vast)["memory"] <= 1 << 29


def test_memory_is_bounded_by_what_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(calibrate, "_MEMORY", (1 << 20, 1 << 29))
    monkeypatch.setattr(calibrate, "_physical_memory", lambda: 1 << 30)
    vast = dataclasses.replace(targets.native(), l3=1 << 34)
    assert level_sizes(vast)["memory"] == 1 << 27
