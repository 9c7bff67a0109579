"""The table of ATen ops, which needs no PyTorch."""

from __future__ import annotations

from pathlib import Path

from tessella.frontends.torch import table


def test_documentation_is_up_to_date() -> None:
    page = Path(__file__).parents[2] / "docs" / "aten.md"
    assert page.read_text() == table.page(), (
        "run python -m tessella.frontends.torch.table > docs/aten.md"
    )
