"""The text of `docs/nn-ops.md`, which ``docs.generated`` writes.

The page follows from the classes of the dialect: a section for each op, and a table for each kind
of elementwise op. An op's example is its first one in `tests/op_examples.py`; the docstrings of ops
that do not run by themselves have an example in them.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import ModuleType

from xdsl.dialects.builtin import (
    BoolAttr,
    DenseArrayBase,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolRefAttr,
    f32,
    f64,
    i64,
)
from xdsl.ir import Attribute
from xdsl.irdl import (
    IRDLOperation,
    OptOperandDef,
    OptPropertyDef,
    PropertyDef,
    VarOperandDef,
    VarResultDef,
)
from xdsl.traits import OpTrait

from tessella import kernels
from tessella.dialects import nn
from tessella.dialects.elements import attribute_of
from tessella.dialects.nn import elementwise, traits
from tessella.dialects.nn.core import ByRank, NnOp, PyValue, tensor
from tessella.dialects.nn.elementwise import ElementwiseOp
from tessella.dialects.sizes import size_attribute, sizes_attribute
from tessella.kernels.registry import native_elements
from tessella.runtime.host.elementwise import ROWS, Kind
from tessella.support.errors import InternalError
from tessella.support.sizes import Symbol
from tests.native import GraphBuilder
from tests.op_examples import EXAMPLES, Example

_HEAD = """\
# Ops of the `nn` dialect

Which operands and properties does each op have, and what does it compute? This page is generated
from the classes of the dialect by `make pages`.

The text of an op is its operands, its properties by name, other attributes, and the types of its
results:

```text
%y = nn.conv %x, %w, %b pads [1, 1, 1, 1] groups 2 {node = "conv1"} : tensor<1x8x6x6xf32>
```

- A size, in a shape or a property, is an integer or an expression of the module's symbols
  (`[2 * seq + 1]`). Properties of the type `integers` are numbers.
- A property with a default may be omitted in the text and in a call of `tessella.ops`. An op in
  memory has all of its properties, except optional ones, which may be absent.
- Operands and properties have the same names in Python (`nn.SliceOp.make([x], starts=.., sizes=..,
  steps=..)`) and in the reference kernel.
- Operands and results of an op have one element type unless its description says otherwise.
- Complex numbers have the types `complex<f32>` and `complex<f64>`. Ops with the traits
  `TakesComplex` and `MovesElements` accept them. So do `where`, `cast`, the scatter ops without
  `max` and `min`, and `resize` in the mode `nearest`. Any other op is a `ShapeError`: complex
  numbers have no order, and a cast to a real type would lose the imaginary parts.
- Axes count from the front: frontends normalise negative axes.
- A native kernel may reject a property, a shape or an element; NumPy then runs the op. `tessella
  check MODEL` lists these ops, with their estimated times and the reasons.
"""

_TRAITS = """\
## Traits

Passes query traits instead of classes. `Pure`, `Commutative`, `IsTerminator` and
`IsolatedFromAbove` are traits of xDSL.

