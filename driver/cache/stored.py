"""Programs in the form in which disks and artifacts store them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from tessella import targets
from tessella.driver.options import CheckedOptions
from tessella.runtime.artifact import (
    Buffer,
    CompiledModel,
    CompiledProgram,
    CompiledSubprogram,
    dump,
)
from tessella.runtime.records import NotStorableError
from tessella.runtime.rest import Rest
from tessella.support.errors import OptionError
from tessella.support.sizes import Size
from tessella.support.versions import versions

if TYPE_CHECKING:
    from tessella.runtime.events import Work
    from tessella.runtime.explanation import Explanation
    from tessella.runtime.program import Program


def compiled(
    shapes: Sequence[Sequence[Size]],
    values: Mapping[int, bytes],
    program: Program,
    options: CheckedOptions,
    explanation: Explanation | None = None,
    work: Mapping[str, Work] | None = None,
    rest: Rest[CompiledSubprogram] | None = None,
    sizes: Mapping[int, Sequence[Size]] | None = None,
) -> CompiledProgram:
    """Return a program in the form in which artifacts store it: with its target, the shapes and
    values that it was compiled for, and its explanation, work and continuation, if given."""
    target = targets.resolve(options.target)
    explained = None if explanation is None else explanation.json()
    known = explained, work or {}, rest, sizes or {}
    return CompiledProgram(target.name, target.features, shapes, program, values, *known)


def parts(model: CompiledModel) -> Sequence[Buffer]:
    """Return the bytes of an artifact with the programs of ``model``. Raises OptionError for
    programs that cannot be stored."""
    try:
        return dump(model, versions())
    except NotStorableError as error:
        raise OptionError(f"the model cannot be written: it holds {error}") from error
