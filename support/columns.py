"""Tables as aligned text."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence


def aligned(rows: Iterable[Sequence[str]], left: int | None = None) -> Iterator[str]:
    """Yield lines with aligned columns.

    The first ``left`` columns are aligned to the left, the others to the right. Without a number,
    all columns are aligned to the left.
    """
    rows = list(rows)
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = (
            cell.ljust(width) if left is None or i < left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        yield "  ".join(cells).rstrip()
