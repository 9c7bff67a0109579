"""Train a small network on handwritten digits, and write ``digits.onnx`` and ``heldout.npz``.

Both files are already here, so the demo does not need this; it takes a few seconds, with torch and
scikit-learn installed:

    python examples/digits/train.py
"""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

HERE = Path(__file__).parent
SEED = 0
HELD_OUT = 360  # of 1797
EPOCHS = 60


class Separable(nn.Module):
    """A filter for each channel, then a 1x1 convolution across channels, around a residual."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, groups=channels, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )

    def forward(self, x: Tensor) -> Tensor:
        """float32 [N, channels, H, W], and the same out."""
        return torch.relu(x + self.body(x))


def network() -> nn.Module:
    """float32 [N, 1, 8, 8] to logits, float32 [N, 10]."""
    return nn.Sequential(
        *(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16), nn.ReLU()),
        Separable(16),
        nn.MaxPool2d(2),
        *(nn.Conv2d(16, 32, 3, padding=1, bias=False), nn.BatchNorm2d(32), nn.ReLU()),
        nn.MaxPool2d(2),
        *(nn.Flatten(), nn.Dropout(0.3), nn.Linear(128, 10)),
    )


def split() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Images (float32 [N, 1, 8, 8], 0 to 1) and labels (int64 [N]) to train on; then held out."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(SEED).permutation(len(labels))
    x = torch.from_numpy((images[order] / 16).astype(np.float32).reshape(-1, 1, 8, 8))
    y = torch.from_numpy(labels[order].astype(np.int64))
    return x[:-HELD_OUT], y[:-HELD_OUT], x[-HELD_OUT:], y[-HELD_OUT:]


def train(model: nn.Module, x: Tensor, y: Tensor) -> None:
    """Adam on the cross entropy, with a learning rate that falls to 0."""
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, EPOCHS)
    model.train()
    for _ in range(EPOCHS):
        for batch in torch.randperm(len(y)).split(64):
            loss = nn.functional.cross_entropy(model(x[batch]), y[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        schedule.step()
    model.eval()


def export(model: nn.Module, path: Path) -> None:
    """Write an ONNX model for one image at a time, with the batch norms left as they are."""
    torch.onnx.export(
        model,
        (torch.zeros(1, 1, 8, 8),),
        path,
        dynamo=False,  # the newer exporter folds batch norms into convolutions
        training=torch.onnx.TrainingMode.PRESERVE,
        opset_version=17,
        input_names=["image"],
        output_names=["logits"],
    )
    onnx.checker.check_model(onnx.load(path), full_check=True)


def main() -> None:
    """Train, say how good the result is, write both files."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    train_x, train_y, test_x, test_y = split()
    model = network()
    train(model, train_x, train_y)
    with torch.no_grad():
        accuracy = (model(test_x).argmax(1) == test_y).double().mean().item()
    print(f"{accuracy:.1%} of {len(test_y)} held-out digits are right")
    export(model, HERE / "digits.onnx")
    np.savez_compressed(HERE / "heldout.npz", images=test_x.numpy(), labels=test_y.numpy())


if __name__ == "__main__":
    main()
