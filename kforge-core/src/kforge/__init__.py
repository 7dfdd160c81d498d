"""KForge: from a PyTorch reference to a kernel that is faster and provably computes the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kforge.hookspecs import hookimpl as hookimpl

__version__ = "0.1.0"
__all__ = ["__version__", "hookimpl"]


def __getattr__(name: str) -> object:
    """Import the marker of hook implementations when somebody asks for it, so that ``import kforge`` costs nothing."""
    if name == "hookimpl":
        from kforge.hookspecs import hookimpl

        return hookimpl
    raise AttributeError(f"module 'kforge' has no attribute {name!r}")
