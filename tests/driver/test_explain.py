"""Explanations: which kernel, why, and why not the others."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, StringAttr

from tessella import targets
from tessella.dialects import nn
from tessella.dialects.graph import Graph
from tessella.driver.build.build import lower
from tessella.driver.compile import compile_source
from tessella.driver.explain.explain import explain
from tessella.driver.options import Options, make_options
from tessella.driver.stages.stage_file import StageSource, save_stage
from tessella.kernels.registry import VIEW_KERNEL
from tessella.passes.pick.choices import Strategy
from tessella.runtime.explain_types import duration
from tessella.runtime.explanation import Explanation
from tessella.tools.cli import main
from tests.native import FixedSource, GraphBuilder
from tests.passes.harness import sample

pytestmark = pytest.mark.usefixtures("sums_in_numpy")

ROOT = Path(__file__).parents[2]
ARCH = targets.native().arch
Out = pytest.CaptureFixture[str]


def network() -> Graph:
    """A convolution with what is after it, and an op that only NumPy has."""
    g = GraphBuilder(x=sample(0, 1, 16, 24, 24))
    w = g.weight(sample(1, 64, 16, 3, 3))
    settings = {"strides": (1, 1), "pads": (1,) * 4, "dilations": (1, 1), "groups": 1}
    a = g.op(nn.ConvOp, [g.inputs["x"], w], node="conv1", **settings)
    b = g.op(nn.ReluOp, [a], node="relu1")
    c = g.op(nn.CumsumOp, [b], node="sums", axis=1, exclusive=False, reverse=False)
    return g.graph(g.op(nn.ReshapeOp, [c], node="rows", shape=(64, 576)))


def explained(pick: Strategy = "cost", **options: Any) -> Explanation:
    rare = Options(kernels="-winograd", pick=pick)
    lowered = lower(network(), make_options(options=rare, **options), stop="placed")
    return explain(lowered.stages)


def test_entries() -> None:
    conv, relu, sums, rows = explained().ops
    assert [conv["op"], conv["node"], conv["kernel"]] == ["nn.conv", "conv1", "conv"]
    assert conv["place"] == f"{ARCH}/f32/nhwc"
    assert conv["group"] == relu["group"]
    assert conv["fallback"] is None
    assert (sums["kernel"], sums["fallback"]) == ("host", "host")
    assert [op["native"] for op in (conv, relu, sums, rows)] == [True, True, False, True]
    assert rows["kernel"] == VIEW_KERNEL
    assert all(
        entry["estimate"] is not None and entry["estimate"] >= 0 for entry in (conv, relu, sums)
    )


def test_storage_and_arithmetic_are_named_apart() -> None:
    g = GraphBuilder(x=sample(0, 4, 40).astype(np.float16), i=np.array([1]))
    a = g.op(nn.GatherOp, [g.inputs["x"], g.inputs["i"]], axis=0)
    b = g.op(nn.ExpOp, [a])
    c = g.op(nn.LessOp, [a, b])
    d = g.op(nn.CumsumOp, [b], axis=1, exclusive=False, reverse=False)
    graph = g.graph(c, d)
    found = explain(lower(graph, make_options(), stop="placed").stages)
    assert [(op["kernel"], op["storage"], op["arithmetic"]) for op in found.ops] == [
        ("gather", "f16 i64 -> f16", "f16"),
        ("exp", "f16", "f32"),
        ("less", "f16 -> bool", "f32"),
        ("host", "f16", "f32"),
    ]
    header, *_ = str(found).splitlines()
    assert header.split()[2:8] == ["runs", "kernel", "place", "storage", "arithmetic", "cost"]


def test_groups_are_numbered_as_they_run() -> None:
    assert [entry["group"] for entry in explained().ops] == [0, 0, 1, 2]


def test_an_op_in_registers_saves_memory() -> None:
    conv, relu, *_ = explained().ops
    assert conv["saved"] == 0
    assert 0 < relu["saved"] <= (relu["estimate"] or 0)


def test_every_other_kernel_is_there_with_a_reason() -> None:
    conv, relu, sums, _ = explained().ops
    reasons = {(r["kernel"], r["place"]): r["reason"] for r in conv["rejected"]}
    assert reasons.keys() == {
        ("conv", f"{ARCH}/f32/nchw"),
        ("winograd2", f"{ARCH}/f32/nhwc"),
        ("winograd4", f"{ARCH}/f32/nhwc"),
        ("host", "host/f32/nchw"),
    }
    assert reasons["winograd4", f"{ARCH}/f32/nhwc"] == "-winograd turns it off"
    assert re.fullmatch(
        r"it takes \S+ [mu]?s, \S+ [mu]?s more", reasons["conv", f"{ARCH}/f32/nchw"]
    )
    assert "not needed" in reasons["host", "host/f32/nchw"]
    second = conv["runner_up"]
    assert second is not None
    assert (second["kernel"], second["place"]) == ("conv", f"{ARCH}/f32/nchw")
    assert second["estimate"] > (conv["estimate"] or 0)
    assert any("together with the ops around it" in r["reason"] for r in relu["rejected"])
    assert sums["rejected"] == []


def test_reasons_are_told_to_who_asks() -> None:
    found = explained()
    assert "    not " not in str(found)
    with_reasons = found.why().splitlines()
    assert "    not host at host/f32/nchw: a fallback (host) that is not needed" in with_reasons
    assert [line for line in with_reasons if not line.startswith("    not")] == (
        str(found).splitlines()
    )


def test_json_is_read_again() -> None:
    found = explained()
    again = Explanation.from_json(found.json())
    assert (again.why(), again.json()) == (found.why(), found.json())


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"ops": 1}', '{"ops": [{}]}', '{"x": []}'])
def test_other_json_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="cannot be read"):
        Explanation.from_json(text)


def test_an_artifact_is_explained_on_any_machine(tmp_path: Path, capsys: Out) -> None:
    model, path = ROOT / "examples" / "digits" / "digits.onnx", str(tmp_path / "d.tsl")
    assert main(["compile", str(model), "-o", path, "--target", "avx512,neon"]) == 0
    capsys.readouterr()
    assert main(["explain", path, "--why"]) == 0
    by_artifact = capsys.readouterr().out
    for target in ("avx512", "neon"):
        assert main(["explain", str(model), "--target", target, "--why"]) == 0
        text = capsys.readouterr().out
        assert f"for {target}, image [1, 1, 8, 8]:\n{text.rstrip()}\n" in by_artifact
    assert main(["explain", path, "--json"]) == 0
    titles = list(json.loads(capsys.readouterr().out))
    assert titles == [f"{target}, image [1, 1, 8, 8]" for target in ("avx512", "neon")]
    assert main(["explain", path, "--tiles"]) == 2


def test_a_predicate_says_why_in_a_sentence() -> None:
    g = GraphBuilder(x=sample(0, 1, 4, 5, 5))
    sides = {"low": (0, 0, 9, 9), "high": (0, 0, 9, 9)}
    graph = g.graph(g.op(nn.PadOp, [g.inputs["x"]], mode="reflect", value=0.0, **sides))
    (pad,) = explain(lower(graph, make_options(), stop="placed").stages).ops
    assert pad["kernel"] == "host"
    assert "a border is longer than the operand, which it would repeat" in {
        r["reason"] for r in pad["rejected"]
    }


def test_conversions_have_their_bytes() -> None:
    conversions = explained().conversions
    first = conversions[0]
    assert (first["op"], first["value"]) == ("place.relayout", "x")
    assert (first["source"], first["target"]) == (f"{ARCH}/f32/nchw", f"{ARCH}/f32/nhwc")
    assert first["bytes"] == 4 * 16 * 24 * 24
    assert first["estimate"] > 0
    assert first["readers"] == ["conv1"]
    assert [c["value"] for c in conversions] == ["x", "relu1", "relu1", "sums"]
    copies = [c for c in conversions if c["op"] == "place.copy"]
    assert [c["readers"] for c in copies] == [["sums"], ["rows"]]
    assert {c["estimate"] for c in copies} == {0.0}  # the host and a CPU share their memory


def test_fusions_have_what_they_consumed() -> None:
    graph = network()
    conv = next(op for op in graph.module.walk() if isinstance(op, nn.ConvOp))
    conv.attributes["nn.pattern"] = StringAttr("conv-norm")
    consumed = ("nn.conv@a", "nn.batch_norm@b")
    conv.attributes["nn.consumed"] = ArrayAttr(map(StringAttr, consumed))
    fusions = explain(lower(graph, make_options(), stop="placed").stages).fusions
    assert {
        "op": "nn.conv",
        "node": "conv1",
        "pattern": "conv-norm",
        "consumed": list(consumed),
    } in fusions
    (group,) = (f for f in fusions if f["op"] == "nn.fused")
    assert group["consumed"] == ["nn.conv@conv1", "nn.relu@relu1"]


def rows_of(text: str, title: str) -> list[list[str]]:
    """The cells of a table of the text, which has several spaces between them."""
    lines = text.split(f"{title}:\n")[1].split("\n\n")[0].splitlines()
    return [re.split(r"  +", line) for line in lines]


def test_fallbacks_are_listed() -> None:
    header, sums = rows_of(str(explained()), "fallbacks (host 1)")
    assert header == ["op", "node", "kernel", "place", "fallback"]
    assert sums == ["nn.cumsum", "sums", "host", "host/f32/nchw", "host"]


def test_where_the_time_goes() -> None:
    """The longest first; an op that runs in registers counts for less than its cost."""
    found = explained()
    header, *rows, total = rows_of(str(found), "estimated time")
    assert header == ["op", "count", "cost", "share"]
    assert {row[0] for row in rows} == {op["op"] for op in found.ops} | {
        c["op"] for c in found.conversions
    }
    shares = [int(row[3].rstrip("%")) for row in rows]
    assert shares == sorted(shares, reverse=True)
    seconds = sum((op["estimate"] or 0) - op["saved"] for op in found.ops)
    seconds += sum(c["estimate"] for c in found.conversions)
    assert total == ["all", str(len(found.ops) + len(found.conversions)), duration(seconds), "100%"]


def test_how_it_was_picked() -> None:
    by_cost, by_grade = explained().pick, explained(pick="grade").pick
    assert by_cost is not None
    assert (by_cost["strategy"], by_cost["exact"]) == ("cost", True)
    assert by_cost["places"] == [f"{ARCH}/f32/nhwc", f"{ARCH}/f32", ARCH, "host"]
    assert by_grade is not None
    assert (by_grade["strategy"], by_grade["exact"]) == ("grade", None)


def test_grades_are_shown() -> None:
    conv, relu, *_ = explained(pick="grade", target="avx2").ops
    reasons = {r["place"]: r["reason"] for r in conv["rejected"]}
    assert reasons["x86/f32/nchw"] == ("its score is 6442450944, that of the picked one 7516192768")
    assert "its operands have another layout" in {r["reason"] for r in relu["rejected"]}


def test_json() -> None:
    found = json.loads(explained().json())
    parts = [
        "version",
        "ops",
        "conversions",
        "fusions",
        "refused",
        "regrets",
        "pick",
        "threads",
        "values",
    ]
    parts += ["sizes", "continuation"]
    assert list(found) == parts
    for op in found["ops"]:
        assert op.keys() >= {"op", "node", "kernel", "place", "estimate", "group", "rejected"}
        assert all(r.keys() == {"kernel", "place", "reason"} for r in op["rejected"])


def test_a_table_in_notebooks() -> None:
    graph = network()
    conv = next(op for op in graph.module.walk() if isinstance(op, nn.ConvOp))
    conv.attributes["node"] = StringAttr("<script>")
    html = explain(lower(graph, make_options(), stop="placed").stages)._repr_html_()
    assert html.count("<table>") == html.count("</table>") == 5
    assert "<script>" not in html
    assert "&lt;script&gt;" in html
    assert "<details><summary>" in html


def test_a_loaded_stage_is_explained_alike(tmp_path: Path) -> None:
    lowered = lower(network(), make_options(), stop="placed")
    path = tmp_path / "m.placed"
    save_stage(path, lowered.stages["placed"], lowered.weights)
    loaded = explain({"placed": StageSource(path).graph({"x": (1, 16, 24, 24)}).module})
    assert loaded.json() == explain(lowered.stages).json()


@pytest.mark.parametrize("stage", ["tile", "loops"])
def test_what_a_later_stage_still_knows(stage: str, tmp_path: Path) -> None:
    """The kernels with their nodes, in the order of the program, and NumPy's ops after them."""
    # where the relayouts stay kernels of their own
    lowered = lower(network(), make_options(target="avx512"), stop=stage)
    path = tmp_path / f"m.{stage}"
    save_stage(path, lowered.stages[stage], lowered.weights)
    loaded = explain({stage: StageSource(path).graph({"x": (1, 16, 24, 24)}).module})
    nodes = ["place.relayout", "conv1", "relu1", "place.relayout", "sums"]
    assert [entry["node"] for entry in loaded.ops] == nodes
    assert str(loaded).startswith(f"The program was loaded from the stage {stage!r}")


