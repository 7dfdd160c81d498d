"""``kforge verify``."""

from __future__ import annotations

from pathlib import Path

import click

from kforge.cli.inputs import TargetType, library_option, precision_option
from kforge.cli.output import Output, command_output
from kforge.errors import ExitCode
from kforge.records import Judgement, Precision, ProblemFacts, Target


@click.command("verify")
@click.argument("candidate", type=click.Path(path_type=Path))
@click.option("--problem", type=click.Path(path_type=Path), required=True, help="The Problem's file.")
@click.option(
    "--target",
    type=TargetType(),
    required=True,
    envvar="KFORGE_TARGET",
    show_envvar=True,
    help="Language and device, such as null@cpu.",
)
@precision_option
@library_option
@command_output
def command(
    out: Output, candidate: Path, problem: Path, target: Target, precision: Precision | None, allow_library: bool
) -> int:
    """Judge CANDIDATE: is it correct, and how fast is it?

    CANDIDATE is a Python file that defines ModelNew. The exit code is 0 when it is correct, 1 when it is not.
    """
    from kforge.cli.inputs import candidate_file, problem_file, usable_compiler
    from kforge.judge.client import JudgeClient
    from kforge.manager import manager
    from kforge.records import Candidate, Origin

    source = candidate_file(candidate)
    problem_file(problem)
    usable_compiler(manager(), target)
    wanted = Candidate(source, target=target, origin=Origin("person"))
    with JudgeClient(
        target,
        precision=precision,
        allow_library=allow_library,
        on_progress=lambda progress: out.progress(progress.message),
    ) as judge:
        facts = judge.open(problem)
        for finding in facts.findings:
            out.say(f"{problem}: {finding.check}: {finding.message}")
        judgement = judge.judge(wanted)
    _show(out, candidate, facts, target, judgement)
    if judgement.verdict.status is None:
        return ExitCode.CANNOT_JUDGE
    return ExitCode.DONE if judgement.correct else ExitCode.NOT_CORRECT


def _show(out: Output, candidate: Path, facts: ProblemFacts, target: Target, judgement: Judgement) -> None:
    from kforge.cli import report, words
    from kforge.serialize import to_plain

    isolation = judgement.isolation or facts.isolation
    out.data(
        {
            "schema": "kforge/verify/1",
            "path": str(candidate),
            "problem": facts.path,
            "problem_findings": to_plain(facts.findings),
            "target": str(target),
            "precision": facts.precision.value,
            **words.judgement(judgement),
            "isolation": words.isolation(isolation),
        }
    )
    report.verdict(out, judgement.verdict, f"{candidate} on {target}")
    if judgement.measurement is not None:
        report.measurement(out, judgement.measurement, isolation)
    else:
        report.missing(out, isolation)
