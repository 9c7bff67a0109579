"""Every code block of every page runs, or its commands parse; links and paths lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path

import pytest

from docs import blocks, snippets
from docs.blocks import ROOT, Block
from tessella.tools import cli, opt

PAGES = blocks.pages()
RUN = "run"
PYTHON = ("python", blocks.HIDDEN)
SLOW = ("docs/quantize.md",)
NEEDS = {"docs/torch.md": "torch", "docs/serving.md": "tritonclient"}
"""Pages whose code needs a package that is not installed with the tests."""
MAKE = re.compile(r"^([a-z0-9-]+):", re.MULTILINE)


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def blocks_of(page: Path) -> list[Block]:
    return [*blocks.blocks(page.read_text(encoding="utf-8"))]


def runs(block: Block) -> bool:
    return block.language in PYTHON or block.comment == RUN


def cases() -> Iterator[object]:
    for page in PAGES:
        if any(map(runs, blocks_of(page))):
            yield pytest.param(page, marks=[*marks(name_of(page))], id=name_of(page))


def marks(page: str) -> Iterator[pytest.MarkDecorator]:
    if page in SLOW:
        yield pytest.mark.slow
    package = NEEDS.get(page)
    if package is not None and importlib.util.find_spec(package) is None:
        yield pytest.mark.skip(reason=f"{package} is not installed")


@pytest.mark.parametrize("page", [*cases()])
def test_the_code_runs(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    monkeypatch.chdir(tmp_path)
    scope: dict[str, object] = {"__name__": "page"}
    for block in filter(runs, blocks_of(page)):
        if block.language in PYTHON:
            exec(compile("\n" * block.line + block.text, str(page), "exec"), scope)
        else:
            for words in blocks.commands(block):
                assert snippets.COMMANDS[words[0]](words[1:]) == 0, words


def parse_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let commands end once their options are parsed."""
    for command in cli.COMMANDS:
        module = import_module(f"tessella.tools.commands.{command}")
        monkeypatch.setattr(module, "run", lambda args: 0)
    monkeypatch.setattr(opt.OptMain, "run", lambda self: None)


def parses(words: list[str]) -> bool:
    """Return whether there is a command of these words, with these options."""
    match words:
        case [("tessella" | "tessella-opt") as name, *arguments]:
            return snippets.COMMANDS[name](arguments) == 0
        case ["make", "bench", *settings]:
            bench = dict(word.split("=", 1) for word in settings).get("BENCH", "models")
            return importlib.util.find_spec(f"bench.{bench}") is not None
        case ["make", target, *_]:
            return target in MAKE.findall((ROOT / "Makefile").read_text())
        case ["python" | ".venv/bin/python", "-m", module, *_]:
            return importlib.util.find_spec(module) is not None
        case _:
            return True


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_the_commands_parse(
    page: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    parse_only(monkeypatch)
    for block in blocks_of(page):
        if block.language in blocks.SHELLS:
            for words in blocks.commands(block):
                assert parses(words), f"line {block.line}: {words}: {capsys.readouterr().err}"


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_block_of_ir_is_the_output_of_a_command(page: Path) -> None:
    for block in blocks_of(page):
        if block.language in ("mlir", "llvm", "asm"):
            assert block.comment.startswith("$ "), f"line {block.line}"
        else:
            assert block.language in (*PYTHON, *blocks.SHELLS), f"line {block.line}"


def anchors_of(page: Path) -> set[str]:
    return blocks.anchors(page.read_text(encoding="utf-8"))


def broken(page: Path) -> Iterator[str]:
    """The links of a page that lead nowhere, and the files that it names and that are not there."""
    text = page.read_text(encoding="utf-8")
    for link in blocks.links(text):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors_of(target)):
            yield link
    yield from (path for path in blocks.named_paths(text) if not (ROOT / path).exists())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_and_paths_lead_somewhere(page: Path) -> None:
    assert [*broken(page)] == []


# ** the reader of pages **

PAGE = """\
# The title: `x` and y

    tessella check a.onnx

<!-- hidden
a = 1
-->

```python
b = a
```

<!-- run -->
```sh
A=1 tessella run "b c" | head  # says so
```

```text
$ tessella diff a
tessella is here
```

See [here](x.md#y), [there](https://x.org) and `driver/x.py`.
"""


def test_blocks_of_a_page() -> None:
    found = [(b.language, b.text, b.comment) for b in blocks.blocks(PAGE)]
    assert found == [
        ("", "tessella check a.onnx\n", ""),
        ("hidden", "a = 1\n", ""),
        ("python", "b = a\n", ""),
        ("sh", 'A=1 tessella run "b c" | head  # says so\n', "run"),
        ("text", "$ tessella diff a\ntessella is here\n", ""),
    ]


def test_commands_of_a_page() -> None:
    found = [words for block in blocks.blocks(PAGE) for words in blocks.commands(block)]
    assert found[0] == ["tessella", "check", "a.onnx"]
    assert found[-2:] == [["tessella", "run", "b c"], ["tessella", "diff", "a"]]


def test_links_of_a_page() -> None:
    assert [*blocks.links(PAGE)] == ["x.md#y"]
    assert [*blocks.named_paths(PAGE)] == ["driver/x.py"]
    assert blocks.anchors(PAGE) == {"the-title-x-and-y"}


@pytest.mark.parametrize(
    "command",
    [
        "tessella run m.onnx --no-such-option",
        "tessella fly m.onnx",
        "tessella-opt m.nn -p no-such-pass",
        "make no-such-target",
        "make bench BENCH=no_such_benchmark",
        "python -m no_such_module",
    ],
)
def test_a_wrong_command_is_found(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parse_only(monkeypatch)
    [words] = blocks.commands(Block(1, "sh", command))
    assert not parses(words)


Broken = Callable[[str], list[str]]


@pytest.fixture
def broken_in(tmp_path: Path) -> Broken:
    """The broken links of a page with some text."""

    def of(text: str) -> list[str]:
        page = tmp_path / "page.md"
        page.write_text(text, encoding="utf-8")
        return [*broken(page)]

    return of


def test_a_broken_link_is_found(broken_in: Broken) -> None:
    assert broken_in("# Here\n[a](page.md#here) [b](#here) `driver/build/pipeline.py`") == []
    found = broken_in("[a](other.md) [b](page.md#there) `driver/no_such_file.py`")
    assert found == ["other.md", "page.md#there", "driver/no_such_file.py"]
