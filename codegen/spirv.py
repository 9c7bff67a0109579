"""SPIR-V for OpenCL from LLVM IR.

Each module is compiled in a separate process. LLVM's backend for SPIR-V keeps the numbers of a
module's values in a static object, so that later modules may define a number twice
(https://github.com/llvm/llvm-project/issues/160613).
"""

from __future__ import annotations

import subprocess
import sys

from tessella.codegen import llvm
from tessella.support.errors import InternalError

TRIPLE = "spirv64-unknown-unknown"
_MACHINE = llvm.Machine(TRIPLE, "", "", level=0)
_START = (
    "import sys; sys.path[:] = sys.argv[2:]; from importlib import import_module; "
    f"import_module('{__name__}').main(sys.argv[1])"
)
_SHOWN = 2000
"""Characters of LLVM's message that an error shows."""


def assembly(text: str) -> str:
    """Return the assembly of a module, for reading."""
    return _compiled(text, "assembly").decode()


def binary(text: str) -> bytes:
    """Return a binary module."""
    return _compiled(text, "binary")


def _compiled(text: str, form: str) -> bytes:
    command = [sys.executable, "-c", _START, form, *sys.path]
    done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
    if done.returncode != 0:
        raise InternalError(
            "LLVM cannot compile a kernel to SPIR-V",
            found=done.stderr.decode(errors="replace")[-_SHOWN:],
        )
    return done.stdout


def main(form: str) -> None:
    """Compile the LLVM IR on standard input in this process, and write SPIR-V to standard
    output."""
    text = sys.stdin.read()
    if form == "binary":
        sys.stdout.buffer.write(llvm.emit_object(text, _MACHINE))
    else:
        sys.stdout.write(llvm.machine_assembly(text, _MACHINE))
