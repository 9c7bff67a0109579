"""Forty small modules: convolutional, attention, recurrent, mixtures, indexing and losses.

Each row makes a module and, for a batch size, its arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812 (its usual name)
from torch import nn

Tensor = Any


class Case(NamedTuple):
    """A module, and its arguments for a batch size."""

    make: Callable[[], Any]
    arguments: Callable[[int], tuple[Any, ...]]


class Of(nn.Module):
    """A module of a function of its parts and its arguments."""

    def __init__(self, function: Callable[..., Any], **parts: Any) -> None:
        super().__init__()
        self.function = function
        for name, part in parts.items():
            setattr(self, name, part)

    def forward(self, *arguments: Any) -> Any:
        return self.function(self, *arguments)


def images(channels: int = 3, size: int = 8) -> Callable[[int], tuple[Any, ...]]:
    return lambda batch: (torch.randn(batch, channels, size, size),)


def rows(*shape: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda batch: (torch.randn(batch, *shape),)


def indices(high: int, *shape: int) -> Callable[[int], tuple[Any, ...]]:
    return lambda batch: (torch.randint(0, high, (batch, *shape)),)


def parameter(*shape: int) -> Any:
    return nn.Parameter(torch.randn(*shape) * 0.2)


# ** convolutional **


def residual() -> Any:
    inner = nn.Sequential(nn.Conv2d(4, 4, 3, padding=1), nn.BatchNorm2d(4), nn.ReLU())
    return Of(lambda m, x: F.relu(x + m.inner(x)), inner=inner)


def inception() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        return torch.cat([m.a(x), m.b(x), F.max_pool2d(x, 3, 1, 1)], 1)

    return Of(forward, a=nn.Conv2d(3, 4, 1), b=nn.Conv2d(3, 4, 3, padding=1))


def squeeze_excite() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        return x * torch.sigmoid(m.b(F.silu(m.a(x.mean((2, 3), keepdim=True)))))

    return Of(forward, a=nn.Conv2d(4, 2, 1), b=nn.Conv2d(2, 4, 1))


def convnext() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = m.norm(m.deep(x).permute(0, 2, 3, 1))
        return x + m.scale * m.b(F.gelu(m.a(y))).permute(0, 3, 1, 2)

    parts = {"deep": nn.Conv2d(4, 4, 3, padding=1, groups=4), "norm": nn.LayerNorm(4)}
    return Of(forward, **parts, a=nn.Linear(4, 8), b=nn.Linear(8, 4), scale=parameter(4, 1, 1))


def unet() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        y = F.relu(m.up(F.relu(m.down(x))))
        return m.out(torch.cat([x, y], 1))

    up = nn.ConvTranspose2d(6, 4, 2, 2)
    return Of(forward, down=nn.Conv2d(3, 6, 3, 2, 1), up=up, out=nn.Conv2d(7, 2, 1))


def classifier() -> Any:
    return nn.Sequential(
        nn.Conv2d(3, 6, 3, padding=1), nn.BatchNorm2d(6), nn.ReLU(), nn.MaxPool2d(2),
        nn.Conv2d(6, 6, 3, groups=2), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(6, 4),
    )  # fmt: skip


CONVOLUTIONAL: Mapping[str, Case] = {
    "classifier": Case(classifier, images()),
    "residual": Case(residual, images(4)),
    "inception": Case(inception, images()),
    "squeeze_excite": Case(squeeze_excite, images(4)),
    "convnext": Case(convnext, images(4)),
    "unet": Case(unet, images()),
    "dilated": Case(lambda: nn.Conv2d(3, 4, 3, dilation=2, padding=2, stride=2), images()),
    "conv1d": Case(
        lambda: nn.Sequential(nn.Conv1d(4, 6, 3), nn.GLU(1), nn.AvgPool1d(2)), rows(4, 12)
    ),
    "conv3d": Case(lambda: nn.Sequential(nn.Conv3d(2, 3, 2), nn.Hardswish()), rows(2, 4, 4, 4)),
    "group_norm": Case(lambda: nn.Sequential(nn.GroupNorm(2, 4), nn.Mish()), images(4)),
    "pixel_shuffle": Case(
        lambda: nn.Sequential(nn.Conv2d(3, 8, 1), nn.PixelShuffle(2), nn.ELU()), images(3, 4)
    ),
    "pooled": Case(
        lambda: nn.Sequential(nn.AvgPool2d(3, 2, 1), nn.AdaptiveAvgPool2d(3), nn.Hardtanh()),
        images(2, 9),
    ),
    "upsampled": Case(lambda: nn.Upsample(scale_factor=2, mode="nearest"), images(2, 4)),
    "padded": Case(
        lambda: nn.Sequential(nn.ReflectionPad2d(1), nn.Conv2d(2, 2, 3), nn.PReLU()), images(2, 6)
    ),
}

# ** attention **


def heads(x: Tensor, count: int) -> Tensor:
    return x.unflatten(-1, (count, -1)).transpose(1, 2)


def attention(*, causal: bool = False, masked: bool = False) -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = (heads(each, 2) for each in m.qkv(x).chunk(3, -1))
        size = x.shape[1]
        mask = torch.ones(size, size, dtype=torch.bool).tril(1) if masked else None
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask, is_causal=causal)
        return m.out(y.transpose(1, 2).flatten(2))

    return Of(forward, qkv=nn.Linear(8, 24), out=nn.Linear(8, 8))


def cross_attention() -> Any:
    def forward(m: Any, x: Tensor, context: Tensor) -> Tensor:
        scores = m.q(x) @ m.k(context).transpose(1, 2) / 8**0.5
        return scores.softmax(-1) @ context

    return Of(forward, q=nn.Linear(8, 8), k=nn.Linear(8, 8))


def encoder() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        x = x + m.attention(m.first(x))
        return x + m.feed(m.second(x))

    feed = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 8))
    norms = {"first": nn.LayerNorm(8), "second": nn.LayerNorm(8)}
    return Of(forward, attention=attention(), feed=feed, **norms)


def rotary() -> Any:
    def turned(x: Tensor) -> Tensor:
        size, width = x.shape[-2:]
        steps = torch.arange(width // 2) / (width // 2)
        angles = torch.arange(size)[:, None] * 10.0**-steps
        a, b = x.chunk(2, -1)
        cos, sin = angles.cos(), angles.sin()
        return torch.cat([a * cos - b * sin, a * sin + b * cos], -1)

    def forward(m: Any, x: Tensor) -> Tensor:
        q, k, v = turned(heads(m.q(x), 4)), turned(heads(m.k(x), 2)), heads(m.v(x), 2)
        k, v = k.repeat_interleave(2, 1), v.repeat_interleave(2, 1)
        return F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2)

    return Of(forward, q=nn.Linear(8, 16), k=nn.Linear(8, 8), v=nn.Linear(8, 8))


class Cache(nn.Module):
    """Attention to the keys and values of earlier calls, which buffers hold."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.register_buffer("keys", torch.zeros(6, 8))
        self.register_buffer("values", torch.zeros(6, 8))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        self.keys.index_copy_(0, self.steps[None], k.mean(0, keepdim=True))
        self.values.index_copy_(0, self.steps[None], v.mean(0, keepdim=True))
        self.steps.add_(1)
        hidden = torch.arange(6) >= self.steps
        scores = (q @ self.keys.T).masked_fill(hidden, float("-inf"))
        return scores.softmax(-1) @ self.values


