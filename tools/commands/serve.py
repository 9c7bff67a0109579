"""`tessella serve`: answer requests over HTTP with the Open Inference Protocol."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from tessella.driver.stages.stages import ARTIFACT
from tessella.runtime.loaded import LoadedModel, load
from tessella.support.errors import OptionError
from tessella.tools.commands.numbers import amount, count
from tessella.tools.commands.useless import Useless
from tessella.tools.serve.app import Limits
from tessella.tools.serve.server import ServerSettings, serve

EPILOG = """\
  tessella serve model.tsl                            http://127.0.0.1:8000/v2/models/model/infer
  tessella serve model.tsl --batch 32 --wait 0.005    run requests together
  tessella serve a.tsl b.tsl --host 0.0.0.0           serve several models to other machines
"""

USELESS = (
    Useless(
        ("wait",),
        lambda args: args.batch == 1,
        "each request runs alone, and waits for no other",
        "add --batch ROWS, the most rows that run together",
    ),
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "models", nargs="+", metavar="MODEL.tsl", help="an artifact, served under its file name"
    )
    parser.add_argument("--host", default="127.0.0.1", help="the address to listen at (127.0.0.1)")
    parser.add_argument(
        "--port", type=count, default=8000, help="port to listen at; 0: any free one (8000)"
    )
    parser.add_argument(
        "--threads", type=int, metavar="N", help="number of threads of a run (all cores)"
    )
    parser.add_argument(
        "--runs", type=count, default=1, metavar="N", help="most simultaneous runs of a model (1)"
    )
    parser.add_argument(
        "--batch",
        type=count,
        default=1,
        metavar="ROWS",
        help="largest number of rows that run together (1: each request runs alone)",
    )
    parser.add_argument(
        "--wait",
        type=amount,
        default=0.002,
        metavar="SECONDS",
        help="longest time that a request waits for others, in seconds (0.002)",
    )
    parser.add_argument(
        "--grace",
        type=count,
        default=30,
        metavar="SECONDS",
        help="longest time for requests in flight after SIGTERM, in seconds (30)",
    )
    parser.add_argument(
        "--max-body", type=count, default=64, metavar="MIB", help="largest request, in MiB (64)"
    )
    parser.add_argument(
        "--max-requests",
        type=count,
        default=64,
        metavar="N",
        help="largest number of requests that are read or computed at once (64)",
    )


def run(args: argparse.Namespace) -> int:
    """Serve models until a signal ends the process. Returns 0."""
    _check(args)
    limits = Limits(args.max_body << 20, args.max_body << 20, args.max_requests)
    settings = ServerSettings(
        args.host, args.port, args.runs, args.batch, args.wait, args.grace, limits
    )
    models = _loaded(args.models, args.threads)

    def started(url: str) -> None:
        print(f"serving {', '.join(models)} at {url}", flush=True)

    serve(models, settings, started)
    return 0


def _check(args: argparse.Namespace) -> None:
    least = {"runs": 1, "batch": 1, "max_body": 1, "max_requests": 1}
    for name, low in least.items():
        if getattr(args, name) < low:
            raise OptionError(f"--{name.replace('_', '-')} is too small", expected=f"{low} or more")
    if args.port > 65535:
        raise OptionError("invalid port", expected="0 to 65535", found=str(args.port))


def _loaded(paths: Sequence[str], threads: int | None) -> dict[str, LoadedModel]:
    """Return the models by name. Raises TessellaError."""
    models: dict[str, LoadedModel] = {}
    for path in paths:
        name = Path(path).stem
        if Path(path).suffix != ARTIFACT:
            raise OptionError(
                "only artifacts are served",
                where=path,
                expected=f"a file {name}{ARTIFACT}",
                hint=f"tessella compile {path} -o {name}{ARTIFACT}",
            )
        if name in models:
            raise OptionError("two models have the same name", found=name, hint="rename a file")
        models[name] = load(path, threads=threads)
    return models
