"""Times as a picture of bars, by matplotlib if it is installed."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Sequence
from typing import Any, NamedTuple

from tessella.support.errors import OptionError

_HEIGHT, _LEAST = 0.45, 1.6
"""Inches of a bar, and of a picture with few bars."""


class Bar(NamedTuple):
    """A time in seconds, with its name and the 90th percentile."""

    name: str
    seconds: float
    p90: float


def check_matplotlib() -> None:
    """Raise OptionError if matplotlib is not installed."""
    if importlib.util.find_spec("matplotlib") is None:
        raise OptionError(
            "matplotlib is not installed, which draws pictures",
            where="--plot",
            hint="pip install tessella[plot]",
        )


def draw_bars(path: str, title: str, bars: Sequence[Bar]) -> None:
    """Draw times as horizontal bars, the first one at the top; a line leads to the 90th percentile.
    Raises OptionError if the picture cannot be written."""
    figure: Any = importlib.import_module("matplotlib.figure")
    names = [bar.name for bar in bars]
    times = [bar.seconds * 1e3 for bar in bars]
    beyond = [max(0.0, bar.p90 - bar.seconds) * 1e3 for bar in bars]
    drawn = figure.Figure(figsize=(7, max(_LEAST, 1 + _HEIGHT * len(bars))), layout="constrained")
    axes = drawn.subplots()
    lines = {"ecolor": "#596475", "capsize": 3}
    axes.barh(names, times, height=0.6, color="#1d5fbf", xerr=[[0] * len(bars), beyond], **lines)
    axes.invert_yaxis()
    axes.set_title(title, loc="left", parse_math=False)
    axes.set_xlabel("ms a call: the median, and the 90th percentile")
    axes.spines[["top", "right"]].set_visible(False)
    try:
        drawn.savefig(path, dpi=150)
    except (OSError, ValueError) as error:  # a folder that is missing, or an unknown extension
        raise OptionError(f"cannot draw the picture: {error}", where=path) from error
