"""The activation functions that recurrent ops name in an attribute."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.support.errors import ShapeError

Activation = Callable[[Value], Value]

_PLAIN: dict[str, type[nn.NnOp]] = {
    "relu": nn.ReluOp,
    "sigmoid": nn.SigmoidOp,
    "softplus": nn.SoftplusOp,
    "softsign": nn.SoftsignOp,
    "tanh": nn.TanhOp,
}

# With the default values of alpha and beta, None for a parameter that there is not.
_PARAMETERS: dict[str, tuple[type[nn.NnOp], float, float | None]] = {
    "elu": (nn.EluOp, 1.0, None),
    "hardsigmoid": (nn.HardSigmoidOp, 0.2, 0.5),
    "leakyrelu": (nn.LeakyReluOp, 0.01, None),
    "thresholdedrelu": (nn.ThresholdedReluOp, 1.0, None),
}


def _plain(op: type[nn.NnOp]) -> Activation:
    return lambda x: x.op(op)


def _with(op: type[nn.NnOp], alpha: float, beta: float | None) -> Activation:
    if beta is None:
        return lambda x: x.op(op, alpha=alpha)
    return lambda x: x.op(op, alpha=alpha, beta=beta)


def _affine(alpha: float, beta: float) -> Activation:
    return lambda x: x * alpha + beta


def _scaled_tanh(alpha: float, beta: float) -> Activation:
    return lambda x: (x * beta).op(nn.TanhOp) * alpha


def activations(call: Call, default: Sequence[str], directions: int) -> list[Activation]:
    """The functions for all directions; ``default`` are those of one.

    The attributes ``activation_alpha`` and ``activation_beta`` hold the parameters of those
    functions that have them, in order.
    """
    names = call.given("activations") or (*default,) * directions
    if len(names) != len(default) * directions:
        raise ShapeError(
            "activations of the wrong number",
            expected=str(len(default) * directions),
            found=str(list(names)),
        )
    alphas = list(call.numbers("activation_alpha") or ())
    betas = list(call.numbers("activation_beta") or ())

    def take(values: list[float], default: float) -> float:
        return float(values.pop(0)) if values else default

    found: list[Activation] = []
    for name in map(str.lower, names):
        if name in _PLAIN:
            found.append(_plain(_PLAIN[name]))
        elif name in _PARAMETERS:
            op, alpha, beta = _PARAMETERS[name]
            alpha = take(alphas, alpha)
            found.append(_with(op, alpha, None if beta is None else take(betas, beta)))
        elif name in ("affine", "scaledtanh"):
            make = _affine if name == "affine" else _scaled_tanh
            found.append(make(take(alphas, 1.0), take(betas, 0.0 if name == "affine" else 1.0)))
        else:
            call.unsupported(f"activation {name!r}")
    return found
