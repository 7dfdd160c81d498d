"""KForge for Intel: SYCL kernels on Intel GPUs and on any CPU.

`from kforge_xpu import SyclModule` is what generated kernel files use. Importing this package loads neither torch
nor a SYCL library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kforge_xpu.errors import SyclBuildError, SyclError, SyclLaunchError, SyclUnavailable

__version__ = "0.1.0"

if TYPE_CHECKING:
    from kforge_xpu.module import SyclModule

__all__ = ["SyclBuildError", "SyclError", "SyclLaunchError", "SyclModule", "SyclUnavailable"]


def __getattr__(name: str) -> object:
    if name == "SyclModule":
        from kforge_xpu.module import SyclModule

        return SyclModule
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
