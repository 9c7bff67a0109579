"""Stored figures: where they are, what is believed of them, and how the native gets them."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tessella import targets
from tessella.support import disk
from tessella.targets import machine, measured
from tessella.targets.machine import KNOB

FIGURES: dict[str, int | float] = {
    "fma_ports": 1,
    "fma_latency": 9,
    "load_ports": 3,
    "store_ports": 2,
    "l1_bandwidth": 77.5,
    "l2_bandwidth": 33,
    "l3_bandwidth": 9.25,
    "memory_bandwidth": 2.125,
    "ghz": 1.75,
}
PROCESSOR = "model name : Test"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, for this test alone."""
    monkeypatch.setenv("TESSELLA_CACHE", str(tmp_path))
    monkeypatch.delenv(KNOB, raising=False)
    machine.forget()
    return tmp_path


def write(content: str | bytes, target: str = "avx2", processor: str = PROCESSOR) -> Path:
    file = measured.path(target, processor)
    assert file is not None
    file.parent.mkdir(exist_ok=True)
    file.write_bytes(content.encode() if isinstance(content, str) else content)
    return file


def document(**changes: Any) -> str:
    return json.dumps(measured.document("avx2", PROCESSOR, FIGURES) | changes)


def test_figures_are_read_back() -> None:
    assert measured.read("avx2", PROCESSOR) == {}
    write(document())
    assert measured.read("avx2", PROCESSOR) == FIGURES


def test_the_file_is_for_one_target_on_one_processor() -> None:
    write(document())
    assert measured.read("avx512", PROCESSOR) == {}
    assert measured.read("avx2", PROCESSOR + " 2") == {}
    # nor is a file believed that lies where another's belongs
    write(document(), processor="other")
    assert measured.read("avx2", "other") == {}


def test_no_figures_are_read_where_caches_are_off(monkeypatch: pytest.MonkeyPatch) -> None:
    write(document())
    with disk.off():  # no program is taken from a cache, but the machine stays the same
        assert measured.read("avx2", PROCESSOR) == FIGURES
    monkeypatch.setenv("TESSELLA_CACHE", "off")
    assert measured.read("avx2", PROCESSOR) == {}


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "null",
        "[]",
        '"text"',
        "12",
        "\x00\x01",
        b"\xff\xfe{}",
        "[" * 10_000,
        '{"a":' * 3_000,
        "9" * 10_000,
        "{}",
        document(version=measured.VERSION + 1),
        document(version=None),
        document(target="avx512"),
        document(processor="other"),
        document(figures=None),
        document(figures=[1, 2]),
        document(figures={}),
        document(more=1),
        document(figures={**FIGURES, "more": 1}),
        document(figures={k: v for k, v in FIGURES.items() if k != "ghz"}),
        document() + " " * measured.MAX_BYTES,
    ],
    ids=lambda content: repr(content[:40]),
)
def test_broken_files_count_as_none(content: str | bytes) -> None:
    write(content)
    assert measured.read("avx2", PROCESSOR) == {}


@pytest.mark.parametrize("field", FIGURES)
@pytest.mark.parametrize(
    "value", ["NaN", "Infinity", "-Infinity", "1e999", "-1", "0", "1e6", "true", '"4"', "[4]"]
)
def test_implausible_figures_count_as_none(field: str, value: str) -> None:
    write(document(figures={**FIGURES, field: "@"}).replace('"@"', value))
    assert measured.read("avx2", PROCESSOR) == {}


@pytest.mark.parametrize("field", ["fma_ports", "fma_latency", "load_ports", "store_ports"])
def test_counts_are_whole(field: str) -> None:
    write(document(figures={**FIGURES, field: 2.5}))
    assert measured.read("avx2", PROCESSOR) == {}


def test_what_is_no_file_is_not_waited_for() -> None:
    file = write("")
    file.unlink()
    file.mkdir()
    assert measured.read("avx2", PROCESSOR) == {}
    file.rmdir()
    os.mkfifo(file)
    assert measured.read("avx2", PROCESSOR) == {}
    file.unlink()
    file.symlink_to(file.name)
    assert measured.read("avx2", PROCESSOR) == {}


def test_the_host_has_the_figures() -> None:
    table = targets.native()
    assert set(machine.sources().values()) <= {"table", "system"}
    key = (table.name, machine.processor())
    write(json.dumps(measured.document(*key, FIGURES)), *key)
    assert targets.native() == table, "the native target does not change while it is in use"
    machine.forget()
    native = targets.native()
    assert {field: getattr(native, field) for field in FIGURES} == FIGURES
    assert (native.name, native.l1, native.features) == (table.name, table.l1, table.features)
    sources = machine.sources()
    assert {field for field, source in sources.items() if source == "measured"} == set(FIGURES)
    assert sources["vector_bits"] == "table"
    machine.forget()


def test_the_table_does_not_change() -> None:
    native = targets.native()
    before = targets.get(native.name)
    key = (native.name, machine.processor())
    write(json.dumps(measured.document(*key, FIGURES)), *key)
    machine.forget()
    assert targets.native().ghz == FIGURES["ghz"]
    assert targets.get(native.name) == before
    machine.forget()


def test_another_processor_is_another_key(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = ["processor : 0", "model name : A", "cpu MHz : 2000", "flags : fpu avx2"]
    monkeypatch.setattr(machine, "_cpu_lines", lambda: lines)
    first = machine.processor()
    assert first == "model name : A\nflags : fpu avx2"
    lines[2] = "cpu MHz : 3000"
    assert machine.processor() == first, "the clock of the moment says nothing"
    lines[1] = "model name : B"
    assert machine.processor() != first
    monkeypatch.setattr(machine, "_cpu_lines", list[str])
    assert machine.processor()
