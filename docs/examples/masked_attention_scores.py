"""Attention scores with a mask: scaled products of queries and keys, masked, then softmax.

Inputs: float32 queries and keys, 16 x 512 x 64 (2 MiB each), bool mask, 512 x 512.
Output: float32, 16 x 512 x 512 (16 MiB).
"""

import math

import torch
import torch.nn as nn

HEADS, TOKENS, HEAD_SIZE = 16, 512, 64


class Model(nn.Module):
    """Probabilities of attention, before they meet the values."""

    def forward(self, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """(heads, tokens, size) twice and (tokens, tokens) to (heads, tokens, tokens); False hides a key."""
        scores = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=-1)


def get_inputs() -> list[torch.Tensor]:
    """Each token sees itself and about half of those before it."""
    query, key = torch.randn(HEADS, TOKENS, HEAD_SIZE), torch.randn(HEADS, TOKENS, HEAD_SIZE)
    causal = torch.ones(TOKENS, TOKENS, dtype=torch.bool).tril()
    mask = (causal & (torch.rand(TOKENS, TOKENS) < 0.5)) | torch.eye(TOKENS, dtype=torch.bool)
    return [query, key, mask]