def windows() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        batch = x.shape[0]
        x = torch.roll(x, (-1, -1), (1, 2))
        parts = x.view(batch, 2, 2, 2, 2, 8).transpose(2, 3).reshape(-1, 4, 8)
        return m.attention(parts).view(batch, 2, 2, 2, 2, 8).transpose(2, 3).flatten(1, 4)

    return Of(forward, attention=attention())


def biased() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        places = torch.arange(x.shape[1])
        bias = -(places[None] - places[:, None]).abs() * m.slopes[:, None, None]
        q, k, v = (heads(each, 2) for each in m.qkv(x).chunk(3, -1))
        return F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])

    return Of(forward, qkv=nn.Linear(8, 24), slopes=parameter(2))


ATTENTION: Mapping[str, Case] = {
    "attention": Case(attention, rows(5, 8)),
    "causal": Case(lambda: attention(causal=True), rows(5, 8)),
    "masked": Case(lambda: attention(masked=True), rows(5, 8)),
    "cross": Case(cross_attention, lambda n: (torch.randn(n, 3, 8), torch.randn(n, 5, 8))),
    "encoder": Case(encoder, rows(5, 8)),
    "rotary": Case(rotary, rows(5, 8)),
    "cache": Case(Cache, rows(8)),
    "windows": Case(windows, rows(4, 4, 8)),
    "biased": Case(biased, rows(5, 8)),
}

# ** recurrent **


def unrolled(cell: Any) -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        state = None
        outputs: list[Tensor] = []
        for step in x.unbind(1):
            state = m.cell(step, state)
            outputs.append(state[0] if isinstance(state, tuple) else state)
        return torch.stack(outputs, 1)

    return Of(forward, cell=cell)


def state_space() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        state = torch.zeros(x.shape[0], 6)
        decay = torch.sigmoid(m.decay)
        for step in m.inputs(x).unbind(1):
            state = state * decay + step
        return m.outputs(state)

    return Of(forward, inputs=nn.Linear(4, 6), outputs=nn.Linear(6, 2), decay=parameter(6))


RECURRENT: Mapping[str, Case] = {
    "lstm": Case(lambda: unrolled(nn.LSTMCell(4, 6)), rows(3, 4)),
    "gru": Case(lambda: unrolled(nn.GRUCell(4, 6)), rows(3, 4)),
    "rnn": Case(lambda: unrolled(nn.RNNCell(4, 6)), rows(3, 4)),
    "state_space": Case(state_space, rows(4, 4)),
}

