"""A small language model that goes on with a text, a character at a time.

    python examples/language/write.py [FILE.svg]

The model takes a window of characters and gives the chances of the next one after each of them.
`train.py` has written it: it has only seen pages of `docs/`. In the picture, characters that the
model was sure of have a dark background.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import tessella
from tessella.runtime.model import CallableModel

sys.path.insert(0, str(Path(__file__).parents[1]))
from drawing import Drawing

MODEL = Path(__file__).with_name("language.onnx")
ALPHABET = "\n" + "".join(map(chr, range(32, 127)))
WINDOW = 64
PROMPT = "The compiler "
COLUMNS, ROWS, CELL = 48, 8, 16
LIKELY = 4
"""The number of characters to choose from."""


def continued(
    model: CallableModel, text: str, rng: np.random.Generator
) -> Iterator[tuple[str, float]]:
    """Yield characters that follow a text, with their chances, without end."""
    while True:
        seen = text[-WINDOW:]
        tokens = np.zeros((1, WINDOW), np.int64)  # positions after the last one change nothing
        tokens[0, : len(seen)] = [ALPHABET.index(character) for character in seen]
        logits = model(tokens)[0, len(seen) - 1]
        chances = np.exp(logits - logits.max())
        chances /= chances.sum()
        likely = chances.argsort()[-LIKELY:]
        token = rng.choice(likely, p=chances[likely] / chances[likely].sum(dtype=np.float64))
        text += ALPHABET[token]
        yield ALPHABET[token], float(chances[token])


def main() -> None:
    """Let the model continue the prompt, print the text, and draw it as an SVG in which likely
    characters have a dark background."""
    model = tessella.compile(MODEL)
    written = continued(model, PROMPT, np.random.default_rng(0))
    lines = [[(character, 0.0) for character in PROMPT]]
    while len(lines) <= ROWS:
        character, chance = next(written)
        if character != "\n":
            lines[-1].append((character, chance))
        if character == "\n" or len(lines[-1]) == COLUMNS:
            lines.append([])
    drawing = Drawing(20 + CELL * COLUMNS, 20 + CELL * ROWS)
    for row, line in enumerate(lines[:ROWS]):
        print("".join(character for character, _ in line))
        chances = np.zeros((1, COLUMNS))
        chances[0, : len(line)] = [0.4 * chance for _, chance in line]
        drawing.squares(chances, 10, 10 + CELL * row, CELL)
        text = "".join(character for character, _ in line)
        drawing.text(text, 10 + CELL / 2, 24 + CELL * row, anchor="middle", step=CELL)
    drawing.save(*sys.argv[1:])


if __name__ == "__main__":
    main()
