"""``InferenceSession``: a model with the methods of ONNX Runtime's sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tessella.driver.stages.stages import ARTIFACT
from tessella.frontends.session import onnx_file
from tessella.frontends.session.binding import IOBinding
from tessella.frontends.session.onnx_file import ModelMetadata, with_sizes
from tessella.frontends.session.options import (
    SessionOptions,
    check_not_ended,
    ignored,
    ignored_providers,
)
from tessella.frontends.session.process import CPU, get_available_providers
from tessella.frontends.session.recording import Recording
from tessella.frontends.session.refused import refused
from tessella.frontends.session.values import OrtValue, plain_feeds
from tessella.runtime import loaded
from tessella.runtime.artifact import MAGIC
from tessella.runtime.model import Array, CallableModel, Out
from tessella.runtime.signature import ValueInfo, fits
from tessella.support.errors import InputError, InvalidModelError, OptionError
from tessella.support.logs import warning

if TYPE_CHECKING:
    import onnx

Origin = str | os.PathLike[str] | bytes
Providers = Sequence[str | tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class NodeArg:
    """An input or output of a session."""

    name: str
    type: str
    """The type, such as ``tensor(float)``."""
    shape: list[int | str | None]
    """The size of each dimension: a number, a name, or None for an unknown size without a name."""

    @staticmethod
    def of(info: ValueInfo) -> NodeArg:
        """Describe an input or output of a model.

        Parameters
        ----------
        info : ValueInfo
            The input or output.

        Returns
        -------
        NodeArg
            Its description.
        """
        if info.shape == (f"{info.name}:*",):
            return NodeArg(info.name, info.type, [])
        dims = (None if d == f"{info.name}:{i}" else d for i, d in enumerate(info.shape))
        return NodeArg(info.name, info.type, [*dims])


class InferenceSession:
    """A model with the methods of ONNX Runtime's sessions.

    Parameters
    ----------
    path_or_bytes : str, PathLike or bytes
        The path or the bytes of an ONNX file or of an artifact (``model.tsl``).
    sess_options : SessionOptions, optional
        Options; those of ONNX Runtime are read too.
    providers : sequence of str, optional
        Execution providers; those other than the CPU are ignored.
    provider_options : sequence of dict, optional
        Ignored.
    prepare : bool
        Whether to compile for all sizes of open dimensions now, so that no call has to. An artifact
        has all programs that it runs.
    **others
        Ignored.

    Attributes
    ----------
    model : Model
        The model, which explains, profiles and saves itself.

    Raises
    ------
    InvalidModelError
        If the file is not a model, or breaks the rules of its format.
    UnsupportedError
        If parts of the model are not supported; ``issues`` lists all of them.
    OptionError
        If an option is wrong, or names dimensions or initializers that the model does not have.
    """

    def __init__(
        self,
        path_or_bytes: Origin,
        sess_options: SessionOptions | None = None,
        providers: Providers | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        prepare: bool = False,
        **others: object,
    ) -> None:
        self._origin = path_or_bytes
        self._options: Any = SessionOptions() if sess_options is None else sess_options
        _warn(
            *ignored(self._options),
            *ignored_providers(providers or (), provider_options or ()),
            *(f"{name}: unknown here" for name in others),
        )
        is_recorded = self._options.enable_profiling
        self._recording = Recording(self._options.profile_file_prefix) if is_recorded else None
        self._sizes = self._fixed_sizes()
        self._prepares = prepare
        self.model: CallableModel = self._opened(frozenset())
        self._overriding: dict[frozenset[str], CallableModel] = {}
        """Models in which some initializers are inputs, by the names of these initializers."""
        self._inputs = [with_sizes(info, self._sizes) for info in self.model.inputs]
        self._outputs = [with_sizes(info, self._sizes) for info in self.model.outputs]
        self._has_warned = False
        self._prepare()
        if self._recording is not None:
            self._recording.initialized()

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, npt.ArrayLike | OrtValue],
        run_options: object = None,
    ) -> list[Array]:
        """Run the model.

        Parameters
        ----------
        output_names : sequence of str or None
            The names of the outputs to return; None or no names for all.
        input_feed : dict of array_like or OrtValue
            The inputs by name, and initializers that are inputs too.
        run_options : RunOptions, optional
            Options of the run; those of ONNX Runtime are read too.

        Returns
        -------
        list of ndarray
            The outputs, in the order of their names.

        Raises
        ------
        InputError
            If names, shapes or element types are wrong.
        ExecutionError
            If the values cannot be computed with, or ``run_options`` have ``terminate=True``.
        """
        return self._run(output_names or None, plain_feeds(input_feed), run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: object = None,
    ) -> list[OrtValue]:
        """Run the model on values, and return values.

        Parameters
        ----------
        output_names : sequence of str or None
            The names of the outputs to return; None or no names for all.
        input_dict_ort_values : dict of OrtValue
            The inputs by name.
        run_options : RunOptions, optional
            Options of the run.

        Returns
        -------
        list of OrtValue
            The outputs, in the order of their names.

        Raises
        ------
        InputError
            If names, shapes or element types are wrong.
        """
        found = self.run(output_names, input_dict_ort_values, run_options)
        return [OrtValue(each) for each in found]

    def run_with_iobinding(self, iobinding: IOBinding, run_options: object = None) -> None:
        """Run the model on the inputs of a binding, which gets the outputs.

        Parameters
        ----------
        iobinding : IOBinding
            The binding, which ``io_binding`` of this session has made.
        run_options : RunOptions, optional
            Options of the run.

        Raises
        ------
        InputError
            If the binding is another session's, has no output, or does not fit the model.
        """
        if iobinding.session is not self:
            raise InputError("a binding belongs to the session that made it")
        if not iobinding.outputs:
            raise InputError("no output is bound", hint="binding.bind_output(name)")
        out = [*iobinding.outputs.values()]
        found = self._run([*iobinding.outputs], iobinding.inputs, run_options, out)
        iobinding.results = [OrtValue(each) for each in found]

    def run_async(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, npt.ArrayLike | OrtValue],
        callback: Callable[[list[Array], Any, str], object],
        user_data: Any,
        run_options: object = None,
    ) -> None:
        """Run the model in another thread of Python, and call a function with the outputs.

        Parameters
        ----------
        output_names : sequence of str or None
            The names of the outputs; None or no names for all.
        input_feed : dict of array_like or OrtValue
            The inputs by name.
        callback : callable
            A function of the outputs, ``user_data``, and the text of an error. The text is empty
            where there is none; else there are no outputs.
        user_data : object
            What the function gets besides.
        run_options : RunOptions, optional
            Options of the run.
        """

        def answer() -> None:
            try:
                found, error = self.run(output_names, input_feed, run_options), ""
            except Exception as failure:  # of any class, as the callback reports it
                found, error = list[Array](), str(failure) or type(failure).__name__
            callback(found, user_data, error)

        Thread(target=answer, name="tessella-run-async").start()

    def io_binding(self) -> IOBinding:
        """Make a binding of inputs and outputs, for ``run_with_iobinding``.

        Returns
        -------
        IOBinding
            A binding without inputs and outputs.
        """
        return IOBinding(self)

    def get_inputs(self) -> list[NodeArg]:
        """Return the name, the shape and the type of each input.

        Returns
        -------
        list of NodeArg
            The inputs; sizes that options fix are numbers.
        """
        return [NodeArg.of(info) for info in self._inputs]

    def get_outputs(self) -> list[NodeArg]:
        """Return the name, the shape and the type of each output.

        Returns
        -------
        list of NodeArg
            The outputs; sizes that options fix are numbers.
        """
        return [NodeArg.of(info) for info in self._outputs]

    def get_overridable_initializers(self) -> list[NodeArg]:
        """Return the initializers that are also inputs: a run may pass other values for them.

        Returns
        -------
        list of NodeArg
            The initializers; none of an artifact.
        """
        return [NodeArg.of(info) for info in self._overridable]

    def get_modelmeta(self) -> ModelMetadata:
        """Return the metadata of the ONNX file.

        Returns
        -------
        ModelMetadata
            The metadata; an artifact does not keep them.
        """
        if _is_artifact(self._origin):
            warning("session", "an artifact has no metadata of the model that it was made of")
            return ModelMetadata()
        return onnx_file.metadata(self._origin)

    def get_session_options(self) -> SessionOptions:
        """Return the options with which the session was created.

        Returns
        -------
        SessionOptions
            The options.
        """
        return self._options

    def get_providers(self) -> list[str]:
        """Return the only execution provider, the CPU.

        Returns
        -------
        list of str
            ``["CPUExecutionProvider"]``.
        """
        return get_available_providers()

    def set_providers(
        self,
        providers: Providers | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Accept execution providers; those other than the CPU are ignored.

        Parameters
        ----------
        providers : sequence of str, optional
            The providers.
        provider_options : sequence of dict, optional
            Ignored.
        """
        _warn(*ignored_providers(providers or (), provider_options or ()))

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """Return the options of the one execution provider, which has none.

        Returns
        -------
        dict of dict
            ``{"CPUExecutionProvider": {}}``.
        """
        return {CPU: {}}

    def enable_fallback(self) -> None:
        """Do nothing, as the CPU is the only execution provider."""

    def disable_fallback(self) -> None:
        """Do nothing, as the CPU is the only execution provider."""

    def get_profiling_start_time_ns(self) -> int:
        """Return the time at which the profile began.

        Returns
        -------
        int
            Nanoseconds since 1970; 0 without a profile.
        """
        return 0 if self._recording is None else self._recording.began

    def end_profiling(self) -> str:
        """Write the recorded runs as a trace in Chrome's format, and end the profile.

        Returns
        -------
        str
            The file's name, which begins with ``profile_file_prefix``; empty without a profile.

        Raises
        ------
        OptionError
            If the file cannot be written.
        """
        if self._recording is None:
            return ""
        path = self._recording.write()
        self._recording = None
        return path

    get_provider_graph_assignment_info = refused(
        "get_provider_graph_assignment_info",
        "session.model.explain() tells which kernel runs each node",
    )
    get_input_memory_infos = refused("get_input_memory_infos", "all memory is that of the CPU")
    get_output_memory_infos = refused("get_output_memory_infos", "all memory is that of the CPU")
    get_input_epdevices = refused("get_input_epdevices", "models run on the CPU")

    def _run(
        self,
        names: Sequence[str] | None,
        feeds: Mapping[str, npt.ArrayLike],
        options: object,
        out: Out | None = None,
    ) -> list[Array]:
        if options is not None:
            self._check_options(options)
        self._check_sizes(feeds)
        model, recording = self._serving(feeds), self._recording
        if recording is None:
            found = model.run(names, feeds, out=out)
        else:
            found = recording.run(model, names, feeds, out)
        check_not_ended(options)
        return found

    def _check_options(self, options: object) -> None:
        check_not_ended(options)
        told = [*ignored(options)]
        if told and not self._has_warned:
            self._has_warned = True
            _warn(*told)

    @cached_property
    def _overridable(self) -> list[ValueInfo]:
        return [] if _is_artifact(self._origin) else onnx_file.overridable(self._origin)

    def _serving(self, feeds: Mapping[str, npt.ArrayLike]) -> CallableModel:
        """Return the model that runs these inputs: the default model, or one in which some
        initializers are inputs."""
        if len(feeds) <= len(self._inputs):
            return self.model
        given = frozenset(i.name for i in self._overridable if i.name in feeds)
        if not given:
            return self.model
        if given not in self._overriding:
            self._overriding[given] = self._opened(given)
        return self._overriding[given]

    def _opened(self, given: frozenset[str]) -> CallableModel:
        """Compile or load the model. The initializers ``given`` become inputs."""
        threads = self._options.intra_op_num_threads or None
        values = {
            name: value.numpy()
            for name, value in getattr(self._options, "initializers", {}).items()
        }
        origin = self._origin
        if _is_artifact(origin):
            if values:
                raise OptionError(
                    "the initializers of an artifact are fixed", found=", ".join(values)
                )
            if isinstance(origin, bytes):
                return loaded.from_bytes(origin, threads)
            return loaded.load(origin, threads=threads)
        # imported here, as artifacts need no compiler
        from pathlib import Path

        from tessella.frontends.compile import compile

        model: bytes | Path | onnx.ModelProto = (
            origin if isinstance(origin, bytes) else Path(origin)
        )
        if values or given:
            model = onnx_file.changed(origin, values, given)
        dims = {**self._sizes} if self._sizes else "auto"
        prepare = self._prepares
        return compile(model, threads=threads, dims=dims, prepare=prepare, maps="dictionaries")

    def _fixed_sizes(self) -> Mapping[str, int]:
        """Return the sizes of dimensions that options fix, by name."""
        named: Mapping[str, int] = getattr(self._options, "sizes", {})
        denoted: Mapping[str, int] = getattr(self._options, "sizes_by_denotation", {})
        if not denoted:
            return named
        if _is_artifact(self._origin):
            raise OptionError(
                "an artifact has no denotations of dimensions",
                hint="add_free_dimension_override_by_name",
            )
        return {**onnx_file.sizes_by_denotation(self._origin, denoted), **named}

    def _check_sizes(self, feeds: Mapping[str, npt.ArrayLike]) -> None:
        """Raise InputError if a size of an input differs from the size that options fix, as the
        programs of an artifact may accept other sizes."""
        if not self._sizes:
            return
        for info in self._inputs:
            found = np.shape(feeds[info.name]) if info.is_tensor and info.name in feeds else None
            if found is not None and not fits(found, info.shape):
                raise InputError(
                    f"the shape does not fit the input {info.name!r}, whose sizes the session's "
                    "options fix",
                    expected=str(info.shape),
                    found=str(found),
                )

    def _prepare(self) -> None:
        """Compile the model ahead of calls if the options fix all sizes of the inputs that are not
        numbers already. Raises OptionError for dimensions that the model does not have."""
        sizes = self._sizes
        if not sizes:
            return
        shapes = {info.name: info.shape for info in self._inputs}
        known = {str(d) for info in self.model.inputs for d in info.shape}
        unknown = [name for name in sizes if name not in known]
        if unknown:
            raise OptionError(
                "sizes are given for dimensions that the model does not have",
                expected=", ".join(sorted(each for each in known if not each.isdigit())) or "none",
                found=", ".join(unknown),
            )
        prepare = getattr(self.model, "prepare", None)
        is_known = all(isinstance(d, int) for shape in shapes.values() for d in shape)
        if prepare is not None and is_known:
            prepare(shapes)


def _warn(*told: str) -> None:
    if told:
        warning("session", "options that have no effect: %s", "; ".join(told))


def _is_artifact(origin: Origin) -> bool:
    if isinstance(origin, bytes):
        return origin.startswith(MAGIC)
    if not isinstance(origin, str | os.PathLike):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidModelError(
            "this is not a model",
            expected="a path, or the bytes of a file",
            found=f"a value of type {type(origin).__name__}",
            hint="pass proto.SerializeToString() for an onnx.ModelProto",
        )
    return os.fspath(origin).endswith(ARTIFACT)
