"""The assembly of an LLVM module, with the line of LLVM IR that each of its lines was compiled
from.

Each instruction of the LLVM IR gets a debug location with the number of its line. LLVM keeps the
locations through its optimisations, and writes them into the assembly as directives (``.loc``),
which are read and dropped here. The code is the same as without them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tessella.codegen.llvm import assembly
from tessella.targets import Target

_FIRST = 1 << 20
"""The number of the first metadata node, beyond those of the module."""
_FRAME = """!llvm.dbg.cu = !{{!{unit}}}
!llvm.module.flags = !{{!{flag}}}
!{flag} = !{{i32 2, !"Debug Info Version", i32 3}}
!{file} = !DIFile(filename: "kernel.ll", directory: "")
!{empty} = !{{}}
!{type} = !DISubroutineType(types: !{empty})
!{unit} = distinct !DICompileUnit(language: DW_LANG_C99, file: !{file}, isOptimized: true, \
emissionKind: DebugDirectivesOnly)"""
_NODES = ("unit", "flag", "file", "empty", "type")
_FUNCTION = (
    '!{number} = distinct !DISubprogram(name: "f", scope: !{file}, file: !{file}, line: {line}, '
    "type: !{type}, unit: !{unit}, spFlags: DISPFlagDefinition)"
)
_LOCATION = re.compile(r"\s*\.loc\s+\d+\s+(\d+)\b")
_DROPPED = re.compile(r"\s*\.(?:loc|file|cfi_\w+)\b|\.L(?:tmp|func_begin)\d+:")
_END = re.compile(r'\s*\.section\s+"?\.debug_')
_SECTION = re.compile(r"\s*\.(?:section|text)\b")
_INSTRUCTION = re.compile(r"\t[a-z]")


def assembly_lines(text: str, target: Target, level: int = 3) -> Iterator[tuple[str, int]]:
    """Yield the lines of the assembly of an LLVM module, each with the number, from 0, of the line
    of ``text`` that it was compiled from. The number is -1 for lines without an instruction, and
    for instructions that LLVM has given no location."""
    at, is_debug = -1, False
    for line in assembly(with_debug_lines(text), target, level).splitlines():
        if _SECTION.match(line):
            is_debug = _END.match(line) is not None
        if (found := _LOCATION.match(line)) is not None:
            at = int(found[1]) - 1
        if not (is_debug or _DROPPED.match(line)):
            yield line, at if _INSTRUCTION.match(line) else -1


def with_debug_lines(text: str) -> str:
    """Return an LLVM module with a debug location for each instruction: the number of its line,
    counted from 1."""
    nodes = {name: _FIRST + i for i, name in enumerate(_NODES)}
    number, function = _FIRST + len(nodes), 0
    lines: list[str] = []
    metadata: list[str] = []
    for at, line in enumerate(text.split("\n"), 1):
        if line.startswith("define "):
            function = number
            metadata.append(_FUNCTION.format(number=number, line=at, **nodes))
            line = f"{line.removesuffix('{')}!dbg !{number} {{"
        elif line.startswith("  "):
            metadata.append(f"!{number} = !DILocation(line: {at}, column: 1, scope: !{function})")
            line = f"{line}, !dbg !{number}"
        lines.append(line)
        number += 1
    return "\n".join([*lines, _FRAME.format(**nodes), *metadata, ""])
