"""``kforge plugins``."""

from __future__ import annotations

import click

from kforge.cli.output import Output, command_output


@click.command("plugins")
@command_output
def command(out: Output) -> None:
    """List plugins, what they provide, and which are broken.

    KFORGE_PLUGINS names the entry points to load, with commas between; an empty one loads the built-in plugins only.
    KFORGE_TRACE=1 prints each hook call.
    """
    from kforge.cli import words
    from kforge.manager import manager

    plugins = manager()
    offered = plugins.offered()
    listing = [
        {**words.source(source), "provides": [words.provided(one) for one in offered if one.source == source]}
        for source in plugins.sources
    ]
    conflicts = [
        {"kind": one.kind, "name": one.name, "sources": [words.source(s) for s in one.sources], "remedy": one.remedy}
        for one in plugins.conflicts
    ]
    broken = [{**words.source(one.source), "reason": one.reason, "remedy": one.remedy} for one in plugins.broken]
    out.data({"schema": "kforge/plugins/1", "plugins": listing, "broken": broken, "conflicts": conflicts})
    rows = []
    for plugin in listing:
        first = (f"{plugin['distribution']} {plugin['version']}", str(plugin["entry_point"]))
        provides = plugin["provides"]
        assert isinstance(provides, list)
        for one in provides:
            where = f"{one['name']}@{','.join(one['devices'])}" if one["devices"] else one["name"]
            rows.append((*first, one["kind"], where, one["summary"]))
        if not provides:
            rows.append((*first, "", "", "provides nothing"))
    out.table(("distribution", "entry point", "kind", "name", "summary"), rows)
    for one in plugins.broken:
        out.line()
        out.line(f"broken: {one.source}, entry point {one.source.entry_point}: {one.reason}", style="bold red")
        out.line(f"  {one.remedy}")
    for conflict in plugins.conflicts:
        out.line()
        out.line(f"conflict: {conflict.message}", style="bold red")
        out.line(f"  {conflict.remedy}")
