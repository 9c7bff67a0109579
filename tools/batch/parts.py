"""Finished blocks on disk, from which a run resumes.

``OUT.parts`` has a file for each finished block, and ``run.json``, which describes the run.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from tessella.support import disk
from tessella.support.errors import InvalidModelError, OptionError


def description(model: Path, data: Path, rows: int) -> dict[str, Any]:
    """Return the facts about a run that must not change before it resumes."""
    with model.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    status = data.stat()
    return {
        "model": digest,
        "data": [str(data.resolve()), status.st_size, status.st_mtime_ns],
        "rows": rows,
    }


class Parts:
    """The folder of a run's finished blocks."""

    def __init__(self, output: Path, run: Mapping[str, Any]) -> None:
        """Create the folder, or open that of an interrupted run. Raises OptionError if the folder
        belongs to another run."""
        self._output = output
        self._folder = output.with_name(f"{output.name}.parts")
        self._folder.mkdir(exist_ok=True)
        file = self._folder / "run.json"
        text = json.dumps(dict(run))
        if not file.exists():
            disk.write(file, 0o666, text.encode())
        elif file.read_text(encoding="utf-8") != text:
            raise OptionError(
                "the finished blocks belong to another run",
                where=str(self._folder),
                expected="the same artifact, data and --rows",
                hint="remove the folder to start again",
            )

    def __contains__(self, block: int) -> bool:
        return self._file(block).exists()

    def add(self, block: int, batch: Any) -> None:
        """Write the result of a block, atomically."""
        sink: Any = pa.BufferOutputStream()
        pq.write_table(pa.Table.from_batches([batch]), sink)
        disk.write(self._file(block), 0o666, memoryview(sink.getvalue()))

    def finish(self, blocks: int) -> None:
        """Write all blocks to the output in order, and remove the folder. Raises OptionError for a
        damaged block."""
        unfinished = self._folder / "output"
        tables = self._tables(blocks)
        first = next(tables)
        with pq.ParquetWriter(unfinished, first.schema) as writer:
            writer.write_table(first)
            for table in tables:
                writer.write_table(table)
        unfinished.replace(self._output)
        shutil.rmtree(self._folder)

    def _tables(self, blocks: int) -> Iterator[Any]:
        for block in range(blocks):
            try:
                yield pq.read_table(self._file(block))
            except pa.ArrowInvalid as error:
                raise InvalidModelError(
                    "a finished block is damaged",
                    where=str(self._file(block)),
                    hint="remove the file, and repeat the command",
                ) from error

    def _file(self, block: int) -> Path:
        return self._folder / f"{block:08}.parquet"
