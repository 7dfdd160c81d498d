"""Rotary position embedding of queries and keys, with the tables of sine and cosine as buffers.

Inputs and outputs: float32, 1 x 16 x 2048 x 64 and 1 x 4 x 2048 x 64 (8 MiB and 2 MiB). The second argument, the
position of the first token, is an int.
"""

import torch
import torch.nn as nn

HEADS, KEY_HEADS, TOKENS, HEAD_SIZE = 16, 4, 2048, 64
LONGEST = 4096


def rotate_half(x: torch.Tensor) -> torch.Tensor:
    """Turn pairs (first half, second half) of the last dimension by 90 degrees."""
    first, second = x.chunk(2, dim=-1)
    return torch.cat((-second, first), dim=-1)


class Model(nn.Module):
    """Rotates each pair of features by an angle that grows with the token's position."""

    def __init__(self, head_size: int, longest: int, base: float = 10000.0) -> None:
        super().__init__()
        frequencies = base ** (-torch.arange(0, head_size, 2, dtype=torch.float64) / head_size)
        angles = torch.outer(torch.arange(longest, dtype=torch.float64), frequencies).repeat(1, 2)
        self.register_buffer("cos", angles.cos().float())
        self.register_buffer("sin", angles.sin().float())

    def forward(self, query: torch.Tensor, start: int, key: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Two of (batch, heads, tokens, head size), rotated, in their shapes."""
        cos = self.cos[start : start + query.shape[-2]]
        sin = self.sin[start : start + query.shape[-2]]
        return query * cos + rotate_half(query) * sin, key * cos + rotate_half(key) * sin


def get_inputs() -> list[object]:
    """Queries and fewer keys (grouped attention) of a prompt that continues a cached one."""
    query, key = torch.randn(1, HEADS, TOKENS, HEAD_SIZE), torch.randn(1, KEY_HEADS, TOKENS, HEAD_SIZE)
    return [query, 100, key]


def get_init_inputs() -> list[object]:
    """Positional and keyword arguments of the constructor."""
    return [[HEAD_SIZE, LONGEST], {"base": 10000.0}]
