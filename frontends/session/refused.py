"""Methods of ONNX Runtime's classes that tessella does not support."""

from __future__ import annotations

from collections.abc import Callable
from typing import NoReturn

from tessella.support.errors import OptionError

_DOC = """Raise an error, as this has no meaning here.

Parameters
----------
*_ : object
    Ignored.
**__ : object
    Ignored.

Raises
------
OptionError
    In any case; the hint says what there is instead.
"""


def refused(name: str, hint: str) -> Callable[..., NoReturn]:
    """Return a method called ``name`` that raises OptionError with a hint."""

    def method(*_: object, **__: object) -> NoReturn:
        raise OptionError(f"tessella has no {name!r} of ONNX Runtime", hint=hint)

    method.__name__ = name
    method.__doc__ = _DOC
    return method


def check_device(device_type: str, where: str) -> None:
    """Raise OptionError if ``device_type`` is not the CPU; ``where`` names the method in the
    message."""
    if device_type.lower() != "cpu":
        raise OptionError(
            "there is the memory of the CPU alone",
            where=where,
            expected="device_type='cpu'",
            found=repr(device_type),
        )
