"""Activation functions.

    0.5 * x * (1 + erf(x / sqrt 2))                             ->  gelu x
    0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 * x^3)))   ->  gelu_tanh x
    x * sigmoid x                                               ->  silu x
    x * tanh(softplus x)                                        ->  mish x
    x * clip(x + 3, 0, 6) / 6                                   ->  hard_swish x
    x * hard_sigmoid(x, 1/6, 0.5)                               ->  hard_swish x
    max(x, 0)                                                   ->  relu x
    max(x, alpha * x)  for 0 < alpha < 1                        ->  leaky_relu x
    where(x < 0, alpha * x, x)  for 0 < alpha                   ->  leaky_relu x
    min(max(x, low), high)                                      ->  clip x
    (x * a) * b                                                 ->  x * (a * b)

The two gelus differ by up to 5e-4: neither replaces the other. In the last rule one rounding of the
constant takes the place of one of the result: each is off by at most half a unit in the last place,
as long as neither constant nor their product is too small or too large to be normal.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tessella.dialects.nn import elementwise as ew
from tessella.dialects.nn.core import NnOp, is_float
from tessella.passes.patterns.factors import is_close, is_normal
from tessella.passes.patterns.nodes import AnyValue, Number, Product, either, op
from tessella.passes.patterns.pattern import Match, Pattern, becomes

x = AnyValue("x")

# ** gelu **

_GELU_ERF = Product(
    (x, op(ew.AddOp, op(ew.ErfOp, Product((x,), scale=math.sqrt(0.5))), 1.0)), scale=0.5
)

_CUBIC = 0.044715
"""The coefficient of the cube in the tanh approximation of GELU (Hendrycks and Gimpel, 2016)."""
_INNER = math.sqrt(2 / math.pi)
_TANH_ARGUMENT = either(
    Product((op(ew.AddOp, x, Product((x, x, x), scale=_CUBIC)),), scale=_INNER),
    Product((x, op(ew.AddOp, Product((x, x), scale=_CUBIC), 1.0)), scale=_INNER),
    op(ew.AddOp, Product((x,), scale=_INNER), Product((x, x, x), scale=_CUBIC * _INNER)),
)
_GELU_TANH = Product((x, op(ew.AddOp, op(ew.TanhOp, _TANH_ARGUMENT), 1.0)), scale=0.5)

# ** silu, mish, hard swish **

_SILU = Product((x, op(ew.SigmoidOp, x)))
_MISH = Product((x, op(ew.TanhOp, op(ew.SoftplusOp, x))))


def _clips(low: float, high: float) -> Callable[[ew.UnaryOp], bool]:
    return lambda clip: (clip.settings["low"], clip.settings["high"]) == (low, high)


def _is_hard_swish_gate(gate: ew.UnaryOp) -> bool:
    alpha, beta = gate.settings["alpha"], gate.settings["beta"]
    return is_close(alpha, 1 / 6, gate.res) and beta == 0.5


_HARD_SWISH = either(
    Product(
        (x, op(ew.ClipOp, op(ew.AddOp, x, 3.0), where=_clips(0, 6))),
        scale=1 / 6,
    ),
    Product(
        (x, op(ew.ClipOp, op(ew.AddOp, Product((x,), scale=1 / 6), 0.5), where=_clips(0, 1))),
    ),
    Product((x, op(ew.HardSigmoidOp, x, where=_is_hard_swish_gate))),
)

# ** relu and its kin **

_SLOPED = Product((x,), scale="alpha")
_LEAKY_RELU = either(
    op(ew.MaxOp, _SLOPED, x),
    op(ew.WhereOp, op(ew.LessOp, x, 0.0), _SLOPED, x),
    op(ew.WhereOp, op((ew.GreaterOp, ew.GreaterEqualOp), x, 0.0), x, _SLOPED),
)


def _leaky_relu(m: Match) -> NnOp | None:
    alpha = m.number("alpha")
    most = 1 if isinstance(m.root, ew.MaxOp) else math.inf
    return m.make(ew.LeakyReluOp, m["x"], alpha=alpha) if 0 < alpha < most else None


_LOW, _HIGH = Number(name="low"), Number(name="high")
_CLIP = either(
    op(ew.MinOp, either(op(ew.MaxOp, x, _LOW), op(ew.ReluOp, x)), _HIGH),
    op(ew.MaxOp, op(ew.MinOp, x, _HIGH), _LOW),
    op(ew.ReluOp, op(ew.MinOp, x, _HIGH)),
)


def _clip(m: Match) -> NnOp | None:
    low, high = m.number("low", 0.0), m.number("high")
    if not low <= high or not is_float(m.type.element_type):
        return None
    return m.make(ew.ClipOp, m["x"], low=low, high=high)


# ** scales **

_SCALES = op(ew.MulOp, op(ew.MulOp, x, Number(name="a")), Number(name="b"))


def _scale(m: Match) -> NnOp | None:
    x, a, b = m["x"], m.number("a"), m.number("b")
    if not is_float(m.type.element_type) or not all(is_normal(n, x) for n in (a, b, a * b)):
        return None
    return m.make(ew.MulOp, x, m.splat(a * b, (), x))


PATTERNS = (
    Pattern("gelu-erf", _GELU_ERF, becomes(ew.GeluOp, "x")),
    Pattern("gelu-tanh", _GELU_TANH, becomes(ew.GeluTanhOp, "x")),
    Pattern("silu", _SILU, becomes(ew.SiluOp, "x")),
    Pattern("mish", _MISH, becomes(ew.MishOp, "x")),
    Pattern("hard-swish", _HARD_SWISH, becomes(ew.HardSwishOp, "x")),
    Pattern("relu", op(ew.MaxOp, x, 0.0), becomes(ew.ReluOp, "x")),
    Pattern("leaky-relu", _LEAKY_RELU, _leaky_relu),
    Pattern("clip", _CLIP, _clip),
    Pattern("scale-scale", _SCALES, _scale, is_late=True),
)
