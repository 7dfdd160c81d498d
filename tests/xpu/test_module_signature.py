"""What is read of a kernel's parameters from the text of its source."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kforge_xpu.signature import Declaration, find_kernels
from tests.xpu.kernels import HEAD


def only(text: str, options: tuple[str, ...] = ()) -> Declaration:
    (found,) = find_kernels(HEAD + text, options)
    return found


@pytest.mark.parametrize(
    "declaration, pointer, kind",
    [
        ("int n", False, "int"),
        ("int", False, "int"),
        ("const unsigned n", False, "unsigned int"),
        ("unsigned long long int n", False, "unsigned long"),
        ("long int n", False, "long"),
        ("std::size_t n", False, "unsigned long"),
        ("::std::int64_t n", False, "long"),
        ("uint32_t const n", False, "unsigned int"),
        ("signed char c", False, "signed char"),
        ("bool b = true", False, "bool"),
        ("sycl::half h", False, "half"),
        ("sycl::ext::oneapi::bfloat16 h", False, "bfloat16"),
        ("/* int */ float // double\n x", False, "float"),
        ("[[maybe_unused]] float x", False, "float"),
        ("float* x", True, "float"),
        ("const float *__restrict__ x", True, "float"),
        ("float const* __restrict const x", True, "float"),
        ("double x[]", True, "double"),
        ("const double x[16]", True, "double"),
        ("void* x", True, "void"),
        ("sycl::float4* x", True, "vector float"),
        ("const sycl::vec<double, 2>* x", True, "vector double"),
        ("std::complex<float>* x", True, "complex float"),
        ("Thing* x", True, None),
        ("float** x", True, None),
        ("Thing x", None, None),
        ("std::array<float, 4> x", None, None),
        ("decltype(1.0f) x", None, None),
        ("void (*f)(int)", None, None),
    ],
)
def test_one_parameter_is_read(declaration: str, pointer: bool | None, kind: str | None) -> None:
    (parameter,) = only(f"KERNEL(1) void k({declaration}) {{}}").parameters
    assert (parameter.pointer, parameter.type) == (pointer, kind)


@pytest.mark.parametrize(
    "before",
    [
        "using T = float;",
        "typedef float T;",
        "#define T float",
        "#define F(x) x\n#define T F(float)",
        "using U = float; using T = U;",
        "#ifndef T\n#define T float\n#endif",
        "#if 0\n#define T int\n#else\n#define T float\n#endif",
        "#define T \\\n float",
    ],
)
def test_names_that_the_source_gives_to_types_are_followed(before: str) -> None:
    assert [p.type for p in only(f"{before}\nKERNEL(2) void k(const T* x, T y) {{}}").parameters] == ["float", "float"]


def test_options_define_macros() -> None:
    text = "#ifndef T\n#define T float\n#endif\nKERNEL(1) void k(T x) {}"
    assert only(text, ("-DT=double", "-O3")).parameters[0].type == "double"


@pytest.mark.parametrize(
    "text",
    [
        "#if SOMETHING\n#define T int\n#else\n#define T float\n#endif\nKERNEL(1) void k(T x) {}",
        "void f() { using T = int; }\nvoid g() { using T = float; }\nKERNEL(1) void k(T x) {}",
        "#if A > 2\nKERNEL(1) void k(int x) {}\n#else\nKERNEL(1) void k(float x) {}\n#endif",
    ],
)
def test_what_has_two_meanings_is_not_guessed(text: str) -> None:
    assert [parameter.type for parameter in only(text).parameters] == [None]


def test_parameters_made_by_macros_are_seen() -> None:
    macros = "#define IN(T, name) const T* __restrict__ name\n#define DIMS int m, int n\n"
    text = macros + "KERNEL(1) void k(IN(float, x), DIMS) {}"
    assert [parameter.type for parameter in only(text).parameters] == ["float", "int", "int"]


@pytest.mark.parametrize(
    "text",
    [
        "// KERNEL(1) void k(int x) {}",
        "/* KERNEL(1) void k(int x) {} */",
        'const char* s = "nd_range_kernel<1> void k(int x) {}";',
        "#if 0\nKERNEL(1) void k(int x) {}\n#endif",
        "#ifdef KERNEL\n#else\nKERNEL(1) void k(int x) {}\n#endif",
        "template <typename T> SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<1>)) void k(T* x) {}",
        "void k(int x) {}",
        "",
    ],
)
def test_what_is_no_kernel_is_not_one(text: str) -> None:
    assert find_kernels(HEAD + text) == []


def test_names_dimensions_and_linkage_are_read() -> None:
    plain = "SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::nd_range_kernel<3>))"
    task = "SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((syclexp::single_task_kernel))"
    found = find_kernels(
        f"""{HEAD}
        KERNEL(2) [[sycl::reqd_work_group_size(1, 16)]] __attribute__((noinline)) void a(void) {{ if (1) {{ }} }}
        namespace x::y {{ inline namespace z {{ {plain} SYCL_EXTERNAL void b(); }} }}
        extern "C" {{ {task} void c(int n); }}
        {plain} void d() {{}}
        """
    )
    assert [(kernel.name, kernel.dimensions, kernel.extern_c) for kernel in found] == [
        ("a", 2, True),
        ("x::y::z::b", 3, False),
        ("c", 0, True),
        ("d", 3, False),
    ]


WORDS = """KERNEL(1) nd_range_kernel void k ( ) { } [ ] < > , ; * & = # #define #if #else #endif x y extern "C" " ' //
/* */ R"( namespace using typedef template const float int :: 0 1 __VA_ARGS__ ..."""
PIECES = st.sampled_from([*WORDS.split(), "\n"])


@given(st.text() | st.lists(PIECES, max_size=60).map(" ".join))
def test_any_text_is_read(source: str) -> None:
    for kernel in find_kernels(source):
        assert kernel.name


@pytest.mark.parametrize(
    "source",
    [
        HEAD + "#define A B B\n#define B A A\nA\n" * 50,
        "".join(f"#define A{i} A{i + 1} A{i + 1}\n" for i in range(60)) + "A0\n",
        "".join(f"#define A{i}(x) A{i + 1}(x x)\n" for i in range(60)) + "A0(y)\n",
        "#define F(...) F(__VA_ARGS__, __VA_ARGS__)\n" + "F(" * 2000,
        "/*" * 200_000,
        'R"(' * 100_000,
        "(" * 300_000,
        '"\\' * 200_000,
        "nd_range_kernel<1> " * 20_000,
        "nd_range_kernel<1> void k( " * 5_000,
        "nd_range_kernel<1> void k() " * 20_000,
        "using A = B;" * 20_000,
        "{" * 100_000,
    ],
    ids=range(13),
)
def test_hostile_text_ends_soon(source: str) -> None:
    start = time.perf_counter()
    find_kernels(source)
    assert time.perf_counter() - start < 10