| trait | its ops |
|---|---|"""

Parts = Mapping[str, Sequence[str]]

_ESTIMATES = ("contracted", "channels", "operations", "host_bytes")
"""The members of ``NnOp`` that ops override for estimates of their costs."""

_SIZE = Symbol("n", 1, 2).size
_TYPES: Mapping[str, Attribute] = {
    "number": FloatAttr(0.0, f64),
    "numbers": DenseArrayBase.from_list(f64, []),
    "symbol": SymbolRefAttr("f"),
    "size": size_attribute(_SIZE),
    "sizes": sizes_attribute([_SIZE]),
    "boolean": BoolAttr.from_bool(True),
    "integer": IntegerAttr(0, i64),
    "integers": DenseArrayBase.from_list(i64, []),
    "string": StringAttr(""),
    "element type": f32,
}
"""The types of properties. A property has the first type whose value satisfies its constraint."""


def page() -> str:
    """Return the text of the page `docs/nn-ops.md`."""
    kernels.load()
    lines = [line for module in nn.FAMILIES for line in _family(module)]
    return "\n".join([_HEAD, *lines, *_legend(), ""])


def _family(module: ModuleType) -> Iterator[str]:
    """Yield the lines of a family of ops."""
    title, _, text = _markdown(module).partition("\n\n")
    yield from (f"## {title.removesuffix('.')}", "")
    if text:
        yield from (text, "")
    if module is elementwise:
        yield from _tables()
    for op in nn.ops_of(module):
        if op not in nn.OPS.values():
            yield from _section(op)


def _section(op: type[IRDLOperation]) -> Iterator[str]:
    """Yield the lines of an op: its text, an example, and its definition."""
    yield from (f"### `{_short(op)}`", "")
    for documented in (op, *_bases(op)):
        yield from (_markdown(documented), "")
    yield from _example(op)
    yield from _lines(_parts(op))
    if issubclass(op, NnOp) and not issubclass(op, nn.ConstantOp):
        yield f"- runs: {_runs(op)}"
    yield ""


def _tables() -> Iterator[str]:
    """Yield the lines of the elementwise ops of the dialect's table: a table for each kind."""
    kinds: dict[Kind, list[type[ElementwiseOp]]] = {}
    for name, op in nn.OPS.items():
        kinds.setdefault(ROWS[name].kind, []).append(op)
    for kind, ops in kinds.items():
        yield from (
            f"### Elementwise ops of the kind `{kind}`",
            "",
            _markdown(_bases(ops[0])[0]),
            "",
        )
        common = _common([_parts(op) for op in ops])
        yield from (*_example(ops[0]), *_lines(common), "")
        yield from (
            "| op | result | properties | traits, simplifications | runs |",
            "|---|---|---|---|---|",
        )
        yield from (_row(op, common) for op in sorted(ops, key=_short))
        yield ""


def _row(op: type[ElementwiseOp], common: Parts) -> str:
    """Return the row of an elementwise op, without what its kind has in common."""
    own = {
        title: [text for text in listed if text not in common.get(title, ())]
        for title, listed in _parts(op).items()
    }
    traits = [_listed(own["traits"]), *own["simplified"]]
    name = _short(op)
    texts = _listed(own["properties"]), "; ".join(filter(None, traits)), _runs(op)
    cells = f"`{name}`", ROWS[name].meaning, *texts
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


def _common(parts: Sequence[Parts]) -> Parts:
    """Return what the definitions of several ops have in common."""
    first, *others = parts
    return {
        title: [text for text in listed if all(text in other[title] for other in others)]
        for title, listed in first.items()
    }


def _legend() -> Iterator[str]:
    """Yield the lines that describe the traits."""
    yield _TRAITS
    for name, trait in sorted(vars(traits).items()):
        if isinstance(trait, type) and issubclass(trait, OpTrait) and trait is not OpTrait:
            text = " ".join(_markdown(trait).removeprefix("The trait of ").split())
            yield f"| `{name}` | {text} |"


# ** parts of a definition **


def _parts(op: type[IRDLOperation]) -> Parts:
    """Return the operands, properties, results and interfaces of an op as texts, by title."""
    definition = op.get_irdl_definition()
    return {
        "operands": [_name(name, kind) for name, kind in definition.operands],
        "properties": _properties(op),
        "results": [_name(name, kind) for name, kind in definition.results],
        "traits": _traits(op),
        "estimates": [f"`{name}`" for name in _ESTIMATES if _overrides(op, name)],
        "simplified": _simplified(op),
    }


def _lines(parts: Parts) -> Iterator[str]:
    """Yield a line for each part of a definition that is not empty."""
    for title, listed in parts.items():
        if listed:
            yield f"- {title}: {_listed(listed)}"


def _name(name: str, kind: object) -> str:
    """Return the name of an operand or a result, and whether it may be absent or stand for
    several."""
    if isinstance(kind, OptOperandDef):  # which is a subclass of VarOperandDef
        return f"`{name}` (optional)"
    return (
        f"`{name}` (any number)" if isinstance(kind, VarOperandDef | VarResultDef) else f"`{name}`"
    )


