"""Build the source distribution and the wheel: ``python -m release.build [FOLDER]``.

The same source gives the same bytes, on any day and under any umask: the command builds twice and
compares. Timestamps in the files are ``SOURCE_DATE_EPOCH`` or, if it is not set, the time of the
last commit.
"""

from __future__ import annotations

import gzip
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

from release.packages import ROOT

_FILES = ("pyproject.toml", "README.md", "LICENSE")
_EXECUTABLE = 0o100
_UMASK = 0o022


class BuildError(Exception):
    """The error that a distribution cannot be built."""


def epoch() -> int:
    """Return the timestamp of all files, in seconds since 1970."""
    given = os.environ.get("SOURCE_DATE_EPOCH")
    return int(given or _run("git", "log", "-1", "--format=%ct", cwd=ROOT))


def copy_source(folder: Path) -> None:
    """Copy the files that distributions are built from, without the output of earlier builds."""
    links = [path.name for path in (ROOT / "src" / "tessella").iterdir() if path.is_symlink()]
    for name in _FILES:
        shutil.copy(ROOT / name, folder)
    ignored = shutil.ignore_patterns("__pycache__", ".*", "*.egg-info")
    for name in ("src", *links):
        shutil.copytree(ROOT / name, folder / name, symlinks=True, ignore=ignored)


def build(folder: Path, time: int) -> tuple[Path, Path]:
    """Write the source distribution, and the wheel that is built from it.

    Raises
    ------
    BuildError
        If a command fails. The message has the output of the command.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as name:
        source, unpacked = Path(name, "source"), Path(name, "unpacked")
        source.mkdir()
        copy_source(source)
        archive = _normalised(_built("sdist", source, source / "dist"), folder, time)
        with tarfile.open(archive) as opened:
            opened.extractall(unpacked, filter="data")
        [tree] = unpacked.iterdir()
        return archive, _built("wheel", tree, folder, SOURCE_DATE_EPOCH=str(time))


def _built(kind: str, source: Path, folder: Path, **environment: str) -> Path:
    """Build a distribution of the source with the installed build backend."""
    before = {*folder.glob("*")}
    command = (sys.executable, "-m", "build", "--no-isolation", f"--{kind}", "--outdir")
    _run(*command, str(folder), cwd=source, **environment)
    [path] = {*folder.glob("*")} - before
    return path


def _normalised(archive: Path, folder: Path, time: int) -> Path:
    """Rewrite an archive with sorted members that have no owner, and equal times and modes."""
    data = io.BytesIO()
    with (
        tarfile.open(archive) as old,
        tarfile.open(fileobj=data, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda member: member.name):
            member.pax_headers = {}
            member.mtime, member.uid, member.gid = time, 0, 0
            member.uname = member.gname = ""
            member.mode = 0o755 if member.isdir() or member.mode & _EXECUTABLE else 0o644
            new.addfile(member, old.extractfile(member) if member.isfile() else None)
    path = folder / archive.name
    path.write_bytes(gzip.compress(data.getvalue(), mtime=time))
    return path


def _run(*command: str, cwd: Path, **environment: str) -> str:
    """Run a command and return its output. Raises BuildError if it fails."""
    variables = {**os.environ, **environment}
    done = subprocess.run(
        command,
        cwd=cwd,
        env=variables,
        umask=_UMASK,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise BuildError(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main(arguments: list[str]) -> int:
    """Build twice. Returns 1 if the bytes differ, otherwise 0."""
    folder, time = Path(arguments[0] if arguments else "dist"), epoch()
    paths = build(folder, time)
    with tempfile.TemporaryDirectory() as name:
        again = build(Path(name), time)
        pairs = zip(paths, again, strict=True)
        differing = [a.name for a, b in pairs if a.read_bytes() != b.read_bytes()]
    print(*paths, sep="\n")
    if differing:
        print(f"error: two builds differ: {', '.join(differing)}", file=sys.stderr)
    return int(bool(differing))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
