"""``tessella.compile``: a model of any kind that a frontend reads, compiled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from tessella.driver.compile import compile_source
from tessella.driver.compiling import Progress
from tessella.driver.model import Model
from tessella.driver.open_sizes import Dims
from tessella.driver.stages import stage_of
from tessella.frontends.kept import KeptModel
from tessella.support.errors import OptionError

if TYPE_CHECKING:
    import numpy.typing as npt
    import onnx

    from tessella.dialects.graph import Source
    from tessella.frontends.onnx import OnnxSource


def open_source(
    model: str | Path | bytes | onnx.ModelProto,
    *,
    constants: Mapping[str, npt.ArrayLike] | None = None,
    max_bytes: int | None = None,
) -> Source:
    """The source behind a path, the bytes of an ONNX file, or a ModelProto. Raises TessellaError.

    A path with the extension of a stage is one that `tessella compile` wrote: see ``stage_file``.
    """
    if isinstance(model, str | Path) and stage_of(model) is not None:
        if constants or max_bytes is not None:
            raise OptionError(
                "constants and max_bytes are for ONNX models",
                where=str(model),
                hint="give them when the stage is written",
            )
        # here, as it needs the compiler, which others may do without
        from tessella.driver.stage_file import StageSource

        return StageSource(model)
    return open_onnx(model, constants=constants, max_bytes=max_bytes)


def open_onnx(
    model: str | Path | bytes | onnx.ModelProto,
    *,
    constants: Mapping[str, npt.ArrayLike] | None = None,
    max_bytes: int | None = None,
) -> KeptModel:
    """The source of an ONNX model. Raises TessellaError."""
    _check_import_options(constants, max_bytes)
    limits = {} if max_bytes is None else {"max_bytes": max_bytes}
    settings = {"constants": constants or {}, **limits}
    return KeptModel(model, settings, lambda: _read(model, constants, limits))


def _read(
    model: str | Path | bytes | onnx.ModelProto,
    constants: Mapping[str, npt.ArrayLike] | None,
    limits: Mapping[str, int],
) -> OnnxSource:
    # here, as it needs the package onnx, which others do without
    from tessella.frontends.onnx import OnnxSource

    return OnnxSource(model, constants=constants, **limits)


def _check_import_options(constants: object, max_bytes: object) -> None:
    """Raise OptionError unless these are a dictionary and a number of bytes."""
    for name, value, kind, expected in (
        ("constants", constants, Mapping, "a dictionary of arrays by the names of inputs"),
        ("max_bytes", max_bytes, int, "a number of bytes, as an int"),
    ):
        if value is not None and not isinstance(value, kind):
            raise OptionError(
                f"the option {name!r} has the wrong type",
                expected=f"{expected}; or None",
                found=f"{value!r} of type {type(value).__name__}",
            )


def compile(
    model: str | Path | bytes | onnx.ModelProto,
    *,
    places: Sequence[str] | None = None,
    threads: int | None = None,
    target: str | None = None,
    pick: str | None = None,
    fallback: str | None = None,
    winograd: str | None = None,
    max_weight_growth: float | None = None,
    database: str | None = None,
    budget: float | None = None,
    timeout: float | None = None,
    dims: Dims | Literal["auto", "fixed"] = "auto",
    prepare: bool = False,
    constants: Mapping[str, npt.ArrayLike] | None = None,
    max_bytes: int | None = None,
    progress: Progress | None = None,
) -> Model:
    """Compile a model for this machine.

    ``places`` are where kernels may run, such as ``["x86/f32/nhwc", "x86", "host"]``; ``pick`` is
    how they are chosen there: `cost`, by the least time of the whole model as it is estimated, or
    `grade`, op by op after the order of the places. `measure` is `cost` after kernels were measured
    on this machine, for ``budget`` seconds (30 by default); the times are added to the file
    ``database``, which counts instead of estimates wherever it is given. Where no kernel serves the
    places, one in another layout is taken, then NumPy: ``fallback="error"`` refuses that.
    ``winograd="off"`` refuses convolutions by Winograd's method, whose weights take up to four
    times the memory; all weights take up to ``max_weight_growth`` times that of the model (2 by
    default), where few weights count as many as the last level of cache holds.
    The dimensions that the model leaves open are numbers in the program of the first call; where a
    later call has another size, that dimension stays open in its program, as far as it can, so that
    no other size needs one (docs/open-sizes.md). ``dims`` gives the least and the greatest size of
    dimensions, ``{"batch": (1, 64), "seq": (1, 512)}``, or one size, ``{"batch": 8}``: then all are
    open at once; ``{}`` is for all sizes. ``dims="fixed"`` has a program for each set of sizes.
    ``prepare=True`` compiles the programs for all ranges of sizes now, as ``model.prepare()`` does,
    so that no call within the bounds has to; a warning names what only a call can compile.
    ``timeout`` is how many seconds this may take, and likewise each compilation inside a call: a
    longer one is a CompileTimeoutError.
    ``target`` names another machine (``avx2``, ``aarch64``), whose code can be inspected.
    ``progress`` is called with the name of each step.

    For an ONNX model, ``constants`` fixes the values of inputs by name. These are no longer inputs,
    and shapes may depend on them. No tensor may have more than ``max_bytes`` (16 GiB by default).

    Raises TessellaError; an UnsupportedError lists everything that is not supported.
    """
    return compile_source(
        open_source(model, constants=constants, max_bytes=max_bytes),
        places=places,
        target=target,
        threads=threads,
        pick=pick,
        fallback=fallback,
        winograd=winograd,
        max_weight_growth=max_weight_growth,
        database=database,
        budget=budget,
        timeout=timeout,
        dims=dims,
        prepare=prepare,
        progress=progress,
    )
