"""Results as text, in the words of somebody who writes kernels."""

from __future__ import annotations

from kforge.cli.output import Output
from kforge.records import Diagnostic, Finding, Isolation, Judgement, Measurement, Status, Verdict

_STYLES = {Status.CORRECT: "bold green", None: "bold yellow"}
_MOST_DIAGNOSTICS = 10
_MOST_TAIL_LINES = 20


def verdict(out: Output, found: Verdict, subject: str) -> None:
    """Write the verdict and its findings."""
    word = "cannot be judged here" if found.status is None else found.status.value
    out.line(f"{word}: {subject}", style=_STYLES.get(found.status, "bold red"))
    if found.reason:
        out.line(f"  {found.reason}")
    for one in found.findings:
        finding(out, one)


def finding(out: Output, found: Finding) -> None:
    """Write one finding with its evidence."""
    weight = "" if found.decisive else " (decides nothing)"
    out.line(f"  {found.phase.value}, {found.check}{weight}: {found.message}")
    if found.expected is not None or found.got is not None:
        where = found.output or "output"
        if found.index is not None:
            where = f"worst element {where}[{', '.join(map(str, found.index))}]"
        line = f"    {where}: expected {found.expected or '?'}, got {found.got or '?'}"
        if found.error is not None:
            line += f"; off by {found.error:.6g}"
        if found.allowed is not None:
            line += f", allowed {found.allowed:.6g}"
        out.line(line)
    if found.signal:
        out.line(f"    signal: {found.signal}")
    for one in found.diagnostics[:_MOST_DIAGNOSTICS]:
        _diagnostic(out, one)
    if len(found.diagnostics) > _MOST_DIAGNOSTICS:
        out.line(f"    ... and {len(found.diagnostics) - _MOST_DIAGNOSTICS} more diagnostics (--json has all)")
    if found.text:
        lines = found.text.rstrip().splitlines()
        if len(lines) > _MOST_TAIL_LINES:
            out.line(f"    | ... {len(lines) - _MOST_TAIL_LINES} lines before (--json has all)")
        for line in lines[-_MOST_TAIL_LINES:]:
            out.line(f"    | {line}")


def _diagnostic(out: Output, found: Diagnostic) -> None:
    place = ":".join(str(part) for part in (found.file, found.line, found.column) if part is not None)
    out.line(f"    {place + ': ' if place else ''}{found.severity.value}: {found.message}")
    if found.excerpt is not None:
        out.line(f"      {found.excerpt}")
        if found.column is not None and found.column <= len(found.excerpt) + 1:
            # Tabs stay, so that the caret stands below the right character.
            lead = "".join("\t" if character == "\t" else " " for character in found.excerpt[: found.column - 1])
            out.line(f"      {lead}^")


def measurement(out: Output, found: Measurement, isolation: Isolation | None) -> None:
    """Write device and versions, then the times, then the claim."""
    device = found.device
    about = [device.kind] + ([f"{device.cores} cores"] if device.cores else [])
    library = "allowed" if found.library_allowed else "not allowed"
    out.line()
    out.line(f"device      {device.name} ({', '.join(about)})")
    if found.versions:
        out.line(f"versions    {', '.join(f'{one.name} {one.version}' for one in found.versions)}")
    out.line(f"precision   {found.precision.value}; library operators {library}")
    missing(out, isolation)
    out.line()
    times(out, found)
    out.line()
    claim(out, found)


def missing(out: Output, isolation: Isolation | None) -> None:
    """Say which layers of isolation this machine did not offer."""
    if isolation is not None and isolation.missing:
        names = (f"{one.name} ({one.reason})" if one.reason else one.name for one in isolation.missing)
        out.line(f"isolation   without {'; '.join(names)}")


def times(out: Output, found: Measurement) -> None:
    """Write the table of times a call."""
    ratios = {one.opponent: one for one in found.ratios}
    rows = []
    for one in (found.candidate, *found.baselines):
        ratio = ratios.get(one.name)
        speedup = (
            "" if ratio is None else f"{ratio.speedup:.2f}x ({ratio.interval.low:.2f} to {ratio.interval.high:.2f})"
        )
        spread = f"{duration(one.low_s)} to {duration(one.high_s)}"
        counts = (str(one.batches), str(one.calls_per_batch), str(one.processes))
        rows.append((one.name, duration(one.median_s), spread, *counts, speedup))
    columns = (
        "program",
        "median",
        "5 to 95 % of batches",
        "batches",
        "calls each",
        "processes",
        "candidate is faster by",
    )
    out.table(columns, rows, right=(1, 3, 4, 5))


def claim(out: Output, found: Measurement) -> None:
    """Write the speed-up over the faster baseline, and what is doubtful about it."""
    ratio = found.ratio
    low, high = ratio.interval.low, ratio.interval.high
    word = "faster than" if low > 1 else "slower than" if high < 1 else "no clear difference from"
    out.line(
        f"{ratio.speedup:.2f}x, 95 % interval {low:.2f} to {high:.2f} "
        f"({ratio.pairs} pairs, {ratio.processes} processes): "
        f"{word} {found.baseline}, the fastest baseline",
        style="bold",
    )
    if not found.stable:
        out.line("unstable: close other programs, then measure again", style="bold yellow")
    for note in found.notes:
        out.line(f"note: {note}")


def short(found: Judgement) -> str:
    """Give verdict, time and ratios in a few words."""
    status = found.verdict.status
    words = "cannot be judged" if status is None else status.value
    if found.measurement is not None:
        words += f", {duration(found.measurement.candidate.median_s)}"
        words += f", {found.measurement.ratio.speedup:.2f}x against {found.measurement.baseline}"
    if found.against_best is not None:
        words += f", {found.against_best.speedup:.2f}x against the best so far"
    decisive = next((one for one in found.verdict.findings if one.decisive), None)
    return words if found.correct or decisive is None else f"{words}: {decisive.message}"


def duration(seconds: float) -> str:
    """Write a time with three digits and the unit that suits it."""
    for factor, unit in ((1, "s"), (1e3, "ms"), (1e6, "us")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}" if seconds * factor < 1000 else f"{seconds * factor:.0f} {unit}"
    return f"{seconds * 1e9:.3g} ns"
