"""Options that have no effect beside others. Each command lists its own in ``USELESS``."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path

from tessella.driver.options import CompileOptions, Options
from tessella.driver.stages.stages import ARTIFACT
from tessella.support.errors import OptionError


@dataclass(frozen=True)
class Useless:
    """A rule: options that have no effect under a condition on the arguments."""

    options: Sequence[str]
    """The names of the options in the namespace of arguments."""
    when: Callable[[argparse.Namespace], bool]
    """A function that returns whether the arguments make the options ineffective."""
    what: str
    """The reason why the options have no effect, as an error message."""
    hint: str


def check_used(
    command: argparse.ArgumentParser, args: argparse.Namespace, rules: Sequence[Useless]
) -> None:
    """Raise OptionError if the command line gives an option that has no effect by one of the
    rules."""
    for rule in rules:
        given = [n for n in rule.options if getattr(args, n, None) != command.get_default(n)]
        if given and rule.when(args):
            raise OptionError(
                rule.what,
                where=getattr(args, "model", None),
                found=", ".join(f"--{name.replace('_', '-')}" for name in given),
                hint=rule.hint,
            )


def is_artifact(args: argparse.Namespace) -> bool:
    """Return whether the model is an artifact that `tessella compile -o FILE.tsl` wrote."""
    return Path(args.model or "").suffix == ARTIFACT


COMPILING = (*CompileOptions.__annotations__, *(each.name for each in fields(Options)))
"""Options that say how a model is compiled."""

COMPILED = Useless(
    (*(o for o in COMPILING if o != "threads"), "dim", "interpret", "time_passes"),
    is_artifact,
    "an artifact is compiled already",
    "give these options to `tessella compile MODEL -o FILE.tsl`",
)

MEASURED = Useless(
    ("budget",),
    lambda args: getattr(args, "pick", "measure") != "measure",
    "kernels are not measured",
    "add --pick measure",
)
"""The rule of all commands that compile: ``--budget`` has no effect if kernels are not measured."""

SAME_CODE = Useless(
    ("threads",),
    lambda _: True,
    "the code is the same for any number of threads",
    "give --threads to `tessella run` or `bench`, or threads=N to tessella.load",
)
"""The rule of commands that run no model: ``--threads`` has no effect."""
