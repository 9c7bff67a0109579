"""Options of compilations, checked and completed with defaults once."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from types import UnionType
from typing import (
    Any,
    Literal,
    TypedDict,
    Union,
    Unpack,
    cast,
    get_args,
    get_origin,
    get_type_hints,
)

from tessella import targets
from tessella.passes.pick.choices import (
    KERNELS_KNOB,
    WEIGHT_GROWTH,
    Fallback,
    Strategy,
    check_choice,
    default_places,
)
from tessella.passes.pick.price import PickFunction
from tessella.support import disk
from tessella.support.elements import ELEMENTS
from tessella.support.errors import OptionError
from tessella.support.names import did_you_mean
from tessella.targets import database, threads


def _number(default: float, metavar: str, least: float, most: float = math.inf) -> float:
    """Return a dataclass field for a number from ``least`` to ``most``."""
    return field(default=default, metadata={"metavar": metavar, "least": least, "most": most})


@dataclass(frozen=True)
class Options:
    """Options that few programs need.

    ``tessella.compile``, ``jit``, ``tile`` and ``ops.with_options`` take them as ``options``, the
    commands as flags: ``max_weight_growth`` is ``--max-weight-growth``.

    Parameters
    ----------
    pick : {"cost", "grade", "measure"} or function
        How kernels are picked: by the least estimated time of the whole model (``cost``), op by op
        in the order of the places (``grade``), or by cost after kernels were measured on this
        machine (``measure``). A function takes the facts about a candidate, and returns its cost in
        seconds: ``lambda facts: facts.seconds``. Programs are then not cached on disk. Commands
        take no function.
    budget : float
        Seconds that measuring kernels may take.
    database : str, optional
        The file of measured times, which replace estimates; ``measure`` adds to it. By default, the
        one that TESSELLA_DB names.
    kernels : str, optional
        Kernels, or methods of kernels, that are off or preferred: ``-winograd,+blas``. Rounding
        errors of Winograd's method are up to four times those of direct convolutions. By default,
        the value of TESSELLA_KERNELS.
    pin : dict of str
        Places and kernels of single ops, by the name of a node or an op, or by a pattern of node
        names: ``{"Conv_12": "x86/f32/nchw", "nn.softmax": "kernel=softmax"}``. On the command line,
        ``--pin Conv_12=x86/f32/nchw``, once for each.
    autocast : dict of sequences of str
        The precision in which ops store their floats, as lists of names by precision: ``{"f32":
        ["nn.exp", "nn.softmax"], "bf16": ["nn.matmul"]}``. Names are those of ops or nodes, or
        patterns of node names. An op that has a pin keeps it. These lists take precedence over
        those of the device, which apply if its places name both a narrow and a wide float. On the
        command line, ``--autocast f32=nn.exp,nn.softmax``, once for each precision.
    passes : sequence of xdsl.passes.ModulePass
        Further passes. A pass with the name of one in the pipeline replaces it; another one goes to
        the position that it declares by ``runs_before`` or ``runs_after``. Programs with such
        passes are not cached on disk. Commands do not take this option.
    max_weight_growth : float
        The memory that all weights may take at most, as a multiple of their memory in the model.
        Weights smaller than the last level of cache count as large as it.

    Raises
    ------
    OptionError
        If a value is unknown, out of range, or has the wrong type.

    Examples
    --------
    >>> tessella.compile("model.onnx", options=tessella.Options(pick="measure", budget=60))
    """

    pick: Strategy | PickFunction = field(default="cost", hash=False)
    budget: float = _number(30.0, "SECONDS", 0.0, 1e9)
    database: str | None = field(default=None, metadata={"metavar": "FILE"})
    kernels: str | None = field(default=None, metadata={"metavar": "-A,+B"})
    pin: Mapping[str, str] = field(
        default_factory=dict[str, str], hash=False, metadata={"metavar": "NAME=PIN"}
    )
    autocast: Mapping[str, Sequence[str]] = field(
        default_factory=dict[str, Sequence[str]], hash=False, metadata={"metavar": "PRECISION=A,B"}
    )
    passes: Sequence[Any] = field(default=(), hash=False, metadata={"metavar": "passes"})
    max_weight_growth: float = _number(WEIGHT_GROWTH, "N", 1.0)

    def __post_init__(self) -> None:
        hints = get_type_hints(Options)
        for each in fields(Options):
            _check(each.name, getattr(self, each.name), hints[each.name], each.metadata)


class CompileOptions(TypedDict, total=False):
    """The options that ``tessella.compile``, ``jit``, ``tile`` and ``ops`` share.

    An option that is None or not given has its default.
    """

    places: Sequence[str] | str | None
    """The places (device, precision and layout, such as ``x86/f32/nhwc``) where kernels may run, or
    the name of a list of places; by default the target, then NumPy. The order of the places decides
    between similar costs."""
    target: str | None
    """The machine to compile for; by default ``native``, which is this machine."""
    threads: int | None
    """How many threads run a program, with the one that calls it; the default is that of
    ``targets.threads``."""
    fallback: Fallback | None
    """``allow``, the default, runs ops that no kernel at the places can run at another place;
    ``error`` refuses such ops."""
    timeout: float | None
    """The most seconds that a compilation may take before it raises CompileTimeoutError; None, the
    default, for no limit."""
    options: Options | None
    """Options that few programs need."""


@dataclass(frozen=True, kw_only=True)
class CheckedOptions(Options):
    """The options that determine a program; ``make_options`` checks those of users."""

    places: tuple[str, ...]
    target: str
    """The name of a target in ``targets``."""
    arch: str
    """The first component of the target's places, such as ``x86``."""
    fallback: Fallback = "allow"
    """`allow` runs ops that no kernel at the requested places can run at another place; `error`
    refuses such ops."""
    kernels: str = ""
    """The kernels that are off or preferred, from the option or the environment."""
    several: bool = False
    """True if there are several programs for ranges of sizes, which share packed weights."""
    database: str = ""
    """The file of measured times; empty if there is none."""
    budget: float = field(default=30.0, repr=False, compare=False)
    """Seconds that measuring kernels may take. Programs do not depend on it."""
    timeout: float | None = field(default=None, repr=False, compare=False)
    """The most seconds that a compilation may take; None for no limit."""
    threads: int = field(default=1, repr=False, compare=False)
    """The number of threads that run a program. Programs do not depend on it."""

    @property
    def strategy(self) -> Strategy:
        """The strategy of the pick: `cost` if the caller's function gives the costs."""
        return "cost" if callable(self.pick) else self.pick

    @property
    def function(self) -> PickFunction | None:
        """The caller's function of costs, if there is one."""
        return self.pick if callable(self.pick) else None

    @property
    def has_code(self) -> bool:
        """True if passes or a function of the caller take part: other processes lack them, and they
        can change at any time."""
        return bool(self.passes) or self.function is not None


