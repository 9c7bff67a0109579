"""PyTorch: programs of ``torch.export``, modules, and the backend of ``torch.compile``.

Importing this package does not import PyTorch.
"""

from __future__ import annotations

from tessella.frontends.torch.report import GraphReport, graphs

__all__ = ["GraphReport", "graphs"]
