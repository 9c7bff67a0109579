"""`tessella cache`: the results of earlier compilations on disk."""

from __future__ import annotations

import argparse

from tessella.codegen import kernel_cache
from tessella.driver.cache import cached_weights, program_cache
from tessella.runtime import opencl
from tessella.support import disk
from tessella.support.errors import TessellaError

FOLDERS = (
    kernel_cache.FOLDER,
    program_cache.FOLDER,
    cached_weights.FOLDER,
    program_cache.SIGNATURES,
    opencl.BINARIES,
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the command's arguments."""
    parser.add_argument(
        "action",
        nargs="?",
        choices=("show", "clear"),
        default="show",
        help="list the entries (the default), or remove them",
    )


def run(args: argparse.Namespace) -> int:
    """Clear the caches if asked to, and show their sizes. Returns 0."""
    root = disk.home()
    if root is None:
        print("there is no cache: TESSELLA_CACHE is off, or there is no home folder")
        return 0
    if args.action == "clear":
        stayed = sum(folder.trim(0) for folder in FOLDERS)
        if stayed:
            raise TessellaError(f"{stayed} entries cannot be removed", where=str(root))
    print(f"{root}  (TESSELLA_CACHE names another folder, or is off)")
    for folder in FOLDERS:
        usage = folder.usage()
        most = folder.most / 2**20
        print(
            f"  {folder.name:10} {usage.entries:6} entries  "
            f"{usage.size / 2**20:8.1f} MiB of at most {most:.0f}"
        )
    return 0
