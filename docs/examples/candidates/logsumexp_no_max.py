"""Wrong: exp overflows to infinity, since the row's maximum is not taken off."""

import torch
import torch.nn as nn

from kforge_xpu import SyclModule

SOURCE = r"""
#include <sycl/sycl.hpp>
namespace syclexp = sycl::ext::oneapi::experimental;

extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>))
SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::sub_group_size<16>))
void logsumexp(const float* x, float* out, int columns) {
  const auto item = sycl::ext::oneapi::this_work_item::get_nd_item<1>();
  const auto lanes = item.get_sub_group();
  const float* row = x + long(item.get_group(0)) * columns;
  const int lane = item.get_local_id(0);

  float sum = 0.0f;
  for (int c = lane; c < columns; c += 16) sum += sycl::exp(row[c]);
  sum = sycl::reduce_over_group(lanes, sum, sycl::plus<float>());
  if (lane == 0) out[item.get_group(0)] = sycl::log(sum);
}
"""


class ModelNew(nn.Module):
    """Log-sum-exp over the last dimension in one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.kernels = SyclModule(SOURCE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(rows, columns) to (rows,)."""
        x = x.contiguous()
        rows, columns = x.shape
        out = torch.empty(rows, dtype=x.dtype, device=x.device)
        self.kernels.logsumexp(rows * 16, 16, x, out, columns)
        return out
