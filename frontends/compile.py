"""``tessella.compile``, which compiles a model in any of the formats that the frontends read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    NamedTuple,
    Protocol,
    get_args,
    runtime_checkable,
)

from tessella.driver.build.compiling import Progress
from tessella.driver.compile import compile_source
from tessella.driver.model.model import Model
from tessella.driver.options import Options
from tessella.driver.specialise.open_sizes import Bounds, Dims
from tessella.driver.stages.stages import stage_of
from tessella.frontends.kept import KeptModel
from tessella.frontends.onnx.maps import Maps
from tessella.passes.pick.choices import Fallback
from tessella.support.errors import OptionError

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx
    import torch
    from torch.export import ExportedProgram

    from tessella.dialects.graph import Source
    from tessella.frontends.onnx import OnnxSource


class Arguments(NamedTuple):
    """The arguments of ``compile`` other than options. Each applies only to some kinds of
    models."""

    example_inputs: Sequence[Any] | None = None
    values: Mapping[str, npt.ArrayLike] | None = None
    max_bytes: int | None = None
    maps: Maps | None = None

    def only(self, kind: str, *names: str) -> None:
        """Raise OptionError if the caller gave an argument that is not in ``names``. ``kind`` names
        the kind of model in the message."""
        for name, value in self._asdict().items():
            if value is not None and name not in names:
                raise OptionError(
                    f"the option {name!r} is for {_MEANT_FOR[name]}",
                    found=kind,
                    hint="leave it out",
                )


_MEANT_FOR = {
    "example_inputs": "modules of PyTorch",
    "values": "ONNX models",
    "max_bytes": "ONNX models",
    "maps": "ONNX models",
}


class ModelKind(NamedTuple):
    """A kind of model: the functions that recognise it and open it."""

    recognises: Callable[[Any], bool]
    open: Callable[[Any, Arguments], Source]


def _open_stage(model: str | Path, arguments: Arguments) -> Source:
    arguments.only("the file of a stage")
    # imported here, because other paths need no compiler
    from tessella.driver.stages.stage_file import StageSource

    return StageSource(model)


def _open_exported(model: ExportedProgram, arguments: Arguments) -> Source:
    arguments.only("an exported program")
    from tessella.frontends.torch.exported import exported_source

    return exported_source(model)


def _open_module(model: torch.nn.Module, arguments: Arguments) -> Source:
    arguments.only("a module of PyTorch", "example_inputs")
    from tessella.frontends.torch.exported import module_source

    return module_source(model, arguments.example_inputs)


def _open_onnx(model: Any, arguments: Arguments) -> Source:
    arguments.only("an ONNX model", "values", "max_bytes", "maps")
    return open_onnx(
        model, values=arguments.values, max_bytes=arguments.max_bytes, maps=arguments.maps
    )


def _is_a(module: str, name: str) -> Callable[[Any], bool]:
    """Return a function that tells whether a value is an instance of a class. The module of the
    class need not be imported."""

    def test(model: Any) -> bool:
        return any((c.__module__, c.__name__) == (module, name) for c in type(model).__mro__)

    return test


def _is_stage(model: Any) -> bool:
    return isinstance(model, str | Path) and stage_of(model) is not None


def _is_anything(model: Any) -> bool:
    return True


KINDS: Sequence[ModelKind] = (
    ModelKind(_is_stage, _open_stage),
    ModelKind(_is_a("torch.export.exported_program", "ExportedProgram"), _open_exported),
    ModelKind(_is_a("torch.nn.modules.module", "Module"), _open_module),
    ModelKind(_is_anything, _open_onnx),
)
"""The kinds of models, in the order in which they are tried."""


def open_source(
    model: str | Path | bytes | onnx.ModelProto | ExportedProgram | torch.nn.Module,
    example_inputs: Sequence[Any] | None = None,
    *,
    values: Mapping[str, npt.ArrayLike] | None = None,
    max_bytes: int | None = None,
    maps: Maps | None = None,
) -> Source:
    """Return the source of programs for a model of any kind. Raises TessellaError.

    A path with the extension of a stage is read as a stage file, which `tessella compile` writes
    (``stage_file``).
    """
    arguments = Arguments(example_inputs, values, max_bytes, maps)
    return next(kind for kind in KINDS if kind.recognises(model)).open(model, arguments)


def open_onnx(
    model: str | Path | bytes | onnx.ModelProto,
    *,
    values: Mapping[str, npt.ArrayLike] | None = None,
    max_bytes: int | None = None,
    maps: Maps | None = None,
) -> KeptModel:
    """Return the source of programs for an ONNX model. Raises TessellaError."""
    _check_import_options(values, max_bytes, maps)
    given = {"max_bytes": max_bytes, "maps": maps}
    chosen = {name: value for name, value in given.items() if value is not None}
    settings = {"constants": values or {}, **chosen}
    return KeptModel(model, settings, lambda: _read(model, values, chosen))


def _read(
    model: str | Path | bytes | onnx.ModelProto,
    values: Mapping[str, npt.ArrayLike] | None,
    chosen: Mapping[str, Any],
) -> OnnxSource:
    # imported here, because other sources do not need the package onnx
    from tessella.frontends.onnx import OnnxSource

    return OnnxSource(model, constants=values, **chosen)


def _check_import_options(values: object, max_bytes: object, maps: object) -> None:
    """Raise OptionError for an import option with a wrong type or value."""
    if maps not in (None, *get_args(Maps)):
        raise OptionError(
            "the option 'maps' has a wrong value",
            expected=" or ".join(get_args(Maps)),
            found=repr(maps),
        )
    for name, value, kind, expected in (
        ("values", values, Mapping, "a dictionary of arrays by the names of inputs"),
        ("max_bytes", max_bytes, int, "a number of bytes, as an int"),
    ):
        if value is not None and not isinstance(value, kind):
            raise OptionError(
                f"the option {name!r} has the wrong type",
                expected=f"{expected}; or None",
                found=f"{value!r} of type {type(value).__name__}",
            )


@runtime_checkable
class DeclaresBounds(Protocol):
    """A source that declares the bounds of its dynamic dimensions."""

    @property
    def bounds(self) -> Mapping[str, Bounds]:
        """The least and the greatest size of each dynamic dimension, by name."""
        ...


def _declared(source: Source) -> Dims:
    return source.bounds if isinstance(source, DeclaresBounds) else {}


def compile(
    model: str | Path | bytes | onnx.ModelProto | ExportedProgram | torch.nn.Module,
    example_inputs: Sequence[Any] | None = None,
    *,
    places: Sequence[str] | str | None = None,
    threads: int | None = None,
    target: str | None = None,
    fallback: Fallback | None = None,
    timeout: float | None = None,
    options: Options | None = None,
    dims: Dims | Literal["auto", "fixed"] = "auto",
    prepare: bool = False,
    values: Mapping[str, npt.ArrayLike] | None = None,
    max_bytes: int | None = None,
    maps: Maps | None = None,
    progress: Progress | None = None,
) -> Model:
    """Compile a model for this machine.

    The program of the first call has numbers for all dimensions that the model leaves open. If such
    a dimension has another size in a later call, it is symbolic in the program for that call, which
    serves a range of sizes (docs/open-sizes.md).

    Parameters
    ----------
    model : str, Path, bytes, onnx.ModelProto, ExportedProgram or torch.nn.Module
        The path or the bytes of an ONNX file, a ``ModelProto``, the path of a stage file that
        ``tessella compile`` wrote, a program from ``torch.export``, or a PyTorch module.
    example_inputs : sequence, optional
        The arguments with which a PyTorch module is exported. The compiled model takes inputs of
        these shapes; to have dynamic dimensions, export the module with ``torch.export``.
    places : sequence of str, or str, optional
        Where kernels may run, such as ``["x86/f32/nhwc", "x86", "host"]``; ``host`` is NumPy. Their
        order decides between similar costs. A string is the name of a list of places, such as
        ``"mobile"`` (docs/picking.md). By default, all places of the target, then NumPy.
    threads : int, optional
        The number of threads that run the model; by default, ``TESSELLA_THREADS`` or the number of
        cores that the process may use.
    target : str, optional
        The machine to compile for, such as ``avx2`` or ``aarch64``; by default, this one. Code for
        another machine can be inspected, but not run.
    fallback : {"allow", "error"}, optional
        ``error`` rejects ops that only NumPy, another device or a kernel in another layout can run.
    timeout : float, optional
        The seconds that this compilation, and each compilation inside a call, may take.
    options : Options, optional
        Options that few programs need.
    dims : dict, "auto" or "fixed"
        The size, or the least and the greatest size, of dynamic dimensions by name: ``{"batch": 8,
        "seq": (1, 512)}``. All dynamic dimensions are then symbolic from the first call on.
        ``auto`` makes a dimension symbolic once its size varies; ``fixed`` compiles for each set of
        sizes. The dynamic dimensions of an exported program are symbolic from the first call on,
        within its constraints.
    prepare : bool
        Whether to compile the programs for all ranges of sizes now, as ``Model.prepare`` does. A
        warning names the programs that only a call can compile.
    values : dict of array_like, optional
        The values of inputs of an ONNX model, by name. The compiled model does not have these
        inputs, and shapes may depend on them.
    max_bytes : int, optional
        The size of the largest tensor that an ONNX model may have, in bytes; 16 GiB by default.
    maps : {"arrays", "dictionaries"}, optional
        The form of the results of a ZipMap in an ONNX model: the array of scores, which is the
        default, or a list that has a dictionary from labels to scores for each row.
    progress : callable, optional
        A function that is called with the name of each step of the compilation.

    Returns
    -------
    Model
        The compiled model, to be called with arrays.

    Raises
    ------
    InvalidModelError
        If the file is not a model, or violates its format.
    UnsupportedError
        If parts of the model are not supported; ``issues`` lists all of them.
    OptionError
        If an option is wrong, or names dimensions that the model does not have.
    InputError
        If a value does not fit its input.
    ShapeError
        If shapes in the model do not fit together.
    CompileTimeoutError
        If the compilation takes longer than ``timeout``.
    ResourceError
        If memory is short, or a tensor is larger than ``max_bytes``.
    """
    source = open_source(model, example_inputs, values=values, max_bytes=max_bytes, maps=maps)
    return compile_source(
        source,
        places=places,
        target=target,
        threads=threads,
        fallback=fallback,
        timeout=timeout,
        options=options,
        dims=_declared(source) or dims if dims == "auto" else dims,
        prepare=prepare,
        progress=progress,
    )