def make_options(**given: Unpack[CompileOptions]) -> CheckedOptions:
    """Return a user's options, checked and completed with defaults. Raises OptionError for an
    option that does not exist, and for an invalid value.

    The default places are those of the target: channels-last f32 first, then others, then NumPy.
    """
    _check_names(given)
    target = _checked_target(given.get("target"))
    count = given.get("threads")
    rare = _checked_options(given.get("options"))
    fallback = given.get("fallback")
    if fallback is not None:
        _check("fallback", fallback, Fallback, {})
    arch = targets.resolve(target).arch
    values: dict[str, Any] = {each.name: getattr(rare, each.name) for each in fields(Options)}
    values["database"] = rare.database or _database(rare.pick)
    values["autocast"] = {name: tuple(listed) for name, listed in rare.autocast.items()}
    values["kernels"] = os.environ.get(KERNELS_KNOB, "") if rare.kernels is None else rare.kernels
    return CheckedOptions(
        places=_checked_places(given.get("places"), arch),
        target=target,
        arch=arch,
        fallback="allow" if fallback is None else fallback,
        timeout=_checked_timeout(given.get("timeout")),
        threads=threads.default()
        if count is None
        else threads.check(count, "the option 'threads'"),
        **values,
    )


def check_machine(options: CheckedOptions) -> None:
    """Raise OptionError if this machine cannot run code for the target of ``options``."""
    target = targets.resolve(options.target)
    if not targets.can_run(target):
        raise OptionError(
            f"this machine cannot run code for {target.name}",
            hint="inspect it with as_text(), or compile with target='native'; `tessella compile -o "
            "FILE.tsl` writes code for other machines",
        )


def _database(pick: Strategy | PickFunction) -> str:
    """Return the file of measured times for options that name none; empty if there is no default.
    Raises OptionError if ``pick`` needs a file and caching is off."""
    named = os.environ.get(database.KNOB, "")
    if named or pick != "measure":
        return named
    home = disk.home()
    if home is None:
        raise OptionError(
            "nothing says where measured times are kept",
            expected=f"the option 'database' or {database.KNOB}, as TESSELLA_CACHE is off",
        )
    return str(home / "times.json")


def _check(name: str, value: object, hint: Any, facts: Mapping[str, Any]) -> None:
    """Raise OptionError if ``value`` is not valid for the option ``name``, which has the type
    ``hint`` and, for a number, the bounds in ``facts``."""
    if get_origin(hint) is Sequence:
        _check_type(name, value, (list, tuple))
    elif hint == Mapping[str, str]:
        _check_texts(name, value)
    elif get_origin(hint) is Mapping:
        _check_lists(name, value)
    elif choices := choices_of(hint):
        if takes_function(hint) and callable(value):
            return
        if not isinstance(value, str):
            last = ", or a function" if takes_function(hint) else ""
            raise _wrong_type(name, value, f"one of {', '.join(choices)}{last}")
        check_choice(name, value, choices)
    elif hint is float:
        _check_number(name, value, facts["least"], facts["most"])
    else:
        _check_type(name, value, get_args(hint) or (hint,))


