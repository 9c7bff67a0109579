"""The fuzzers, by name."""

from __future__ import annotations

from tests.fuzz import damaged, functions, loops, onnx_graphs, open_programs, passes, programs, tile
from tests.fuzz.fuzzer import Fuzzer

FUZZERS: dict[str, Fuzzer] = {
    fuzzer.name: fuzzer
    for fuzzer in (
        onnx_graphs.FUZZER,
        functions.FUZZER,
        tile.PROGRAM_FUZZER,
        tile.STATEMENT_FUZZER,
        tile.NEST_FUZZER,
        passes.FUZZER,
        passes.BITS_FUZZER,
        programs.FUZZER,
        loops.FUZZER,
        open_programs.FUZZER,
        damaged.MODEL_FUZZER,
        damaged.STAGE_FUZZER,
    )
}
