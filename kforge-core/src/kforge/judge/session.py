"""A session of the judge: one Problem for one Target, and as many candidates as the loop has."""

from __future__ import annotations

import resource
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import torch
from attrs import define, field

from kforge.building import build
from kforge.device import facts as device_facts
from kforge.device import require
from kforge.errors import HarnessError
from kforge.interfaces import Compiler, Verifier
from kforge.judge.arena import itemsize
from kforge.judge.checks import Expected
from kforge.judge.compare import compare_case
from kforge.judge.expected import Case, Oracle, duplicate, map_tensors
from kforge.judge.isolation import exposure
from kforge.judge.measure import Measurer
from kforge.judge.options import Options, Prepared, prepare
from kforge.judge.program import Failure, Program
from kforge.judge.reference import Reference, load_reference
from kforge.judge.values import leaves
from kforge.judge.workshop import Sizes, Workshop, available_memory
from kforge.judge.zygote import Zygote
from kforge.plan.graph import Graph, Untraceable
from kforge.plan.trace import trace
from kforge.problems.source import read_problem
from kforge.records import (
    Build,
    Candidate,
    Diagnostic,
    Finding,
    Judgement,
    Phase,
    ProblemFacts,
    Status,
    TensorFacts,
    Verdict,
)

CASES: Final = 3
"""Secret cases that a candidate is compared on before it is timed."""
_VERDICTS: Final = {Phase.CODE: Status.NO_CODE, Phase.BUILD: Status.BUILD_FAILED}

Tell = Callable[[str, str], None]


