"""What of a placed program cannot become code for a machine."""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import ModuleOp

from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import CastOp, CopyOp, RelayoutOp, place_of
from tessella.support.errors import Unsupported, UnsupportedError


def check_buildable(module: ModuleOp, arch: str) -> None:
    """Raise UnsupportedError for kernels and conversions that there is no code of on ``arch``."""
    issues = list(_issues(module, {arch, "host"}))
    if issues:
        raise UnsupportedError(issues, where=f"building for {arch}")


def _issues(module: ModuleOp, targets: set[str]) -> Iterator[Unsupported]:
    for op in module.walk():
        match op:
            case NnOp() if op.places is not None:
                place = op.places[-1]
                if place.target.data not in targets:
                    reason = f"the kernel {op.kernel} at {place} can be picked, but not built"
                    yield Unsupported(op.name, op.node, reason)
            case CastOp() | CopyOp() | RelayoutOp():
                place = place_of(op.res.type)
                if isinstance(op, CastOp) or (place and place.target.data not in targets):
                    yield Unsupported(op.name, "", f"there is no code of the conversion to {place}")
            case _:
                pass
