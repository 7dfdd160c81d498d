"""Residual add and RMS norm of the sum, as in front of each block of many language models. It returns both.

Inputs and outputs: float32, 4096 x 2048 (32 MiB each).
"""

import torch
import torch.nn as nn

TOKENS, WIDTH = 4096, 2048


class Model(nn.Module):
    """Root-mean-square norm of ``x + residual``."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(width))
        self.eps = eps

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two of (tokens, width) to the normed sum and the sum itself, which is the next residual."""
        total = x + residual
        scale = torch.rsqrt(total.pow(2).mean(dim=-1, keepdim=True) + self.eps)
        return total * scale * self.weight, total


def get_inputs() -> list[torch.Tensor]:
    """A block's output and the residual stream."""
    return [torch.randn(TOKENS, WIDTH), torch.randn(TOKENS, WIDTH)]


def get_init_inputs() -> list[object]:
    """The width."""
    return [WIDTH]
