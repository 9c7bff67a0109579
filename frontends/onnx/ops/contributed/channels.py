"""Ops on channels-last images, x[N, spatial.., C], by ops on channels-first images."""

from __future__ import annotations

from collections.abc import Callable

from tessella.frontends.emitter import Value

Function = Callable[[Value], Value]


def channels_first(x: Value, function: Function) -> Value:
    """Apply a function of channels-first images to channels-last images, with transposes around
    it."""
    last = x.rank - 1
    y = function(x.transpose((0, last, *range(1, last))))
    return y.transpose((0, *range(2, y.rank), 1))
