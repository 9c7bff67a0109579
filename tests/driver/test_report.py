"""The content of reports, and their files."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import helper

import tessella
from tessella.dialects.layout import NHWC
from tessella.dialects.place import PlaceAttr
from tessella.driver.build.build import lower
from tessella.driver.explain.explain import explain
from tessella.driver.options import make_options
from tessella.driver.report import data, measured
from tessella.driver.report.collect import program_graph, with_others
from tessella.driver.report.data import OtherRuntime, Report
from tessella.driver.report.dot import dot_lines
from tessella.driver.report.files import read_report
from tessella.frontends.compile import open_source
from tessella.runtime.schema import VERSION
from tessella.support.dot import quoted
from tessella.support.errors import OptionError
from tests.hostile.models import mixed
from tests.tools.networks import classifier, network, open_batch

X = np.ones((1, 3, 8, 8), np.float32)
PAGE = Path(__file__).parents[2] / "docs" / "report.md"


@pytest.fixture(scope="module")
def report() -> Report:
    """A report on a small network, with measured runs."""
    model = tessella.compile(classifier().SerializeToString())
    return model.report([X], name="classifier", runs=3)


def test_steps_are_the_calls_of_the_program(report: Report) -> None:
    nodes = [node for step in report.steps if step.kind == "kernel" for node in step.nodes]
    assert nodes[:2] == ["conv", "relu"]
    assert {"matmul", "norm", 'soft\nmax "é"'} <= set(nodes)
    assert [report.steps[0].label, report.steps[-1].label] == ["x", "y"]
    kernels = {kernel.name for kernel in report.kernels}
    for step in report.steps:
        if step.kind == "kernel":
            assert step.seconds is not None
            assert step.seconds > 0
            assert step.kernel in kernels


def test_options_are_texts() -> None:
    rare = tessella.Options(pin={"conv": "x86/f32/nchw"}, kernels="-winograd")
    model = tessella.compile(classifier().SerializeToString(), options=rare, target="avx2")
    options = model.report().options
    assert options["pin"] == "conv=x86/f32/nchw"
    assert options["kernels"] == "-winograd"
    assert options["places"].startswith("x86/f32/nhwc, ")
    assert {"passes", "database", "timeout", "several", "arch"}.isdisjoint(options)


def test_edges_lead_from_each_input_to_an_output(report: Report) -> None:
    reached = {0}
    for edge in sorted(report.edges, key=lambda edge: edge.target):
        assert edge.source < edge.target
        if edge.source in reached:
            reached.add(edge.target)
    assert reached == {step.id for step in report.steps}


def test_groups_know_their_ops(report: Report) -> None:
    group = next(step for step in report.steps if "conv" in step.nodes)
    assert [report.ops[i].op for i in group.ops] == ["nn.conv", "nn.relu"]
    assert list(group.inner) == [tuple(group.ops)]
    conv = report.ops[group.ops[0]]
    assert conv.rejected
    assert all(each.reason for each in conv.rejected)


def test_lines_refer_to_the_pane_before(report: Report) -> None:
    for kernel in report.kernels:
        assert list(kernel.panes) == ["tile", "loops", "llvm", "asm"]
        before = 0
        for stage, pane in kernel.panes.items():
            lines = pane.text.count("\n") + 1
            assert len(pane.heads) == lines
            assert all(-1 <= head < lines for head in pane.heads)
            assert len(pane.origins) == (0 if stage == "tile" else lines)
            assert all(-1 <= origin < before for origin in pane.origins)
            before = lines


def test_a_multiply_add_comes_from_its_statement(report: Report) -> None:
    kernel = next(each for each in report.kernels if each.name.startswith("conv"))
    tile, loops = (kernel.panes[stage].text.split("\n") for stage in ("tile", "loops"))
    fused = [i for i, line in enumerate(loops) if "vector.fma" in line]
    assert {tile[kernel.panes["loops"].origins[i]].split(" = ")[1].split()[0] for i in fused} == {
        "tile.contract"
    }
    largest = [i for i, line in enumerate(loops) if "arith.maximumf" in line]
    assert all("arith.maximumf" in tile[kernel.panes["loops"].origins[i]] for i in largest)


def test_buffers_lie_in_the_arena(report: Report) -> None:
    [arena] = report.arenas
    for buffer in arena.buffers:
        assert 0 <= buffer.offset < buffer.offset + buffer.bytes <= arena.bytes
        assert 0 <= buffer.first <= buffer.last < len(arena.calls)


@pytest.mark.usefixtures("sums_in_numpy")
def test_what_numpy_runs() -> None:
    model = tessella.compile(mixed().SerializeToString())
    report = model.report([np.ones((3, 5), np.float32)], runs=2)
    [step] = [step for step in report.steps if step.kind == "numpy"]
    assert (step.nodes, len(step.calls)) == (["sums"], 1)
    assert report.totals.in_numpy == step.seconds


def test_estimates_without_inputs() -> None:
    report = tessella.compile(classifier().SerializeToString()).report()
    assert report.totals.seconds is None
    assert not any(step.calls for step in report.steps)
    assert any("estimates" in note for note in report.notes)


def test_a_loop_is_a_step_beside_those_of_its_body() -> None:
    node = helper.make_node("GRU", ["x", "w", "r"], ["y"], name="gru", hidden_size=8)
    weights = {"w": (1, 24, 4), "r": (1, 24, 8)}
    gru = network([node], {"x": (6, 1, 4)}, {"y": (6, 1, 1, 8)}, weights)
    model = tessella.compile(gru.SerializeToString())
    report = model.report([np.ones((6, 1, 4), np.float32)], runs=2)
    [loop] = [step for step in report.steps if step.kind == "loop"]
    inside = [step for step in report.steps if step.where]
    assert {f"loop over {step.where}" for step in inside} == {loop.label}
    assert all(call.calls == 6 for step in inside for call in step.calls)
    ops = [i for step in report.steps for i in step.ops]
    assert len(ops) == len(set(ops)) > 4  # although all of them have one node
    assert not any(report.ops[i].op == "nn.scan" for i in ops)
    unmeasured = [step for step in report.steps if step.kind in ("input", "output", "loop")]
    assert not any(step.calls for step in unmeasured)


def test_what_runs_after_a_graph_break() -> None:
    node = helper.make_node("NonZero", ["x"], ["y"], name="finds")
    model = tessella.compile(
        network([node], {"x": (3, 3)}, {"y": (2, "n")}, {}).SerializeToString()
    )
    report = model.report([np.eye(3, dtype=np.float32)], runs=2)
    assert any("finds" in step.nodes and step.kind == "numpy" for step in report.steps)


def test_a_program_with_a_source_shows_its_passes() -> None:
    model = tessella.compile(open_batch().SerializeToString())
    x = np.ones((5, 4), np.float32)
    model(x)
    report = model.report([x], runs=2)
    assert {"pick-kernels", "tile-schedule", "plan-arena"} <= {each.name for each in report.passes}
    [pick] = [each for each in report.passes if each.name == "pick-kernels"]
    assert pick.changed
    assert any(line.startswith("+") and "kernel = " in line for line in pick.diff)


def test_other_runtimes_by_node(report: Report) -> None:
    other = OtherRuntime("other", "1.0", 2.0, {"conv": 0.25, "relu": 0.5, "nothing": 1.0})
    steps = with_others(report, [other]).steps
    assert [dict(step.others) for step in steps if step.others] == [{"other": 0.75}]


def test_json_can_be_read_again(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    report.save(path)
    found = read_report(path)
    assert found == json.loads(report.json())
    assert found["steps"][0]["kind"] == "input"


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "not JSON"),
        ("[]", "no report"),
        ('{"version": 1}', "no report"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_files_that_are_no_reports(content: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(content)
    with pytest.raises(OptionError, match=message):
        read_report(path)


@pytest.mark.parametrize("model", [None, [], {}, {"name": 3}])
def test_a_report_without_a_name(report: Report, model: object, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(json.loads(report.json()) | {"model": model}))
    with pytest.raises(OptionError, match="its model has no name"):
        read_report(path)


def test_only_the_longest_spans_of_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measured, "MOST_SPANS", 3)
    model = tessella.compile(classifier().SerializeToString())
    profile = model.profile([X], runs=2)
    spans = measured.spans_of(profile)
    lengths = sorted((each.end - each.start for each in profile.spans), reverse=True)
    assert sorted((each.end - each.start for each in spans), reverse=True) == lengths[:3]
    assert [each.start for each in spans] == sorted(each.start for each in spans)


def test_a_report_of_another_version(report: Report, tmp_path: Path) -> None:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(json.loads(report.json()) | {"version": 0}))
    with pytest.raises(OptionError, match="another version"):
        read_report(path)


def test_notebooks_show_tables_of_texts() -> None:
    model = tessella.compile(mixed("<b>").SerializeToString())
    shown = [model._repr_html_(), model.report(name="<i>")._repr_html_()]
    shown.append(PlaceAttr.get("x86", "f32", NHWC)._repr_html_())
    assert "<td>x&lt;b&gt;</td>" in shown[0]
    assert "<td>3 x 5</td>" in shown[0]
    assert shown[1].startswith("<p>&lt;i&gt;: not measured</p><table>")
    assert shown[2] == "<code>x86/f32/nhwc</code>"
    assert not any("<b>" in html or "<i>" in html for html in shown)


def test_the_graph_for_graphviz() -> None:
    graph = open_source(classifier().SerializeToString()).graph({"x": (1, 3, 8, 8)})
    lowered = lower(graph, make_options(target="avx2"), stop="tile")
    first, *lines, last = dot_lines(program_graph(lowered.stages, explain(lowered.stages)))
    assert [first, last] == ["digraph program {", "}"]
    nodes = [line.split()[0] for line in lines if " [label=" in line and "->" not in line]
    assert len(nodes) == len(set(nodes)) > 4
    for line in lines:
        if "->" in line:
            assert {line.split()[0], line.split()[2]} <= set(nodes)
    assert any('label="softmax\\nsoft\\nmax \\"é\\"' in line for line in lines)


def test_quoted_texts_for_graphviz() -> None:
    assert quoted('a"b\\c\nd') == '"a\\"b\\\\c\\nd"'


def test_the_schema_is_documented() -> None:
    page = PAGE.read_text(encoding="utf-8")
    for kind in vars(data).values():
        if dataclasses.is_dataclass(kind):
            for each in dataclasses.fields(kind):
                assert f"`{each.name}`" in page, f"{kind}: {each.name}"
    assert f"version {VERSION}" in page


def plain(value: Any) -> bool:
    """Return whether a value and all its parts are values of JSON."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and plain(part) for key, part in value.items())
    if isinstance(value, list | tuple):
        return all(map(plain, value))
    return value is None or isinstance(value, str | int | float | bool)


def test_the_content_is_plain(report: Report) -> None:
    assert plain(dataclasses.asdict(report))
