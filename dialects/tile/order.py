"""The execution order of statements in shared loops.

    %m = tile.contract > [i: 512 | j: 64] (%x[i, j]) -> [i] at [i] ...
    %s = tile.contract + [j: 64 | i: 512] (%y[i, j]) -> [j] ...
    %e = tile.contract = [i: 512, j: 64] (%x[i, j], %m[i]) -> [i, j] at [i] ...
    %r = tile.contract = [i: 512, j: 64] (%e[i, j], %s[j]) -> [i, j] at [i] ...

Loops run as early, and as few times, as the dependences between statements allow: here `%s` runs
before the loop of the other statements, wherever it stands in the text.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Operation

from tessella.dialects.tile.inits import reads
from tessella.dialects.tile.ops import ContractOp
from tessella.dialects.tile.selection import SelectionOp

Statement = ContractOp | SelectionOp
Position = tuple[int, ...]
"""The position of a statement: one number for each of its shared loops, from the outermost, and one
for itself. Even numbers count runs of the next loop; odd numbers are positions between runs."""

Positions = Mapping[Statement, Position]
"""The position of each statement of a kernel."""


def positions(statements: Sequence[Statement]) -> Positions:
    """Return the positions of a kernel's statements. The text order of independent statements has
    no effect."""
    found: dict[Statement, Position] = dict.fromkeys(statements, ())
    _place(statements, found)
    return found


def in_order(statements: Sequence[Statement]) -> list[Statement]:
    """Return the statements of a kernel, sorted by position. Statements with equal positions keep
    their text order."""
    position = positions(statements)
    return sorted(statements, key=position.__getitem__)


def steps_in_common(first: Position, second: Position) -> int:
    """Return the number of shared loops, from the outermost, of which two statements run in the
    same iteration."""
    count = 0
    for a, b in zip(first, second, strict=False):
        if a != b or a % 2:
            break
        count += 1
    return count


def _place(ops: Sequence[Statement], found: dict[Statement, Position]) -> None:
    """Assign positions to the statements within an iteration of the loops around them, in text
    order: append a number to the position of each statement in ``found``."""
    if not ops:
        return
    outer = len(found[ops[0]])
    numbers: dict[Operation, int] = {}
    for op in ops:
        loops = isinstance(op, ContractOp) and len(op.at_list) > outer
        earlier = (numbers[other] for other in _needed(op) if other in numbers)
        after = (n if (n % 2 == 0) == loops else n + 1 for n in earlier)
        numbers[op] = max(after, default=0 if loops else -1)
        found[op] = (*found[op], numbers[op])
    for run in {n for n in numbers.values() if n % 2 == 0}:
        _place([op for op in ops if numbers[op] == run], found)


def _needed(op: Statement) -> set[Operation]:
    """Return the statements that must run before another one: the writers of its operands, and the
    readers of the tensor that it overwrites."""
    init = op.init if isinstance(op, ContractOp) else None
    values = [*reads(op), *([init] if init is not None else [])]
    needed = {value.owner for value in values if isinstance(value.owner, Operation)}
    block = op.parent_block()
    if init is not None and block is not None:
        users = (block.find_ancestor_op_in_block(use.operation) for use in init.uses)
        needed |= {user for user in users if user is not None and user is not op}
    return needed
