"""Assembly with the lines of LLVM IR that it was made of."""

from __future__ import annotations

from xdsl.ir import Operation

from tessella import targets
from tessella.codegen.debug_lines import assembly_lines
from tessella.codegen.emit import emit_kernel, traced_kernel
from tessella.codegen.llvm import assembly
from tessella.dialects.printing import lines_of, to_text
from tessella.dialects.rt import KernelOp
from tessella.driver.build.build import lower
from tessella.driver.options import make_options
from tessella.frontends.compile import open_source
from tests.tools.networks import classifier

TARGET = targets.get("avx2")


def kernels() -> list[KernelOp]:
    """The kernels of a small model."""
    graph = open_source(classifier().SerializeToString()).graph({"x": (1, 3, 8, 8)})
    module = lower(graph, make_options(target="avx2")).stages["loops"]
    return [op for op in module.ops if isinstance(op, KernelOp)]


def instructions(lines: list[str]) -> list[str]:
    """The lines that are instructions or labels of blocks."""
    return [line for line in lines if line[:2].strip() and not line.startswith(("\t.", ".Lfunc"))]


def test_the_code_is_the_same_as_without_lines() -> None:
    for kernel in kernels():
        text = emit_kernel(kernel, TARGET)
        found = [line for line, _ in assembly_lines(text, TARGET)]
        assert not any(".loc" in line or "debug" in line for line in found)
        assert instructions(found) == instructions(assembly(text, TARGET).splitlines())


def test_a_multiply_add_is_of_its_line() -> None:
    kernel = next(k for k in kernels() if k.sym_name.data.startswith("conv"))
    text, ops = traced_kernel(kernel, TARGET)
    llvm = text.split("\n")
    fused = [at for line, at in assembly_lines(text, TARGET) if "vfmadd" in line]
    assert fused
    assert all("llvm.fma" in llvm[at] for at in fused)
    made = {op.name for at in fused if isinstance(op := ops[at], Operation)}
    assert made == {"vector.fma"}


def test_each_line_of_a_body_is_of_an_op() -> None:
    for kernel in kernels():
        text, ops = traced_kernel(kernel, TARGET)
        assert text == emit_kernel(kernel, TARGET)
        lines = text.split("\n")
        assert len(lines) == len(ops)
        body = range(lines.index("entry:") + 1, lines.index("  ret void", lines.index("entry:")))
        assert all(ops[i] is not None for i in body)


def test_lines_of_text_are_of_ops() -> None:
    for kernel in kernels():
        shown = list(lines_of(kernel))
        assert "\n".join(line for line, _ in shown) == to_text(kernel)
        hidden = set(kernel.walk()) - {op for _, op in shown}
        assert {op.name for op in hidden} <= {"scf.yield"}