def test_a_compiled_model_is_explained() -> None:
    model = compile_source(FixedSource(network), options=Options(pick="grade", kernels="-winograd"))
    found, placed = model.explain(), explained(pick="grade")
    assert found.threads is not None
    assert replace(found, threads=None).json() == placed.json()


@pytest.mark.parametrize(
    "seconds, text", [(1.5, "1.5 s"), (2e-3, "2 ms"), (3.456e-6, "3.46 us"), (0.0, "0 us")]
)
def test_durations(seconds: float, text: str) -> None:
    assert duration(seconds) == text


# ** the command line **


def test_options(tmp_path: Path, capsys: Out) -> None:
    lowered = lower(network(), make_options(), stop="nn")
    path = str(tmp_path / "m.nn")
    save_stage(tmp_path / "m.nn", lowered.stages["nn"], lowered.weights)
    assert main(["explain", path, "--pick", "grade", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["pick"]["strategy"] == "grade"
    assert main(["explain", path, "--fallback", "error"]) == 2
    assert "host at host/f32/nchw: a fallback (host), and those are refused" in (
        capsys.readouterr().err
    )


def normal(line: str) -> str:
    """The line without figures, which change with the model, and with single spaces."""
    return " ".join(re.sub(r"(?<![\w/])\d[\d.]*( [mu]?s)?", "N", line).split())


def test_the_example_in_the_documentation(capsys: Out) -> None:
    text = (ROOT / "docs" / "picking.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"^```text\n(op .*?)^```$", text, re.MULTILINE | re.DOTALL)
    model = str(ROOT / "examples" / "digits" / "digits.onnx")
    assert main(["explain", model, "--target", "avx512", "--why"]) == 0
    found = iter([normal(line) for line in capsys.readouterr().out.splitlines()])
    for line in example.splitlines():
        if line and line != "...":
            assert normal(line) in found, line  # consumes what is before it
