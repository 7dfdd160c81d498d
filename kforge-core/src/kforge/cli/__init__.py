"""The command line. `main` is the one place where errors become messages and exit codes."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from kforge.cli.output import Output
from kforge.errors import ExitCode, InterruptedByPerson, KforgeError


class _Commands(click.Group):
    """Imports a command when it is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return ["run", "verify", "runs", "plugins", "doctor"]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.list_commands(ctx):
            return None
        import importlib

        command: click.Command = importlib.import_module(f"kforge.cli.{cmd_name}").command
        return command


@click.command(cls=_Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="kforge-core", prog_name="kforge")
def kforge() -> None:
    """Find a kernel that is faster than a PyTorch reference and provably computes the same.

    Exit codes: 0 done, 1 no correct candidate, 2 wrong usage or Problem, 3 something is missing, 4 cannot be judged
    here, 130 interrupted.
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code; never raises."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    out = Output(as_json="--json" in words, color="--no-color" not in words)
    try:
        code = kforge.main(words, prog_name="kforge", standalone_mode=False)
        return int(code or ExitCode.DONE)
    except click.exceptions.Abort:
        return out.fail(InterruptedByPerson("interrupted"))
    except KeyboardInterrupt:
        return out.fail(InterruptedByPerson("interrupted"))
    except click.ClickException as error:
        return out.fail(_usage(error))
    except KforgeError as error:
        return out.fail(error)
    except Exception as error:  # noqa: BLE001 - the one boundary: a bug is shown as such, with the way to report it
        return out.bug(error)
    finally:
        out.close()


def _usage(error: click.ClickException) -> KforgeError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = None if context is None else f"{context.command_path} --help"
    return KforgeError(error.format_message(), hint=hint)
