"""LLVM compiles a kernel once in a run of the tests: the same text comes up in many of them.

All that leads to the text, and all that follows from the object, happens in each test.
"""

from __future__ import annotations

from pathlib import Path

from tessella.codegen import kernel_cache
from tessella.support.disk import Folder
from tests.environment import RUN

OWN = kernel_cache.FOLDER
"""The folder of the product."""


class _Shared(Folder):
    """The product's folder where a test asks for one, else that of the run."""

    def path(self) -> Path:
        return super().path() or RUN / self.name

    def trim(self, most: int | None = None) -> int:
        """The folder of the run goes with it."""
        return 0 if super().path() is None else super().trim(most)


SHARED = _Shared(OWN.name, OWN.share)
