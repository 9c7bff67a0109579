"""Functions of ONNX Runtime's package that concern the whole process."""

from __future__ import annotations

from tessella.support.errors import OptionError

CPU = "CPUExecutionProvider"
_LEVELS = (10, 20, 30, 40, 50)
"""The levels of ``logging`` in the order of ONNX Runtime's severities: verbose, info, warning,
error, fatal."""


def get_available_providers() -> list[str]:
    """Return the available execution providers: only the CPU.

    Returns
    -------
    list of str
        ``["CPUExecutionProvider"]``.
    """
    return [CPU]


def get_all_providers() -> list[str]:
    """Return all known execution providers: only the CPU.

    Returns
    -------
    list of str
        ``["CPUExecutionProvider"]``.
    """
    return [CPU]


def get_device() -> str:
    """Return the device that models run on.

    Returns
    -------
    str
        ``"CPU"``.
    """
    return "CPU"


def set_default_logger_severity(severity: int) -> None:
    """Set the level of the logger ``tessella``.

    Parameters
    ----------
    severity : int
        0 for all messages, 1 for information, 2 for warnings, 3 for errors, 4 for fatal errors.

    Raises
    ------
    OptionError
        If unknown severity.
    """
    if severity not in range(len(_LEVELS)):
        raise OptionError("unknown severity", expected="a number from 0 to 4", found=repr(severity))
    import logging  # the import of logging is slow

    logging.getLogger("tessella").setLevel(_LEVELS[severity])


def set_default_logger_verbosity(verbosity: int) -> None:
    """Accept a verbosity, which is ignored: messages have levels alone.

    Parameters
    ----------
    verbosity : int
        Ignored.
    """
