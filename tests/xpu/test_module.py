"""Kernels that the kernel compiler really builds and the CPU device really runs."""

from __future__ import annotations

import copy
import ctypes
import pickle
import threading
import time

import numpy as np
import pytest
import torch

from kforge_xpu import SyclModule
from tests.xpu.kernels import HEAD, VADD

SCALARS = (
    HEAD
    + """
#include <cstdint>
using real = sycl::half;
struct Pair { int first; float second; };
KERNEL(1) void scalars(double* out, int8_t a, unsigned char b, short c, uint16_t d, int e, unsigned f, long g, size_t h,
                       float i, double j, bool k, real l, sycl::ext::oneapi::bfloat16 m, char n) {
  out[0] = a; out[1] = b; out[2] = c; out[3] = d; out[4] = e; out[5] = f; out[6] = g; out[7] = h;
  out[8] = i; out[9] = j; out[10] = k; out[11] = float(l); out[12] = float(m); out[13] = n;
}
KERNEL(1) void by_value(float* out, Pair pair) { out[0] = pair.first; out[1] = pair.second; }
KERNEL(3) void ids(int* out) {
  auto item = get_nd_item<3>();
  out[item.get_global_linear_id()] = item.get_global_id(0) * 100 + item.get_global_id(1) * 10 + item.get_global_id(2);
}
KERNEL(1) void null(int* out, const float* maybe) { out[0] = maybe == nullptr; }
KERNEL(1) void unused(int* out, int never, float* neither, int n) { out[0] = n; }
KERNEL(1) void strided(const float* x, float* out) { out[0] = x[1]; }
namespace deep { namespace er {
SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>)) void inside(int* out) { out[0] = 42; }
} }
extern "C" SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::single_task_kernel)) void once(int* out) { *out += 1; }
KERNEL(1) [[sycl::reqd_work_group_size(8)]] void fixed(int* out) { out[get_nd_item<1>().get_global_id(0)] = 1; }
KERNEL(1) void source(int* out) { out[0] = 5; }
"""
)


@pytest.fixture(scope="module")
def many(vadd: SyclModule) -> SyclModule:
    return SyclModule(SCALARS)


def test_a_kernel_computes_in_place_on_torch_tensors(vadd: SyclModule) -> None:
    a, b, c = torch.randn(1000), torch.randn(1000), torch.empty(1000)
    address = c.data_ptr()
    assert vadd.vadd(1024, 64, a, b, c, 1000) is None
    assert torch.equal(c, a + b)
    assert c.data_ptr() == address


def test_launches_see_the_results_of_earlier_ones_and_of_torch(vadd: SyclModule) -> None:
    total, one = torch.zeros(4096), torch.ones(4096)
    for _ in range(50):
        vadd.vadd(4096, 64, total, one, total, 4096)
        total.mul_(1.0)
    assert torch.equal(total, torch.full((4096,), 50.0))


def test_scalars_arrive_in_their_declared_types(many: SyclModule) -> None:
    values = [-128, 255, -32768, 65535, -(2**31), 2**32 - 1, -(2**53), 2**53, 0.1, 0.1, True, 1.5, 2.0 + 2**-7, -5]
    out = torch.empty(14, dtype=torch.float64)
    many.scalars(1, 1, out, *values)
    expected = [*values]
    expected[8] = float(np.float32(0.1))
    expected[12] = 2.0
    assert out.tolist() == expected


def test_scalars_of_numpy_and_ctypes_and_ints_for_floats_are_taken(many: SyclModule) -> None:
    out = torch.empty(14, dtype=torch.float64)
    ints = (np.int64(-3), ctypes.c_int(7), True, 4, np.uint8(5), 6, 7, 8)
    many.scalars(1, 1, out, *ints, 9, np.float32(10), np.bool_(True), 12, 13, 14)
    assert out.tolist() == [-3, 7, 1, 4, 5, 6, 7, 8, 9, 10, 1, 12, 13, 14]


@pytest.mark.parametrize("value", [float("inf"), float("-inf"), float("nan")])
def test_numbers_that_are_not_finite_arrive(many: SyclModule, value: float) -> None:
    out = torch.empty(14, dtype=torch.float64)
    many.scalars(1, 1, out, 0, 0, 0, 0, 0, 0, 0, 0, value, value, False, value, value, 0)
    expected = torch.full((4,), value, dtype=torch.float64)
    torch.testing.assert_close(out[[8, 9, 11, 12]], expected, equal_nan=True)


def test_a_struct_is_passed_by_value_as_ctypes(many: SyclModule) -> None:
    class Pair(ctypes.Structure):
        _fields_ = (("first", ctypes.c_int), ("second", ctypes.c_float))

    out = torch.empty(2)
    many.by_value(1, 1, out, Pair(3, 0.5))
    assert out.tolist() == [3.0, 0.5]


def test_the_last_dimension_varies_fastest(many: SyclModule) -> None:
    out = torch.empty(2, 3, 4, dtype=torch.int32)
    many.ids((2, 3, 4), (1, 3, 2), out)
    assert [out[i, j, k].item() for i, j, k in ((1, 0, 0), (0, 2, 0), (0, 0, 3))] == [100, 20, 3]


def test_sizes_may_be_lists(many: SyclModule) -> None:
    out = torch.empty(2, 3, 4, dtype=torch.int32)
    many.ids([2, 3, 4], [1, 1, 1], out)
    assert out[1, 2, 3] == 123