def choices_of(hint: Any) -> tuple[str, ...]:
    """Return the values that a type lists; empty if it lists none."""
    return tuple(v for kind in _kinds(hint) if get_origin(kind) is Literal for v in get_args(kind))


def takes_function(hint: Any) -> bool:
    """Return whether functions are among the values of a type."""
    return any(get_origin(kind) is Callable for kind in _kinds(hint))


def _kinds(hint: Any) -> Sequence[Any]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _check_texts(name: str, value: object) -> None:
    expected = "a dict of texts by text, as {'Conv_12': 'x86/f32/nchw'}"
    if not isinstance(value, Mapping):
        raise _wrong_type(name, value, expected)
    for key, text in cast(Mapping[object, object], value).items():
        if not (isinstance(key, str) and isinstance(text, str)):
            raise _wrong_type(name, {key: text}, expected)


def _check_lists(name: str, value: object) -> None:
    expected = "a dict from precisions to lists of names, such as {'f32': ['nn.exp']}"
    if not isinstance(value, Mapping):
        raise _wrong_type(name, value, expected)
    for key, texts in cast(Mapping[object, object], value).items():
        is_list = isinstance(texts, list | tuple)
        listed = cast(Sequence[object], texts) if is_list else (None,)
        if not all(isinstance(each, str) and each for each in (key, *listed)):
            raise _wrong_type(name, {key: texts}, expected)
        if key not in _FLOATS:
            raise OptionError(
                f"the option {name!r} has no lists for {key!r}",
                expected=f"one of {', '.join(_FLOATS)}",
            )


_FLOATS = tuple(e.name for e in ELEMENTS.values() if e.is_float and e.is_native)


def _check_number(name: str, value: object, least: float, most: float) -> None:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _wrong_type(name, value, "a number")
    if not least <= value <= most:
        raise OptionError(
            f"the option {name!r} is out of range",
            expected=f"a number from {least:g} on" + f" to {most:g}" * (most < math.inf),
            found=repr(value),
        )


def _check_type(name: str, value: object, types: Sequence[type[Any]]) -> None:
    if not isinstance(value, tuple(types)):
        names = ("None" if each is type(None) else each.__name__ for each in types)
        raise _wrong_type(name, value, " or ".join(names))


def _wrong_type(name: str, value: object, expected: str) -> OptionError:
    return OptionError(
        f"the option {name!r} has the wrong type",
        expected=expected,
        found=f"{value!r} of type {type(value).__name__}",
    )


def _checked_target(name: object) -> str:
    if name is None:
        return "native"
    if not isinstance(name, str):
        raise _wrong_type("target", name, "str, or None for this machine")
    return name


def _checked_options(options: object) -> Options:
    if options is None:
        return Options()
    if not isinstance(options, Options):
        raise _wrong_type("options", options, "tessella.Options, or None for the defaults")
    return options


def _checked_timeout(seconds: object) -> float | None:
    if seconds is None:
        return None
    expected = "a number of seconds above 0, or None for no deadline"
    if not isinstance(seconds, int | float) or isinstance(seconds, bool):
        raise _wrong_type("timeout", seconds, expected)
    if not 0 < seconds < math.inf:
        raise OptionError(
            "the option 'timeout' is out of range", expected=expected, found=repr(seconds)
        )
    return seconds


def _check_names(given: Mapping[str, Any]) -> None:
    known = list(CompileOptions.__annotations__)
    rare = [each.name for each in fields(Options)]
    for name in given:
        if name in rare:
            raise OptionError(
                f"the option {name!r} is one of tessella.Options",
                hint=f"options=tessella.Options({name}=..)",
            )
        if name not in known:
            raise OptionError(
                f"unknown option {name!r}",
                expected=f"some of {', '.join(known)}",
                hint=did_you_mean(name, known),
            )


def _checked_places(places: object, arch: str) -> tuple[str, ...]:
    """Return the places, by default those of the target. Raises OptionError for unknown places."""
    if places is None:
        return default_places(arch)
    # imported here, as only explicit places need the compiler
    from tessella.passes.pick.named_places import expanded, named_places

    if isinstance(places, str):
        return named_places(places, arch)
    if not isinstance(places, Sequence) or isinstance(places, bytes) or not places:
        raise OptionError(
            "places must be given as a list",
            expected="at least one, such as ['x86/f32/nhwc', 'host'], or the name of a list; None "
            "for the default",
            found=f"{places!r} of type {type(places).__name__}",
        )
    return expanded(cast(Sequence[str], places), arch)
