"""The table of the languages in which kernels are written, each with its printer."""

from __future__ import annotations

from collections.abc import Mapping

from tessella.codegen.semtree import words
from tessella.codegen.semtree.c import CPrinter
from tessella.codegen.semtree.llvm_ir import SpirvPrinter
from tessella.codegen.semtree.printer import Printer
from tessella.codegen.semtree.text import TreePrinter
from tessella.targets.device_facts import DeviceFacts

NVIDIA = DeviceFacts(
    flops=4.6e12,
    bandwidth=1e11,
    link=1e10,
    latency=2e-5,
    launch=1e-5,
    group_items=256,
    local_bytes=15360,
    register_bytes=32768,
    line_bytes=64,
    units=4,
)
"""The facts that kernels in CUDA C are compiled for. PlaidML's settings for NVIDIA's GPUs follow
from them."""

LANGUAGES: Mapping[str, Printer] = {
    "opencl": CPrinter(words.OPENCL),
    "cuda": CPrinter(words.CUDA, NVIDIA),
    "spirv": SpirvPrinter(),
    "semtree": TreePrinter(),
}
"""The printers, by language."""
