"""Loops that the statements of a kernel share: what the IR says, and what it refuses."""

from __future__ import annotations

import pytest
from xdsl.dialects.builtin import ModuleOp
from xdsl.utils.exceptions import VerifyException

from tessella.dialects.printing import to_text
from tessella.dialects.tile import At, AtAttr, ContractOp, KernelOp, Window
from tessella.dialects.tile.flat import flatten
from tessella.dialects.tile.nest import memory_shape, shared_loops, steps
from tessella.dialects.verify import verify
from tessella.driver.stages.located import LocatedError, LocatedParser
from tessella.driver.stages.stage_file import stage_context
from tessella.passes.tile.storage import store_results

CENTERED = """
tile.kernel @centered(%x: tensor<6x8xf32>) -> (tensor<6x8xf32>)
  attributes {nest = #tile.nest<[6 by 4]>} {
  %s = tile.contract + [i: 6 | j: 8] (%x[i, j]) -> [i] at [i] in a step of i: 4 {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<6xf32>
  %r = tile.contract = [p: 6, q: 8] (%x[p, q], %s[p]) -> [p, q] at [p] {
  ^bb0(%b: f32, %c: f32):
    %d = arith.subf %b, %c : f32
    tile.yield %d : f32
  } : tensor<6x8xf32>
  tile.return %r : tensor<6x8xf32>
}
"""


def parse(text: str) -> ModuleOp:
    module = LocatedParser(stage_context(), text, "text").parse()
    assert isinstance(module, ModuleOp)
    return module


def kernel_of(text: str) -> KernelOp:
    module = parse(f"builtin.module {{{text}}}")
    verify(module)
    (kernel,) = module.body.block.ops
    assert isinstance(kernel, KernelOp)
    return kernel


def test_what_is_printed_is_parsed() -> None:
    text = to_text(parse(f"builtin.module {{{CENTERED}}}"))
    assert "nest = #tile.nest<[6 by 4]>" in text
    assert "-> [i] at [i] in a step of i: 4 {" in text
    assert to_text(parse(text)) == text


def test_prefetching_is_printed() -> None:
    text = CENTERED.replace("[6 by 4]", "[6 by 4] prefetch 64 ahead 2")
    assert "#tile.nest<[6 by 4] prefetch 64 ahead 2>" in to_text(kernel_of(text))


def test_a_tensor_of_the_kernel_has_room_for_one_step() -> None:
    first, second = (op for op in kernel_of(CENTERED).body.block.ops if isinstance(op, ContractOp))
    assert (memory_shape(first.res), memory_shape(second.res)) == ((4,), (6, 8))
    assert flatten(second).ranges == {"p": 4, "q": 8}
    assert flatten(second).accesses[0].strides == {"p": 8, "q": 1}
    assert steps(first) == 2


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("-> [i] at [i]", "-> [i] at [i, j]", "the kernel's 1 shared loops, found [i, j]"),
        ("-> [i] at [i]", "-> [i] at [i, i]", "the kernel's 1 shared loops, found [i, i]"),
        (" at [i] in", " in", "one of the indices [] that shared loops run over, found one of i"),
        ("a step of i", "a step of j", "of the indices [i] that shared loops run over, found one"),
        ("step of i: 4", "step of i: 3", "room for 4 elements in a step of i, found 3"),
        ("step of i: 4", "step of i: 4 x 1", "room for 4 elements in a step of i, found 4 x 1"),
        ("[p, q] at [p]", "[p, q]", "lives in a step of i is read outside it"),
        (
            "[p, q] at [p]",
            "[p, q] at [p] in a step of p: 4 x 8",
            "lives in a step of p is read outside it",
        ),
        ("attributes {nest = #tile.nest<[6 by 4]>}", "", "0 shared loops, found [i]"),
        ("6 by 4", "6 by 7", "a shared loop of 6 has no steps of 7"),
        ("6 by 4", "6 by 0", "a shared loop of 6 has no steps of 0"),
        ("6 by 4", "8 by 4", "the loop over i cannot be one of 8 by 4 that is shared"),
        ("at [i] in a step of i: 4", "at [j]", "the loop over j cannot be one of 6"),
        ("[p, q] at [p]", "[p, q] at [q]", "the loop over q cannot be one of 6"),
    ],
)
def test_what_cannot_be_shared(old: str, new: str, message: str) -> None:
    assert old in CENTERED
    with pytest.raises(VerifyException) as caught:
        kernel_of(CENTERED.replace(old, new))
    assert message in str(caught.value)


def test_a_step_reads_what_no_other_writes() -> None:
    turned = """
tile.kernel @turned(%x: tensor<6x6xf32>) -> (tensor<6x6xf32>)
  attributes {nest = #tile.nest<[6 by 2]>} {
  %s = tile.contract = [i: 6, j: 6] (%x[i, j]) -> [i, j] at [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<6x6xf32>
  %r = tile.contract = [p: 6, q: 6] (%s[q, p]) -> [p, q] at [p] {
  ^bb0(%b: f32):
    tile.yield %b : f32
  } : tensor<6x6xf32>
  tile.return %r : tensor<6x6xf32>
}
"""
    with pytest.raises(VerifyException, match="p reads what another step of a shared loop writes"):
        kernel_of(turned)


