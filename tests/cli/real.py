"""The command in processes of its own, with folders of its own, and a look at what it leaves behind."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import subprocess
import sys
import termios
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

from attrs import define, field

from kforge.judge.client import KEPT_VARIABLES

KFORGE = Path(sys.executable).with_name("kforge")
PROBLEM = """\
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1


def get_inputs():
    return [torch.rand(4096)]
"""
GOOD = """\
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) + 1
"""


@define
class Place:
    """A folder with a Problem ``p.py``, a candidate ``c.py``, and home, cache and temporary folder for commands."""

    folder: Path
    cache: Path
    environment: dict[str, str] = field(factory=dict)
    """On top of what commands get from here."""

    def __attrs_post_init__(self) -> None:
        for name in ("home", "tmp", "mark"):
            (self.folder / name).mkdir()
        self.write("p.py", PROBLEM)
        self.write("c.py", GOOD)

    def write(self, name: str, text: str) -> str:
        """Write a file; gives its name."""
        (self.folder / name).write_text(text, encoding="utf-8")
        return name

    def variables(self) -> dict[str, str]:
        """Give the whole environment. The end of PATH marks all processes, since every one of them gets it."""
        kept = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
        own = {
            "PATH": f"{os.environ['PATH']}:{self.folder / 'mark'}",
            "KFORGE_HOME": str(self.folder / "home"),
            "KFORGE_CACHE": str(self.cache),
            "TMPDIR": str(self.folder / "tmp"),
            "TERM": "xterm",
            # With a limit on the size of files Python would leave half of a module's bytecode in the source tree.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        return {**kept, **own, **self.environment}

    def run(
        self, *words: str, before: str = "", timeout: float = 90, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run ``kforge`` with these words to its end, after a shell's line ``before``, in namespaces if it mounts."""
        command = [str(KFORGE), *words]
        if before:
            command = ["/bin/sh", "-c", f'{before} && exec "$@"', "sh", *command]
        if "mount" in before:
            command = [*PRIVATE, *command]
        return subprocess.run(
            command, cwd=self.folder, env={**self.variables(), **(environment or {})}, capture_output=True, text=True,
            timeout=timeout, check=False,
        )  # fmt: skip

    def processes(self) -> list[str]:
        """Give the command lines of all living processes that came from commands started here."""
        mark = str(self.folder / "mark").encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if mark in (process / "environ").read_bytes():
                    found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        return found

    def left(self, seconds: float = 5) -> list[str]:
        """Give what is left of commands that have ended: processes, and files in the temporary folder."""
        deadline = time.monotonic() + seconds
        while True:
            found = [*self.processes(), *(str(path) for path in (self.folder / "tmp").iterdir())]
            if not found or time.monotonic() > deadline:
                return found
            time.sleep(0.05)


PRIVATE = ("unshare", "-m", *(() if os.geteuid() == 0 else ("-r",)))
"""Lets a command mount where nobody else sees it."""


def mounts_are_private() -> bool:
    """Say whether `PRIVATE` works here; what a command mounts in it is gone with it."""
    done = subprocess.run([*PRIVATE, "mount", "-t", "tmpfs", "none", "/mnt"], check=False, capture_output=True)
    return done.returncode == 0


class Terminal:
    """A command on a terminal of its own, whose Ctrl-C reaches it as a person's does."""

    def __init__(self, place: Place, *words: str) -> None:
        self._master, slave = pty.openpty()
        self.text = ""

        def own_it() -> None:
            os.setsid()
            signal.signal(signal.SIGINT, signal.SIG_DFL)  # ignored where a shell started these tests in the background
            fcntl.ioctl(slave, termios.TIOCSCTTY, 0)

        self.process = subprocess.Popen(
            [KFORGE, *words], cwd=place.folder, env=place.variables(), stdin=slave, stdout=slave, stderr=slave,
            preexec_fn=own_it,  # noqa: PLW1509 - no other threads here, and only so does a terminal become its own
        )  # fmt: skip
        os.close(slave)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self._master)

    def wait_for(self, text: str, seconds: float = 60) -> None:
        """Read until a text has come."""
        deadline = time.monotonic() + seconds
        while text not in self.text:
            assert self._read(deadline), f"no {text!r} came:\n{self.text}"

    def press_ctrl_c(self) -> None:
        """Send what the key sends; the terminal makes a signal of it."""
        os.write(self._master, b"\x03")

    def end(self, seconds: float) -> int:
        """Read until the command has ended; gives its exit code."""
        deadline = time.monotonic() + seconds
        while self._read(deadline):
            pass
        return self.process.wait(timeout=max(0.1, deadline - time.monotonic()))

    def _read(self, deadline: float) -> bool:
        """Read some more; False at the end of the text or of the time."""
        if not select.select([self._master], [], [], max(0.0, deadline - time.monotonic()))[0]:
            return False
        try:
            part = os.read(self._master, 65536)
        except OSError:
            return False  # Linux says EIO when the other end is closed
        self.text += part.decode("utf-8", "replace")
        return bool(part)
