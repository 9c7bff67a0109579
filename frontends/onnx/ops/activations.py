"""The activation functions that recurrent ops name in an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.runtime.host.elementwise import ROWS, Row
from tessella.support.errors import ShapeError

Activation = Callable[[Value], Value]

_NAMED = """
    Elu HardSigmoid LeakyRelu Relu Sigmoid Softplus Softsign Tanh ThresholdedRelu
    """.split()
"""Names of ONNX ops that are activation functions too, with the same parameters and defaults."""

_ROWS: Mapping[str, Row] = {
    row.onnx.name.lower(): row
    for row in ROWS.values()
    if row.onnx is not None and row.onnx.name in _NAMED
}


def _named(row: Row, parameters: Mapping[str, float]) -> Activation:
    return lambda x: x.op(nn.OPS[row.name], **parameters)


def _affine(alpha: float, beta: float) -> Activation:
    return lambda x: x * alpha + beta


def _scaled_tanh(alpha: float, beta: float) -> Activation:
    return lambda x: (x * beta).op(nn.TanhOp) * alpha


def activations(call: Call, default: Sequence[str], directions: int) -> list[Activation]:
    """Return the activation functions of a recurrent op for all directions; ``default`` are those
    of one direction.

    The attributes ``activation_alpha`` and ``activation_beta`` list the parameters of the functions
    that have them, in order.
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
        if name in _ROWS:
            given = {"alpha": alphas, "beta": betas}
            defaults = _ROWS[name].parameters
            parameters = {key: take(given[key], value) for key, value in defaults.items()}
            found.append(_named(_ROWS[name], parameters))
        elif name in ("affine", "scaledtanh"):
            make = _affine if name == "affine" else _scaled_tanh
            found.append(make(take(alphas, 1.0), take(betas, 0.0 if name == "affine" else 1.0)))
        else:
            call.unsupported(f"activation {name!r}")
    return found
