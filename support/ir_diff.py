"""Changes of a program's text, in the style of `diff -u`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from difflib import SequenceMatcher

_NUMBER = re.compile(r"%\d+\b")


def ir_diff(before: str, after: str, context: int = 2) -> Iterator[str]:
    """Yield the changed lines with context.

    Renumbered values do not count as changes.
    """
    old, new = before.splitlines(), after.splitlines()
    plain = [[_NUMBER.sub("%", line) for line in lines] for lines in (old, new)]
    matcher = SequenceMatcher(None, plain[0], plain[1], autojunk=False)
    for group in matcher.get_grouped_opcodes(context):
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@"
        for tag, i, j, k, m in group:
            if tag == "equal":
                yield from (f" {line}" for line in new[k:m])
            else:
                yield from (f"-{line}" for line in old[i:j])
                yield from (f"+{line}" for line in new[k:m])


def _span(start: int, stop: int) -> str:
    return f"{start + 1},{stop - start}"
