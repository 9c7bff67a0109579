"""The scores of the Paddle Lite article. The numbers are what its C++ code prints, compiled."""

from __future__ import annotations

from dataclasses import replace

import pytest
from xdsl.dialects.builtin import ModuleOp

from tessella.dialects import nn
from tessella.dialects.graph import CompileContext, Graph
from tessella.dialects.place import PlaceAttr, parse_place
from tessella.kernels import load, registry
from tessella.kernels.elements import rows
from tessella.kernels.registry import Kernel
from tessella.passes.pick.grade import grade, place_score, valid_place
from tessella.passes.pick_kernels import PickKernelsPass
from tests.passes.harness import GraphBuilder, ops, sample

KERNELS = (
    "arm/i8/nchw",
    "arm/f32/nchw",
    "arm/f32/nhwc",
    "opencl/f32/nchw",
    "opencl/f32/image",
)
"""The article's conv2d kernels, in the order in which it lists them."""

ARM = ("arm/f32",)
OPENCL = (
    "opencl/f16/image",
    "opencl/f32/nchw",
    "opencl/any/image",
    "opencl/any/nchw",
    "arm",
)
"""The article's presets of valid places."""

TABLE: list[tuple[tuple[str, ...], tuple[int, int, int, int, int], str]] = [
    (ARM, (2684354560, 7516192768, 6442450944, 3221225472, 2147483648), "arm/f32/nchw"),
    (OPENCL, (536870912, 2576980480, 1717986944, 6012954112, 5368709120), "opencl/f32/nchw"),
    (
        ("arm/f32/nhwc",),
        (2147483648, 6442450944, 7516192768, 2147483648, 2147483648),
        "arm/f32/nhwc",
    ),
    (
        ("arm/f32/nhwc", "arm/f32/nchw"),
        (2147483648, 6442450944, 7516192768, 2147483648, 2147483648),
        "arm/f32/nhwc",
    ),
    (
        ("arm/f32/nchw", "arm/f32/nhwc"),
        (2684354560, 7516192768, 6442450944, 3221225472, 2147483648),
        "arm/f32/nchw",
    ),
    (
        ("arm/i8", "arm/f32"),
        (3758096384, 5368709120, 4294967296, 1610612736, 1073741824),
        "arm/f32/nchw",
    ),
    (
        ("opencl/f32/image", "arm"),
        (1342177280, 3758096384, 3221225472, 6442450944, 7516192768),
        "opencl/f32/image",
    ),
    (("opencl",), (536870912, 3221225472, 2147483648, 7516192768, 6442450944), "opencl/f32/nchw"),
    (
        ("x86/f32/nhwc", "x86/f32", "x86", "host"),
        (402653184, 2415919104, 3221225472, 2415919104, 2147483648),
        "arm/f32/nhwc",
    ),
    (("any/any/any",), (0, 0, 0, 0, 0), "arm/i8/nchw"),
]
"""Valid places, the score of each kernel for an op of f32, and the kernel with the highest one: of
equal ones the first."""


def matches(kernel: str) -> bool:
    """Return whether a kernel's operands and results have the precision of an op of f32."""
    return "/f32/" in kernel


@pytest.mark.parametrize("places, scores, winner", TABLE, ids=[" ".join(row[0]) for row in TABLE])
def test_scores(places: tuple[str, ...], scores: tuple[int, ...], winner: str) -> None:
    valid = list(map(valid_place, places))
    found = {
        kernel: grade(parse_place(kernel), valid, values_match=matches(kernel)).score
        for kernel in KERNELS
    }
    assert tuple(found.values()) == scores
    assert max(found, key=found.__getitem__) == winner


def test_scores_of_one_place_are_sums_of_the_constants() -> None:
    most = 2147483647
    here = parse_place("opencl/f32/nchw")
    table = {
        "opencl/f32/nchw": most + 1073741823 + 536870911,
        "opencl/f32/image": most + 1073741823,
        "opencl/f16/nchw": most + 536870911,
        "opencl/f16/image": most,
        "arm/f32/nchw": 1073741823 + 536870911,
        "arm/f32/nhwc": 1073741823,
        "arm/i8/nchw": 536870911,
        "arm/i8/nhwc": 0,
        "any/any/any": 0,
    }
    for kernel, score in table.items():
        assert place_score(parse_place(kernel), here, values_match=False) == score
        assert place_score(parse_place(kernel), here, values_match=True) == 2 * score


