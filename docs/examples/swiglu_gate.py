"""SwiGLU gate: one half of a projection goes through SiLU and multiplies the other half.

Input: float32, 4096 x 4096 (64 MiB). Output: float32, 4096 x 2048 (32 MiB).
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

TOKENS, HIDDEN = 4096, 2048


class Model(nn.Module):
    """``silu(gate) * up``, where gate and up lie side by side in one tensor."""

    def forward(self, gate_up: torch.Tensor) -> torch.Tensor:
        """(tokens, 2 * hidden) to (tokens, hidden)."""
        gate, up = gate_up.chunk(2, dim=-1)
        return F.silu(gate) * up


def get_inputs() -> list[torch.Tensor]:
    """The result of the fused gate and up projection."""
    return [torch.randn(TOKENS, 2 * HIDDEN)]
