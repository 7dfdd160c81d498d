"""Layer norm over the last dimension, with weight and bias.

Input and output: float32, 4096 x 4096 (64 MiB each).
"""

import torch
import torch.nn as nn

ROWS, FEATURES = 4096, 4096


class Model(nn.Module):
    """Layer norm whose weight and bias are not the trivial ones."""

    def __init__(self, features: int, eps: float = 1e-5) -> None:
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(features))
        self.bias = nn.Parameter(0.1 * torch.randn(features))
        self.eps = eps

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, features) to the same shape."""
        return nn.functional.layer_norm(x, self.weight.shape, self.weight, self.bias, self.eps)


def get_inputs() -> list[torch.Tensor]:
    """Activations that have drifted from zero."""
    return [torch.randn(ROWS, FEATURES) + 0.5]


def get_init_inputs() -> list[object]:
    """The number of features."""
    return [FEATURES]
