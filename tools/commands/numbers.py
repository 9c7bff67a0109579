"""Numbers on the command line."""

from __future__ import annotations

import argparse


def count(text: str) -> int:
    """Parse a nonnegative integer."""
    if not (text.isascii() and text.isdigit() and len(text) < 16):
        raise argparse.ArgumentTypeError(f"expected a whole number from 0 on, found {text!r}")
    return int(text)


def amount(text: str) -> float:
    """Parse a nonnegative number."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not number >= 0:
        raise argparse.ArgumentTypeError(f"expected a number from 0 on, found {text!r}")
    return number
