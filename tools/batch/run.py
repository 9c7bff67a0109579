"""A run over the blocks of a table, in bounded memory. Blocks whose worker dies are retried."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, wait
from dataclasses import dataclass, field
from itertools import groupby
from operator import attrgetter
from typing import Any, NamedTuple

from tessella.support.errors import ResourceError
from tessella.tools.batch.engines import Engine, batch_of, stream_of
from tessella.tools.batch.parts import Parts

Outcome = Future[bytes | str]

ATTEMPTS = 3
"""The number of attempts after which a block counts as failed."""


class BlockPlace(NamedTuple):
    """The position of a block in a Parquet file."""

    number: int
    group: int
    first: int
    rows: int


def places_of(data: Any, rows: int) -> Sequence[BlockPlace]:
    """Return the positions of all blocks of a Parquet file. A block lies in one row group."""
    found: list[BlockPlace] = []
    first = 0
    for group in range(data.num_row_groups):
        end = first + data.metadata.row_group(group).num_rows
        for start in range(first, end, rows):
            found.append(BlockPlace(len(found), group, start, min(rows, end - start)))
        first = end
    return found


@dataclass
class Block:
    """Rows of a table, as the bytes of an Arrow stream."""

    place: BlockPlace
    stream: bytes
    attempts: int = 0

    def __str__(self) -> str:
        number, _, first, rows = self.place
        return f"block {number} (rows {first} to {first + rows - 1})"


def blocks_of(data: Any, rows: int, places: Sequence[BlockPlace], parts: Parts) -> Iterator[Block]:
    """Yield the blocks of a Parquet file that are not finished. Row groups without such blocks are
    not read."""
    for group, listed in groupby(places, attrgetter("group")):
        inside = [*listed]
        if all(place.number in parts for place in inside):
            continue
        batches = data.iter_batches(rows, row_groups=[group])
        for place, batch in zip(inside, batches, strict=True):
            if place.number not in parts:
                yield Block(place, stream_of(batch))


@dataclass
class BatchRun:
    """A run over blocks, with at most ``window`` blocks in memory."""

    engine: Engine
    parts: Parts
    window: int
    report: Callable[[int], None]
    """A function that is called with the number of rows of each finished block."""
    failed: dict[str, str] = field(default_factory=dict[str, str])
    """The errors of failed blocks."""
    retried: int = 0
    _running: dict[Future[bytes | str], Block] = field(
        default_factory=dict[Future[bytes | str], Block]
    )
    _suspects: deque[Block] = field(default_factory=deque[Block])
    """Blocks that ran when a worker died. Each runs again alone, to find the one that kills it."""

    def over(self, blocks: Iterator[Block]) -> None:
        """Run all blocks."""
        while True:
            self._fill(blocks)
            if not self._running:
                return
            done = wait(self._running, return_when=FIRST_COMPLETED).done
            is_lost = any(isinstance(each.exception(), self.engine.lost) for each in done)
            if is_lost:  # the blocks of other workers finish or are lost too
                done = wait(self._running).done
            for future in done:
                self._take(future, self._running.pop(future))
            if is_lost:
                self.engine.renew()

    def _fill(self, blocks: Iterator[Block]) -> None:
        if self._suspects:
            if not self._running:
                self._submit(self._suspects.popleft())
            return
        while len(self._running) < self.window and (block := next(blocks, None)) is not None:
            self._submit(block)

    def _submit(self, block: Block) -> None:
        block.attempts += 1
        try:
            future = self.engine.submit(block.stream)
        except self.engine.lost:  # a worker without a block has died
            self.engine.renew()
            future = self.engine.submit(block.stream)
        self._running[future] = block

    def _take(self, future: Outcome, block: Block) -> None:
        try:
            found = future.result()
        except (*self.engine.lost, ResourceError, MemoryError) as error:
            self._again(block, str(error) or type(error).__name__)
            return
        if isinstance(found, str):
            self.failed[str(block)] = found
        else:
            self.parts.add(block.place.number, batch_of(found))
            self.report(block.place.rows)

    def _again(self, block: Block, error: str) -> None:
        if block.attempts < ATTEMPTS:
            self.retried += 1
            self._suspects.append(block)
        else:
            self.failed[str(block)] = f"failed in {block.attempts} attempts: {error}"
