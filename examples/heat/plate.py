"""Heat that spreads over a plate: a step of a simulation, compiled once and called many times.

    python examples/heat/plate.py [FILE.svg]

A step changes each inner point by the differences to its four neighbours. It stores into a copy, as
NumPy code does; the program has one loop over the points.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tessella import jit

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import Drawing

SIZE, RATE = 48, np.float32(0.2)
FRAMES = (0, 20, 80, 320)
"""The numbers of steps after which the plate is drawn."""

Plate = npt.NDArray[np.float32]


@jit
def spread(plate: Any) -> Any:
    """The plate a step later. Its edge keeps its temperature."""
    inner = plate[1:-1, 1:-1]
    around = plate[:-2, 1:-1] + plate[2:, 1:-1] + plate[1:-1, :-2] + plate[1:-1, 2:]
    later = plate.copy()
    later[1:-1, 1:-1] = inner + RATE * (around - 4 * inner)
    return later


def hot_spots() -> Plate:
    """A cold plate with a hot bar and a hot square."""
    plate = np.zeros((SIZE, SIZE), np.float32)
    plate[8:12, 6:40] = plate[28:40, 24:36] = 1
    return plate


def frames() -> list[Plate]:
    """The plate after the numbers of steps in FRAMES."""
    plate, found = hot_spots(), list[Plate]()
    for step in range(FRAMES[-1] + 1):
        if step in FRAMES:
            found.append(plate)
        plate = spread(plate)
    return found


def main() -> None:
    """Draw the frames."""
    drawing = Drawing(4 * 160 + 10, 190)
    for number, (steps, plate) in enumerate(zip(FRAMES, frames(), strict=True)):
        print(f"after {steps:3} steps: {plate.sum():.1f} in all, at most {plate.max():.2f}")
        drawing.squares(np.sqrt(plate), 10 + 160 * number, 10, 150 / SIZE)
        drawing.text(f"{steps} steps", 85 + 160 * number, 180, anchor="middle")
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
