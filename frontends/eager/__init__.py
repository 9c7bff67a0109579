"""``tessella.ops``: the ops of the `nn` dialect, called one at a time on arrays."""

from __future__ import annotations

import keyword
from collections.abc import Sequence
from difflib import get_close_matches

from tessella.dialects import nn
from tessella.frontends.eager.op import EagerOp
from tessella.frontends.programs import CompileOptions

__all__ = ["EagerOp", "ops"]


class Ops:
    """The ops by name; one whose name is a keyword of Python ends in an underscore: ``and_``.

    They are those of the dialect at the time they are asked for.
    """

    def __init__(self, options: CompileOptions) -> None:
        self._options = options

    def with_options(
        self,
        *,
        places: Sequence[str] | None = None,
        target: str | None = None,
        threads: int | None = None,
        pick: str | None = None,
        fallback: str | None = None,
    ) -> Ops:
        """The ops, compiled with these options, which are those of ``tessella.compile``.

        Raises OptionError.
        """
        return Ops(CompileOptions.of(places, target, threads, pick, fallback))

    def __getattr__(self, name: str) -> EagerOp:
        known = {} if name.startswith("__") else _kinds()
        if name not in known:
            close = get_close_matches(name, known, cutoff=0.5)
            guess = f"; did you mean {' or '.join(close)}?" if close else ""
            raise AttributeError(f"tessella.ops has no op {name!r}{guess}", name=name, obj=self)
        op = EagerOp(name, known[name], self._options)
        self.__dict__[name] = op  # which is where Python looks first
        return op

    def __dir__(self) -> list[str]:
        return sorted(_kinds())

    def __repr__(self) -> str:
        return "tessella.ops"


def _kinds() -> dict[str, type[nn.NnOp]]:
    return {
        _python_name(kind.name): kind
        for kind in nn.Nn.operations
        if issubclass(kind, nn.NnOp) and not issubclass(kind, nn.ConstantOp)
    }


def _python_name(op: str) -> str:
    _, _, name = op.partition(".")
    return f"{name}_" if keyword.iskeyword(name) else name


ops = Ops(CompileOptions())