def test_none_is_a_null_pointer(many: SyclModule) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    many.null(1, 1, out, None)
    assert out.item() == 1
    many.null(1, 1, out, torch.ones(1))
    assert out.item() == 0


def test_parameters_that_a_kernel_ignores_keep_their_places(many: SyclModule) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    many.unused(1, 1, out, 1, None, 77)
    assert out.item() == 77


def test_a_tensor_that_is_not_contiguous_is_passed_by_its_address(many: SyclModule) -> None:
    base, out = torch.arange(10.0), torch.empty(1)
    many.strided(1, 1, base[3::2], out)
    assert out.item() == 4.0


def test_kernels_in_namespaces_are_found_with_and_without_them(many: SyclModule) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    many["deep::er::inside"](1, 1, out)
    assert out.item() == 42
    out.zero_()
    many.inside(1, 1, out)
    assert out.item() == 42


def test_a_kernel_in_a_branch_that_is_dropped_is_not_missed(vadd: SyclModule) -> None:
    kernel = "SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>))"
    module = SyclModule(
        f"{HEAD}#if SYCL_OF_THE_FUTURE\n{kernel} void gone(int* x) {{ *x = 1; }}\n#endif\n"
        f"{kernel} void here(int* x) {{ *x = 2; }}\n"
    )
    assert module.kernel_names == ("here",)
    out = torch.zeros(1, dtype=torch.int32)
    module.here(1, 1, out)
    assert out.item() == 2


def test_a_single_task_runs_once(many: SyclModule) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    many.once(1, 1, out)
    assert out.item() == 1


def test_a_kernel_named_like_an_attribute_is_reached_by_item(many: SyclModule) -> None:
    out = torch.zeros(1, dtype=torch.int32)
    many["source"](1, 1, out)
    assert out.item() == 5
    assert many.source == SCALARS


def test_a_global_size_of_zero_launches_nothing(vadd: SyclModule) -> None:
    c = torch.full((4,), 9.0)
    vadd.vadd(0, 64, c, c, c, 4)
    vadd.vadd(0, 64, torch.empty(0), torch.empty(0), torch.empty(0), 0)
    assert c.tolist() == [9.0] * 4


def test_options_reach_the_compiler_and_the_reader_of_parameters(vadd: SyclModule) -> None:
    module = SyclModule(
        HEAD + "KERNEL(1) void f(ELEMENT* x) { x[0] = VALUE; }\n", options=["-DELEMENT=double", "-DVALUE=3"]
    )
    out = torch.zeros(1, dtype=torch.float64)
    module.f(1, 1, out)
    assert out.item() == 3.0


def test_local_memory_sub_groups_and_half_work(vadd: SyclModule) -> None:
    module = SyclModule(
        HEAD
        + """
KERNEL(1) void row_sums(const sycl::half* x, float* out, int n) {
  syclexp::work_group_static<float[4]> lanes;
  auto item = get_nd_item<1>();
  float sum = 0;
  for (int i = item.get_local_id(0); i < n; i += item.get_local_range(0)) sum += x[item.get_group(0) * n + i];
  sum = sycl::reduce_over_group(item.get_sub_group(), sum, sycl::plus<float>());
  if (item.get_sub_group().get_local_id() == 0) lanes[item.get_sub_group().get_group_id()[0]] = sum;
  sycl::group_barrier(item.get_group());
  if (item.get_local_id(0) == 0) {
    float total = 0;
    for (unsigned i = 0; i < item.get_sub_group().get_group_range()[0]; ++i) total += lanes[i];
    out[item.get_group(0)] = total;
  }
}
"""
    )
    x, out = torch.rand(5, 300).half(), torch.empty(5)
    module.row_sums(5 * 16, 16, x, out, 300)
    torch.testing.assert_close(out, x.float().sum(1), rtol=1e-4, atol=1e-3)


def test_the_same_source_is_compiled_once_per_process(vadd: SyclModule) -> None:
    start = time.perf_counter()
    again = SyclModule(VADD)
    assert time.perf_counter() - start < 0.2
    c = torch.zeros(2)
    again.vadd(2, 1, torch.ones(2), torch.ones(2), c, 2)
    assert c.tolist() == [2.0, 2.0]


def test_a_module_can_be_copied_and_pickled(vadd: SyclModule) -> None:
    for twin in (copy.deepcopy(vadd), pickle.loads(pickle.dumps(vadd))):
        c = torch.zeros(2)
        twin.vadd(2, 1, torch.ones(2), torch.ones(2), c, 2)
        assert c.tolist() == [2.0, 2.0]


def test_threads_may_launch_one_kernel_at_once(vadd: SyclModule) -> None:
    outs = [torch.zeros(256) for _ in range(4)]

    def work(number: int) -> None:
        mine = torch.full((256,), float(number))
        for _ in range(200):
            vadd.vadd(256, 32, mine, mine, outs[number], 256)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(out, torch.full((256,), 2.0 * number)) for number, out in enumerate(outs))


def test_warnings_are_kept_in_the_build_log(vadd: SyclModule) -> None:
    module = SyclModule(VADD + '#warning "look here"\n')
    assert "look here" in module.build_log


def test_the_required_work_group_size_is_taken_in_the_order_of_sycl(many: SyclModule) -> None:
    out = torch.zeros(16, dtype=torch.int32)
    many.fixed(16, 8, out)
    assert out.sum() == 16
