"""Dynamic dimensions on the command line: ``--dim``."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from tessella.dialects.graph import Graph, Source, ValueInfo
from tessella.driver.model.subprograms import whole
from tessella.driver.ship.ship import Shapes
from tessella.driver.specialise.open_sizes import Openness, OpenSizes, check_dims
from tessella.support.errors import OptionError
from tessella.support.sizes import MOST
from tessella.tools.commands.shared import Shape, missing_shape, shapes_of


def dims_of(options: Sequence[str]) -> dict[str, tuple[int, int]]:
    """Return the bounds that ``--dim`` gives. Raises OptionError."""
    found: dict[str, tuple[int, int]] = {}
    for text in options:
        name, equals, sizes = text.rpartition("=")
        low, dots, high = sizes.partition("..")
        high = high or (str(MOST) if dots else low)
        # int() alone would accept "1_0", " 1 " and digits of other scripts
        are_numbers = sizes.isascii() and low.isdigit() and high.isdigit()
        if not (equals and are_numbers and len(sizes) < 32):
            raise OptionError(
                f"cannot read --dim {text!r}",
                expected="--dim NAME=LEAST..GREATEST, NAME=LEAST.. for any that are larger, or "
                "NAME=SIZE",
            )
        if name in found:
            raise OptionError(f"--dim {name} is given twice", found=", ".join(options))
        found[name] = int(low), int(high)
    return found


def openness_of(args: argparse.Namespace) -> Openness:
    """Return which dimensions are symbolic in programs of a command that runs a model."""
    return check_dims(dims_of(args.dim)) if args.dim else "fixed"


def is_open(args: argparse.Namespace) -> bool:
    """Return whether ``--dim`` gives ranges of sizes."""
    return any(low != high for low, high in dims_of(args.dim).values())


def check_one_size(args: argparse.Namespace) -> None:
    """Raise OptionError for ranges of sizes: the command compiles one program for concrete
    sizes."""
    wide = [name for name, (low, high) in dims_of(args.dim).items() if low != high]
    if wide:
        raise OptionError(
            f"--dim {wide[0]} has a range of sizes, and this command needs one size",
            expected=f"--dim {wide[0]}=SIZE",
        )


def known_shapes(inputs: Sequence[ValueInfo], args: argparse.Namespace) -> dict[str, Shape]:
    """Return the known shapes of inputs: from ``--shape``, from ``--dim`` with one size for each
    dynamic dimension, or from the model. Raises OptionError."""
    bounds = dims_of(args.dim)
    open_dims = [d for info in inputs for d in info.shape if isinstance(d, str)]
    for name in bounds:
        if name not in open_dims:
            raise OptionError(
                f"the model has no open dimension {name!r}",
                expected=f"some of {', '.join(map(repr, dict.fromkeys(open_dims))) or 'none'}",
                where="--dim",
            )
    sizes = {name: low for name, (low, high) in bounds.items() if low == high}
    shapes = shapes_of(inputs, args.shape, sizes)
    for info in inputs:
        for dim, size in zip(info.shape, shapes.get(info.name, ()), strict=False):
            low, high = bounds.get(str(dim), (size, size))
            if not low <= size <= high:
                raise OptionError(
                    f"--dim {dim} does not fit --shape {info.name}",
                    expected=f"a size from {low} to {high}",
                    found=str(size),
                )
    return shapes


def open_graph(source: Source, args: argparse.Namespace) -> Graph:
    """Return the program for the shapes on the command line; for ranges in ``--dim``, the one for
    the largest sizes. Raises InputError if a shape is missing."""
    if is_open(args):
        return whole(source.graph(versions(args, source)[-1]))
    shapes = known_shapes(source.inputs, args)
    for info in source.inputs:
        if info.name not in shapes:
            raise missing_shape(info)
    return whole(source.graph(shapes))


def versions(args: argparse.Namespace, source: Source) -> Sequence[Shapes]:
    """Return the input shapes, with symbols or numbers, of all programs that serve the sizes of
    ``--dim``. Raises OptionError if no sizes are within all bounds."""
    infos = [info.name for info in source.inputs]
    made_for = open_sizes(args, source).versions()
    found = [dict(zip(infos, made, strict=True)) for made in made_for]
    if not found:
        raise OptionError("no sizes are within all bounds of --dim", found=", ".join(args.dim))
    return found


def open_sizes(args: argparse.Namespace, source: Source) -> OpenSizes:
    """Return the dynamic dimensions of a source, which are symbolic within the bounds of ``--dim``.
    Raises OptionError if ``--dim`` is missing for a dimension, or if ``--shape`` is given, too."""
    if args.shape:
        raise OptionError("--dim says what all programs are made for: give no --shape")
    bounds = dims_of(args.dim)
    sizes = OpenSizes(source.inputs, check_dims(bounds))
    if missing := [name for name in sizes.names if name not in bounds]:
        raise OptionError(f"--dim is missing for {', '.join(missing)}", hint="--dim NAME=1..64")
    return sizes
