"""``tessella.ops``: the ops of the `nn` dialect, called one at a time on arrays."""

from __future__ import annotations

import keyword
from functools import cached_property
from typing import Unpack

from tessella.dialects import nn
from tessella.dialects.nn.traits import DefinesSymbols
from tessella.driver.options import CheckedOptions, CompileOptions, make_options
from tessella.frontends.eager.op import EagerOp
from tessella.frontends.eager.placed import PlacedArray, array
from tessella.support.names import did_you_mean

__all__ = ["EagerOp", "PlacedArray", "array", "ops"]


class Ops:
    """The ops of the `nn` dialect as attributes, by name.

    An op whose name is a Python keyword has an underscore after it, as in ``and_``. The attributes
    are the ops that the dialect has at the time of the access.
    """

    def __init__(self, options: CheckedOptions | None = None) -> None:
        self._given = options

    @cached_property
    def _options(self) -> CheckedOptions:
        # importing tessella does not query this machine, so its default options are determined at
        # the first access
        return self._given or make_options()

    def with_options(self, **options: Unpack[CompileOptions]) -> Ops:
        """Return the ops, compiled with other options.

        Parameters
        ----------
        **options
            ``places``, ``target``, ``threads``, ``fallback``, ``timeout`` and ``options``, as
            ``tessella.compile`` takes them.

        Returns
        -------
        Ops
            The ops as attributes.

        Raises
        ------
        OptionError
            If an option is wrong.
        """
        return Ops(make_options(**options))

    def __getattr__(self, name: str) -> EagerOp:
        known = {} if name.startswith("_") else _kinds()
        if name not in known:
            text = "; ".join(
                filter(None, (f"tessella.ops has no op {name!r}", did_you_mean(name, known)))
            )
            raise AttributeError(text, name=name, obj=self)
        op = EagerOp(name, known[name], self._options)
        self.__dict__[name] = op  # the next access finds the op here, not by __getattr__
        return op

    def __dir__(self) -> list[str]:
        return sorted(_kinds())

    def __repr__(self) -> str:
        return "tessella.ops"


def _kinds() -> dict[str, type[nn.NnOp]]:
    return {
        _python_name(kind.name): kind
        for kind in nn.Nn.operations
        if issubclass(kind, nn.NnOp)
        and kind.get_irdl_definition().operands
        and not issubclass(kind, nn.ScanOp)
        and not kind.has_trait(DefinesSymbols)
    }


def _python_name(op: str) -> str:
    _, _, name = op.partition(".")
    return f"{name}_" if keyword.iskeyword(name) else name


ops = Ops()
