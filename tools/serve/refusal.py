"""Errors of requests, and the HTTP status of each error."""

from __future__ import annotations

from tessella.support.errors import (
    InputError,
    InternalError,
    OptionError,
    ResourceError,
    TessellaError,
)

PATH, METHOD, SLOW, LARGE, ENCODING, BUSY = 404, 405, 408, 413, 415, 503

_STATUSES = {ResourceError: 503, InternalError: 500}
"""The HTTP statuses of errors that the client did not cause. All other errors have the status
400."""


class RequestError(InputError):
    """A request that the server refuses, with the HTTP status of the answer."""

    def __init__(
        self,
        what: str,
        *,
        status: int = 400,
        where: str | None = None,
        expected: str | None = None,
        found: str | None = None,
        hint: str | None = None,
    ) -> None:
        self.status = status
        super().__init__(what, where=where, expected=expected, found=found, hint=hint)


def status_of(error: TessellaError) -> int:
    """Return the HTTP status of the answer that reports an error."""
    if isinstance(error, RequestError):
        return error.status
    return next((s for kind, s in _STATUSES.items() if isinstance(error, kind)), 400)


def missing_package(name: str) -> OptionError:
    """Return the error that a package which serving needs is not installed."""
    return OptionError(f"serving needs the package {name}", hint="pip install 'tessella[serve]'")
