"""The page of a report in a browser: what it shows, by pointer and keyboard, and that it loads
nothing."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import numpy as np
import pytest

import tessella
from tessella.driver.report.page import page as page_of
from tests.hostile.models import mixed
from tests.tools.networks import classifier
from tests.tools.report.browser import COMMAND, Page, chromium

pytestmark = pytest.mark.skipif(COMMAND is None, reason="no chromium is installed")

HOSTILE = "</script><img src=x onerror=alert(1)><script>alert(2)</script>{{data}}'\"&"
"""A text that becomes markup, or a script, if it is not escaped."""


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Generator[Page]:
    with chromium(tmp_path_factory.mktemp("profile")) as page:
        yield page


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    model = tessella.compile(classifier().SerializeToString())
    path = tmp_path_factory.mktemp("report") / "report.html"
    x = np.ones((1, 3, 8, 8), np.float32)
    model.report([x], name="classifier", runs=3).save(path)
    return path


@pytest.fixture
def opened(browser: Page, report: Path) -> Page:
    """The page, freshly opened."""
    browser.problems.clear()
    browser.requests.clear()
    browser.open(report)
    return browser


def text(page: Page, selector: str) -> str:
    return page.eval(f"document.querySelector({json.dumps(selector)}).textContent")


def test_all_views_are_drawn_without_a_word(opened: Page) -> None:
    views = opened.eval("[...document.querySelectorAll('[role=tab]')].map((each) => each.id)")
    assert len(views) == 9
    for view in views:
        opened.click(f"#{view}")
        shown = f"#{view.replace('tab', 'view')}"
        assert opened.eval(f"document.querySelector('{shown}').childElementCount") > 0
    assert opened.problems == []
    assert [url for url in opened.requests if not url.startswith(("file:", "blob:", "data:"))] == []


def test_search_finds_a_node_and_enter_chooses_it(opened: Page) -> None:
    opened.press("/", "/")
    opened.type("matmul")
    assert text(opened, "#found") == "1 found"
    opened.press("Enter")
    assert "matmul" in text(opened, "#details")
    assert opened.eval("document.querySelectorAll('.box.match.chosen').length") == 1


def test_a_click_shows_the_code(opened: Page) -> None:
    box = opened.eval(
        "[...document.querySelectorAll('.box.kernel')].find((e) => /conv/.test(e.textContent))"
        ".getAttribute('data-step')"
    )
    opened.click(f".box[data-step='{box}'] rect")
    assert "vfmadd" in text(opened, "[data-stage=asm]") or "fmla" in text(
        opened, "[data-stage=asm]"
    )
    assert "tile.contract" in text(opened, "[data-stage=tile]")


def test_lines_are_lit_both_ways(opened: Page) -> None:
    opened.eval("document.querySelector('.box.kernel').dispatchEvent(new MouseEvent('click'))")
    lit = "[...document.querySelectorAll('[data-stage={}] .lit')].map((e) => e.textContent)"
    lines = "[...document.querySelectorAll('[data-stage={}] .line')]"
    find = lines + ".find((e) => /{}/.test(e.textContent))"
    opened.eval(f"{find.format('tile', 'tile.contract')}.click()")
    assert opened.eval(lit.format("asm"))
    assert any("scf.for" in each for each in opened.eval(lit.format("loops")))
    opened.eval(f"{find.format('llvm', 'llvm.fma')}.click()")
    assert any("vector.fma" in each for each in opened.eval(lit.format("loops")))
    assert any("tile.contract" in each for each in opened.eval(lit.format("tile")))


def test_groups_open_and_close(opened: Page) -> None:
    count = "document.querySelectorAll('.box.member').length"
    assert opened.eval(count) == 0
    opened.click("#open-all")
    assert opened.eval(count) >= 2
    opened.click("#close-all")
    assert opened.eval(count) == 0


def test_the_keyboard_is_enough(opened: Page) -> None:
    opened.eval("document.querySelector('.box').focus()")
    opened.press("ArrowDown")
    opened.press("Enter")
    assert opened.eval("document.querySelector('.box.chosen') === document.activeElement")
    opened.press("Escape")
    assert opened.eval("document.querySelectorAll('.box.chosen').length") == 0
    opened.eval("document.querySelector('#tab-graph').focus()")
    opened.press("ArrowRight")
    assert opened.eval("document.activeElement.id") == "tab-steps"
    assert opened.eval("!document.querySelector('#view-steps').hidden")


def test_dark_and_light_differ(browser: Page, report: Path) -> None:
    ground = "getComputedStyle(document.body).backgroundColor"
    browser.open(report)
    light = browser.eval(ground)
    browser.open(report, dark=True)
    dark = browser.eval(ground)
    assert sum(map(int, light[4:-1].split(","))) > 700 > 100 > sum(map(int, dark[4:-1].split(",")))
    assert browser.picture()[:4] == b"\x89PNG"


@pytest.mark.usefixtures("sums_in_numpy")
def test_names_of_a_model_stay_text(browser: Page, tmp_path: Path) -> None:
    model = tessella.compile(mixed(HOSTILE).SerializeToString())
    report = model.report([np.ones((3, 5), np.float32)], name=HOSTILE, runs=2)
    path = tmp_path / "hostile.html"
    report.save(path)
    assert "<img" not in path.read_text()
    browser.problems.clear()
    browser.open(path)
    for view in ("steps", "threads", "passes", "memory", "compare", "about", "graph"):
        browser.click(f"#tab-{view}")
    browser.eval("document.querySelector('.box.numpy').dispatchEvent(new MouseEvent('click'))")
    assert HOSTILE in text(browser, "#details")
    assert text(browser, "h1") == HOSTILE
    assert browser.eval("document.querySelectorAll('img').length") == 0
    assert browser.problems == []


def test_two_reports_side_by_side(browser: Page, report: Path, tmp_path: Path) -> None:
    model = tessella.compile(classifier().SerializeToString(), places=["x86/f32/nchw", "host"])
    found = [json.loads(model.report(name=name).json()) for name in ("first", "second")]
    path = tmp_path / "both.html"
    path.write_text(page_of(found))
    browser.problems.clear()
    browser.open(path)
    assert (
        browser.eval("document.querySelector('[role=tab][aria-selected=true]').id") == "tab-compare"
    )
    assert browser.eval("document.querySelectorAll('#view-compare tbody tr').length") > 8
    assert text(browser, "#head select") == "A: firstB: second"
    assert browser.problems == []
