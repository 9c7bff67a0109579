"""The warning about ops that run on a fallback device, because the requested one has no kernel."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr
from tessella.kernels.registry import CPUS
from tessella.passes.pick.candidates import AT_DEVICE, HOST, Candidate
from tessella.support.logs import warning

_TOLD: set[tuple[str, str, str | None]] = set()
"""The fallbacks that this process has warned of: the requested devices, the op, and the device that
ran it."""


def tell_falls(chosen: Mapping[NnOp, Candidate], places: Iterable[PlaceAttr]) -> None:
    """Warn of ops that fell back from a device to a CPU or to NumPy, once for each kind of op.

    Fallbacks from a CPU to NumPy are not reported here: the driver warns if they take much time.
    """
    named = dict.fromkeys(place.device.data for place in places)
    devices = ", ".join(device for device in named if device not in (*CPUS, HOST, "any"))
    if not devices:
        return
    falls = Counter(
        (devices, op.name, pick.fallback)
        for op, pick in chosen.items()
        if pick.step not in AT_DEVICE
    )
    new = {fall: count for fall, count in falls.items() if fall not in _TOLD}
    _TOLD.update(new)
    if new:
        texts = (f"{op} ({count}, on {to})" for (_, op, to), count in new.items())
        warning(
            "compile",
            "%s has no kernel for some ops, which run elsewhere: %s. `tessella explain --why` "
            'gives the reasons; fallback="error" rejects them. (Each kind of op is reported once.)',
            *(devices, ", ".join(texts)),
        )
