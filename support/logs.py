"""Log messages, through Python's ``logging``, under the logger ``tessella``.

| logger | level | message |
|---|---|---|
| `tessella.compile` | `INFO` | each compilation, with its purpose and its time |
| `tessella.compile` | `WARNING` | a model's first compilation in a call; programs `prepare` omits |
| `tessella.compile` | `WARNING` | ops that NumPy runs, if they take much of the estimated time |
| `tessella.compile` | `WARNING` | ops for which a requested device has no kernel |
| `tessella.passes` | `DEBUG` | each pass, with its time |
| `tessella.session` | `WARNING` | options of an `InferenceSession` that have no effect |
| `tessella.llvm` | `DEBUG` | each module that LLVM has compiled |

tessella sets no handler. If the application sets none either, Python shows warnings on stderr, and
no other messages.
"""

from __future__ import annotations

import sys
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import logging


_DEBUG, _INFO = 10, 20
"""Log levels of ``logging``."""


def info(logger: str, message: str, *args: object) -> None:
    """Log a message at level INFO."""
    _log(logger, _INFO, message, *args)


def debug(logger: str, message: str, *args: object) -> None:
    """Log a message at level DEBUG."""
    _log(logger, _DEBUG, message, *args)


def warning(logger: str, message: str, *args: object) -> None:
    """Log a warning. Python prints it to stderr if the application has not configured logging."""
    _logger(logger).warning(message, *args)


def _log(logger: str, level: int, message: str, *args: object) -> None:
    # an application that handles log records has imported ``logging``
    if "logging" in sys.modules:
        _logger(logger).log(level, message, *args)


@cache
def _logger(name: str) -> logging.Logger:
    import logging  # imported only for a message, as the import takes time

    return logging.getLogger(f"tessella.{name}")
