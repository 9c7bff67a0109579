"""A program for values of its symbols: every size becomes a number."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntAttr, ModuleOp
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue
from xdsl.rewriter import Rewriter

from tessella.dialects.nn.core import NnOp, to_attribute, to_python
from tessella.dialects.sizes import declare_symbols, symbols_in
from tessella.support.errors import InputError
from tessella.support.sizes import Size, Symbol, expression, value_of

Replace = Callable[[Attribute], Attribute]


def bound(module: ModuleOp, values: Mapping[str, int]) -> ModuleOp:
    """A copy of a module in which each symbol has its value, by name; the module itself if it has
    no symbols. Raises InputError for a value out of a symbol's range."""
    symbols = symbols_in(module)
    if not symbols:
        return module
    for symbol in symbols:
        _check(symbol, values)
    copy = module.clone()
    declare_symbols(copy, ())

    def replace(attribute: Attribute) -> Attribute:
        return _with_numbers(attribute, values, replace)

    for op in copy.walk():
        arguments = (
            argument for region in op.regions for b in region.blocks for argument in b.args
        )
        for value in (*op.results, *arguments):
            _retype(value, replace)
        op.properties = {name: replace(x) for name, x in op.properties.items()}
        op.attributes = {name: replace(x) for name, x in op.attributes.items()}
        if isinstance(op, NnOp):
            op.properties = {name: _listed(x) for name, x in op.properties.items()}
    return copy


def bound_by(
    symbols: Sequence[Symbol], shapes: Sequence[tuple[Sequence[Size], Sequence[int]]]
) -> dict[str, int]:
    """The values of symbols from declared shapes and those that were found; what is no plain symbol
    tells none."""
    plain = {symbol.size: symbol.name for symbol in symbols}
    pairs = (pair for declared, found in shapes for pair in zip(declared, found, strict=False))
    return {plain[size]: number for size, number in pairs if size in plain}


def _check(symbol: Symbol, values: Mapping[str, int]) -> None:
    value = values.get(symbol.name)
    if value is None or not symbol.low <= value <= symbol.high:
        raise InputError(
            f"a size out of range: {symbol}",
            expected=f"{symbol.low} to {symbol.high}",
            found=str(value),
        )


def _retype(value: SSAValue, replace: Replace) -> None:
    type = replace(value.type)
    if type != value.type:
        Rewriter.replace_value_with_new_type(value, type)


def _with_numbers(attribute: Attribute, values: Mapping[str, int], replace: Replace) -> Attribute:
    match attribute:
        case IntAttr():
            symbolic = expression(attribute.data) is not None
            return IntAttr(value_of(attribute.data, values)) if symbolic else attribute
        case ArrayAttr():
            return ArrayAttr(map(replace, attribute))
        case DictionaryAttr():
            return DictionaryAttr({name: replace(x) for name, x in attribute.data.items()})
        case ParametrizedAttribute() if attribute.parameters:
            return attribute.new([replace(x) for x in attribute.parameters])
        case _:
            return attribute


def _listed(attribute: Attribute) -> Attribute:
    """A property of numbers as ops have it that depend on no symbol."""
    is_size = isinstance(attribute, IntAttr)
    is_list = isinstance(attribute, ArrayAttr) and all(isinstance(x, IntAttr) for x in attribute)
    return to_attribute(to_python(attribute)) if is_size or is_list else attribute
