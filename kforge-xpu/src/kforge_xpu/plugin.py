"""What KForge asks of this package: the language ``sycl``."""

from __future__ import annotations

from collections.abc import Iterator

from kforge.hookspecs import hookimpl
from kforge.interfaces import Compiler, CompilerPlugin


def _sycl() -> Compiler:
    from kforge_xpu.compiler import SyclCompiler

    return SyclCompiler()


@hookimpl
def kforge_compilers() -> Iterator[CompilerPlugin]:
    """SYCL C++, compiled in the worker's own process."""
    yield CompilerPlugin(
        "sycl",
        devices=("cpu", "xpu"),
        summary="SYCL C++ kernels on Intel GPUs, and on any CPU with kforge-xpu[cpu]",
        build=_sycl,
    )
