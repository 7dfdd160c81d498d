"""Bias, exact GELU and residual add: the tail of a feed-forward layer.

Inputs and output: float32, 4096 x 2048 (32 MiB each).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, WIDTH = 4096, 2048


class Model(nn.Module):
    """``gelu(x + bias) + residual``, with the GELU of erf."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.bias = nn.Parameter(torch.randn(width))

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Two of (tokens, width) to one."""
        return F.gelu(x + self.bias) + residual


def get_inputs() -> list[torch.Tensor]:
    """A matmul's result and the residual stream."""
    return [torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)]


def get_init_inputs() -> list[object]:
    """The width."""
    return [WIDTH]
