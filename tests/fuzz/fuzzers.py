"""The fuzzers, by name."""

from __future__ import annotations

from tests.fuzz import damaged, functions, onnx_graphs, open_programs, passes, tile
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
        open_programs.FUZZER,
        damaged.MODEL_FUZZER,
        damaged.STAGE_FUZZER,
    )
}