def test_a_window_may_leave_its_tensor_in_a_shared_loop() -> None:
    windows = """
tile.kernel @windows(%x: tensor<6xf32>) -> (tensor<6xf32>)
  attributes {nest = #tile.nest<[6 by 2]>} {
  %r = tile.contract + [i: 6 | w: 3] (%x[i + w - 1]) -> [i] at [i] {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<6xf32>
  tile.return %r : tensor<6xf32>
}
"""
    (op,) = kernel_of(windows).statements
    flat = flatten(op)
    assert flat.ranges == {"i": 2, "w": 3}
    (constraint,) = flat.constraints
    assert (str(constraint.form), constraint.extent) == ("i + w - 1", 6)
    assert flat.floating == {"i"}


NEIGHBOURS = """
tile.kernel @neighbours(%x: tensor<6x8xf32>) -> (tensor<6x8xf32>)
  attributes {nest = #tile.nest<[6 by 2]>} {
  %t = tile.contract = [i: 6, j: 8] (%x[i, j]) -> [i, j] at [i: step - 1 by 4]
         in a step of i: 4 x 8 {
  ^bb0(%a: f32):
    tile.yield %a : f32
  } : tensor<6x8xf32>
  %r = tile.contract + [p: 6, q: 8 | w: 3] (%t[p + w - 1, q]) -> [p, q] at [p] {
  ^bb0(%b: f32):
    tile.yield %b : f32
  } : tensor<6x8xf32>
  tile.return %r : tensor<6x8xf32>
}
"""


@pytest.mark.parametrize(
    "nest, message",
    [
        ("n - 1 by 2", "the loop over p cannot be one of n - 1 by 2"),
        ("3 * n by 2", "the loop over p cannot be one of 3 \\* n by 2"),
        ("n by 2", "p reads what another step of a shared loop writes"),
    ],
)
def test_open_loops_that_cannot_be_shared(nest: str, message: str) -> None:
    """The verifier refuses text that is valid for some sizes only."""
    text = NEIGHBOURS.replace("6 by 2", nest).replace("6x8", "[n]x8").replace(": 6", ": n")
    symbols = "{symbols = [#nn.symbol<n, 4 to 9>]}"
    with pytest.raises(VerifyException, match=message):
        verify(parse(f"builtin.module attributes {symbols} {{{text}}}"))


def test_windows_of_open_loops_are_not_inferred() -> None:
    text = NEIGHBOURS.replace("6 by 2", "n by 2").replace("6x8", "[n]x8").replace(": 6", ": n")
    module = parse(f"builtin.module attributes {{symbols = [#nn.symbol<n, 2 to 9>]}} {{{text}}}")
    (kernel,) = module.body.block.ops
    assert isinstance(kernel, KernelOp)
    first, _ = kernel.statements
    first.at = AtAttr.of("i")
    store_results(kernel)
    assert first.at == AtAttr.of("i")


def test_a_window_of_a_step() -> None:
    kernel = kernel_of(NEIGHBOURS)
    first, _ = kernel.statements
    assert memory_shape(first.res) == (4, 8)
    (own,) = shared_loops(first).values()
    assert [own.first(i) for i in range(own.trips)] == [0, 1, 2]
    assert "at [i: step - 1 by 4] in a step of i: 4 x 8 {" in to_text(kernel)
    first.at = AtAttr.of("i")
    store_results(kernel)
    assert first.at == AtAttr((At("i", Window(1, -1, 4)),))


@pytest.mark.parametrize(
    "old, new, message",
    [
        ("i: step - 1 by 4", "i: step - 1 by 3", "p reads what another step"),
        ("i: step - 1 by 4", "i: step by 4", "p reads what another step"),
        ("i: step - 1 by 4", "i: 2*step - 1 by 4", "p reads what another step"),
        ("i: step - 1 by 4", "i", "p reads what another step"),
        ("i: step - 1 by 4", "i: step - 1 by 7", "over i: step - 1 by 7 cannot be one of 6 by 2"),
        ("i: step - 1 by 4", "i: step - 1 by 0", "over i: step - 1 by 0 cannot be one of 6 by 2"),
        ("i: step - 1 by 4", "i: 3 by 4", "over i: 3 by 4 cannot be one of 6 by 2"),
        ("at [p]", "at [p: step - 1 by 4]", "over p: step - 1 by 4 cannot be one of 6 by 2"),
    ],
)
def test_windows_that_do_not_fit(old: str, new: str, message: str) -> None:
    assert old in NEIGHBOURS
    with pytest.raises(VerifyException) as caught:
        kernel_of(NEIGHBOURS.replace(old, new))
    assert message in str(caught.value)


def test_a_window_is_a_form_of_the_step() -> None:
    text = NEIGHBOURS.replace("step - 1", "j")
    found = LocatedParser(stage_context(), f"builtin.module {{{text}}}", "text").parse()
    assert isinstance(found, LocatedError)
    assert found.message == "expected a form of the step, found j"
