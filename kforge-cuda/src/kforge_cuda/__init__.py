"""CUDA C++ for KForge: the package exists so that its name and version are settled, and registers nothing yet."""

__version__ = "0.1.0"
