"""The pages of the documentation that are generated from the code.

python -m docs.generated            # exit code 1 where a page is out of date
python -m docs.generated --write
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from docs import nn_ops
from tessella.driver import option_docs
from tessella.frontends.onnx import table as onnx_table
from tessella.frontends.torch import table as aten_table

DOCS = Path(__file__).parent

PAGES: Mapping[str, Callable[[], str]] = {
    "aten.md": aten_table.page,
    "nn-ops.md": nn_ops.page,
    "operators.md": onnx_table.page,
    "options.md": option_docs.page,
}
"""The text of each generated page, by the name of its file."""


def is_stale(name: str) -> bool:
    """Return whether a page differs from its generated text."""
    return (DOCS / name).read_text(encoding="utf-8") != PAGES[name]()


def main(arguments: Sequence[str]) -> int:
    """Check the pages, or write them."""
    if list(arguments) == ["--write"]:
        for name, page in PAGES.items():
            (DOCS / name).write_text(page(), encoding="utf-8")
        return 0
    stale = [f"docs/{name} is out of date" for name in PAGES if is_stale(name)]
    print(*stale, sep="\n", end="\n" * bool(stale))
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
