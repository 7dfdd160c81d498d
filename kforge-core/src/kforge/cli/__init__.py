"""The command line. `main` is the one place where errors become messages and exit codes."""

from __future__ import annotations

import contextlib
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from types import FrameType

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
    here, 130 interrupted (Ctrl-C, SIGTERM, SIGHUP).
    """


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and give its exit code; never raises."""
    words = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    out = Output(as_json="--json" in words, color="--no-color" not in words)
    try:
        with _interruptible():
            code = kforge.main(words, prog_name="kforge", standalone_mode=False)
        return int(code or ExitCode.DONE)
    except click.exceptions.Abort as error:
        if isinstance(error.__cause__, EOFError):
            return out.bug(error.__cause__)  # click takes it for the end of a person's input, which no command reads
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


@contextlib.contextmanager
def _interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end a command as Ctrl-C does: cleaned up, a run stored as interrupted.

    Once one of them came, this process ignores more of them: they would cut the cleaning up short, which takes a few
    seconds at most.
    """
    # What else was set stays, such as nohup's way to ignore SIGHUP.
    usual = {signal.SIGINT: signal.default_int_handler, signal.SIGTERM: signal.SIG_DFL, signal.SIGHUP: signal.SIG_DFL}
    ours = {number: signal.getsignal(number) for number in usual if signal.getsignal(number) == usual[number]}
    if threading.current_thread() is not threading.main_thread():
        ours = {}
    came = False

    def interrupt(number: int, frame: FrameType | None) -> None:  # noqa: ARG001 - the form of a signal's handler
        nonlocal came
        came = True
        for one in ours:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in ours:
        signal.signal(number, interrupt)
    try:
        yield
    finally:
        if not came:
            for number, handler in ours.items():
                signal.signal(number, handler)


def _usage(error: click.ClickException) -> KforgeError:
    context = error.ctx if isinstance(error, click.UsageError) else None
    hint = None if context is None else f"{context.command_path} --help"
    return KforgeError(error.format_message(), hint=hint)
