"""A plugin whose pass loses activations, for tests of the tools that look for such a thing."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tessella.support.plugins import PASSES
from tests.plugins import Installer, forget

SOURCE = """
    from tessella.dialects import nn
    from tessella.passes.kinds import StatementPass

    class BreakIt(StatementPass):
        name = "break-it"
        runs_after = "fold-batch-norm"

        def rewrite(self, ctx, op):
            if isinstance(op, nn.ReluOp) and not op.node.startswith("spared"):
                op.res.replace_all_uses_with(op.x)
                op.detach()
                op.erase()
    """


@contextmanager
def installed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """The plugin is there for the length of a block."""
    with monkeypatch.context() as patch:
        Installer(folder, patch)("breaker", SOURCE, {PASSES: {"break-it": "breaker:BreakIt"}})
        yield
    forget()
