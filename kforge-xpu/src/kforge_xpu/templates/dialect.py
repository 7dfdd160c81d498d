"""How SYCL C++ writes the types and scalar functions of a plan."""

from __future__ import annotations

from kforge.plan.c_printer import Dialect

_FUNCTIONS = (
    "acos",
    "acosh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "cos",
    "cosh",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "floor",
    "log",
    "log10",
    "log1p",
    "log2",
    "rint",
    "rsqrt",
    "sin",
    "sinh",
    "sqrt",
    "tan",
    "trunc",
)

HELPERS = {
    "fast_tanh": """\
// tanh to a few units in the last place, several times faster than sycl::tanh on a CPU.
inline float fast_tanh(float x) {
  const float a = sycl::fabs(x);
  const float q = x * x;
  const float near = x + x * q * ((((-5.70498872745e-3f * q + 2.06390887954e-2f) * q - 5.37397155531e-2f) * q
                                   + 1.33314422036e-1f) * q - 3.33332819422e-1f);
  const float far = sycl::copysign(1.0f - 2.0f / (sycl::exp(2.0f * a) + 1.0f), x);
  return a < 0.625f ? near : far;  // NaN takes the second road, and stays NaN
}
""",
    "fast_erf": """\
// erf to a few units in the last place, by polynomials that a CPU can compute for many work-items at once.
inline float fast_erf(float x) {
  const float c = x > 4.0f ? 4.0f : x < -4.0f ? -4.0f : x;
  const float q = c * c;
  float top = -2.72614225801306e-10f;
  top = top * q + 2.77068142495902e-08f;
  top = top * q - 2.10102402082508e-06f;
  top = top * q - 5.69250639462346e-05f;
  top = top * q - 7.34990630326855e-04f;
  top = top * q - 2.95459980854025e-03f;
  top = top * q - 1.60960333262415e-02f;
  float bottom = -1.45660718464996e-05f;
  bottom = bottom * q - 2.13374055278905e-04f;
  bottom = bottom * q - 1.68282697438203e-03f;
  bottom = bottom * q - 7.37332916720468e-03f;
  bottom = bottom * q - 1.42647390514189e-02f;
  return c * top / bottom;
}
""",
}
"""Functions that a source defines when it uses them, by name."""

DIALECT = Dialect(
    {
        "bool": "bool",
        "uint8": "uint8_t",
        "int8": "int8_t",
        "int16": "int16_t",
        "uint16": "uint16_t",
        "int32": "int32_t",
        "uint32": "uint32_t",
        "int64": "int64_t",
        "uint64": "uint64_t",
        "float32": "float",
        "float64": "double",
    },
    functions={
        **{name: f"sycl::{name}({{0}})" for name in _FUNCTIONS},
        **{
            name: f"sycl::{name}({{0}}, {{1}})"
            for name in ("atan2", "copysign", "fmax", "fmin", "fmod", "hypot", "pow")
        },
        "tanh": {"float32": "fast_tanh({0})", "float64": "sycl::tanh({0})"},
        "erf": {"float32": "fast_erf({0})", "float64": "sycl::erf({0})"},
        "abs": "sycl::fabs({0})",
        # As in torch, a NaN on either side is the result.
        "max": "{0} > {1} || {0} != {0} ? {0} : {1}",
        "min": "{0} < {1} || {0} != {0} ? {0} : {1}",
        "isnan": "{0} != {0}",
        "isinf": "bool(sycl::isinf({0}))",
        "nan": {"float32": '__builtin_nanf("")', "float64": '__builtin_nan("")'},
        "infinity": {"float32": "__builtin_inff()", "float64": "__builtin_inf()"},
        "round_float16": "float(sycl::half({0}))",
        "round_bfloat16": "float(sycl::ext::oneapi::bfloat16({0}))",
    },
    reserved=frozenset(("sycl", "item", "index", "first", "count", *(f"i{axis}" for axis in range(64)), *HELPERS)),
)

STORAGE = {
    **{
        name: DIALECT.types[name] for name in ("bool", "uint8", "int8", "int16", "int32", "int64", "float32", "float64")
    },
    "float16": "sycl::half",
    "bfloat16": "sycl::ext::oneapi::bfloat16",
}
"""The C++ type of an element in memory, for each torch dtype."""
