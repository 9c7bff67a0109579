"""Closed pipes: `tessella-opt --list-passes | head` ends without an error."""

from __future__ import annotations

import os
import sys


def drop_output() -> None:
    """Discard what is still to be written to stdout, whose reader has closed the pipe.

    Python would otherwise report an error when it flushes the rest at exit.
    """
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
