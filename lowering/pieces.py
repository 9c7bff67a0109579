"""The division of a kernel into pieces: statements that each thread runs one after the other,
without waiting for other threads.

    %s = tile.contract + [m: 64, n: 64 | k: 64] .. parallel n 16
    %m = tile.contract > [m: 64 | n: 64] (%s[m, n]) -> [m] .. parallel m 8
    ->
    the first statement, and, after a barrier, the second one

A kernel is one piece if its statements are not divided between threads, or if a loop that all of
them share is.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby

from xdsl.dialects.builtin import ArrayAttr
from xdsl.ir import SSAValue

from tessella.dialects.rt import ALONE, PartAttr
from tessella.dialects.tile import ContractOp, KernelOp
from tessella.dialects.tile.nest import depth, shared_loops
from tessella.dialects.tile.order import Statement, in_order
from tessella.passes.hazards import Hazards, Use
from tessella.passes.tile.parts import joined, roots_of, uses
from tessella.support.errors import InvalidModelError


@dataclass(frozen=True)
class KernelPiece:
    """Consecutive statements of a kernel that are lowered to a kernel of their own, with the
    buffers that they read and write."""

    ops: Sequence[Statement]
    arguments: Sequence[SSAValue]
    """The arguments of the whole kernel."""
    results: Sequence[SSAValue]
    """The results of the whole kernel, as the tensors that own their buffers."""
    roots: Mapping[SSAValue, SSAValue]
    """For every tensor that the kernel's statements write, the tensor that owns its buffer."""
    inputs: Sequence[SSAValue]
    outputs: Sequence[SSAValue]
    scratch: Sequence[SSAValue]
    uses: Sequence[Use]
    """The uses of buffers by the piece's statements."""

    @property
    def parts(self) -> ArrayAttr[PartAttr] | None:
        """For each buffer, how threads divide the elements that they touch; None if one thread runs
        the piece."""
        values = (*self.inputs, *self.outputs, *self.scratch)
        known = joined(self.uses)
        found = [known.get(value, ALONE) for value in values]
        if all(part == ALONE for part in found):
            return None
        return ArrayAttr([PartAttr(part) for part in found])


def check_results(kernel: KernelOp) -> None:
    """Raise InvalidModelError if two results have the same buffer, or if an operand has yet to be
    packed."""
    name, roots = kernel.sym_name.data, roots_of(kernel)
    if any(kernel.packed(i) for i in range(len(kernel.body.block.args))):
        raise InvalidModelError(
            f"the operands of @{name} are not packed", hint="pack-operands packs them"
        )
    results = [roots[v] for v in kernel.returned.values if v in roots]
    if len(set(results)) != len(kernel.returned.values):
        raise InvalidModelError(
            f"@{name} returns an argument, or a tensor twice",
            expected="each result to be written by a statement of its own",
        )


def pieces(kernel: KernelOp) -> list[KernelPiece]:
    """Return the pieces of a kernel, in order."""
    roots = roots_of(kernel)
    ops = in_order(kernel.all_statements)
    used = {op: list(uses(op, roots)) for op in ops}
    groups = _groups(ops, used)
    results = [roots[value] for value in kernel.returned.values]
    if len(groups) <= 1:
        owned = dict.fromkeys(roots.values())
        scratch = [value for value in owned if value not in results]
        all_uses = [use for op in ops for use in used[op]]
        arguments = kernel.body.block.args
        read = [value for value in arguments if value not in results]
        return [KernelPiece(ops, arguments, results, roots, read, results, scratch, all_uses)]
    return [_piece(kernel, groups, number, used, roots, results) for number in range(len(groups))]


def _groups(
    ops: Sequence[Statement], used: Mapping[Statement, Sequence[Use]]
) -> list[list[Statement]]:
    """Group statements that need no barrier between them. Either all statements of a group are
    divided among threads, or none."""
    groups: list[list[Statement]] = []
    hazards = Hazards()
    for _, run in groupby(ops, key=lambda op: depth(op) > 0):
        together = list(run)
        # Statements in shared loops stay together: an iteration reads only values that the same
        # thread has written.
        units = [together] if depth(together[0]) else [[op] for op in together]
        for unit in units:
            touched = [use for op in unit for use in used[op]]
            alike = bool(groups) and _is_alone(groups[-1][-1]) == _is_alone(unit[-1])
            if not alike or hazards.conflict(touched) is not None:
                groups.append([])
                hazards.clear()
            groups[-1] += unit
            hazards.add(touched)
    return groups


def _is_alone(op: Statement) -> bool:
    if not isinstance(op, ContractOp):
        return op.parallel is None
    if any(loop.parallel for loop in shared_loops(op).values()):
        return False
    return op.schedule is None or op.schedule.data.parallel is None


def _piece(
    kernel: KernelOp,
    groups: Sequence[Sequence[Statement]],
    number: int,
    used: Mapping[Statement, Sequence[Use]],
    roots: Mapping[SSAValue, SSAValue],
    results: Sequence[SSAValue],
) -> KernelPiece:
    inside = [use for op in groups[number] for use in used[op]]
    others = (op for i, group in enumerate(groups) if i != number for op in group)
    outside = {use.buffer for op in others for use in used[op]} | set(results)
    written = _once(use.buffer for use in inside if use.written)
    return KernelPiece(
        groups[number],
        kernel.body.block.args,
        results,
        roots,
        inputs=[value for value in _once(use.buffer for use in inside) if value not in written],
        outputs=[value for value in written if value in outside],
        scratch=[value for value in written if value not in outside],
        uses=inside,
    )


def _once(values: Iterable[SSAValue]) -> list[SSAValue]:
    return list(dict.fromkeys(values))
