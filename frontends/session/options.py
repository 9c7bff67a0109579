"""The options of sessions and of runs, by their names and defaults in ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from enum import IntEnum
from typing import Any

from tessella.frontends.session.process import CPU
from tessella.frontends.session.refused import refused
from tessella.frontends.session.values import OrtValue
from tessella.support.errors import ExecutionError, OptionError


class GraphOptimizationLevel(IntEnum):
    """The optimisation level, which has no effect: tessella optimises everything."""

    ORT_DISABLE_ALL = 0
    ORT_ENABLE_BASIC = 1
    ORT_ENABLE_EXTENDED = 2
    ORT_ENABLE_LAYOUT = 3
    ORT_ENABLE_ALL = 99


class ExecutionMode(IntEnum):
    """The execution mode, which has no effect: ops run one after the other, each on all threads."""

    ORT_SEQUENTIAL = 0
    ORT_PARALLEL = 1


class ExecutionOrder(IntEnum):
    """The order of ops, which the compiler decides."""

    DEFAULT = 0
    PRIORITY_BASED = 1
    MEMORY_EFFICIENT = 2


class _Named:
    """A base of dataclasses that raise AttributeError when an attribute that is not a field is
    set."""

    def __setattr__(self, name: str, value: object) -> None:
        known = [each.name for each in fields(self)]  # pyright: ignore[reportArgumentType]
        if name not in known:
            kind = type(self).__name__
            raise AttributeError(f"{kind} has no {name!r}: it has {', '.join(known)}")
        super().__setattr__(name, value)


@dataclass
class SessionOptions(_Named):
    """Options of an ``InferenceSession``, by their names and defaults in ONNX Runtime.

    ``docs/onnxruntime.md`` lists the effect of each option. Options without an effect are accepted,
    and a warning of the logger ``tessella.session`` names them.
    """

    intra_op_num_threads: int = 0
    """The number of threads that run the model; 0 is tessella's default (docs/threads.md)."""
    inter_op_num_threads: int = 0
    execution_mode: int = ExecutionMode.ORT_SEQUENTIAL
    execution_order: int = ExecutionOrder.DEFAULT
    graph_optimization_level: int = GraphOptimizationLevel.ORT_ENABLE_ALL
    enable_cpu_mem_arena: bool = True
    enable_mem_pattern: bool = True
    enable_mem_reuse: bool = True
    enable_profiling: bool = False
    """True if runs are recorded, for ``InferenceSession.end_profiling``."""
    profile_file_prefix: str = "onnxruntime_profile_"
    optimized_model_filepath: str = ""
    use_deterministic_compute: bool = False
    use_per_session_threads: bool = True
    logid: str = ""
    log_severity_level: int = -1
    log_verbosity_level: int = 0
    sizes: dict[str, int] = field(default_factory=dict[str, int])
    """Sizes of dimensions by name (``add_free_dimension_override_by_name``)."""
    sizes_by_denotation: dict[str, int] = field(default_factory=dict[str, int])
    """Sizes of dimensions by denotation (``add_free_dimension_override_by_denotation``)."""
    initializers: dict[str, OrtValue] = field(default_factory=dict[str, OrtValue])
    """Values that replace initializers of the model (``add_initializer``)."""
    entries: dict[str, str] = field(default_factory=dict[str, str])
    """Configuration entries by key (``add_session_config_entry``), which have no effect."""
    providers: dict[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    """Options of execution providers by name (``add_provider``)."""

    def add_free_dimension_override_by_name(self, name: str, size: int) -> None:
        """Fix the size of a symbolic dimension: calls with another size are refused.

        The model is compiled ahead of calls where the sizes of all dimensions are known.

        Parameters
        ----------
        name : str
            The name of the dimension in the model.
        size : int
            Its size.
        """
        self.sizes[name] = size

    def add_free_dimension_override_by_denotation(self, denotation: str, size: int) -> None:
        """Fix the size of all dimensions of inputs with a denotation, such as ``DATA_BATCH``.

        Parameters
        ----------
        denotation : str
            The denotation in the model.
        size : int
            Their size.
        """
        self.sizes_by_denotation[denotation] = size

    def add_initializer(self, name: str, ortvalue: OrtValue) -> None:
        """Replace the value of an initializer of the model.

        Parameters
        ----------
        name : str
            The name of the initializer.
        ortvalue : OrtValue
            A tensor of the same element type and shape.
        """
        self.initializers[name] = ortvalue

    def add_external_initializers(
        self, names: Sequence[str], ortvalues: Sequence[OrtValue]
    ) -> None:
        """Replace the values of several initializers of the model.

        Parameters
        ----------
        names : sequence of str
            The names of the initializers.
        ortvalues : sequence of OrtValue
            Tensors of the same element types and shapes.

        Raises
        ------
        OptionError
            If there are not as many values as names.
        """
        if len(names) != len(ortvalues):
            raise OptionError(
                "each initializer needs a value",
                expected=f"{len(names)} values",
                found=str(len(ortvalues)),
            )
        self.initializers.update(zip(names, ortvalues, strict=True))

    def add_session_config_entry(self, key: str, value: str) -> None:
        """Store a configuration entry of the session, which has no effect.

        Parameters
        ----------
        key : str
            The key of the entry.
        value : str
            Its value.
        """
        self.entries[key] = value

    def get_session_config_entry(self, key: str) -> str:
        """Return the value of a configuration entry of the session.

        Parameters
        ----------
        key : str
            The key of the entry.

        Returns
        -------
        str
            Its value.

        Raises
        ------
        OptionError
            If there is no such entry.
        """
        return _entry(self.entries, key, "SessionOptions")

    def add_provider(self, name: str, options: Mapping[str, str]) -> None:
        """Keep an execution provider, which is ignored unless it is the CPU.

        Parameters
        ----------
        name : str
            The name of the provider.
        options : dict of str
            Its options, which are ignored.
        """
        self.providers[name] = options

    def has_providers(self) -> bool:
        """Return whether ``add_provider`` was called.

        Returns
        -------
        bool
            Whether there are providers.
        """
        return bool(self.providers)

    register_custom_ops_library = refused(
        "register_custom_ops_library",
        "a plugin in Python adds ops and kernels: see examples/plugin in the repository",
    )
    add_external_initializers_from_files_in_memory = refused(
        "add_external_initializers_from_files_in_memory",
        "add_external_initializers takes the values",
    )
    add_provider_for_devices = refused("add_provider_for_devices", "models run on the CPU")
    set_provider_selection_policy = refused(
        "set_provider_selection_policy", "models run on the CPU"
    )


@dataclass
class RunOptions(_Named):
    """Options of a run, by their names and defaults in ONNX Runtime."""

    log_severity_level: int = -1
    log_verbosity_level: int = 0
    logid: str = ""
    only_execute_path_to_fetches: bool = False
    terminate: bool = False
    """True if runs with these options end with an ExecutionError. A run that has begun finishes its
    computation first, and its results are dropped."""
    entries: dict[str, str] = field(default_factory=dict[str, str])
    """Configuration entries by key (``add_run_config_entry``), which have no effect."""

    def add_run_config_entry(self, key: str, value: str) -> None:
        """Store a configuration entry of runs, which has no effect.

        Parameters
        ----------
        key : str
            The key of the entry.
        value : str
            Its value.
        """
        self.entries[key] = value

    def get_run_config_entry(self, key: str) -> str:
        """Return the value of a configuration entry of runs.

        Parameters
        ----------
        key : str
            The key of the entry.

        Returns
        -------
        str
            Its value.

        Raises
        ------
        OptionError
            If there is no such entry.
        """
        return _entry(self.entries, key, "RunOptions")

    add_active_adapter = refused("add_active_adapter", "merge the adapter into the model")


def _entry(entries: Mapping[str, str], key: str, where: str) -> str:
    if key not in entries:
        raise OptionError(
            f"unknown entry {key!r}", where=where, expected=", ".join(entries) or "none"
        )
    return entries[key]


def check_not_ended(options: object) -> None:
    """Raise ExecutionError if the run options have ``terminate=True``."""
    if getattr(options, "terminate", False):
        raise ExecutionError(
            "the run was ended, as its options have terminate=True",
            hint="set terminate to False before another run",
        )


_IGNORED: Mapping[str, str] = {
    "inter_op_num_threads": "ops run one after the other, each on all threads",
    "execution_mode": "ops run one after the other, each on all threads",
    "execution_order": "the compiler orders ops",
    "graph_optimization_level": "all is optimised",
    "enable_cpu_mem_arena": "temporary tensors are always in an arena",
    "enable_mem_pattern": "memory is planned when a program is compiled",
    "enable_mem_reuse": "memory is planned when a program is compiled",
    "optimized_model_filepath": "`session.model.save` writes what was compiled",
    "use_per_session_threads": "all models of a process share its threads",
    "logid": "the logger is `tessella`",
    "log_severity_level": "the level is that of the logger `tessella`",
    "log_verbosity_level": "the level is that of the logger `tessella`",
    "only_execute_path_to_fetches": "a run computes all outputs",
}
"""The reason why each option without an effect has none, by option.

``use_deterministic_compute`` is not among them: all results are deterministic, as it requests.
"""


def ignored(options: object) -> Iterator[str]:
    """Yield the options of a session or run that differ from their defaults but have no effect,
    with the reasons."""
    defaults = RunOptions() if hasattr(options, "terminate") else SessionOptions()
    for name, why in _IGNORED.items():
        value, default = getattr(options, name, None), getattr(defaults, name, None)
        if value is not None and _plain(value, default) != default:
            yield f"{name} ({why})"
    yield from (f"{key} (an entry of ONNX Runtime)" for key in getattr(options, "entries", ()))
    for name, given in getattr(options, "providers", {}).items():
        yield from ignored_providers([(name, given)], ())


def _plain(value: Any, default: object) -> object:
    """Return an option's value as an integer if the default is one: the enums of ONNX Runtime have
    the same numbers."""
    return int(value) if isinstance(default, int) else value


def ignored_providers(
    providers: Sequence[str | tuple[str, Mapping[str, Any]]], options: Sequence[Mapping[str, Any]]
) -> Iterator[str]:
    """Yield descriptions of the execution providers, and of their options, that have no effect."""
    names = [each if isinstance(each, str) else each[0] for each in providers]
    beside = [each[1] for each in providers if not isinstance(each, str)]
    yield from (f"the provider {name} (there is the {CPU} alone)" for name in names if name != CPU)
    if any([*beside, *options]):
        yield "options of providers (the arguments of tessella.compile are ours)"
