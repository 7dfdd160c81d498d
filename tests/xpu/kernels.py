"""SYCL kernels that several tests use."""

from __future__ import annotations

HEAD = """#include <sycl/sycl.hpp>
namespace syclexp = sycl::ext::oneapi::experimental;
using sycl::ext::oneapi::this_work_item::get_nd_item;
#define KERNEL(N) extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<N>))
"""

VADD = (
    HEAD
    + """KERNEL(1) void vadd(const float* a, const float* b, float* c, int n) {
  size_t i = get_nd_item<1>().get_global_linear_id();
  if (i < n) c[i] = a[i] + b[i];
}
"""
)
