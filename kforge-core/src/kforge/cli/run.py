"""``kforge run``."""

from __future__ import annotations

from pathlib import Path

import click

from kforge.cli.inputs import TargetType, library_option, precision_option
from kforge.cli.output import Output, command_output
from kforge.errors import ExitCode
from kforge.records import Precision, Target


@click.command("run")
@click.argument("problem", type=click.Path(path_type=Path))
@click.option(
    "--target",
    type=TargetType(),
    envvar="KFORGE_TARGET",
    show_envvar=True,
    help="Language and device; default: the best that works here.",
)
@click.option(
    "--agent",
    default="template",
    show_default=True,
    envvar="KFORGE_AGENT",
    show_envvar=True,
    help="Who proposes candidates.",
)
@click.option(
    "--passes",
    type=click.IntRange(1, 10_000),
    default=6,
    show_default=True,
    envvar="KFORGE_PASSES",
    show_envvar=True,
    help="Candidates to try at most.",
)
@click.option(
    "--patience",
    type=click.IntRange(1, 10_000),
    default=3,
    show_default=True,
    envvar="KFORGE_PATIENCE",
    show_envvar=True,
    help="Optimization passes in a row without a gain that end the search.",
)
@precision_option
@library_option
@click.option("--output", type=click.Path(path_type=Path), help="Write the best kernel to this file as well.")
@command_output
def command(
    out: Output,
    problem: Path,
    target: Target | None,
    agent: str,
    passes: int,
    patience: int,
    precision: Precision | None,
    allow_library: bool,
    output: Path | None,
) -> int:
    """Look for a kernel that is faster than PROBLEM's reference and computes the same.

    PROBLEM is a Python file that defines Model, get_inputs and get_init_inputs.
    """
    from kforge.building import build
    from kforge.cli.inputs import default_target, output_file, problem_file, usable_compiler
    from kforge.cli.narrate import Narrator, show
    from kforge.health import versions
    from kforge.judge.client import JudgeClient
    from kforge.loop import Loop, Task
    from kforge.manager import manager
    from kforge.store import Store

    plugins = manager()
    problem_file(problem)
    if output is not None:
        output_file(output)
    asked = plugins.agent(agent)
    author = build(asked.record, asked.source)
    compiler = usable_compiler(plugins, target := target or default_target(plugins))
    task = Task(
        problem,
        target=target,
        agent=agent,
        passes=passes,
        patience=patience,
        output=output,
        options=(
            ("passes", str(passes)),
            ("patience", str(patience)),
            ("precision", precision.value if precision else "default"),
            ("allow_library", str(allow_library).lower()),
        ),
        versions=versions(plugins),
    )
    out.say(f"{problem} for {target}, agent {agent}, at most {passes} passes")
    with JudgeClient(
        target,
        precision=precision,
        allow_library=allow_library,
        thorough=False,
        on_progress=lambda progress: out.progress(progress.message),
    ) as judge:
        loop = Loop(
            task, judge=judge, agent=author, renderer=compiler.renderer(), store=Store(), observer=Narrator(out, passes)
        )
        run = loop.run()
    show(out, run, problem=problem)
    return ExitCode.NOT_CORRECT if run.best is None else ExitCode.DONE
