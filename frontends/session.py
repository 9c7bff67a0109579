"""The classes of ONNX Runtime's Python package that most programs use, on our models.

    import tessella as ort

    session = ort.InferenceSession("model.onnx", options, providers=["CPUExecutionProvider"])
    [y] = session.run(None, {"x": x})

What an option asks for and we do not have is ignored, and a warning under the logger
`tessella.session` says so. `InferenceSession.model` is our model.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from tessella.driver.stages import ARTIFACT
from tessella.runtime import loaded
from tessella.runtime.artifact import MAGIC
from tessella.runtime.model import Array, Model
from tessella.runtime.signature import ValueInfo, fits
from tessella.support.errors import InputError, OptionError
from tessella.support.logs import warning

if TYPE_CHECKING:
    import onnx

CPU = "CPUExecutionProvider"


class GraphOptimizationLevel(IntEnum):
    """How much is optimised. We always optimise all."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """Whether ops run at the same time. Ours run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


@dataclass
class SessionOptions:
    """Options by their names and defaults in ONNX Runtime."""

    intra_op_num_threads: int = 0
    """How many threads run the model; 0 is our default (docs/threads.md)."""
    inter_op_num_threads: int = 0
    execution_mode: int = ExecutionMode.ORT_SEQUENTIAL
    execution_order: int = 0
    graph_optimization_level: int = GraphOptimizationLevel.ORT_ENABLE_ALL
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    profile_file_prefix: str = "onnxruntime_profile_"
    optimized_model_filepath: str = ""
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    logid: str = ""
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Of symbolic dimensions, by `add_free_dimension_override_by_name`."""
    entries: dict[str, str] = field(default_factory=dict[str, str])
    """By `add_session_config_entry`."""

    def __setattr__(self, name: str, value: object) -> None:
        known = [each.name for each in fields(self)]
        if name not in known:
            raise AttributeError(f"SessionOptions has no {name!r}: it has {', '.join(known)}")
        super().__setattr__(name, value)

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix the size of a symbolic dimension: calls with another size are refused. The model is
        compiled ahead of calls where the sizes of all are known."""
        self.sizes[name] = size

    def add_session_config_entry(self, key: str, value: str) -> None:
        """An entry that is ignored."""
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """The value of an entry. Raises KeyError."""
        return self.entries[key]


_IGNORED: Mapping[str, str] = {
    "inter_op_num_threads": "ops run one after the other, each on all threads",
    "execution_mode": "ops run one after the other, each on all threads",
    "execution_order": "the compiler orders ops",
    "graph_optimization_level": "all is optimised",
    "enable_cpu_mem_arena": "temporary tensors are always in an arena",
    "enable_mem_pattern": "memory is planned when a program is compiled",
    "enable_mem_reuse": "memory is planned when a program is compiled",
    "enable_profiling": "see `tessella bench --profile`",
    "profile_file_prefix": "see `tessella bench --profile`",
    "optimized_model_filepath": "`session.model.save` writes what was compiled",
    "use_per_session_threads": "all models of a process share its threads",
    "logid": "the logger is `tessella`",
    "log_severity_level": "the level is that of the logger `tessella`",
    "log_verbosity_level": "the level is that of the logger `tessella`",
}
"""Why options have no effect. Results are the same in each run anyway, which is what
``use_deterministic_compute`` asks for."""


@dataclass(frozen=True)
class ModelMetadata:
    """What an ONNX file says of itself."""

    producer_name: str = ""
    graph_name: str = ""
    domain: str = ""
    description: str = ""
    graph_description: str = ""
    version: int = 0
    custom_metadata_map: Mapping[str, str] = field(default_factory=dict[str, str])


