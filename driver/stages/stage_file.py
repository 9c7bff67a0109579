"""A stage on disk: the IR as text in ``name.STAGE``, and its weights beside it in ``name.weights``.

The extension is the stage: ``.nn``, ``.placed``, ``.tile`` or ``.loops``. Several stages of one
model may lie side by side under one name and share the file of weights.

**Trust.** A file is checked as it is read: it parses, verifies, and holds what ``stage_check``
lists, so that weights, arena and the buffers of every call have the sizes that the text states. But
a ``.loops`` file *is* a program: its loops and indices become native code as they stand. So do the
statements and schedules of a ``.tile`` file, and the kernels that a ``.placed`` file may have.
Trust those as you would trust a program.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from xdsl.dialects.affine import Affine
from xdsl.dialects.builtin import Builtin, ModuleOp
from xdsl.dialects.func import Func
from xdsl.dialects.math import Math
from xdsl.dialects.memref import MemRef
from xdsl.dialects.scf import Scf
from xdsl.dialects.vector import Vector

from tessella.dialects import rt
from tessella.dialects.arith import Arith
from tessella.dialects.bound import defined_symbols
from tessella.dialects.graph import CompileContext, Graph, ValueInfo, main_function, signature
from tessella.dialects.nn import Nn
from tessella.dialects.nn.constants import WeightOp
from tessella.dialects.nn.core import Array, shape_of
from tessella.dialects.place import Place
from tessella.dialects.printing import to_text
from tessella.dialects.sizes import symbols_in
from tessella.dialects.tile import Tile
from tessella.driver.build import plugged
from tessella.driver.stages.located import LocatedError, LocatedParser, verify_each
from tessella.driver.stages.stage_check import faults
from tessella.driver.stages.stages import IR_STAGES, stage_of
from tessella.runtime.weights import WeightStore
from tessella.support import disk
from tessella.support.errors import InvalidModelError, OptionError, ShapeError, TessellaError
from tessella.support.files import regular
from tessella.support.foreign import is_foreign
from tessella.support.sizes import Size

WEIGHTS = ".weights"
"""Extension of the weights file."""

DIALECTS = (Builtin, Affine, Arith, Func, Math, MemRef, Nn, Place, rt.Rt, Scf, Tile, Vector)
"""The dialects of the stages, except those of plugins."""


def weights_path(path: str | os.PathLike[str]) -> Path:
    """Return the weights file of a stage file."""
    return Path(path).with_suffix(WEIGHTS)


def save_stage(path: str | os.PathLike[str], module: ModuleOp, weights: WeightStore) -> None:
    """Write a module and the weights that it names.

    Raises OptionError if the weights file belongs to another model's stage with the same name.
    """
    path = Path(path)
    if path == weights_path(path):
        raise OptionError("this is the name of the file of weights", where=str(path))
    symbols = weight_symbols(module)
    store = weights.copy()
    store.keep(symbols)
    try:
        if symbols:
            _share(path, store)
            replace_file(weights_path(path), store.save)
        replace_file(path, lambda new: new.write_text(f"{to_text(module)}\n", encoding="utf-8"))
    except OSError as error:
        raise OptionError(f"cannot write: {error.strerror or error}", where=str(path)) from error


def load_stage(path: str | os.PathLike[str]) -> tuple[str, Graph]:
    """Read a stage file, and return the name of its stage and its program. Raises InvalidModelError
    for any error in the files."""
    path = Path(path)
    stage = stage_of(path)
    if stage is None:
        raise OptionError(
            "the file's extension names no stage",
            where=str(path),
            expected=f"one of {', '.join(f'.{name}' for name in IR_STAGES)}",
        )
    return stage, parsed(stage, _read_text(path), load_weights(weights_path(path)), str(path))


def parsed(stage: str, text: str, weights: WeightStore, where: str) -> Graph:
    """Return the program of a stage, parsed from ``text``. ``weights`` are the weights that it
    names; ``where`` names the text in errors. Raises InvalidModelError for any error in the text
    or the weights."""
    try:
        module = _checked(where, stage, text, weights)
    except InvalidModelError:
        raise
    except Exception as error:
        if is_foreign(error):
            raise
        # Parsers and verifiers of single ops may raise any exception for malformed text.
        raise InvalidModelError(f"the text is broken: {_first_line(error)}", where=where) from error
    weights.keep(weight_symbols(module))
    return Graph(module, weights, stage)


class StageSource:
    """A stage file as a source of its only program."""

    fingerprint: str | None = None
    determining: Sequence[str] = ()

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self.stage, self._graph = load_stage(path)
        self.inputs: list[ValueInfo]
        self.outputs: list[ValueInfo]
        self.inputs, self.outputs = signature(self._graph.module)
        defined = defined_symbols(self._graph.module)
        self.symbols = [s for s in symbols_in(self._graph.module) if s not in defined]

    def graph(
        self, shapes: Mapping[str, tuple[Size, ...]], values: Mapping[str, Array] | None = None
    ) -> Graph:
        """Return the program of the file. Raises ShapeError for shapes other than those it was
        lowered for."""
        arguments = main_function(self._graph.module).body.block.args
        types = zip(self.inputs, arguments, strict=True)
        known = {info.name: shape_of(argument) for info, argument in types}
        if dict(shapes) != known:
            raise ShapeError(
                f"the stage {self.stage!r} was made for other shapes",
                where=str(self._path),
                expected=str(known),
                found=str(dict(shapes)),
            )
        return Graph(self._graph.module.clone(), self._graph.weights.copy(), self.stage)


def stage_context(weights: WeightStore | None = None) -> CompileContext:
    """Return a context that knows the dialects of the stages."""
    ctx = CompileContext(weights)
    for dialect in DIALECTS:
        ctx.load_dialect(dialect)
    for name, load in plugged.dialects({dialect.name for dialect in DIALECTS}).items():
        ctx.register_dialect(name, load)
    return ctx


def _checked(where: str, stage: str, text: str, weights: WeightStore) -> ModuleOp:
    parser = LocatedParser(stage_context(weights), text, where)
    module = parser.parse()
    if isinstance(module, LocatedError):
        raise InvalidModelError(module.message, where=f"{where}:{module.line}")
    for op, error in verify_each(module):
        raise InvalidModelError(
            f"{op.name} does not verify: {_first_line(error)}",
            where=f"{where}:{parser.lines.get(op, 1)}",
        )
    for fault in faults(stage, module, weights):
        raise InvalidModelError(
            fault.what,
            where=f"{where}:{parser.lines.get(fault.op, 1)}",
            expected=fault.expected,
            found=fault.found,
            hint=fault.hint,
        )
    signature(module)
    return module


def _first_line(error: Exception) -> str:
    if isinstance(error, TessellaError):
        return error.what
    lines = str(error).strip().splitlines()
    return " ".join(lines[:2]) if lines else type(error).__name__


def _read_text(path: Path) -> str:
    try:
        return regular(path).read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidModelError(
            f"cannot read the stage: {error.strerror or error}", where=str(path)
        ) from error
    except UnicodeDecodeError as error:
        raise InvalidModelError("the stage is not text", where=str(path)) from error


def load_weights(path: Path) -> WeightStore:
    """Load the weights of a stage from ``path``. The store is empty if there is no file, as not
    every program has weights.

    Raises InvalidModelError for a damaged file.
    """
    return WeightStore.load(path) if path.exists() else WeightStore()


def weight_symbols(module: ModuleOp) -> set[str]:
    """Return the symbols of the weights that a module names."""
    return {
        op.symbol.root_reference.data
        for op in module.walk()
        if isinstance(op, WeightOp | rt.WeightOp)
    }


def _share(path: Path, store: WeightStore) -> None:
    """Add the weights of other stages with this name, which share the file of weights, to
    ``store``. Raises OptionError if two weights have the same symbol."""
    others = [path.with_suffix(f".{stage}") for stage in IR_STAGES]
    others = [other for other in others if other != path and other.exists()]
    if not others or not weights_path(path).exists():
        return
    shared = load_weights(weights_path(path))
    for symbol in shared:
        mine, theirs = store.get(symbol), shared[symbol]
        if mine is None:
            store.add(symbol, theirs)
        elif not _equal(mine, theirs):
            raise OptionError(
                f"another weight @{symbol} is in the file already",
                where=str(weights_path(path)),
                hint=f"it belongs to {others[0].name}: choose another name for one of them",
            )


def _equal(a: Array, b: Array) -> bool:
    """Return whether two arrays are equal bit for bit."""
    return (a.dtype, a.shape, a.tobytes()) == (b.dtype, b.shape, b.tobytes())


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file atomically by the one that ``write`` writes to the path it gets. Raises
    OSError, and OptionError if ``path`` is not a plain file."""
    if path.exists() and not path.is_file():
        raise OptionError("this is not a plain file", where=str(path))
    with disk.replaced(path) as new:
        write(new)
