"""Spilled registers, counted in assembly written by hand and by LLVM."""

from __future__ import annotations

import pytest

from bench.assembly import spills
from tessella import targets
from tessella.codegen.llvm import assembly
from tessella.codegen.module_text import module_text

ATT = """
	.text
	.globl	kernel
	.p2align	4
	.type	kernel,@function
kernel:                                 # @kernel
# %bb.0:
	pushq	%rbp
	movq	%rsp, %rbp
	subq	$320, %rsp                      # imm = 0x140
	vmovups	%zmm5, 64(%rsp)                 # 64-byte Spill
.LBB0_1:                                # =>This Loop Header: Depth=1
	vmovups	(%rsp), %zmm3
	.p2align	4
.LBB0_2:                                #   Parent Loop BB0_1 Depth=1
	vmovups	128(%rsp), %zmm1                # 64-byte Reload
	vfmadd231ps	-192(%rbp), %zmm0, %zmm1        # 64-byte Folded Reload
	vfmadd231ps	(%rdi,%rax), %zmm0, %zmm2
	vcmpltps	128(%rsp), %zmm2, %k1
	vmovups	%zmm1, 128(%rsp) {%k1}          # 64-byte Spill
	vmovups	%zmm2, (%rsi,%rax)
	vaddps	.LCPI0_0(%rip), %zmm2, %zmm2
	movq	8(%rsp), %rcx                   # 8-byte Reload
	addq	$16, %rax
	cmpq	%rax, %rdx
	jne	.LBB0_2
# %bb.3:
	decq	%rcx
	jne	.LBB0_1
	retq
.Lfunc_end0:
	.size	kernel, .Lfunc_end0-kernel

	.globl	other
other:
	movq	%rdi, %rbp
.LBB1_1:
	vmovups	64(%rbp), %ymm0
	vmovups	%ymm0, 64(%rbp)
	decq	%rax
	jne	.LBB1_1
	retq
"""

INTEL = """
kernel:
	push	rbp
	mov	rbp, rsp
	sub	rsp, 320
.LBB0_1:
	vmovups	ymm1, ymmword ptr [rsp + 128]
	vfmadd231ps	ymm1, ymm0, ymmword ptr [rbp - 192]
	vfmadd231ps	ymm2, ymm0, ymmword ptr [rdi + 4*rax + 32]
	vmovups	ymmword ptr [rsp + 128], ymm1
	vmovups	ymmword ptr [rsi], ymm2
	mov	rcx, qword ptr [rsp + 8]
	dec	rax
	jne	.LBB0_1
	ret
"""

AARCH64 = """
	.globl	kernel                          // -- Begin function kernel
kernel:                                 // @kernel
	sub	sp, sp, #272
	stp	d15, d14, [sp, #192]            // 16-byte Folded Spill
	stp	x29, x30, [sp, #256]
	add	x29, sp, #256
.LBB0_1:
	ldr	q0, [x1], #16
	ldp	q4, q2, [sp, #112]              // 32-byte Folded Reload
	fmla	v4.4s, v0.4s, v2.s[0]
	str	q4, [sp, #128]
	stur	q4, [x29, #-16]
	str	q2, [x0, #16]
	ldr	x8, [sp, #8]
	subs	x2, x2, #1
	b.ne	.LBB0_1
	ldp	d15, d14, [sp, #192]
	ret
"""


def test_att() -> None:
    found = spills(ATT)
    assert found.keys() == {"kernel", "other"}
    kernel = found["kernel"]
    # what lies in the outer loop, and before it, does not count; nor do masks and other registers
    assert (kernel.stores, kernel.loads, kernel.registers) == (1, 3, 2)
    # without a frame, rbp is a register as any other
    assert found["other"].registers == 0


def test_intel() -> None:
    kernel = spills(INTEL)["kernel"]
    assert (kernel.stores, kernel.loads, kernel.registers) == (1, 2, 2)


