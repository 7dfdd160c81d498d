"""What a person is told when a build or a launch cannot be."""

from __future__ import annotations

import ctypes
import pickle
from typing import Any

import pytest
import torch

from kforge_xpu import SyclBuildError, SyclError, SyclLaunchError, SyclModule, SyclUnavailable
from kforge_xpu.diagnostics import parse_clang
from tests.xpu.kernels import HEAD, VADD

A = torch.zeros(64)


@pytest.mark.parametrize(
    "source, line, message",
    [
        (VADD.replace("a[i] + b[i]", "a[i] + nothing"), 7, "use of undeclared identifier 'nothing'"),
        (HEAD + "this is no C++", 5, "unknown type name 'this'"),
        (VADD + "\n" + "#error stop", 10, "stop"),
    ],
)
def test_a_source_that_does_not_compile_gives_the_compilers_text(
    vadd: SyclModule, source: str, line: int, message: str
) -> None:
    with pytest.raises(SyclBuildError) as caught:
        SyclModule(source)
    assert caught.value.source == source
    first = next(found for found in parse_clang(caught.value.log) if "error" in found.severity)
    assert (first.line, message in first.message or "expected" in first.message) == (line, True)
    assert caught.value.log in str(caught.value)


def test_an_unknown_option_is_a_build_error(vadd: SyclModule) -> None:
    with pytest.raises(SyclBuildError, match="unknown argument: '-fnot-an-option'"):
        SyclModule(VADD, options=["-fnot-an-option"])


def test_one_string_for_options_is_refused(vadd: SyclModule) -> None:
    with pytest.raises(TypeError, match="sequence of strings"):
        SyclModule(VADD, options="-O3")


def test_an_unknown_kernel_lists_those_there_are(vadd: SyclModule) -> None:
    with pytest.raises(AttributeError, match="no kernel 'vsub' in this SYCL module; its kernels: vadd"):
        _ = vadd.vsub


@pytest.mark.parametrize(
    "sizes, message",
    [
        ((100, 64), r"global size \(100,\) is not divisible by the local size \(64,\)"),
        ((-64, 64), "must not be negative"),
        ((64, 0), r"local size \(0,\) must be positive"),
        ((64, -1), "must be positive"),
        ((2**20, 2**20), r"work-group of 1048576 work-items, .* permits \d+"),
        (((64, 1), (64, 1)), "the kernel has 1 dimensions, the sizes have 2"),
        ((64, (8, 8)), "has 1 dimensions, the local size .* 2"),
        ((64.0, 64), "an int or up to 3 ints, not 64.0"),
        ((True, 1), "not True"),
        (((1, 1, 1, 1), (1, 1, 1, 1)), "up to 3 ints"),
        (("64", 1), "not '64'"),
        ((None, 1), "not None"),
        ((2**70, 1), "too large"),
    ],
)
def test_impossible_sizes_are_refused(vadd: SyclModule, sizes: tuple[Any, Any], message: str) -> None:
    with pytest.raises(SyclLaunchError, match=message) as caught:
        vadd.vadd(*sizes, A, A, A, 64)
    assert caught.value.kernel == "vadd"


