"""The tools' lists match the registered ops, passes and kernels."""

from __future__ import annotations

import inspect
import pkgutil
from importlib import import_module
from importlib.metadata import entry_points

import pytest
from xdsl.ir import Dialect
from xdsl.passes import ModulePass
from xdsl.universe import XDSL_UNIVERSE, Universe
from xdsl.utils.target import Target

from tessella.tools.universe import DIALECTS, PASS_PACKAGES, REPLACED, TESSELLA, find_passes


def imported_passes() -> dict[str, type[ModulePass]]:
    """Every pass class that the modules of the packages define."""
    found: dict[str, type[ModulePass]] = {}
    for package in map(import_module, PASS_PACKAGES):
        for info in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            module = import_module(info.name)
            for value in vars(module).values():
                if (
                    inspect.isclass(value)
                    and issubclass(value, ModulePass)
                    and value.__module__ == info.name
                    and isinstance(getattr(value, "name", None), str)
                ):
                    found[value.name] = value
    return found


def test_all_passes_are_found_without_importing_them() -> None:
    assert {name: load() for name, load in TESSELLA.all_passes.items()} == imported_passes()


def test_passes_are_sorted_and_have_names_of_their_own() -> None:
    names = list(find_passes())
    assert names == sorted(names)
    assert not XDSL_UNIVERSE.all_passes.keys() & set(names)


def test_passes_have_a_summary() -> None:
    for name, load in TESSELLA.all_passes.items():
        doc = load().__doc__ or ""
        assert not doc.startswith(f"{load().__name__}("), f"{name} has no docstring"
        assert doc.partition("\n\n")[0].endswith("."), f"{name}: no sentence"


@pytest.mark.parametrize("name", [*DIALECTS, *REPLACED])
def test_dialects_have_the_name_of_their_row(name: str) -> None:
    dialect = (DIALECTS | REPLACED)[name].load()
    assert isinstance(dialect, Dialect)
    assert dialect.name == name


def test_targets_have_the_name_of_their_row() -> None:
    for name, load in TESSELLA.all_targets.items():
        assert issubclass(load(), Target)
        assert load().name == name


def test_the_installed_package_is_a_plugin_of_xdsl() -> None:
    found = entry_points(group="xdsl.universe", name="tessella")
    if not found:
        pytest.skip("tessella is not installed")
    (entry,) = found
    assert entry.load() is TESSELLA
    assert Universe.get_multiverse().all_passes.keys() > TESSELLA.all_passes.keys()