def test_aarch64() -> None:
    kernel = spills(AARCH64)["kernel"]
    # the pair at 112 is two places, of which the second, 128, is written too
    assert (kernel.stores, kernel.loads, kernel.registers) == (2, 1, 3)


def test_a_mach_o_function() -> None:
    text = AARCH64.replace(".LBB0_1", "LBB0_1").replace("kernel:", "_kernel:")
    assert spills(text)["_kernel"].registers == 3


LOOP = """
f:
	jmp	.LBB0_3
.LBB0_1:
	vmovups	%ymm1, {first}(%rsp)
	testq	%rax, %rax
	je	.LBB0_3
	vmovups	%ymm1, {second}(%rsp)
.LBB0_3:
	decq	%rax
	jne	.LBB0_1
	vmovups	%ymm1, 256(%rsp)
	retq
"""


@pytest.mark.parametrize("first, second, places", [(32, 64, 2), (32, 32, 1)])
def test_a_loop_of_several_blocks_that_is_entered_below(
    first: int, second: int, places: int
) -> None:
    found = spills(LOOP.format(first=first, second=second))["f"]
    assert (found.stores, found.loads, found.registers) == (2, 0, places)


def test_the_inner_of_loops_that_share_a_head() -> None:
    text = """
f:
.LBB0_1:
	vmovups	(%rsp), %ymm1
	decq	%rax
	jne	.LBB0_1
	vmovups	32(%rsp), %ymm1
	decq	%rbx
	jne	.LBB0_1
	retq
"""
    # one head is one loop: without the edges to it, nothing goes round
    assert spills(text)["f"].registers == 2


def test_code_without_loops() -> None:
    assert spills("f:\n\tvmovups\t%ymm1, (%rsp)\n\tretq\n")["f"].registers == 0
    assert spills("") == {}


def accumulating(target: targets.Target, accumulators: int) -> str:
    """Assembly of a loop in which so many vectors are carried, each with its own load."""
    vector = f"<{target.lanes(32)} x float>"
    fma = f"@llvm.fma.v{target.lanes(32)}f32"
    lines = [
        "define void @f(ptr noalias %a, ptr noalias %c, i64 %n) #0 {",
        "entry:\n  br label %loop",
        "loop:\n  %i = phi i64 [0, %entry], [%next, %loop]",
    ]
    lines += [
        f"  %p{k} = phi {vector} [zeroinitializer, %entry], [%q{k}, %loop]"
        for k in range(accumulators)
    ]
    lines.append("  %at = getelementptr float, ptr %a, i64 %i")
    lines.append(f"  %shared = load {vector}, ptr %at, align 4")
    for k in range(accumulators):
        lines += [
            f"  %s{k} = getelementptr float, ptr %at, i64 {1000 * k + 1000}",
            f"  %w{k} = load {vector}, ptr %s{k}, align 4",
            f"  %q{k} = call {vector} {fma}({vector} %shared, {vector} %w{k}, {vector} %p{k})",
        ]
    lines.append("  %next = add i64 %i, 16\n  %more = icmp ult i64 %next, %n")
    lines.append("  br i1 %more, label %loop, label %done\ndone:")
    for k in range(accumulators):
        lines.append(f"  %t{k} = getelementptr {vector}, ptr %c, i64 {k}")
        lines.append(f"  store {vector} %q{k}, ptr %t{k}, align 4")
    return assembly(module_text(target, [*lines, "  ret void\n}"]), target)


@pytest.mark.parametrize("name", ["avx512", "avx2", "neon"])
def test_llvm_spills_what_does_not_fit(name: str) -> None:
    target = targets.get(name)
    fitting, too_many = target.vector_registers // 2, target.vector_registers + 8
    assert spills(accumulating(target, fitting))["f"].registers == 0
    spilled = spills(accumulating(target, too_many))["f"]
    # each register that does not hold one of them, or holds the shared vector, is a place
    assert 8 <= spilled.registers <= 16
    assert spilled.stores > 0
    assert spilled.loads > 0
