"""Timings as a table, in the style of LLVM and MLIR."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from tessella.driver.build.compiling import LLVM_WORK, total

_NAMES = {
    "import": "(import of the model)",
    "emit": "(LLVM IR written)",
    "verify": "(verification)",
    "llvm": "(waiting for LLVM)",
    "link": "(linking, packing of weights)",
    "store": "(storing on disk)",
    "fetch": "(loading from disk)",
}
_RULE = f"==={'-' * 73}==="


def time_report(timings: Mapping[str, float]) -> Iterator[str]:
    """Yield the lines of the table, longest first. LLVM's parallel work is listed separately."""
    whole = total(timings)
    yield from (_RULE, f"{'... Execution time report ...':^79}".rstrip(), _RULE)
    yield f"  Total Execution Time: {whole:.4f} seconds"
    if LLVM_WORK in timings:
        work = timings[LLVM_WORK]
        yield f"  LLVM, mostly in other processes meanwhile: {work:.4f} seconds"
    yield ""
    yield "  ----Wall Time----  ----Name----"
    rows = [(name, seconds) for name, seconds in timings.items() if name != LLVM_WORK]
    for name, seconds in sorted(rows, key=lambda row: -row[1]):
        yield _row(seconds, whole, _NAMES.get(name, name))
    yield _row(whole, whole, "Total")


def _row(seconds: float, whole: float, name: str) -> str:
    share = seconds / whole if whole else 0.0
    return f"  {seconds:9.4f} ({share:6.1%})  {name}"
