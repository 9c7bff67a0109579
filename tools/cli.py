"""`tessella`: models on the command line.

Exit codes: 0; 1 if outputs differ (`run`) or something is not supported (`check`); 2 for a wrong
command line and for errors, which stderr describes: what is wrong, where, and what to do.
"""

from __future__ import annotations

import argparse
import sys
import traceback
from argparse import RawDescriptionHelpFormatter
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any

from tessella.support.errors import TessellaError
from tessella.support.knobs import KNOBS
from tessella.support.versions import versions
from tessella.tools.commands.useless import MEASURED, check_used
from tessella.tools.pipes import drop_output

COMMANDS = {
    "run": "compile a model, run it once, show or check its outputs",
    "check": "list all that is not supported in a model",
    "explain": "show which kernel runs each op, and where",
    "diff": "find the first node whose value differs from another implementation's",
    "bisect": "find the pass that changes what a model computes",
    "reduce": "make a model smaller as long as a command fails on it",
    "compile": "write a model at a stage of compilation",
    "bench": "measure a model, kernel by kernel if asked to, beside other runtimes",
    "report": "write a page to look at: graph, kernels, code, times, passes and memory",
    "quantize": "write a model with 8 bits, and what each op loses and gains by it",
    "tune": "measure the kernels that a model could run, for the pick to choose from",
    "batch": "run a model over the rows of a Parquet file, on processes or a Ray cluster",
    "serve": "answer requests over HTTP with the Open Inference Protocol",
    "targets": "list the machines that code can be made for",
    "cache": "show or clear what is kept on disk",
}
"""The commands with their summaries. Each command is a module in ``commands``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run the tool and return its exit code."""
    argv = sys.argv[1:] if argv is None else argv
    shows_traceback = False
    try:
        shows_traceback = KNOBS.full_traceback
        return _run(argv)
    except TessellaError as error:
        if shows_traceback:
            traceback.print_exception(error)
        else:
            print(f"error: {error}", file=sys.stderr)
        return 2
    except MemoryError:
        print("error: there is not enough memory", file=sys.stderr)
        return 2
    except BrokenPipeError:
        drop_output()
        return 0
    except KeyboardInterrupt:
        return 130
    except SystemExit as stop:  # from argparse
        return int(stop.code or 0)


class _StoreOnce(argparse.Action):
    """An action of argparse that stores the value of an option. Giving the option twice is an
    error, as only one value would count."""

    def __init__(self, option_strings: Sequence[str], dest: str, **settings: Any) -> None:
        super().__init__(option_strings, dest, **settings)
        self._is_stored = False

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: object,
        option_string: str | None = None,
    ) -> None:
        if option_string is not None and self._is_stored:
            parser.error(f"{option_string} is given twice")
        self._is_stored = True
        setattr(namespace, self.dest, values)


def _run(argv: Sequence[str]) -> int:
    chosen = next((word for word in argv if not word.startswith("-")), None)
    module = _command(chosen)
    parser = argparse.ArgumentParser(prog="tessella", description="A compiler for tensor programs.")
    parser.add_argument("--version", action="version", version=versions())
    commands = parser.add_subparsers(metavar="COMMAND", required=True)
    for name, text in COMMANDS.items():
        command = commands.add_parser(
            name, help=text, description=text, formatter_class=RawDescriptionHelpFormatter
        )
        command.register("action", None, _StoreOnce)
        command.add_argument(
            "-v",
            "--verbose",
            action="count",
            default=0,
            help="log compilations to stderr; -vv: each pass, and each module of LLVM",
        )
        if name == chosen and module is not None:
            command.epilog = getattr(module, "EPILOG", None)
            module.add_arguments(command)
    args = parser.parse_args(argv)
    assert module is not None
    assert chosen is not None
    check_used(commands.choices[chosen], args, (*getattr(module, "USELESS", ()), MEASURED))
    try:
        with _logged(args.verbose):
            code: int = module.run(args)
        print(end="", flush=True)  # while an error can still be reported
        return code
    except (TessellaError, BrokenPipeError, MemoryError):
        raise
    except OSError as error:
        raise TessellaError(
            f"the system refuses: {error.strerror or error}", where=error.filename
        ) from error
    except Exception as error:
        raise TessellaError(
            f"tessella has a bug: {type(error).__name__}: {error}",
            hint="report it, with what TESSELLA_FULL_TRACEBACK=1 shows",
        ) from error


@contextmanager
def _logged(verbose: int) -> Generator[None]:
    """Print tessella's log messages in the block to stderr: INFO if ``verbose`` is 1, DEBUG if it
    is more. If it is 0, only warnings are shown, by Python."""
    if not verbose:
        yield
        return
    import logging  # imported here, as the import is slow

    logger, handler = logging.getLogger("tessella"), logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
    level = logger.level
    logger.setLevel(logging.DEBUG if verbose > 1 else logging.INFO)
    logger.addHandler(handler)
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)


def _command(name: str | None) -> ModuleType | None:
    """Return the module of the command ``name``; None if there is no command of this name. No other
    module is imported, as other commands need more packages and time."""
    return import_module(f"tessella.tools.commands.{name}") if name in COMMANDS else None


if __name__ == "__main__":
    sys.exit(main())