def test_a_work_group_that_is_too_large_gives_both_numbers(vadd: SyclModule) -> None:
    with pytest.raises(SyclLaunchError) as caught:
        vadd.vadd(2**20, 2**20, A, A, A, 64)
    assert caught.value.requested == 2**20
    assert caught.value.limit is not None
    assert str(caught.value.limit) in str(caught.value)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((A, A, A), r"takes 4 arguments \(const float \* a, .*\), 3 given"),
        ((A, A, A, 64, 1), "5 given"),
        ((A, A.double(), A, 64), r"const float \* b points to float, the tensor holds torch.float64"),
        ((A.int(), A, A, 64), r"points to float, the tensor holds torch.int32"),
        ((A, A, A, 2**31), r"argument 3 \(int n\): 2147483648 does not fit int"),
        ((A, A, A, -(2**31) - 1), "does not fit int"),
        ((A, A, A, 10**40), "does not fit int"),
        ((A, A, A, 64.0), "int n takes an int, not 64.0"),
        ((A, A, A, "64"), "int n takes an int, not '64'"),
        ((A, A, A, None), "int n takes an int, not None"),
        ((A, A, A, torch.tensor(64)), r"takes a number, not a tensor: pass tensor.item\(\)"),
        ((A.data_ptr(), A, A, 64), r"const float \* a takes a torch tensor or None, not int"),
        ((A.numpy(), A, A, 64), "takes a torch tensor or None, not ndarray"),
        ((A, A, A.to("meta"), 64), "different devices: cpu, meta"),
        ((A.to("meta"), A.to("meta"), A.to("meta"), 64), "tensors are on meta"),
        ((A.to_sparse(), A, A, 64), "no memory of its own"),
    ],
)
def test_arguments_that_do_not_fit_are_refused(vadd: SyclModule, arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(SyclLaunchError, match=message):
        vadd.vadd(64, 64, *arguments)


@pytest.fixture(scope="module")
def floats(vadd: SyclModule) -> SyclModule:
    return SyclModule(
        HEAD
        + """
KERNEL(1) void f(float* o, float x) { *o = x; }
KERNEL(1) void h(float* o, sycl::half x) { *o = float(x); }
KERNEL(1) void b(float* o, sycl::ext::oneapi::bfloat16 x) { *o = float(x); }
KERNEL(1) void t(float* o, bool x) { *o = x; }
KERNEL(1) void u(float* o, decltype(1.0f) x) { *o = x; }
KERNEL(1) void d(double* o, double x) { *o = x; }
KERNEL(1) [[sycl::reqd_work_group_size(8)]] void fixed(float* o) { *o = 1; }
"""
    )


@pytest.mark.parametrize(
    "kernel, value, message",
    [
        ("f", 1e39, "does not fit float"),
        ("h", 7e4, "does not fit half"),
        ("b", 3.4e38 * 10, "does not fit bfloat16"),
        ("b", 3.402e38, "does not fit bfloat16"),
        ("d", 10**400, "does not fit double"),
        ("f", 1j, "takes a float"),
        ("f", "1.0", "takes a float"),
        ("t", 2, "takes a bool"),
        ("t", 0.5, "takes a bool"),
        ("u", 1.5, r"cannot be told from the source.*ctypes.c_int\(3\).*not float"),
    ],
)
def test_values_out_of_range_are_refused(floats: SyclModule, kernel: str, value: Any, message: str) -> None:
    out = torch.zeros(1, dtype=torch.float64 if kernel == "d" else torch.float32)
    with pytest.raises(SyclLaunchError, match=message):
        floats[kernel](1, 1, out, value)


def test_a_type_that_the_source_hides_is_given_by_ctypes(floats: SyclModule) -> None:
    out = torch.zeros(1)
    floats.u(1, 1, out, ctypes.c_float(1.5))
    assert out.item() == 1.5


def test_a_value_of_the_wrong_size_is_refused_by_the_runtime(floats: SyclModule) -> None:
    with pytest.raises(SyclLaunchError, match="the runtime refused the launch"):
        floats.u(1, 1, torch.zeros(1), ctypes.c_double(1.5))
    out = torch.zeros(1)
    floats.u(1, 1, out, ctypes.c_float(2.5))
    assert out.item() == 2.5


def test_another_size_than_the_kernel_requires_is_refused(floats: SyclModule) -> None:
    with pytest.raises(SyclLaunchError, match=r"requires the local size \(8,\), not \(4,\)"):
        floats.fixed(8, 4, torch.zeros(1))


@pytest.mark.parametrize(
    "problem",
    [SyclBuildError("log", "source"), SyclLaunchError("m", "k", 1, 2), SyclUnavailable("message", "hint")],
    ids=lambda problem: type(problem).__name__,
)
def test_errors_have_one_base_and_survive_pickling(problem: SyclError) -> None:
    twin = pickle.loads(pickle.dumps(problem))
    assert isinstance(twin, SyclError)
    assert (type(twin), vars(twin), str(twin)) == (type(problem), vars(problem), str(problem))
