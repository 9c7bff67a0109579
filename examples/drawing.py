"""Pictures that the examples write, as SVG: squares in shades, text and bars."""

from __future__ import annotations

from itertools import groupby
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

import numpy as np
import numpy.typing as npt

LEVELS = 12
"""The number of shades."""
INK, WRONG = "#1f3a5f", "#b3261e"
FONT = "ui-monospace, Menlo, Consolas, monospace"

Values = npt.NDArray[Any]


class Drawing:
    """A picture with a white background. Lengths are in pixels, from the left and from the top."""

    def __init__(self, width: float, height: float) -> None:
        self._parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" '
            f'width="{width:g}" height="{height:g}" font-family="{FONT}">',
            f'<rect width="{width:g}" height="{height:g}" fill="#fff"/>',
        ]

    def squares(self, values: Values, x: float, y: float, size: float) -> None:
        """Draw a matrix as squares of ``size`` pixels: 0 is white, and 1 is black."""
        levels = np.rint(np.clip(values, 0, 1) * (LEVELS - 1)).astype(int)
        self._parts.append(f'<g transform="translate({x:g} {y:g}) scale({size:g})">')
        for level in range(1, LEVELS):
            runs = "".join(
                f"M{columns[0]} {row}h{len(columns)}v1h-{len(columns)}z"
                for row, line in enumerate(levels == level)
                for columns in _runs(line)
            )
            if runs:
                grey = round(255 * (1 - level / (LEVELS - 1)))
                self._parts.append(f'<path fill="#{grey:02x}{grey:02x}{grey:02x}" d="{runs}"/>')
        rows, columns = levels.shape
        outline = f'width="{columns}" height="{rows}" fill="none" stroke="#bbb"'
        self._parts += [f'<rect {outline} stroke-width="{0.5 / size:g}"/>', "</g>"]

    def text(
        self,
        text: str,
        x: float,
        y: float,
        *,
        size: float = 12,
        colour: str = INK,
        anchor: str = "start",
        step: float = 0,
    ) -> None:
        """Write a line with its `start`, `middle` or `end` at x. Characters are ``step`` pixels
        apart, or as far as the font has them."""
        left = " ".join(f"{x + step * i:g}" for i in range(len(text) if step else 1))
        place = f'x="{left}" y="{y:g}" font-size="{size:g}" fill="{colour}" text-anchor="{anchor}"'
        self._parts.append(f'<text {place} xml:space="preserve">{escape(text)}</text>')

    def bar(self, x: float, y: float, width: float, height: float, *, colour: str = INK) -> None:
        """Draw a filled rectangle."""
        sides = f'x="{x:g}" y="{y:g}" width="{width:.3g}" height="{height:g}"'
        self._parts.append(f'<rect {sides} fill="{colour}"/>')

    def save(self, *paths: str) -> None:
        """Write the picture to each path."""
        for path in paths:
            Path(path).write_text("\n".join([*self._parts, "</svg>", ""]), encoding="utf-8")
            print(f"wrote {path}")


def _runs(line: Values) -> list[list[int]]:
    """Return the columns of each run of true elements."""
    grouped = groupby(range(len(line)), key=line.__getitem__)
    return [[*columns] for is_in, columns in grouped if is_in]
