"""The CLI's side of the judge: starts the process, speaks its frames, and ends it. Imports no torch."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Self, TypeVar

import platformdirs
from attrs import field, frozen

from kforge import errors
from kforge.disk import CACHE, require_room
from kforge.errors import HarnessError, KforgeError, ProblemError
from kforge.judge.protocol import CLIENT_LIMIT, Channel, ChannelError
from kforge.plan.graph import Graph
from kforge.records import Candidate, Judgement, Limits, Precision, ProblemFacts, Target
from kforge.serialize import from_plain, to_plain

T = TypeVar("T")

KEPT_VARIABLES: Final = frozenset({
    "PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "CXX", "PYTHONPATH", "LD_LIBRARY_PATH", "VIRTUAL_ENV",
    "XDG_CACHE_HOME", "KFORGE_HOME", "KFORGE_CACHE", "KFORGE_PLUGINS", "KFORGE_TRACE", "OPENBLAS_CORETYPE",
    "OPENBLAS_L2_SIZE", "OMP_NUM_THREADS",
})  # fmt: skip
"""All that the judge gets of the person's environment; keys are not among them."""

_TUNABLES: Final = ("hugetlb=1", "mmap_max=0", "trim_threshold=2147483648")
ALLOCATOR: Final = {"GLIBC_TUNABLES": ":".join(f"glibc.malloc.{setting}" for setting in _TUNABLES)}
"""Large temporaries come and go with every comparison: page faults would be most of the judge's time."""


def cache_folder(environment: Mapping[str, str] = os.environ) -> Path:
    """Give the folder for what can be made again: ``KFORGE_CACHE``, else the user's cache folder."""
    chosen = environment.get(CACHE)
    return Path(chosen) if chosen else Path(platformdirs.user_cache_dir("kforge"))


@frozen
class Progress:
    """What the judge is doing now."""

    stage: str
    message: str = field(kw_only=True)


class JudgeClient:
    """One judge process for one Problem and Target. A context manager that leaves nothing behind."""

    def __init__(
        self, target: Target, *, precision: Precision | None = None, allow_library: bool = False,
        limits: Limits | None = None, compiled: bool = True, pairs: int = 3, thorough: bool = True,
        on_progress: Callable[[Progress], None] = lambda _: None,
    ) -> None:  # fmt: skip
        """Prepare. Where a verdict matters more than a time: ``compiled`` leaves torch.compile out of the baselines,
        which takes many seconds to build, and ``pairs`` says how many pairs of processes are timed. ``thorough`` times
        up to twice as many while an interval is wide.
        """
        self._target = target
        self._precision = precision
        self._allow_library = allow_library
        self._limits = limits or Limits()
        self._compiled = compiled
        self._pairs = pairs
        self._thorough = thorough
        self._on_progress = on_progress
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._scratch: Path | None = None
        self._stage = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self, problem: Path) -> ProblemFacts:
        """Start the judge on a Problem; raises `KforgeError` for what the person can mend."""
        self._start()
        options = {
            "target": str(self._target),
            "precision": None if self._precision is None else self._precision.value,
            "allow_library": self._allow_library,
            "limits": to_plain(self._limits),
            "compiled": self._compiled,
            "pairs": self._pairs,
            "thorough": self._thorough,
            "scratch": str(self._scratch),
            "cache": str(cache_folder()),
            "problem": str(problem.absolute()),
        }
        return self._request({"op": "open", **options}, ProblemFacts)

    def trace(self) -> Graph:
        """Give the reference as a graph; raises `KforgeError` when it has none."""
        return self._request({"op": "trace"}, Graph)

    def judge(self, candidate: Candidate, *, best: Candidate | None = None, confirm: bool = False) -> Judgement:
        """Give the verdict on a candidate, timed in turn with ``best``.

        ``confirm`` asks for new secret cases and a thorough measurement.
        """
        message = {
            "op": "judge",
            "candidate": to_plain(candidate),
            "best": None if best is None else to_plain(best),
            "confirm": confirm,
        }
        return self._request(message, Judgement)

    def _start(self) -> None:
        require_room(cache_folder(), CACHE)
        try:
            self._scratch = Path(tempfile.mkdtemp(prefix="kforge-"))
        except OSError as error:
            hint = "set TMPDIR to a folder with space"
            raise HarnessError(f"no scratch folder can be made: {error}", hint=hint) from None
        require_room(self._scratch, "TMPDIR")
        mine, its = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name in KEPT_VARIABLES}
        environment |= {"PYTHONUNBUFFERED": "1", "LC_ALL": "C.UTF-8", "OPENBLAS_NUM_THREADS": "1", **ALLOCATOR}
        environment["TMPDIR"] = str(self._scratch)  # what torch leaves there goes with it
        with its:
            self._process = subprocess.Popen(
                [sys.executable, "-P", "-m", "kforge.judge", str(its.fileno())],
                env=environment, pass_fds=[its.fileno()], stdin=subprocess.DEVNULL, start_new_session=True,
                stdout=2,  # what a Problem or a library prints is no part of the result
            )  # fmt: skip
        self._channel = Channel(mine, CLIENT_LIMIT)

    def _request(self, message: dict[str, Any], kind: type[T]) -> T:
        if self._channel is None:
            raise HarnessError("the judge is not open")
        try:
            self._channel.send(message)
            while True:
                answer = self._channel.receive()
                if "progress" in answer:
                    self._stage = answer["progress"][0]
                    self._on_progress(Progress(self._stage, message=answer["progress"][1]))
                elif "error" in answer:
                    raise _error(answer["error"])
                else:
                    return from_plain(answer["result"], kind)
        except ChannelError as error:
            raise self._gone() from error

    def _gone(self) -> KforgeError:
        assert self._process is not None
        try:
            code = self._process.wait(timeout=5)
        except subprocess.TimeoutExpired:
            return HarnessError("the judge does not answer", hint="run it again")
        if code == -signal.SIGKILL:
            return HarnessError(
                "the judge was killed, most likely because memory ran out", hint="make the Problem's inputs smaller"
            )
        how = f"signal {signal.Signals(-code).name}" if code < 0 else f"status {code}"
        if self._stage == "reference":
            return ProblemError(f"the reference ended the judge with {how}", hint="run the file by itself to mend it")
        hint = "please report it, with what is written above and `kforge doctor`'s output"
        return HarnessError(f"the judge ended with {how}", hint=hint)

    def close(self) -> None:
        """End the judge, its workers and its scratch folder; waits at most a few seconds."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None
        if self._process is not None:
            try:
                self._process.wait(timeout=5)
            except (subprocess.TimeoutExpired, KeyboardInterrupt):
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._scratch is not None:
            shutil.rmtree(self._scratch, ignore_errors=True)
            self._scratch = None


def _error(error: dict[str, Any]) -> Exception:
    kind = getattr(errors, str(error.get("kind")), None)
    if isinstance(kind, type) and issubclass(kind, KforgeError):
        return kind(str(error["message"]), hint=error.get("hint"))
    return RuntimeError(f"the judge failed:\n{error.get('traceback', error)}")
