"""The candidates of each op of a placed function: their costs, and the reasons against them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, BlockArgument

from tessella import kernels, targets
from tessella.dialects.layout import Layout
from tessella.dialects.nn.constants import ConstantOp
from tessella.dialects.nn.core import NnOp
from tessella.dialects.nn.elementwise import ElementwiseOp, is_conversion
from tessella.dialects.nn.fused import FusedOp
from tessella.dialects.place import CastOp, CopyOp, PlaceAttr, RelayoutOp, parse_place, place_of
from tessella.kernels.cost import CALL, bytes_of, moving
from tessella.kernels.elements import elements_of
from tessella.kernels.registry import Kernel, accepts, picked_kernel
from tessella.passes.base import places_of_arguments
from tessella.passes.pick.by_cost import TOLERANCE
from tessella.passes.pick.by_grade import site_grade
from tessella.passes.pick.candidates import (
    Candidate,
    Candidates,
    Request,
    Site,
    contested,
    layouts_in_play,
    main_precision,
)
from tessella.passes.pick.grade import valid_place
from tessella.passes.pick.kernel_cost import OpCost, Prices, step_seconds
from tessella.passes.pick.narrowing import narrowing_of
from tessella.passes.pick.priced import recorded_prices
from tessella.passes.pick.switches import parse_switches
from tessella.passes.pick_kernels import PICK
from tessella.runtime.explain_types import (
    OpEntry,
    Pick,
    Regret,
    Rejected,
    RunnerUp,
    duration,
)
from tessella.support.elements import ELEMENTS, FLOATS
from tessella.targets import Target
from tessella.targets.database import of_this_machine
from tessella.targets.instructions import of_product


@dataclass(frozen=True)
class _Option:
    """A kernel that could run an op, with its place (device, precision and layout) and its cost."""

    site: Site
    place: PlaceAttr
    cost: float
    growth: float = 0.0
    """The number of bytes by which the weights that this candidate reads are larger than those of
    the picked kernel."""

    def __str__(self) -> str:
        return f"{self.site.kernel.name} at {self.place}"


class Explainer:
    """Explains the ops of one function."""

    def __init__(self, function: FuncOp) -> None:
        kernels.load()
        self.function = function
        record = _record(function)
        self.pick = _pick(record)
        self.target = targets.resolve(self.pick["target"] if self.pick else "native")
        database = self.pick["database"] if self.pick else ""
        known = Path(database).is_file()  # a loaded stage may name a file that this machine lacks
        times = of_this_machine(database if known else "", self.target)
        self.prices = Prices(self.target, times, "shared" in record)
        named = (op for op in function.walk() if isinstance(op, NnOp) and op.kernel is not None)
        ops = [op for op in named if not is_conversion(op)]
        self.found: dict[NnOp, Candidates] = {}
        if self.pick is not None:
            places = list(map(parse_place, self.pick["places"]))
            switches = parse_switches(_text(record, "kernels"))
            narrowing = narrowing_of(function)
            request = Request(places, self.target.arch, switches=switches, narrowing=narrowing)
            picked = (op for op in ops if not isinstance(op, ConstantOp))
            self.found = {op: request.candidates(op) for op in picked}
        given = places_of_arguments(function, self.target.arch)
        self.layouts: dict[str, list[Layout]] = layouts_in_play(self.found, given)
        options = {op: self._listed(op) for op in self.found}
        self.prices = replace(self.prices, contested=contested(options))

    def entry(self, op: NnOp, group: int) -> OpEntry:
        """Return the entry of an op, with the rejected candidates."""
        place = place_of(op.results[0].type)
        kernel = picked_kernel(op)
        row = kernel.row(elements_of(op))
        at = _run_at(op)
        costs = self.prices.of(op)
        listed = self._listed(op)
        error = costs.error([(c.kernel, c.place) for c in listed])
        cost = None if at is None else costs.seconds(kernel, at, error)
        options = [self._option(costs, c, kernel, error) for c in listed]
        picked = [_is_picked(c, op) for c in listed]
        others = [each for each, is_picked in zip(options, picked, strict=True) if not is_picked]
        names = [str(each) for each, is_picked in zip(options, picked, strict=True) if is_picked]
        return {
            "op": op.name,
            "node": op.node,
            "kernel": op.kernel or "",
            "native": kernel.device != "host",
            "place": str(place) if place is not None else "",
            "storage": row.storage if row is not None else "",
            "arithmetic": row.computes if row is not None else "",
            "estimate": cost,
            "measured": at is not None and costs.measured(kernel, at) is not None,
            "saved": min(cost or 0.0, self._saved(op)),
            "group": group,
            "fallback": op.fallback,
            "runner_up": _runner_up([*others, *self._spare(costs)]),
            "rejected": self._rejected(op, kernel, cost, others, names),
        }

    def regrets(self, op: NnOp) -> Iterator[Regret]:
        """Yield the sizes for which another candidate is faster than the picked one, if the fastest
        candidate differs over the ranges of sizes."""
        is_by_cost = self.pick is not None and self.pick["strategy"] in ("cost", "measure")
        listed, sizes = self._listed(op), self.prices.of(op).sizes
        picked = next((c for c in listed if _is_picked(c, op)), None)
        if not is_by_cost or picked is None or len(sizes) == 1:
            return
        times = [{c: each.modelled(c.kernel, c.place) for c in listed} for each in sizes.values()]
        fastest = [min(seconds, key=seconds.__getitem__) for seconds in times]
        if len(set(fastest)) == 1:
            return
        for where, seconds, best in zip(sizes, times, fastest, strict=True):
            if 0 < TOLERANCE * seconds[best] < seconds[picked]:
                yield {
                    "op": op.name,
                    "node": op.node,
                    "kernel": picked.kernel.name,
                    "sizes": where,
                    "fastest": f"{best.kernel.name} at {best.place}",
                    "regret": seconds[picked] / seconds[best],
                }

    def _saved(self, op: NnOp) -> float:
        """Return the seconds that the fusion of an elementwise op saves: a kernel call, and writing
        and reading the operands that stay in registers. 0 if the op is not fused."""
        if not isinstance(op.parent_op(), FusedOp) or not isinstance(op, ElementwiseOp):
            return 0.0
        taken = (v for v in op.operands if not isinstance(v, BlockArgument))
        moved = [moving(bytes_of(value), bytes_of(value), self.target) for value in taken]
        return CALL + sum(moved) if moved else 0.0

    def conversion_seconds(self, op: CopyOp | CastOp | RelayoutOp) -> float:
        """Return the estimated seconds of a conversion between places; 0 if the source or the
        result has no place, and for a copy that serves all calls."""
        start, end = place_of(op.source.type), place_of(op.res.type)
        is_once = isinstance(op, CopyOp) and op.once is not None
        if start is None or end is None or is_once:
            return 0.0
        return step_seconds((type(op), end), op.source, start, self.target)

    def _listed(self, op: NnOp) -> list[Candidate]:
        """Return the candidates of an op: kernels, each at a place (device, precision and layout).
        Empty if the function does not record how its kernels were picked."""
        found = self.found.get(op)
        return found.placed(op, self.layouts) if found is not None else []

    def _option(self, costs: OpCost, c: Candidate, kernel: Kernel, error: float) -> _Option:
        """Return the candidate ``c`` with its cost, and with the growth of weights relative to
        ``kernel``, the picked kernel."""
        seconds, growth = costs.seconds(c.kernel, c.place, error), 0.0
        generated = c.kernel.cost is None and kernel.cost is None
        if generated and accepts(c.wants, costs.op.places or ()):
            growth = costs.weights(c.kernel, c.place) - costs.weights(kernel, c.place)
        return _Option(c.site, c.place, seconds, growth)

    def _spare(self, costs: OpCost) -> list[_Option]:
        """Return the rejected kernels that could run an op, but are not needed, as other kernels
        take precedence."""
        found = self.found.get(costs.op)
        able = [r for r in found.rejected if r.able] if found is not None else []
        return [_Option(r.site, r.place, costs.seconds(r.site.kernel, r.place)) for r in able]

    def _rejected(
        self,
        op: NnOp,
        kernel: Kernel,
        cost: float | None,
        others: list[_Option],
        picked: list[str],
    ) -> list[Rejected]:
        """Return the rejected candidates with the reasons. ``picked`` has the names under which the
        price of the picked candidate (its cost by the caller's function) may be recorded."""
        found, prices = self.found.get(op), recorded_prices(op)
        price = next((prices[name] for name in picked if name in prices), None)
        result: list[Rejected] = [
            _rejected(
                o.site,
                o.place,
                self._reason(op, kernel, cost or 0.0, o)
                if price is None
                else _reason_of_prices(price, prices.get(str(o)), o.growth),
            )
            for o in others
        ]
        if found is not None:
            result += [_rejected(r.site, r.place, r.reason) for r in found.rejected]
        return result

    def _reason(self, op: NnOp, kernel: Kernel, cost: float, other: _Option) -> str:
        """Return why ``other``, a candidate that could run the op, was not picked. ``kernel`` is
        the picked kernel, and ``cost`` its estimate."""
        site = self._site(op, kernel)
        if self.pick is not None and self.pick["strategy"] == "grade" and site is not None:
            if other.site == site:
                return "its operands have another layout"
            places = list(map(valid_place, self.pick["places"]))
            scores = [site_grade(s, op, places).score for s in (other.site, site)]
            return f"its score is {scores[0]}, that of the picked one {scores[1]}"
        if other.cost > cost:
            return f"it takes {duration(other.cost)}, {duration(other.cost - cost)} more"
        if self._is_close(op, site, cost, other):
            return (
                f"it takes {duration(other.cost)}, and estimates are not so good that this counts: "
                "the place of the picked one was asked for first"
            )
        if other.growth > 0:
            return f"it takes {duration(other.cost)}, and its weights grow too much"
        return f"it takes {duration(other.cost)}, and costs more together with the ops around it"

    def _site(self, op: NnOp, kernel: Kernel) -> Site | None:
        """Return the site (kernel, device and layout) of ``kernel``, the picked kernel, among the
        candidates of an op; None if there is none."""
        sites = [site for site in self.found[op].ranks if site.kernel is kernel]
        # A result of low rank is row-major, whatever layout the kernel runs in.
        layouts = [place.layout for place in reversed(op.places or ())]
        ranked = (s for layout in layouts for s in sites if s.layout in (None, layout))
        return next(ranked, None)

    def _is_close(self, op: NnOp, site: Site | None, cost: float, other: _Option) -> bool:
        """Return whether the order of requested places decides against ``other``: it ranks after
        the picked site, and its estimate is not lower by more than ``TOLERANCE``."""
        ranks = self.found[op].ranks
        later = site is not None and ranks.get(other.site, 0) > ranks[site]
        return later and other.site.kernel.cost is None and TOLERANCE * other.cost > cost


def _is_picked(c: Candidate, op: NnOp) -> bool:
    """Return whether a candidate is the one that an op names."""
    return c.kernel.name == op.kernel and accepts(c.wants, op.places or ())


def _reason_of_prices(price: float, other: float | None, growth: float) -> str:
    """Return why a candidate was not picked. ``price`` is the price of the picked candidate, its
    cost by the caller's function. ``other`` is the price of this candidate, or None if no price was
    needed, and ``growth`` the number of bytes by which its weights are larger."""
    if other is None:
        return "the price of its least time exceeds that of another candidate"
    found = f"its price is {other:.3g}, that of the picked one {price:.3g}"
    if other > price:
        return found
    if growth > 0:
        return f"{found}, and its weights grow too much"
    return f"{found}, and it costs more together with the ops and places around it"


def _run_at(op: NnOp) -> PlaceAttr | None:
    """Return the place for which the cost of the picked kernel of an op is estimated: the device
    and layout of the op's last result, and the precision that the kernel reads. None if the op has
    no places."""
    if not op.places:
        return None
    last = op.places[-1]
    return last.replaced(precision=main_precision(op))


def _rejected(site: Site, place: PlaceAttr, reason: str) -> Rejected:
    return {"kernel": site.kernel.name, "place": str(place), "reason": reason}


def _runner_up(others: list[_Option]) -> RunnerUp | None:
    best = min(others, key=lambda option: option.cost, default=None)
    if best is None:
        return None
    return {"kernel": best.site.kernel.name, "place": str(best.place), "estimate": best.cost}


def _record(function: FuncOp) -> Mapping[str, Attribute]:
    """Return the attributes of a function that record how its kernels were picked; empty if they
    were not picked."""
    record = function.attributes.get(PICK)
    return record.data if isinstance(record, DictionaryAttr) else {}


def _text(record: Mapping[str, Attribute], key: str) -> str:
    """Return the string under a key of the record; empty if there is none."""
    found = record.get(key)
    return found.data if isinstance(found, StringAttr) else ""


def _pick(record: Mapping[str, Attribute]) -> Pick | None:
    """Return the record in the form of an explanation; None if it does not name the strategy."""
    strategy, target = _text(record, "strategy"), _text(record, "target")
    if not (strategy and target):
        return None
    exact, places = record.get("exact"), record.get("places")
    listed = places if isinstance(places, ArrayAttr) else ()
    texts = [place.data for place in listed if isinstance(place, StringAttr)]
    return {
        "strategy": strategy,
        "exact": bool(exact.value.data) if isinstance(exact, IntegerAttr) else None,
        "places": texts,
        "target": target,
        "database": _text(record, "database"),
        "widened": _widened(texts, targets.resolve(target)),
    }


def _widened(places: Sequence[str], target: Target) -> list[str]:
    """Return the narrow float types in places that the target has no instruction to multiply."""
    named = dict.fromkeys(parse_place(place).precision.data for place in places)
    narrow = [name for name in named if name in FLOATS and ELEMENTS[name].narrow]
    return [p for p in narrow if not any(of_product(p, p, ELEMENTS[p].arithmetic, target))]
