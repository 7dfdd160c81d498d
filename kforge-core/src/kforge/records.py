"""The records that cross KForge's boundaries: frozen, plain data, the words of the design.

Times are seconds as float, sizes are bytes as int. ``None`` means "not known"; no number stands for it.
"""

from __future__ import annotations

import enum
import hashlib
import re

from attrs import field, frozen

from kforge.errors import UsageError

_TARGET = re.compile(r"(?P<language>[a-z][a-z0-9_]*)@(?P<device>[a-z][a-z0-9_]*)(:(?P<index>[0-9]{1,3}))?")


@frozen
class Target:
    """A language and the device that runs it, written ``language@device`` or ``language@device:1``."""

    language: str
    device: str
    index: int | None = field(default=None, kw_only=True)

    @classmethod
    def parse(cls, text: str) -> Target:
        """Read the written form; raises `UsageError` when it has another shape."""
        match = _TARGET.fullmatch(text.strip())
        if match is None:
            raise UsageError(
                f"{text!r} is not a target",
                hint="write language@device, for example null@cpu; `kforge plugins` lists what is installed",
            )
        index = match["index"]
        return cls(match["language"], match["device"], index=None if index is None else int(index))

    def __str__(self) -> str:
        suffix = "" if self.index is None else f":{self.index}"
        return f"{self.language}@{self.device}{suffix}"


class Precision(enum.Enum):
    """The precision at which a candidate may compute."""

    FP32 = "fp32"
    TF32 = "tf32"
    BF16 = "bf16"
    FP16 = "fp16"


class PassKind(enum.Enum):
    """Why a candidate is asked for."""

    FUNCTIONAL = "functional"
    OPTIMIZATION = "optimization"


@frozen
class Origin:
    """Where a candidate came from."""

    agent: str
    parent: str | None = field(default=None, kw_only=True)
    """Hash of the candidate that it was made from."""
    pass_kind: PassKind | None = field(default=None, kw_only=True)
    pass_number: int | None = field(default=None, kw_only=True)
    parameters: tuple[tuple[str, int], ...] = field(default=(), kw_only=True)
    """Rendering parameters, for agents that render from a template."""


@frozen
class Candidate:
    """Source text for one Target; hostile until judged; its identity is its content."""

    source: str
    target: Target = field(kw_only=True)
    origin: Origin = field(kw_only=True)

    @property
    def hash(self) -> str:
        """Hex SHA-256 of target and source."""
        content = f"{self.target}\0{self.source}".encode("utf-8", "surrogatepass")
        return hashlib.sha256(content).hexdigest()


class Phase(enum.Enum):
    """The steps of a judgement, in their order."""

    CODE = "code"
    STATIC = "static"
    BUILD = "build"
    RUN = "run"
    COMPARE = "compare"
    RULES = "rules"
    TIMING = "timing"
    RECHECK = "recheck"


class Status(enum.Enum):
    """The verdict's word. No status (``None`` in `Verdict`) means: cannot be judged here."""

    NO_CODE = "no_code"
    BUILD_FAILED = "build_failed"
    CRASHED = "crashed"
    TIMED_OUT = "timed_out"
    WRONG = "wrong"
    REJECTED = "rejected"
    CORRECT = "correct"


class Severity(enum.Enum):
    """How much a diagnostic of a compiler weighs."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


@frozen
class Diagnostic:
    """What a compiler said about one place."""

    message: str
    file: str | None = field(default=None, kw_only=True)
    """``candidate.py`` for the candidate's own lines; else the name that the compiler gave."""
    line: int | None = field(default=None, kw_only=True)
    """From 1, in ``file``."""
    column: int | None = field(default=None, kw_only=True)
    """From 1."""
    severity: Severity = field(default=Severity.ERROR, kw_only=True)
    excerpt: str | None = field(default=None, kw_only=True)
    """The line itself, where it is known."""


