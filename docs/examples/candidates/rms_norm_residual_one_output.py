"""Wrong: returns one result where the reference returns two."""

import torch
import torch.nn as nn

from kforge_xpu import SyclModule

SOURCE = r"""
#include <sycl/sycl.hpp>
namespace syclexp = sycl::ext::oneapi::experimental;

extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>))
SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::sub_group_size<16>))
void rms_norm_residual(const float* x, const float* residual, const float* weight, float* out, float* total,
                       int width, float eps) {
  const auto item = sycl::ext::oneapi::this_work_item::get_nd_item<1>();
  const long start = long(item.get_group(0)) * width;
  const int lane = item.get_local_id(0);

  float squares = 0.0f;
  for (int c = lane; c < width; c += 16) {
    const float t = x[start + c] + residual[start + c];
    total[start + c] = t;
    squares += t * t;
  }
  const float mean = sycl::reduce_over_group(item.get_sub_group(), squares, sycl::plus<float>()) / width;
  const float scale = 1.0f / sycl::sqrt(mean + eps);
  for (int c = lane; c < width; c += 16) out[start + c] = total[start + c] * scale * weight[c];
}
"""


class ModelNew(nn.Module):
    """Residual add and RMS norm in one kernel."""

    def __init__(self, width: int, eps: float = 1e-6) -> None:
        super().__init__()
        self.weight = nn.Parameter(1.0 + 0.1 * torch.randn(width))
        self.eps = eps
        self.kernels = SyclModule(SOURCE)

    def forward(self, x: torch.Tensor, residual: torch.Tensor) -> torch.Tensor:
        """Two of (tokens, width) to the normed sum and the sum."""
        x, residual = x.contiguous(), residual.contiguous()
        out, total = torch.empty_like(x), torch.empty_like(x)
        tokens, width = x.shape
        self.kernels.rms_norm_residual(tokens * 16, 16, x, residual, self.weight, out, total, width, self.eps)
        return out
