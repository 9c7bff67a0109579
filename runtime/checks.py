"""The error of a kernel that found an index out of range."""

from __future__ import annotations

from collections.abc import Sequence

from tessella.support.errors import ExecutionError

FED = "check the indices, lengths, thresholds and regions that are fed to the node"
"""The hint of the error for an index out of range."""


def out_of_range(nodes: Sequence[str]) -> ExecutionError:
    """Return the error for an index out of range in a kernel that computes these nodes of the
    model."""
    return ExecutionError("an index is out of range", where=located(nodes), hint=FED)


def located(nodes: Sequence[str]) -> str:
    """Return a text for errors that names the nodes which a kernel computes. Equal names are listed
    once."""
    return f"node {', '.join(map(repr, dict.fromkeys(nodes))) or 'unknown'}"