class InferenceSession:
    """A model with the methods of ONNX Runtime's sessions."""

    def __init__(
        self,
        path_or_bytes: str | os.PathLike[str] | bytes,
        sess_options: SessionOptions | None = None,
        providers: Sequence[str | tuple[str, Mapping[str, Any]]] | None = None,
        provider_options: Sequence[Mapping[str, Any]] | None = None,
        *,
        precompile: bool = False,
        **others: object,
    ) -> None:
        """Compile an ONNX model, or load an artifact. ``sess_options`` may be those of ONNX
        Runtime. ``precompile`` compiles for all sizes of open dimensions now, so that no call has
        to; an artifact has all that it runs. Raises TessellaError."""
        self._origin = path_or_bytes
        self._options: Any = SessionOptions() if sess_options is None else sess_options
        ignored = [
            *_ignored_options(self._options),
            *_ignored_providers(providers or (), provider_options or ()),
            *(f"{name}: unknown here" for name in others),
        ]
        if ignored:
            warning("session", "options that have no effect: %s", "; ".join(ignored))
        sizes: Mapping[str, int] = getattr(self._options, "sizes", {})
        threads = self._options.intra_op_num_threads or None
        self.model: Model = _opened(path_or_bytes, threads, sizes, prepare=precompile)
        """Ours: it explains, saves, and takes arrays for outputs."""
        self._inputs = [_with_sizes(info, sizes) for info in self.model.inputs]
        self._outputs = [_with_sizes(info, sizes) for info in self.model.outputs]
        self._has_sizes, self._has_warned = bool(sizes), False
        self._prepare(sizes)

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, npt.ArrayLike],
        run_options: object = None,
    ) -> list[Array]:
        """The outputs of these names, all for None or none. ``run_options`` are ignored, and a
        warning says so once. Raises TessellaError."""
        if run_options is not None and not self._has_warned:
            self._has_warned = True
            warning("session", "run_options have no effect: %r", run_options)
        self._check_sizes(input_feed)
        return self.model.run(output_names or None, input_feed)

    def get_inputs(self) -> list[ValueInfo]:
        """Name, shape and type of each input; sizes that options fix are numbers."""
        return [*self._inputs]

    def get_outputs(self) -> list[ValueInfo]:
        """Name, shape and type of each output; sizes that options fix are numbers."""
        return [*self._outputs]

    def get_providers(self) -> list[str]:
        """The one that there is."""
        return get_available_providers()

    def get_provider_options(self) -> dict[str, dict[str, str]]:
        """None, of the one provider."""
        return {CPU: {}}

    def get_session_options(self) -> SessionOptions:
        """The options that were given."""
        return self._options

    def get_modelmeta(self) -> ModelMetadata:
        """What the ONNX file says of itself; nothing for an artifact, which does not keep it."""
        if _is_artifact(self._origin):
            warning("session", "an artifact has no metadata of the model that it was made of")
            return ModelMetadata()
        return _metadata(self._origin)

    def _check_sizes(self, feeds: Mapping[str, npt.ArrayLike]) -> None:
        """Raise InputError for an array with another size than options fix. Programs of an
        artifact may serve others."""
        if not self._has_sizes:
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

    def _prepare(self, sizes: Mapping[str, int]) -> None:
        """Compile for these sizes of symbols."""
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


def _with_sizes(info: ValueInfo, sizes: Mapping[str, int]) -> ValueInfo:
    return replace(info, shape=tuple(sizes.get(str(d), d) for d in info.shape))


def get_available_providers() -> list[str]:
    """The CPU."""
    return [CPU]


def _opened(
    origin: str | os.PathLike[str] | bytes,
    threads: int | None,
    sizes: Mapping[str, int],
    *,
    prepare: bool,
) -> Model:
    if _is_artifact(origin):
        if isinstance(origin, bytes):
            return loaded.from_bytes(origin, threads)
        return loaded.load(origin, threads=threads)
    # the compiler is not needed for an artifact
    from pathlib import Path

    from tessella.frontends.compile import compile

    model = origin if isinstance(origin, bytes) else Path(origin)
    return compile(model, threads=threads, dims={**sizes} if sizes else "auto", prepare=prepare)


def _is_artifact(origin: str | os.PathLike[str] | bytes) -> bool:
    if isinstance(origin, bytes):
        return origin.startswith(MAGIC)
    return os.fspath(origin).endswith(ARTIFACT)


def _ignored_options(options: object) -> Iterator[str]:
    defaults = SessionOptions()
    for name, why in _IGNORED.items():
        value, default = getattr(options, name, None), getattr(defaults, name)
        if value is not None and _plain(value, default) != default:
            yield f"{name} ({why})"
    yield from (f"{key} (an entry of ONNX Runtime)" for key in getattr(options, "entries", ()))


def _plain(value: Any, default: object) -> object:
    """An option as ours; enums of ONNX Runtime have the same numbers."""
    return int(value) if isinstance(default, int) else value


def _ignored_providers(
    providers: Sequence[str | tuple[str, Mapping[str, Any]]], options: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    names = [each if isinstance(each, str) else each[0] for each in providers]
    beside = [each[1] for each in providers if not isinstance(each, str)]
    yield from (f"the provider {name} (there is the {CPU} alone)" for name in names if name != CPU)
    if any([*beside, *options]):
        yield "options of providers (the arguments of tessella.compile are ours)"


def _metadata(origin: str | os.PathLike[str] | bytes) -> ModelMetadata:
    from tessella.frontends.onnx import load_model

    model: onnx.ModelProto = load_model(origin)
    return ModelMetadata(
        producer_name=model.producer_name,
        graph_name=model.graph.name,
        domain=model.domain,
        description=model.doc_string,
        graph_description=model.graph.doc_string,
        version=model.model_version,
        custom_metadata_map={each.key: each.value for each in model.metadata_props},
    )
