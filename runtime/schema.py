"""The schema of JSON about models, which docs/report.md describes."""

from __future__ import annotations

VERSION = 1
"""The version of the schema. Adding a field does not change it; any other change raises it."""
