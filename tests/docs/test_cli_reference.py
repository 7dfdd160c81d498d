"""The reference of the command line is the help that the commands print."""

from __future__ import annotations

import re

import click
from click.testing import CliRunner

from kforge.cli import kforge
from tests.meta.repository import ROOT

PAGE = ROOT / "docs" / "reference" / "cli.md"
HEAD = """\
# Command line

What `--help` prints. `kforge COMMAND --help` shows it in a terminal. Results go to stdout and narration to stderr; the
[exit codes](exit-codes.md) and the [JSON results](json.md) have pages of their own. To write this page anew:
`python -m tests.docs.test_cli_reference`.
"""


def _commands(command: click.Command, words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """List a command and those below it."""
    found = [words]
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            inner = command.get_command(context, name)
            assert inner is not None
            found += _commands(inner, (*words, name))
    return found


def page() -> str:
    """Write the page."""
    text = HEAD
    for words in _commands(kforge, ()):
        done = CliRunner(env={"COLUMNS": "80"}).invoke(kforge, [*words, "--help"], prog_name="kforge")
        text += f"\n## {' '.join(('kforge', *words))}\n\n```text\n{done.output.rstrip()}\n```\n"
    return text


def test_the_page_of_commands_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8") == page()


def test_the_page_of_json_results_names_each_schema() -> None:
    text = (ROOT / "docs" / "reference" / "json.md").read_text(encoding="utf-8")
    named = re.findall(r"\]\(schema/(\S+)\)", text)
    assert sorted(named) == sorted(path.name for path in (ROOT / "docs" / "reference" / "schema").glob("*.json"))


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
