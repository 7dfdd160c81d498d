"""What any profiler said, in one normalised form."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Metric:
    """One figure as the tool named it; a metric that has no number keeps its text."""

    name: str
    value: float | None = field(kw_only=True)
    unit: str | None = field(default=None, kw_only=True)
    text: str | None = field(default=None, kw_only=True)


@frozen
class KernelProfile:
    """One kernel: all launches of one name and shape together."""

    name: str
    launches: int = field(kw_only=True)
    total_s: float | None = field(default=None, kw_only=True)
    metrics: tuple[Metric, ...] = field(default=(), kw_only=True)


@frozen
class Profile:
    """What one tool said about one run; the raw files stay where ``files`` says."""

    tool: str
    version: str | None = field(default=None, kw_only=True)
    device: str | None = field(default=None, kw_only=True)
    kernels: tuple[KernelProfile, ...] = field(default=(), kw_only=True)
    warnings: tuple[str, ...] = field(default=(), kw_only=True)
    files: tuple[str, ...] = field(default=(), kw_only=True)