@pytest.mark.parametrize(
    "kernel, match, place",
    [
        ("arm/i8/nchw", False, "arm/f32/nchw"),
        ("arm/f32/nchw", True, "opencl/f32/nchw"),
        ("opencl/f32/nchw", True, "opencl/f32/nchw"),
        ("opencl/f32/image", True, "opencl/f16/image"),
    ],
)
def test_the_place_that_gives_the_score(kernel: str, match: bool, place: str) -> None:
    valid = list(map(valid_place, OPENCL))
    assert str(grade(parse_place(kernel), valid, values_match=match).place) == place


@pytest.mark.parametrize(
    "first, second",
    [("opencl/f16/image", "x86/f16/image"), ("opencl/f32/image", "arm/f16/image")],
    ids=["nothing", "half of the second"],
)
def test_of_places_with_equal_scores_the_first_counts(first: str, second: str) -> None:
    kernel, places = parse_place("arm/f32/nchw"), [valid_place(first), valid_place(second)]
    scores = [place_score(kernel, place, values_match=False) for place in places]
    assert scores[0] == pytest.approx(scores[1] / 2)
    assert grade(kernel, places, values_match=False).place == places[0]


@pytest.mark.parametrize(
    "text, place",
    [
        ("arm", "arm/f32/nchw"),
        ("arm/i8", "arm/i8/nchw"),
        ("opencl/f16/image", "opencl/f16/image"),
        ("opencl/any/any", "opencl/any/any"),
    ],
)
def test_parts_that_are_left_out(text: str, place: str) -> None:
    assert str(valid_place(text)) == place


# ** the pick **


@pytest.fixture
def article(monkeypatch: pytest.MonkeyPatch) -> None:
    """The article's kernels, and no others beside NumPy's."""
    load()  # before: what is loaded during the test would be forgotten with it
    kernels = [at(place) for place in KERNELS]
    monkeypatch.setitem(registry._KERNELS, "nn.conv", kernels)


def at(place: str) -> Kernel:
    """A kernel of the place's name that runs there."""
    p = parse_place(place)
    target, precision = p.device.data, p.precision.data
    elements = rows([precision])
    return Kernel(place, nn.ConvOp, target, (p.layout,), elements, cost=lambda op, target: 1e-3)


def conv() -> Graph:
    g = GraphBuilder(x=sample(0, 1, 8, 6, 6))
    w = g.weight(sample(1, 8, 8, 1, 1))
    return g.graph(
        g.op(
            nn.ConvOp, [g.inputs["x"], w], strides=(1, 1), pads=(0,) * 4, dilations=(1, 1), groups=1
        )
    )


def picked(module: ModuleOp, graph: Graph, *places: str) -> list[PlaceAttr]:
    PickKernelsPass(places=places, strategy="grade").apply(CompileContext(graph.weights), module)
    (op,) = (op for op in ops(graph) if isinstance(op, nn.ConvOp))
    assert op.kernel in KERNELS
    assert op.places is not None
    return list(op.places)


@pytest.mark.usefixtures("article")
@pytest.mark.parametrize("places, winner", [(row[0], row[2]) for row in TABLE[:8]])
def test_choices(places: tuple[str, ...], winner: str) -> None:
    graph = conv()
    wanted = picked(graph.module, graph, *places)
    assert set(map(str, wanted)) == {winner}


@pytest.mark.usefixtures("article")
def test_of_equal_scores_the_kernel_registered_first_is_taken() -> None:
    graph = conv()
    with registry.registered(replace(at("arm/f32/nchw"), name="later")):
        (place, *_) = picked(graph.module, graph, "arm")
    assert str(place) == "arm/f32/nchw"
