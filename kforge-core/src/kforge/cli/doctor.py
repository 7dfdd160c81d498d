"""``kforge doctor``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from kforge.cli.output import Output, command_output
from kforge.errors import ExitCode

if TYPE_CHECKING:
    from kforge.health import Check


@click.command("doctor")
@command_output
def command(out: Output) -> int:
    """Say what is here, what is missing, and how to get it.

    The exit code is 3 when nothing can be judged on this machine.
    """
    from kforge import health
    from kforge.cli import words
    from kforge.manager import manager
    from kforge.serialize import to_plain

    found = health.examine(manager())
    out.data(
        {
            "schema": "kforge/doctor/1",
            "can_judge": found.can_judge,
            "checks": [_check(one) for one in found.checks],
            "targets": [{"target": one.name, **to_plain(one.available), **_versions(one)} for one in found.targets],
            "device": to_plain(found.device),
            "isolation": words.isolation(found.isolation),
        }
    )
    _table(out, (*found.checks, *found.targets))
    if found.isolation is not None:
        out.line()
        out.line(f"isolation with {', '.join(found.isolation.used) or 'nothing'}")
        for layer in found.isolation.missing:
            out.line(f"  without {layer.name}: {layer.reason or 'not offered here'}")
    if not found.can_judge:
        out.line()
        out.line("nothing can be judged here", style="bold red")
        return ExitCode.MISSING
    return ExitCode.DONE


def _check(one: Check) -> dict[str, object]:
    return {"name": one.name, "ok": one.available.ok, "detail": one.detail, "hint": one.available.hint}


def _versions(one: Check) -> dict[str, object]:
    from kforge.cli import words

    return {"versions": words.versions(one.available.versions)}


def _table(out: Output, checks: tuple[Check, ...]) -> None:
    rows = []
    for one in checks:
        rows.append(("ok" if one.available.ok else "missing", one.name, one.detail))
        if not one.available.ok and one.available.hint:
            rows.append(("", "", f"to get it: {one.available.hint}"))
    out.table(("", "what", "found"), rows)
