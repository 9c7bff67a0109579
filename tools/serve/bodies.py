"""Decompression of the bodies of requests."""

from __future__ import annotations

import zlib

from tessella.tools.serve.refusal import ENCODING, LARGE, RequestError

_WINDOWS = {"gzip": 16 + zlib.MAX_WBITS, "deflate": zlib.MAX_WBITS}
"""The argument ``wbits`` of zlib for each encoding."""


def inflated(body: bytes, encoding: str | None, most: int) -> bytes:
    """Return the decompressed body. Raises RequestError for an unknown encoding, damaged data, or a
    result of more than ``most`` bytes."""
    if encoding in (None, "", "identity"):
        return body
    if encoding not in _WINDOWS:
        raise RequestError(
            "the encoding of the body is not supported",
            status=ENCODING,
            expected=", ".join(_WINDOWS),
            found=f"{encoding}"[:40],
        )
    inflater = zlib.decompressobj(_WINDOWS[encoding])
    try:
        found = inflater.decompress(body, most + 1)
    except zlib.error as error:
        raise RequestError(f"the body is not {encoding}", found=str(error)) from error
    if len(found) > most:
        raise RequestError(
            "the body is too large", status=LARGE, expected=f"at most {most} bytes, inflated"
        )
    if not inflater.eof:
        raise RequestError(f"the body is not {encoding}", found="only the beginning")
    return found