@frozen
class Finding:
    """What one check saw."""

    check: str
    phase: Phase = field(kw_only=True)
    message: str = field(kw_only=True)
    decisive: bool = field(default=True, kw_only=True)
    """Whether the verdict rests on it; others are told but decide nothing."""
    output: str | None = field(default=None, kw_only=True)
    """Which value, as a path: ``output``, ``output[0]``, ``output['mean']``, ``input 1``, ``buffer running_mean``."""
    index: tuple[int, ...] | None = field(default=None, kw_only=True)
    """Place of the worst element."""
    expected: str | None = field(default=None, kw_only=True)
    got: str | None = field(default=None, kw_only=True)
    error: float | None = field(default=None, kw_only=True)
    """Absolute error of the worst element, in the output's unit."""
    allowed: float | None = field(default=None, kw_only=True)
    """Absolute error allowed there."""
    signal: str | None = field(default=None, kw_only=True)
    """Name of the signal that ended the worker, such as ``SIGSEGV``."""
    diagnostics: tuple[Diagnostic, ...] = field(default=(), kw_only=True)
    text: str | None = field(default=None, kw_only=True)
    """Tail of what the candidate printed, or its traceback."""


@frozen
class Resource:
    """One fact about what a build uses, such as registers a thread."""

    name: str
    value: float = field(kw_only=True)
    unit: str = field(kw_only=True)


@frozen
class Build:
    """What a compiler made of a candidate."""

    seconds: float
    diagnostics: tuple[Diagnostic, ...] = field(default=(), kw_only=True)
    resources: tuple[Resource, ...] = field(default=(), kw_only=True)


@frozen
class Verdict:
    """What is proven about a candidate. ``status`` is None when it cannot be judged here; then ``reason`` says why."""

    status: Status | None
    findings: tuple[Finding, ...] = field(default=(), kw_only=True)
    reason: str | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if (self.status is None) != (self.reason is not None):
            raise ValueError("a verdict has either a status or the reason why there is none")


@frozen
class Interval:
    """A 95 % interval."""

    low: float
    high: float

    @property
    def half_width(self) -> float:
        """Half of its width, as a share of its middle (dimensionless)."""
        middle = (self.low + self.high) / 2
        return (self.high - self.low) / 2 / middle if middle else 0.0


@frozen
class Limits:
    """What a candidate may take."""

    build_s: float = field(default=180.0, kw_only=True)
    """Seconds to be imported and constructed: compilers of kernels run then."""
    call_s: float = field(default=10.0, kw_only=True)
    """Seconds for one call, on top of twenty times what the reference takes."""
    memory_bytes: int | None = field(default=None, kw_only=True)
    """Beside inputs and outputs; None for what compilers and drivers need, but at most half of what is free."""


@frozen
class Times:
    """Seconds a call of one program under the judge's clock."""

    name: str
    median_s: float = field(kw_only=True)
    low_s: float = field(kw_only=True)
    """5th percentile of the batches."""
    high_s: float = field(kw_only=True)
    """95th percentile of the batches."""
    batches: int = field(kw_only=True)
    calls_per_batch: int = field(kw_only=True)
    processes: int = field(kw_only=True)
    """Fresh processes that the batches come from."""


@frozen
class Ratio:
    """How many times faster the candidate is than one opponent: median of paired ratios, with its interval."""

    opponent: str
    speedup: float = field(kw_only=True)
    interval: Interval = field(kw_only=True)
    pairs: int = field(kw_only=True)
    processes: int = field(kw_only=True)


@frozen
class Version:
    """The version of one part that a result depends on."""

    name: str
    version: str


@frozen
class DeviceFacts:
    """What is known of a device; None where it is not known."""

    name: str
    kind: str = field(kw_only=True)
    """torch's device type."""
    cores: int | None = field(default=None, kw_only=True)
    memory_bytes: int | None = field(default=None, kw_only=True)
    last_level_cache_bytes: int | None = field(default=None, kw_only=True)
    max_group_size: int | None = field(default=None, kw_only=True)
    """Work-items (threads) a work-group may have."""
    vector_bytes: int | None = field(default=None, kw_only=True)
    """Width of a vector register or of the widest load."""
    extra: tuple[tuple[str, str], ...] = field(default=(), kw_only=True)
    """Further facts for people; nothing in core reads them."""


