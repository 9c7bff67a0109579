"""``tessella.Options``: checked fields, of which signatures, flags and a page of docs are made."""

from __future__ import annotations

import argparse
import dataclasses
from typing import Any

import pytest

from tessella.driver import option_docs
from tessella.driver.options import CheckedOptions, Options, make_options
from tessella.runtime.records import decoded, encoded
from tessella.support.errors import OptionError
from tessella.tools.commands.shared import add_options, options_of

WRONG: list[tuple[dict[str, Any], str]] = [
    ({"pick": "luck"}, "unknown pick 'luck'\n  expected: one of cost, grade, measure"),
    ({"pick": ["cost"]}, "wrong type\n  expected: one of cost, grade, measure, or a function"),
    ({"kernels": 1}, "the option 'kernels' has the wrong type"),
    ({"passes": "fold-constants"}, "the option 'passes' has the wrong type"),
    ({"pin": "Conv_12"}, "the option 'pin' has the wrong type"),
    ({"pin": {"Conv_12": 1}}, "the option 'pin' has the wrong type"),
    ({"autocast": ["nn.exp"]}, "the option 'autocast' has the wrong type"),
    ({"autocast": {"f32": "nn.exp"}}, "the option 'autocast' has the wrong type"),
    ({"autocast": {"f32": [1]}}, "the option 'autocast' has the wrong type"),
    ({"autocast": {"f32": [""]}}, "the option 'autocast' has the wrong type"),
    (
        {"autocast": {"f31": ["nn.exp"]}},
        "no lists for 'f31'\n  expected: one of f64, f32, f16, bf16",
    ),
    ({"autocast": {"i8": ["nn.exp"]}}, "no lists for 'i8'"),
    ({"max_weight_growth": 0.5}, "out of range\n  expected: a number from 1 on\n  found: 0.5"),
    ({"max_weight_growth": float("nan")}, "out of range"),
    ({"max_weight_growth": "2"}, "wrong type\n  expected: a number"),
    ({"budget": True}, "wrong type"),
    ({"budget": -1}, "a number from 0 on to"),
    ({"database": 3}, "wrong type\n  expected: str or None"),
]


@pytest.mark.parametrize("given, message", WRONG)
def test_wrong_values(given: dict[str, Any], message: str) -> None:
    with pytest.raises(OptionError) as caught:
        Options(**given)
    assert message in str(caught.value)


@pytest.mark.parametrize("name", [each.name for each in dataclasses.fields(Options)])
def test_a_rare_option_by_itself(name: str) -> None:
    given: dict[str, Any] = {name: 1}
    with pytest.raises(OptionError, match=r"one of tessella\.Options") as caught:
        make_options(**given)
    assert caught.value.hint == f"options=tessella.Options({name}=..)"


def test_checked_options_have_them() -> None:
    autocast = {"f32": ["nn.exp"]}
    rare = Options(kernels="-winograd", max_weight_growth=3, budget=1, autocast=autocast)
    checked = make_options(options=rare, threads=2)
    assert (checked.kernels, checked.max_weight_growth, checked.budget) == ("-winograd", 3, 1)
    assert decoded(CheckedOptions, encoded(checked)) == checked
    # programs do not depend on how long kernels are measured
    other = make_options(options=dataclasses.replace(rare, budget=9), threads=3)
    assert (other, repr(other)) == (checked, repr(checked))


def test_all_are_described() -> None:
    rows = list(option_docs.rows())
    assert [row.name for row in rows] == [each.name for each in dataclasses.fields(Options)]
    assert all(len(row.text) > 20 and (row.choices or row.metavar) for row in rows)


def test_flags() -> None:
    parser = argparse.ArgumentParser()
    add_options(parser)
    line = "--pick measure --budget 2 --database t.json --kernels=-winograd --max-weight-growth 3"
    pins = ["--pin", "Conv_12=x86/f32/nchw", "--pin", "a=b=x86,kernel=conv"]
    lists = ["--autocast", "f32=nn.exp,nn.log", "--autocast", "bf16=a=b"]
    checked = options_of(parser.parse_args([*line.split(), *pins, *lists]))
    pin = {"Conv_12": "x86/f32/nchw", "a=b": "x86,kernel=conv"}
    autocast = {"f32": ("nn.exp", "nn.log"), "bf16": ("a=b",)}
    expected = Options("measure", 2.0, "t.json", "-winograd", pin, autocast, max_weight_growth=3.0)
    found = {each.name: getattr(checked, each.name) for each in dataclasses.fields(Options)}
    assert found == dataclasses.asdict(expected)
    help = " ".join(parser.format_help().split())
    assert "--kernels -A,+B kernels, or methods of kernels, that are off or preferred" in help
    assert "seconds that measuring kernels may take (30)" in help