def _properties(op: type[IRDLOperation]) -> list[str]:
    """Return the properties of an op with their types and defaults."""
    if not issubclass(op, NnOp):
        return []
    return [
        f"`{name}`: {_type(kind)}{_default(op, name, kind)}"
        for name, kind in op.setting_defs().items()
    ]


def _type(kind: PropertyDef) -> str:
    for name, value in _TYPES.items():
        if kind.constr.verifies(value):
            return name
    raise InternalError(f"no name for the type of a property: {kind.constr}")


def _default(op: type[NnOp], name: str, kind: PropertyDef) -> str:
    if isinstance(kind, OptPropertyDef):
        return " (optional)"
    return f" = {_value(op.DEFAULTS[name])}" if name in op.DEFAULTS else ""


def _value(value: PyValue | ByRank) -> str:
    """Return a default value as text: of the IR, or in words if it depends on the rank."""
    if isinstance(value, ByRank):
        return value.text
    text = str(value).lower() if isinstance(value, bool) else str(value)
    return f"`{'[]' if value == () else text}`"


def _traits(op: type[IRDLOperation]) -> list[str]:
    """Return the traits of an op with their settings, functions excluded."""
    return sorted(f"`{_trait(trait)}`" for trait in op.traits.traits if _is_public(trait))


def _is_public(trait: OpTrait) -> bool:
    return not type(trait).__name__.startswith("_")


def _trait(trait: OpTrait) -> str:
    name = type(trait).__name__
    if not is_dataclass(trait):
        return name
    given = {each.name: (getattr(trait, each.name), each.default) for each in fields(trait)}
    shown = [
        f"{key}={value}"
        for key, (value, default) in given.items()
        if value != default and not callable(value)
    ]
    return f"{name}({', '.join(shown)})" if shown else name


def _simplified(op: type[IRDLOperation]) -> list[str]:
    """Return what simplifies an op."""
    if not issubclass(op, NnOp) or not _overrides(op, "simplified"):
        return []
    return [" ".join(_markdown(op.simplified).split())]


def _overrides(op: type[IRDLOperation], name: str) -> bool:
    return issubclass(op, NnOp) and getattr(op, name) is not getattr(NnOp, name)


def _runs(op: type[NnOp]) -> str:
    """Return what runs an op, by the elements that its native kernels read."""
    found = native_elements(op)
    if found is None:
        return "NumPy"
    return "native, NumPy for f64" if "f32" in found and "f64" not in found else "native"


# ** text **


def _example(op: type[IRDLOperation]) -> Iterator[str]:
    """Yield the lines of an op's example, if it has one: the types of its operands, and its
    text."""
    if not issubclass(op, NnOp) or op not in EXAMPLES:
        return
    example = EXAMPLES[op][0]
    types = {
        name: tensor(attribute_of(operand.element_for(example.element)), operand.shape)
        for name, operand in zip(_operand_names(example), example.operands, strict=False)
    }
    graph = GraphBuilder(**types)
    made = graph.op(op, [*graph.inputs.values()], **example.settings).owner
    yield "```text"
    if types:
        yield f"// {', '.join(f'{name}: {type}' for name, type in types.items())}"
    yield from (str(made), "```", "")


def _operand_names(example: Example) -> Iterator[str]:
    """Yield the names of the operands of an example; those of a list are numbered."""
    for name, kind in example.op.get_irdl_definition().operands:
        if isinstance(kind, VarOperandDef) and not isinstance(kind, OptOperandDef):
            yield from (f"{name}{i}" for i in range(len(example.operands)))
        else:
            yield name


def _short(op: type[IRDLOperation]) -> str:
    """Return the name of an op without that of the dialect."""
    return op.name.removeprefix(f"{nn.Nn.name}.")


def _bases(op: type[IRDLOperation]) -> list[type[IRDLOperation]]:
    """Return the base classes of an op that only some ops have, the nearest first."""
    return [
        base
        for base in op.__mro__[1:]
        if issubclass(base, IRDLOperation) and base not in (NnOp, IRDLOperation)
    ]


def _markdown(documented: object) -> str:
    """Return a docstring as Markdown."""
    return (inspect.getdoc(documented) or "").replace("``", "`")


def _listed(texts: Iterable[str]) -> str:
    return ", ".join(texts)