@frozen
class Measurement:
    """Times of the candidate and the baselines, taken in turn under one clock."""

    candidate: Times
    baselines: tuple[Times, ...] = field(kw_only=True)
    ratios: tuple[Ratio, ...] = field(kw_only=True)
    """One for each baseline."""
    baseline: str = field(kw_only=True)
    """The faster baseline: the one that the speed-up counts against."""
    stable: bool = field(kw_only=True)
    notes: tuple[str, ...] = field(default=(), kw_only=True)
    """Why it is unstable and what to do; what this clock cannot see."""
    device: DeviceFacts = field(kw_only=True)
    versions: tuple[Version, ...] = field(default=(), kw_only=True)
    precision: Precision = field(kw_only=True)
    library_allowed: bool = field(kw_only=True)

    @property
    def ratio(self) -> Ratio:
        """The ratio against ``baseline``."""
        return next(ratio for ratio in self.ratios if ratio.opponent == self.baseline)


@frozen
class Layer:
    """One layer of isolation; ``reason`` says why it is not in use."""

    name: str
    used: bool = field(kw_only=True)
    reason: str | None = field(default=None, kw_only=True)


@frozen
class Isolation:
    """The layers that stand between a candidate and the machine."""

    layers: tuple[Layer, ...]

    @property
    def used(self) -> tuple[str, ...]:
        """Names of the layers in use."""
        return tuple(layer.name for layer in self.layers if layer.used)

    @property
    def missing(self) -> tuple[Layer, ...]:
        """The layers that this machine does not offer."""
        return tuple(layer for layer in self.layers if not layer.used)


@frozen
class Judgement:
    """All that the judge says about one candidate."""

    candidate: str
    """Hash."""
    verdict: Verdict = field(kw_only=True)
    build: Build | None = field(default=None, kw_only=True)
    measurement: Measurement | None = field(default=None, kw_only=True)
    against_best: Ratio | None = field(default=None, kw_only=True)
    """Against the best candidate so far, measured in turn with it."""
    isolation: Isolation | None = field(default=None, kw_only=True)
    seconds: float = field(kw_only=True)

    @property
    def correct(self) -> bool:
        """Whether the verdict is `correct`."""
        return self.verdict.status is Status.CORRECT


@frozen
class Availability:
    """Whether something can be used here, and if not, why and what to type."""

    ok: bool
    reason: str | None = field(default=None, kw_only=True)
    hint: str | None = field(default=None, kw_only=True)
    versions: tuple[Version, ...] = field(default=(), kw_only=True)


class Outcome(enum.Enum):
    """How a run ended."""

    IMPROVED = "improved"
    NO_FASTER = "no faster kernel found"
    NO_CORRECT = "no correct candidate"
    INTERRUPTED = "interrupted"
    FAILED = "failed"


@frozen
class Attempt:
    """One candidate and all that happened to it."""

    number: int
    candidate: Candidate = field(kw_only=True)
    judgement: Judgement = field(kw_only=True)
    kept: bool = field(kw_only=True)
    """Whether it became the best of its run."""
    note: str | None = field(default=None, kw_only=True)
    """What the agent says it tried."""


@frozen
class TensorFacts:
    """Shape, stride (elements) and dtype of one tensor."""

    name: str
    shape: tuple[int, ...] = field(kw_only=True)
    stride: tuple[int, ...] = field(kw_only=True)
    dtype: str = field(kw_only=True)


@frozen
class ProblemFacts:
    """What the judge found out about a Problem by running its reference."""

    name: str
    path: str = field(kw_only=True)
    source: str = field(kw_only=True)
    precision: Precision = field(kw_only=True)
    inputs: tuple[TensorFacts, ...] = field(kw_only=True)
    parameters: tuple[TensorFacts, ...] = field(kw_only=True)
    outputs: tuple[TensorFacts, ...] = field(kw_only=True)
    device: DeviceFacts = field(kw_only=True)
    isolation: Isolation = field(kw_only=True)
    findings: tuple[Finding, ...] = field(default=(), kw_only=True)
