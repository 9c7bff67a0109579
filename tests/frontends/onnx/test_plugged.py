"""Ops of a plugin's ONNX domain, and errors in a plugin."""

from __future__ import annotations

from collections.abc import Generator
from pathlib import Path

import numpy as np
import onnx
import pytest

import tessella
from tessella.driver.cache import program_cache
from tessella.frontends.onnx import check, registry
from tessella.support.errors import PluginError, UnsupportedError
from tests.plugins import Installer, forget

MODEL = """
<ir_version: 8, opset_import: ["": 18, "org.plugged": 3]>
main (float[2, 3] x, int64[2] shape) => (float[a, b] z) {
    y, kept = org.plugged.Twice<by = 2.0%s>(x)
    z = org.plugged.Shaped(y, shape)
}
"""
SOURCE = """
from tessella.frontends.onnx.registry import contributed

@contributed("Twice", domain="org.plugged", by=2.0)
def twice(call):
    return [call.x * call.number("by"), call.x]

@contributed("Shaped", domain="org.plugged", reads=(1,))
def shaped(call):
    return call.x.reshape(call.static_ints(1, "the shape"))
"""
ENTRIES = {"tessella.onnx": {"org.plugged": "org_plugged"}}


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[Installer]:
    monkeypatch.setattr(registry, "_CONTRIBUTED", {**registry._CONTRIBUTED})
    yield Installer(tmp_path, monkeypatch)
    forget()


def compiled(attributes: str = "") -> tessella.Model:
    return tessella.compile(onnx.parser.parse_model(MODEL % attributes), places=["host"])


def test_a_plugin_adds_ops(install: Installer) -> None:
    install("org_plugged", SOURCE, ENTRIES)
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    assert check(onnx.parser.parse_model(MODEL % "")) == []
    model = compiled()
    for shape in ([3, 2], [6, 1]):
        np.testing.assert_array_equal(model(x, np.array(shape)), (2 * x).reshape(shape))
    with pytest.raises(UnsupportedError, match="attribute 'other' is not supported here"):
        compiled(", other = 1")(x, np.array([3, 2]))


def test_a_model_without_its_plugin_is_refused() -> None:
    [twice, shaped] = check(onnx.parser.parse_model(MODEL % ""))
    assert twice.op == "org.plugged.Twice"
    assert twice.reason == shaped.reason
    assert twice.reason == (
        "domain 'org.plugged' is not supported: a plugin can add its ops through an entry point "
        "'org.plugged' of the group 'tessella.onnx' (docs/plugins.md)"
    )


def test_an_op_that_the_plugin_lacks_is_named(install: Installer) -> None:
    install("org_plugged", SOURCE.replace("Twice", "Thrice"), ENTRIES)
    [issue] = check(onnx.parser.parse_model(MODEL % ""))
    assert issue.reason == (
        "the plugin of 'org_plugged' adds only Shaped, Thrice to this domain; "
        "did you mean 'Thrice'?"
    )


@pytest.mark.parametrize(
    "before, after, message",
    [
        ("[call.x *", "[call.y *", "the converter of org.plugged.Twice .* no attribute 'y'"),
        (", call.x]", "]", "the converter of org.plugged.Twice does not return the results"),
        ("return [call.x *", "[call.x *", "(?s)does not return .*expected: 2 values.*found: None"),
        ('"org.plugged"', '"org.other"', "it adds no ops to this domain"),
        ('"Shaped"', '"Twice"', "the op org.plugged.Twice has two converters"),
    ],
)
def test_a_broken_plugin_is_named(
    before: str, after: str, message: str, install: Installer
) -> None:
    install("org_plugged", SOURCE.replace(before, after), ENTRIES)
    with pytest.raises(PluginError, match=message) as caught:
        compiled()(np.zeros((2, 3), np.float32), np.array([3, 2]))
    assert '"tessella.onnx"] org.plugged = "org_plugged"' in str(caught.value)


def test_two_packages_cannot_add_to_one_domain(install: Installer) -> None:
    install("org_plugged", SOURCE, ENTRIES)
    install("a_package", "", {"tessella.onnx": {"org.plugged": "a_package"}})
    with pytest.raises(PluginError, match="'a_package' already adds the ops of this domain"):
        compiled()


def test_converters_of_this_process_keep_programs_out_of_the_cache(install: Installer) -> None:
    assert program_cache.is_repeatable()
    registry.contributed("Same", domain="org.plugged")(lambda call: call.x)
    assert not program_cache.is_repeatable()
