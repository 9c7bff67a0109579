"""Damaged artifacts: the bytes, or a manifest that says something else and has the right hash."""

from __future__ import annotations

import hashlib
import json
from random import Random
from typing import Any, cast

from tessella.runtime.artifact import HEADER, MAGIC

VALUES: list[Any] = [
    *(None, True, False, -1, 0, 1, 2, 7, 63, 64, 4096, 1 << 31, 1 << 40, 1 << 46, 1 << 62, 1 << 64),
    *(-(1 << 63), 0.5, float("nan"), float("inf"), "", "0", "x", "é", "memcpy", "system", "f" * 64),
    *([], {}, [0], [[0]], {"dtype": "float64"}, {"dtype": "object"}, {"dtype": ""}, [1, "x", None]),
]


def damaged(data: bytes, random: Random) -> bytes:
    """The artifact with some things changed."""
    return _bytes(data, random) if random.random() < 0.3 else _manifest(data, random)


def repacked(manifest: Any, blobs: bytes) -> bytes:
    """An artifact with this manifest."""
    text = json.dumps(manifest).encode()
    text += b" " * (-len(text) % HEADER)
    head = MAGIC + len(text).to_bytes(8) + hashlib.sha256(text).digest()
    return head.ljust(HEADER, b"\0") + text + blobs


def unpacked(data: bytes) -> tuple[Any, bytes]:
    """The manifest of an artifact, and what follows it."""
    end = HEADER + int.from_bytes(data[8:16])
    return json.loads(data[HEADER:end]), data[end:]


def _bytes(data: bytes, random: Random) -> bytes:
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 2, 8])):
        end = random.choice([16, HEADER, len(changed)])
        changed[random.randrange(min(end, len(changed)))] = random.randrange(256)
    cut = random.choice([None, None, None, random.randrange(len(changed)), HEADER, 8, 0])
    return bytes(changed[:cut])


def _manifest(data: bytes, random: Random) -> bytes:
    manifest, blobs = unpacked(data)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        places = list(_places(manifest))
        holder, key = random.choice(places)
        match random.randrange(6):
            case 0 if isinstance(holder, dict):
                del holder[key]
            case 1 if isinstance(holder, dict):
                copied = json.loads(json.dumps(holder[key]))
                holder[random.choice(["0", "x", "offset", str(random.randrange(99))])] = copied
            case 2 if isinstance(holder, list):
                holder.append(json.loads(json.dumps(holder[key])))
            case 3:
                other, place = random.choice(places)
                holder[key] = json.loads(json.dumps(other[place]))
            case 4 if type(holder[key]) is int:
                holder[key] += random.choice([-64, -8, -1, 1, 8, 64, 4096, len(blobs)])
            case _:
                holder[key] = json.loads(json.dumps(random.choice(VALUES)))
    return repacked(manifest, blobs)


def _places(value: Any) -> list[tuple[Any, Any]]:
    """Each item of each list and object."""
    found: list[tuple[Any, Any]] = []
    if isinstance(value, dict):
        record = cast(dict[str, Any], value)
        for key in record:
            found += [(record, key), *_places(record[key])]
    elif isinstance(value, list):
        items = cast(list[Any], value)
        for i, item in enumerate(items):
            found += [(items, i), *_places(item)]
    return found