# ** mixtures **


def sparse_mixture() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        weights, chosen = m.gate(x).softmax(-1).topk(2)
        of_all = torch.einsum("bd,edf->bef", x, m.experts)
        found = of_all.gather(1, chosen[..., None].expand(-1, -1, 8))
        return (found * weights[..., None]).sum(1)

    return Of(forward, gate=nn.Linear(8, 4), experts=parameter(4, 8, 8))


def soft_mixture() -> Any:
    def forward(m: Any, x: Tensor) -> Tensor:
        # With three operands, PyTorch fixes sizes if the package opt_einsum is installed.
        of_all = torch.einsum("bd,edf->bef", x, m.experts)
        return torch.einsum("be,bef->bf", m.gate(x).softmax(-1), of_all)

    return Of(forward, gate=nn.Linear(8, 3), experts=parameter(3, 8, 5))


def gated() -> Any:
    return Of(lambda m, x: m.c(F.silu(m.a(x)) * m.b(x)), a=nn.Linear(8, 12), b=nn.Linear(8, 12),
              c=nn.Linear(12, 8))  # fmt: skip


MIXTURES: Mapping[str, Case] = {
    "sparse_mixture": Case(sparse_mixture, rows(8)),
    "soft_mixture": Case(soft_mixture, rows(8)),
    "gated": Case(gated, rows(8)),
}

# ** indices **


def graph_layer() -> Any:
    def forward(m: Any, x: Tensor, edges: Tensor) -> Tensor:
        given = m.message(x)[edges[:, 0]]
        total = torch.zeros(x.shape[0], 6).index_add(0, edges[:, 1], given)
        count = torch.zeros(x.shape[0]).scatter_add(0, edges[:, 1], torch.ones(edges.shape[0]))
        return total / count.clamp(min=1)[:, None]

    return Of(forward, message=nn.Linear(4, 6))


def edges(batch: int) -> tuple[Any, ...]:
    return torch.randn(6, 4), torch.randint(0, 6, (batch, 2))


def largest_of_groups(m: Any, x: Tensor, groups: Tensor) -> Tensor:
    start = torch.full((x.shape[0], 4), -9.0)
    return start.scatter_reduce(1, groups, x, "amax", include_self=True)


def written(m: Any, x: Tensor, places: Tensor) -> Tensor:
    y = x.clone()
    y[:, 1:3] = 0
    y[torch.arange(x.shape[0]), places] = 1
    return y.cumsum(-1)


INDICES: Mapping[str, Case] = {
    "embedding": Case(
        lambda: nn.Sequential(nn.Embedding(10, 6, padding_idx=0), nn.Linear(6, 4)), indices(10, 5)
    ),
    "graph_layer": Case(graph_layer, edges),
    "largest_of_groups": Case(
        lambda: Of(largest_of_groups),
        lambda n: (torch.randn(n, 6), torch.randint(0, 4, (n, 6))),
    ),
    "written": Case(lambda: Of(written), lambda n: (torch.randn(n, 6), torch.randint(0, 6, (n,)))),
    "sorted": Case(lambda: Of(lambda m, x: x.sort(-1, descending=True)), rows(7)),
    "one_hot": Case(
        lambda: Of(lambda m, i: F.one_hot(i, 5).float() @ m.table, table=parameter(5, 3)),
        indices(5, 4),
    ),
}

# ** losses **


def loss(function: Callable[..., Tensor], width: int = 4) -> Callable[[], Any]:
    return lambda: Of(lambda m, x, *y: function(m.last(x), *y), last=nn.Linear(6, width))


def with_classes(n: int) -> tuple[Any, ...]:
    return torch.randn(n, 6), torch.randint(0, 4, (n,))


def with_targets(n: int) -> tuple[Any, ...]:
    return torch.randn(n, 6), torch.rand(n, 4)


def cross_entropy(x: Tensor, y: Tensor) -> Tensor:
    return F.cross_entropy(x, y, label_smoothing=0.1)


def divergence(x: Tensor, y: Tensor) -> Tensor:
    return F.kl_div(x.log_softmax(-1), y.softmax(-1), reduction="batchmean")


LOSSES: Mapping[str, Case] = {
    "cross_entropy": Case(loss(cross_entropy), with_classes),
    "binary": Case(loss(F.binary_cross_entropy_with_logits), with_targets),
    "huber": Case(loss(F.huber_loss), with_targets),
    "divergence": Case(loss(divergence), with_targets),
    "cosine": Case(loss(lambda x, y: 1 - F.cosine_similarity(x, y).mean()), with_targets),
}

MODULES: Mapping[str, Case] = {
    **CONVOLUTIONAL, **ATTENTION, **RECURRENT, **MIXTURES, **INDICES, **LOSSES,
}  # fmt: skip

TRAINED = (
    "classifier", "residual", "convnext", "unet", "encoder", "rotary", "lstm", "sparse_mixture",
    "embedding", "cross_entropy",
)  # fmt: skip
"""The modules that are trained."""
