"""A linear layer and ReLU: a matrix product, where the library is hard to beat.

Input, weight and output: float32, 1024 x 1024 (4 MiB each).
"""

import torch
import torch.nn as nn

BATCH, WIDTH = 1024, 1024


class Model(nn.Module):
    """``relu(x @ weight.T + bias)``."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(batch, inputs) to (batch, outputs)."""
        return torch.relu(self.linear(x))


def get_inputs() -> list[torch.Tensor]:
    """A batch."""
    return [torch.randn(BATCH, WIDTH)]


def get_init_inputs() -> list[object]:
    """Inputs and outputs of the layer."""
    return [WIDTH, WIDTH]