@define
class Session:
    """Holds the reference, the cases and the clock. One thread."""

    options: Options
    tell: Tell
    _compiler: Compiler = field(init=False)
    _verifiers: list[Verifier] = field(init=False)
    _reference: Reference = field(init=False)
    _oracle: Oracle = field(init=False)
    _cases: list[Case] = field(factory=list)
    _workshop: Workshop | None = None
    _measurer: Measurer = field(init=False)
    _call_s: float = 0.0

    def open(self, path: Path, prepared: Callable[[], Prepared] | None = None) -> ProblemFacts:
        """Read the Problem, run its reference, and start what candidates need; raises `KforgeError`.

        ``prepared`` waits for a `prepare` that was begun elsewhere.
        """
        target = self.options.target
        # Without a limit an allocation succeeds and the kernel ends this process when the pages are touched.
        limit = int(0.85 * available_memory())
        resource.setrlimit(resource.RLIMIT_DATA, (limit, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        require(target)
        source = read_problem(path)
        self.tell("reference", f"running the reference of {source.name}, and preparing {target.language}")
        self._reference = load_reference(source)
        self._oracle = Oracle(self._reference, self.options.precision or self._reference.precision)
        self._cases.append(self._oracle.case())
        ready = prepared() if prepared is not None else prepare(self.options)
        setup, self._compiler = ready.setup, ready.compiler
        self._verifiers = [build(item.record, item.source) for item in ready.plugins.verifiers()]
        zygote = Zygote.start(dict(setup.environment), ("torch", *setup.imports))
        try:
            facts = device_facts(target.device, ready.plugins, index=target.index)
            started = time.monotonic()
            self._oracle.check_deterministic(self._cases[0])
            self._call_s = time.monotonic() - started
            first = self._cases[0]
            sizes = Sizes.of(first, _bytes_of(first.output), facts.last_level_cache_bytes)
            sizes.check_memory(CASES, sum(tensor.nbytes for _, tensor in first.state))
            zygote.wait_ready()
            self._workshop = Workshop(
                self._reference, first, sizes=sizes, setup=setup, scratch=self.options.scratch,
                cache=self.options.cache, facts=facts, zygote=zygote, limits=self.options.limits,
            )  # fmt: skip
        except BaseException:
            zygote.close()
            raise
        self._measurer = Measurer(
            self._workshop, self._oracle.precision, facts, library_allowed=self.options.allow_library,
            limit_s=self._limit_s, pairs=self.options.pairs, tell=self.tell,
        )  # fmt: skip
        self._measurer.start(compiled=self.options.compiled)
        return self._facts(source.name, str(path), source.text)

    @property
    def _limit_s(self) -> float:
        """Seconds that one call of a candidate may take."""
        return self.options.limits.call_s + 20.0 * self._call_s

    def _case(self, number: int) -> Case:
        while len(self._cases) <= number:
            self._cases.append(self._oracle.case())
        return self._cases[number]

    def _facts(self, name: str, path: str, text: str) -> ProblemFacts:
        first = self._cases[0]
        module = self._reference.construct(first.seed)
        parameters = [_tensor_facts(name, parameter) for name, parameter in module.named_parameters()]
        given = leaves(first.arguments, "input")
        inputs = [_tensor_facts(where, leaf) for where, leaf in given if isinstance(leaf, torch.Tensor)]
        outputs = [
            TensorFacts(where, shape=tuple(leaf.values.shape), stride=tuple(leaf.values.stride()), dtype=leaf.dtype)
            for where, leaf in leaves(first.output)
            if isinstance(leaf, Expected)
        ]
        workshop = self._open()
        return ProblemFacts(
            name, path=path, source=text, precision=self._oracle.precision, inputs=tuple(inputs),
            parameters=tuple(parameters), outputs=tuple(outputs), device=workshop.facts,
            isolation=self._measurer.isolation, findings=tuple(self._oracle.notes),
        )  # fmt: skip

    def trace(self) -> Graph | Untraceable:
        """Give the reference as a plain graph, or why it cannot be given."""
        case = self._open().case
        with torch.no_grad():
            return trace(self._reference.construct(case.seed), map_tensors(case.arguments, duplicate))

    def judge(self, candidate: Candidate, *, best: Candidate | None = None, confirm: bool = False) -> Judgement:
        """Give the verdict on a candidate, and its time where it is correct.

        ``best`` is timed in turn with it. ``confirm`` asks for new secret cases, and is always thorough.
        """
        started = time.monotonic()
        if confirm:
            self._cases.clear()
        findings = [finding for finding in [exposure(self._measurer.isolation)] if finding]
        build: Build | None = None
        measurement = against = None
        try:
            self._check_source(candidate, findings)
            build = self._compare(candidate, findings)
            measurement, against = self._measurer.measure(
                candidate, best, self._recheck, thorough=confirm or self.options.thorough
            )
            status = Status.CORRECT
        except Failure as failure:
            if failure.program != "candidate":
                raise HarnessError(f"the worker of {failure.program} failed: {failure.finding.message}") from None
            status = failure.status
            findings.insert(0, self._explained(failure.finding, candidate))
            if status is Status.BUILD_FAILED and build is None:
                build = Build(0.0, diagnostics=findings[0].diagnostics)
        return Judgement(
            candidate.hash, verdict=Verdict(status, findings=tuple(findings)), build=build, measurement=measurement,
            against_best=against, isolation=self._measurer.isolation, seconds=time.monotonic() - started,
        )  # fmt: skip

    def _check_source(self, candidate: Candidate, findings: list[Finding]) -> None:
        for verifier in self._verifiers:
            for finding in verifier.check_source(candidate):
                if finding.decisive:
                    raise Failure(_VERDICTS.get(finding.phase, Status.REJECTED), finding)
                findings.append(finding)

    def _explained(self, finding: Finding, candidate: Candidate) -> Finding:
        """Add the compiler's reading of a failed build's text."""
        if finding.phase is not Phase.BUILD or finding.diagnostics or not finding.text:
            return finding
        diagnostics: tuple[Diagnostic, ...] = self._compiler.explain(finding.text, candidate.source)
        text = finding.text[-8000:]
        return Finding(finding.check, phase=finding.phase, message=finding.message, diagnostics=diagnostics, text=text)

    def _compare(self, candidate: Candidate, findings: list[Finding]) -> Build:
        """Build the candidate and compare it on every case; raises `Failure`."""
        self.tell("build", "building")
        workshop = self._open()
        program = workshop.candidate(candidate, self._case(0))
        try:
            seconds = program.build_s
            for number in range(CASES):
                case = self._case(number)
                unmatched = workshop.load(program, case)
                if unmatched and number:
                    # It keeps weights of its own names, made when it was constructed: each case needs a fresh one.
                    program.__exit__()
                    program = workshop.candidate(candidate, case)
                elif unmatched:
                    findings.append(_parameters(unmatched))
                self.tell("compare", f"comparing on secret case {number + 1} of {CASES}")
                compare_case(workshop, program, case, Phase.COMPARE, number=number, limit_s=self._limit_s)
        finally:
            program.__exit__()
        return Build(seconds)

    def _recheck(self, program: Program) -> None:
        """Compare once more, in a worker that has just been timed, on a case that this candidate has not seen."""
        workshop = self._open()
        case = self._case(CASES)
        if workshop.load(program, case):
            case = workshop.case
            workshop.load(program, case)
        number = secrets.randbelow(3)
        compare_case(workshop, program, case, Phase.RECHECK, number=number, limit_s=self._limit_s)

    def _open(self) -> Workshop:
        if self._workshop is None:
            raise HarnessError("no Problem is open")
        return self._workshop

    def close(self) -> None:
        """End all workers and the zygote."""
        if self._workshop is not None:
            self._measurer.close()
            self._workshop.close()
            self._workshop = None


def _parameters(names: list[str]) -> Finding:
    shown = ", ".join(names[:6]) + (", ..." if len(names) > 6 else "")
    return Finding(
        "parameters", phase=Phase.BUILD, decisive=False,
        message=f"ModelNew has no parameter or buffer of the same name and shape for: {shown}; it keeps what its "
        "constructor made under the reference's seed, so wrong values may be different weights and not a wrong kernel",
    )  # fmt: skip


def _tensor_facts(name: str, tensor: Any) -> TensorFacts:
    return TensorFacts(
        name, shape=tuple(tensor.shape), stride=tuple(tensor.stride()), dtype=str(tensor.dtype).removeprefix("torch.")
    )


def _bytes_of(output: Any) -> int:
    return sum(leaf.values.numel() * itemsize(leaf.dtype) for _, leaf in leaves(output) if isinstance(leaf, Expected))
