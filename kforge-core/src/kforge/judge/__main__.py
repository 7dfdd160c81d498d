"""``python -m kforge.judge FD``: the judge process, answering the CLI's frames on a descriptor."""

from __future__ import annotations

import os
import select
import shutil
import signal
import socket
import sys
import threading
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kforge.errors import CannotJudgeError, HarnessError, KforgeError
from kforge.judge import _processes
from kforge.judge.options import Options, prepare
from kforge.judge.protocol import CLIENT_LIMIT, Channel, ChannelClosed
from kforge.plan.graph import Untraceable
from kforge.records import Candidate, Limits, Precision, Target
from kforge.serialize import from_plain, to_plain

if TYPE_CHECKING:
    from kforge.judge.session import Session


class Server:
    """Answers one client about one Problem."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._session: Session | None = None
        self._watcher: threading.Thread | None = None
        self._beside = ThreadPoolExecutor(1, "prepare")

    def serve(self) -> None:
        """Answer until the client closes its end."""
        try:
            while True:
                self._answer(self._channel.receive())
        except ChannelClosed:
            if self._watcher is not None:
                self._watcher.join()  # ends this process when everything is gone, the scratch folder included
        finally:
            if self._session is not None:
                self._session.close()

    def _tell(self, stage: str, message: str) -> None:
        self._channel.send({"progress": [stage, message]})

    def _answer(self, request: dict[str, Any]) -> None:
        try:
            result = self._do(request)
        except KforgeError as error:
            self._fail(type(error).__name__, error.message, error.hint)
        except OSError as error:
            self._fail(HarnessError.__name__, f"the judge could not write or start something: {error}",
                       "free disk space or memory, then run it again")  # fmt: skip
        except Exception as error:  # noqa: BLE001 - a bug of ours, shown whole by the CLI
            from kforge.judge.guard import is_out_of_memory

            if is_out_of_memory(error):
                hint = "make the Problem's inputs smaller"
                self._fail(CannotJudgeError.__name__, "memory ran out while judging", hint)
            else:
                self._channel.send({"error": {"kind": None, "traceback": traceback.format_exc()}})
        else:
            self._channel.send({"result": to_plain(result)})

    def _fail(self, kind: str, message: str, hint: str | None) -> None:
        self._channel.send({"error": {"kind": kind, "message": message, "hint": hint}})

    def _do(self, request: dict[str, Any]) -> object:
        if request["op"] == "open":
            precision = request["precision"]
            options = Options(
                Target.parse(request["target"]),
                precision=None if precision is None else Precision(precision),
                allow_library=request["allow_library"],
                limits=from_plain(request["limits"], Limits),
                compiled=request["compiled"],
                pairs=request["pairs"],
                thorough=request["thorough"],
                scratch=Path(request["scratch"]),
                cache=Path(request["cache"]),
            )
            self._watcher = watch(self._channel.fileno(), options.scratch)
            preparing = self._beside.submit(prepare, options)  # a compiler may run while torch is imported here
            from kforge.judge.session import Session

            self._session = Session(options, self._tell)
            return self._session.open(Path(request["problem"]), preparing.result)
        assert self._session is not None
        if request["op"] == "trace":
            graph = self._session.trace()
            if isinstance(graph, Untraceable):
                raise CannotJudgeError(
                    f"the reference cannot be traced: {graph.reason}",
                    hint="write a candidate by hand and judge it with `kforge verify`",
                )
            return graph
        best = request["best"]
        return self._session.judge(
            from_plain(request["candidate"], Candidate),
            best=None if best is None else from_plain(best, Candidate),
            confirm=request["confirm"],
        )


def watch(descriptor: int, scratch: Path) -> threading.Thread:
    """End this process and all it started as soon as the client is gone, whatever is being computed."""

    def wait() -> None:
        poll = select.poll()
        poll.register(descriptor, select.POLLRDHUP)
        poll.poll()
        _processes.kill_below(os.getpid())
        shutil.rmtree(scratch, ignore_errors=True)
        os._exit(0)

    watcher = threading.Thread(target=wait, daemon=True)
    watcher.start()
    return watcher


def main() -> None:
    """Run the judge."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    Server(Channel(socket.socket(fileno=int(sys.argv[1])), CLIENT_LIMIT)).serve()


if __name__ == "__main__":
    main()
