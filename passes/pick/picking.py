"""The options of passes that compare kernels: the pick, and the fusions that are its rivals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from xdsl.utils.arg_spec import ArgSpec

from tessella import targets
from tessella.dialects.place import PlaceAttr, parse_place
from tessella.passes.kinds import ProgramPass
from tessella.passes.pick.candidates import Request
from tessella.passes.pick.kernel_cost import Prices
from tessella.passes.pick.named_places import expanded
from tessella.passes.pick.price import PickFunction
from tessella.passes.pick.switches import parse_switches
from tessella.targets import Target
from tessella.targets.database import of_this_machine


@dataclass(frozen=True)
class PickingPass(ProgramPass):
    """A pass that compares kernels at requested places."""

    places: tuple[str, ...] = ()
    """The places where kernels may run, or names of lists of them."""
    strategy: str = "cost"
    fallback: str = "allow"
    kernels: str = ""
    """Kernels that are off or preferred, as `-winograd,+blas`."""
    target: str = "native"
    """The machine that costs are estimated for."""
    database: str = ""
    """The file of times that were measured on this machine, if there is one."""
    function: PickFunction | None = None
    """The caller's function of the prices by which the strategy `cost` picks; a pipeline's text
    leaves it out."""

    def spec(self, *, include_default: bool = False) -> ArgSpec:
        """Return the options of the pass that its text form can express: all except the caller's
        function."""
        told = self if self.function is None else replace(self, function=None)
        return super(PickingPass, told).spec(include_default=include_default)

    @property
    def machine(self) -> Target:
        return targets.resolve(self.target)

    @property
    def listed_places(self) -> tuple[str, ...]:
        """The texts of all requested places; those of `default` if none are requested."""
        return expanded(self.places or ("default",), self.machine.arch)

    def request(self) -> Request:
        """Return the request of the options. Raises OptionError for places or switches that cannot
        be read."""
        places: Sequence[PlaceAttr] = list(map(parse_place, self.listed_places))
        allowed = self.fallback == "allow"
        return Request(places, self.machine.arch, allowed, parse_switches(self.kernels))

    def prices(self, *, shared: bool = False) -> Prices:
        """Return the settings from which the costs of kernels follow. See ``Prices`` for
        ``shared``."""
        times = of_this_machine(self.database, self.machine)
        return Prices(self.machine, times, shared, self.function)
