"""Messages to whoever listens: Python's ``logging``, under the logger ``tessella``.

| logger | level | |
|---|---|---|
| `tessella.compile` | `INFO` | each compilation, with what it was for and how long it took |
| `tessella.compile` | `WARNING` | the first one inside a call of a model; what `prepare` leaves |
| `tessella.passes` | `DEBUG` | each pass, with its time |
| `tessella.session` | `WARNING` | options of an `InferenceSession` that have no effect |
| `tessella.llvm` | `DEBUG` | each module that LLVM is done with |

No handler is set: where an application sets none either, Python shows warnings on stderr, and
nothing else.
"""

from __future__ import annotations

import sys


def info(logger: str, message: str, *args: object) -> None:
    """Log a message."""
    _log(logger, "INFO", message, *args)


def debug(logger: str, message: str, *args: object) -> None:
    """Log a message for who debugs."""
    _log(logger, "DEBUG", message, *args)


def warning(logger: str, message: str, *args: object) -> None:
    """Log a warning; Python shows it where nobody listens."""
    import logging  # not where all is well: it takes its time

    logging.getLogger(f"tessella.{logger}").warning(message, *args)


def _log(logger: str, level: str, message: str, *args: object) -> None:
    # who listens has imported it
    logging = sys.modules.get("logging")
    if logging is not None:
        logging.getLogger(f"tessella.{logger}").log(getattr(logging, level), message, *args)
