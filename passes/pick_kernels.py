"""Pick a kernel for every op, statically, by place.

    %y = nn.conv %x, %w {...}
    ->
    %y = nn.conv %x, %w {kernel = "conv", places = [#place.at<x86, f32, nhwc>, ...], ...}

The kernels that can run an op at the requested places are its candidates (``pick/candidates.py``);
a strategy picks one of them. `cost` picks the kernels with the least total time in the whole
function (``pick/by_cost.py``), `grade` the kernel with the highest score for each op
(``pick/by_grade.py``). `measure` is `cost` after the driver has measured kernels
(``driver/tune/tune.py``). Measured times replace estimates; ``database`` names the file with them.
With a ``function`` of the caller, the pick is by cost, and the function gives the costs of kernels
(``pick/price.py``).

An attribute of the function records how its kernels were picked: ``nn.pick = {strategy = "cost",
exact = true, ..}``. Types do not change: ``insert-conversions`` gives every value its place.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, BoolAttr, DictionaryAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, SSAValue

from tessella import kernels
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.place import PlaceAttr
from tessella.kernels.elements import elements_of
from tessella.passes.base import functions, places_of_arguments
from tessella.passes.pick.autocast import set_autocast
from tessella.passes.pick.by_cost import pick_by_cost
from tessella.passes.pick.by_grade import pick_by_grade
from tessella.passes.pick.candidates import (
    Candidate,
    Candidates,
    Request,
    contested,
    layouts_in_play,
)
from tessella.passes.pick.choices import (
    FALLBACKS,
    STRATEGIES,
    WEIGHT_GROWTH,
    check_choice,
)
from tessella.passes.pick.dominated import without_dominated
from tessella.passes.pick.falls import tell_falls
from tessella.passes.pick.grade import valid_place
from tessella.passes.pick.narrowing import narrowing_of
from tessella.passes.pick.picking import PickingPass
from tessella.passes.pick.pins import pin_of, set_pins
from tessella.passes.pick.places import check_elements, check_served
from tessella.passes.pick.price import name_of
from tessella.passes.pick.priced import record_prices
from tessella.passes.pick.rivals import without_rivals
from tessella.support.errors import Unsupported, UnsupportedError

PICK = "nn.pick"
"""The attribute of a function that says how its kernels were picked."""


def _ops(module: ModuleOp) -> list[NnOp]:
    return [op for op in module.walk() if isinstance(op, NnOp)]


def _why_not(op: NnOp, found: Candidates) -> str:
    """Return the reasons why no kernel can run an op, or why the kernel of its pin cannot."""
    pin, rejected = pin_of(op), found.rejected
    if pin is None:
        return "; ".join(map(str, rejected))
    asked = [r for r in rejected if pin.kernel in (None, r.site.kernel.name)]
    return f"the pin {str(pin)!r} leaves no kernel: {'; '.join(map(str, asked))}"


@dataclass(frozen=True)
class PickKernelsPass(PickingPass):
    """Set, on every op of the `nn` dialect, the kernel that runs it and the places that the kernel
    requires for operands and results."""

    name = "pick-kernels"
    stages = ("nn", "placed")

    pins: tuple[str, ...] = ()
    """Places or kernels of single ops, as `Conv_12=x86/f32/nchw` or `nn.softmax=kernel=softmax`."""
    autocast: tuple[str, ...] = ()
    """Precisions of ops without pins, such as `nn.exp=any/f32`, in addition to the lists of the
    devices."""
    max_weight_growth: float = WEIGHT_GROWTH
    """The factor by which the function's weights may grow at most."""
    shared: bool = False
    """True if constants are packed as programs for other sizes pack them."""

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        check_choice("strategy", self.strategy, STRATEGIES)
        check_choice("fallback", self.fallback, FALLBACKS)
        kernels.load()
        places, ops = self._request.places, _ops(op)
        check_served(places)
        set_pins(ops, self.pins)
        set_autocast(ops, places, self.autocast)
        for function in functions(op):
            found = self.candidates(function)
            if self.strategy == "grade":
                chosen, how = self._by_grade(function, found), {}
            else:
                chosen, how = self._by_cost(function, found)
            for inner, pick in chosen.items():
                inner.pick(pick.kernel.name, pick.wants, pick.fallback)
            tell_falls(chosen, places)
            if chosen:
                function.attributes[PICK] = self._record(how)

    @cached_property
    def _request(self) -> Request:
        """The request for all functions."""
        return self.request()

    def candidates(self, function: FuncOp) -> dict[NnOp, Candidates]:
        """Return the kernels that can run each op. Raises UnsupportedError for an op without
        any."""
        request = replace(self._request, narrowing=narrowing_of(function))
        found = {
            op: request.candidates(op)
            for op in function.body.block.ops
            if isinstance(op, NnOp) and not isinstance(op, ConstantOp)
        }
        check_elements(request.places, [e for op in found if (e := elements_of(op)) is not None])
        missing = [
            Unsupported(op.name, op.node, _why_not(op, entry))
            for op, entry in found.items()
            if not entry.ranks
        ]
        if missing:
            raise UnsupportedError(missing)
        return found

    def _by_grade(
        self, function: FuncOp, found: Mapping[NnOp, Candidates]
    ) -> dict[NnOp, Candidate]:
        given = places_of_arguments(function, self.machine.arch)
        arguments: dict[SSAValue, PlaceAttr] = dict(
            zip(function.body.block.args, given, strict=True)
        )
        return pick_by_grade(found, list(map(valid_place, self.listed_places)), arguments)

    def _by_cost(
        self, function: FuncOp, found: Mapping[NnOp, Candidates]
    ) -> tuple[dict[NnOp, Candidate], dict[str, Attribute]]:
        layouts = layouts_in_play(found, places_of_arguments(function, self.machine.arch))
        options = {op: entry.placed(op, layouts) for op, entry in found.items()}
        prices = replace(self.prices(shared=self.shared), contested=contested(options))
        options = without_rivals(options, prices, self.max_weight_growth)
        options = without_dominated(options, prices)
        chosen, solution = pick_by_cost(function, options, prices)
        for op, known in prices.known.items():
            record_prices(op, known)
        return chosen, {"exact": BoolAttr.from_bool(solution.exact)}

    @property
    def _how(self) -> str:
        """The name of the strategy, or of the caller's function."""
        return self.strategy if self.function is None else f"function {name_of(self.function)}"

    def _record(self, how: Mapping[str, Attribute]) -> DictionaryAttr:
        switches = {"kernels": StringAttr(self.kernels)} if self.kernels else {}
        sharing = {"shared": BoolAttr.from_bool(True)} if self.shared else {}
        return DictionaryAttr(
            {
                "strategy": StringAttr(self._how),
                **switches,
                **sharing,
                **how,
                "places": ArrayAttr(map(StringAttr, self.listed_places)),
                "target": StringAttr(self.target),
                **({"database": StringAttr(self.database)} if self.database else {}),
            }
        )
