"""The activation functions that recurrent and fused ops name in an attribute."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from tessella.dialects import nn
from tessella.frontends.emitter import Value
from tessella.frontends.onnx.call import Call
from tessella.runtime.host.elementwise import ROWS, Row
from tessella.support.errors import ShapeError

Activation = Callable[[Value], Value]
Take = Callable[[str, float], float]
"""A function that returns a parameter of an activation function: alpha, beta or gamma. It takes the
parameter's name and its default value."""

_NAMED = """
    Elu HardSigmoid LeakyRelu Relu Selu Sigmoid Softplus Softsign Tanh ThresholdedRelu
    """.split()
"""Names of ONNX ops that are activation functions too, with the same parameters and defaults."""

_ROWS: Mapping[str, Row] = {
    row.onnx.name.lower(): row
    for row in ROWS.values()
    if row.onnx is not None and row.onnx.name in _NAMED
}


def _named(row: Row, take: Take) -> Activation:
    names: Mapping[str, str] = {} if row.onnx is None else row.onnx.attributes
    parameters = {key: take(names.get(key, key), value) for key, value in row.parameters.items()}
    return lambda x: x.op(nn.OPS[row.name], **parameters)


def _affine(alpha: float, beta: float) -> Activation:
    return lambda x: x * alpha + beta


def _scaled_tanh(alpha: float, beta: float) -> Activation:
    return lambda x: (x * beta).op(nn.TanhOp) * alpha


def activation(call: Call, name: str, take: Take) -> Activation:
    """Return the activation function of a name, in any case. Raises UnsupportedError for an unknown
    name."""
    lower = name.lower()
    if lower in _ROWS:
        return _named(_ROWS[lower], take)
    if lower == "affine":
        return _affine(take("alpha", 1.0), take("beta", 0.0))
    if lower != "scaledtanh":
        call.unsupported(f"activation {name!r}")
    return _scaled_tanh(take("alpha", 1.0), take("beta", 1.0))


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
    given = {name: [*(call.numbers(f"activation_{name}") or ())] for name in ("alpha", "beta")}

    def take(name: str, default: float) -> float:
        values = given.get(name)
        return float(values.pop(0)) if values else default

    return [activation(call, name, take) for name in names]
