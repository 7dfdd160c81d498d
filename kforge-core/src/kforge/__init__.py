"""KForge: from a PyTorch reference to a kernel that is faster and provably computes the same."""

__version__ = "0.1.0"
