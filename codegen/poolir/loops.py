"""Counted loops as LLVM text."""

from __future__ import annotations

from collections.abc import Sequence


def loop(
    body: str,
    *,
    over: str,
    first: int,
    limit: str,
    before: str,
    last: str,
    after: str,
    carried: Sequence[tuple[str, str, str, str]] = (),
    once: bool = False,
) -> str:
    """Return a loop of ``%over`` from ``first`` up to ``%limit``.

    The body ends without a branch in the block ``last``; it may leave the loop elsewhere.
    ``before`` and ``after`` are the blocks around the loop. Each ``carried`` value has a type, a
    name, an initial value, and the name of its next value. With ``once``, the first iteration runs
    without a test. The body then begins in the block ``loop.over``, and otherwise in the block
    ``step.over``.
    """
    head, step = f"loop.{over}", f"step.{over}"
    phis = [("i64", over, str(first), f"%{over}.next"), *carried]
    lines = [f"  br label %{head}", f"{head}:"]
    lines += [f"  %{n} = phi {t} [ {a}, %{before} ], [ {b}, %{last} ]" for t, n, a, b in phis]
    following = f"  %{over}.next = add i64 %{over}, 1"
    if once:
        test = _test(f"%{over}.next", over, limit, head, after)
        return "\n".join([*lines, body.strip("\n"), following, *test, f"{after}:"])
    lines += [*_test(f"%{over}", over, limit, step, after), f"{step}:", body.strip("\n")]
    return "\n".join([*lines, following, f"  br label %{head}", f"{after}:"])


def _test(number: str, over: str, limit: str, more: str, after: str) -> Sequence[str]:
    return [
        f"  %{over}.more = icmp slt i64 {number}, %{limit}",
        f"  br i1 %{over}.more, label %{more}, label %{after}",
    ]
