"""The schema of JSON about models, which docs/report.md describes."""

from __future__ import annotations

VERSION = 1
"""The version of the schema. A field that is added leaves it as it is; any other change raises
it."""
