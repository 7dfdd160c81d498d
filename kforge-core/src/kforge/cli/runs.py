"""``kforge runs``."""

from __future__ import annotations

import click

from kforge.cli.output import Output, command_output


@click.group("runs", invoke_without_command=True)
@click.pass_context
def command(context: click.Context) -> None:
    """Show earlier runs; alone it lists them."""
    if context.invoked_subcommand is None:
        context.invoke(list_runs)


@command.command("list")
@command_output
def list_runs(out: Output) -> None:
    """List runs, the newest last."""
    from kforge.cli import words
    from kforge.store import Store

    runs = Store().runs()
    out.data({"schema": "kforge/runs/1", "runs": [_row(words.run(one)) for one in runs]})
    rows = []
    for one in runs:
        best = one.best
        found = None if best is None else best.judgement.measurement
        speedup = "" if found is None else f"{found.ratio.speedup:.2f}x against {found.baseline}"
        outcome = "unfinished" if one.outcome is None else one.outcome.value
        when = words.moment(one.started_at).replace("+00:00", "Z")
        rows.append(
            (one.id, when, str(one.started.target), outcome, speedup, str(len(one.attempts)), one.started.problem)
        )
    if rows:
        columns = ("run", "started", "target", "outcome", "speed-up", "passes", "problem")
        out.table(columns, rows, right=(5,))
    else:
        out.say("no runs yet; `kforge run PROBLEM` makes one")


def _row(run: dict[str, object]) -> dict[str, object]:
    """Leave out what only one run's own page needs."""
    kept = ("run", "started", "seconds", "problem", "target", "agent", "outcome")
    best, attempts = run["best"], run["attempts"]
    assert isinstance(attempts, list)
    row = {name: run[name] for name in kept}
    if isinstance(best, dict):
        best = {name: best[name] for name in ("verdict", "path", "measurement")}
    return {**row, "attempts": len(attempts), "best": best}


@command.command("show")
@click.argument("run", default="last")
@command_output
def show_run(out: Output, run: str) -> None:
    """Show the passes and the result of RUN: an id, the beginning of one, or `last`."""
    from pathlib import Path

    from kforge.cli import report
    from kforge.cli.narrate import show
    from kforge.store import Store

    store = Store()
    found = store.run(store.resolve(run))
    rows = []
    for one in found.attempts:
        kind = one.candidate.origin.pass_kind
        rows.append(
            (
                str(one.number),
                "" if kind is None else kind.value,
                one.note or "",
                report.short(one.judgement),
                "kept" if one.kept else "",
            )
        )
    out.line(f"run {found.id}, agent {found.started.agent}")
    if rows:
        out.table(("pass", "kind", "tried", "result", ""), rows, right=(0,))
        out.line()
    show(out, found, problem=Path(found.started.problem))


@command.command("path")
@click.argument("run", default="last")
@command_output
def path_of_run(out: Output, run: str) -> None:
    """Print the folder that holds RUN's files."""
    from kforge.store import Store

    store = Store()
    found = store.resolve(run)
    folder = store.folder(found)
    out.data({"schema": "kforge/runs-path/1", "run": found, "path": str(folder)})
    out.line(str(folder))


@command.command("rm")
@click.argument("runs", nargs=-1, required=True)
@command_output
def remove_runs(out: Output, runs: tuple[str, ...]) -> None:
    """Delete RUNS and their folders."""
    from kforge.store import Store

    store = Store()
    found = list(dict.fromkeys(store.resolve(one) for one in runs))
    for one in found:
        store.remove(one)
        out.say(f"removed {one}")
    out.data({"schema": "kforge/runs-rm/1", "removed": found})
