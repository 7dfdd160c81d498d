"""One worker as the judge sees it: requests with deadlines, and failures in the words of a verdict."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from attrs import define, field
from numpy.typing import NDArray

from kforge.judge.process import NotStopped, Unreadable, WorkerProcess
from kforge.judge.protocol import Channel, ChannelClosed, ChannelTimeout, Message, ProtocolError
from kforge.judge.values import DTYPES, TensorAt, decode, leaves, read_tensor
from kforge.records import Finding, Isolation, Phase, Status

FREEZE_S: Final = 2.0
"""Deadline for a stop to be confirmed, seconds."""
SPIN_S: Final = 200e-6
"""Short calls are answered within it; for long batches it takes nothing from a worker."""
MAX_SPAN: Final = 4 * 2**30
"""Bytes from the first to the last element of one output that the judge will read."""


class Failure(Exception):  # noqa: N818 - a verdict, not an error of ours
    """A candidate's failure: the verdict's word and the finding that explains it."""

    def __init__(self, status: Status, finding: Finding, program: str = "candidate") -> None:
        super().__init__(finding.message)
        self.status = status
        self.finding = finding
        self.program = program
        """Name of the program that failed: a failing baseline is never blamed on the candidate."""


@define
class Program:
    """A worker that holds one module, candidate or baseline. A context manager that leaves nothing behind."""

    name: str
    process: WorkerProcess
    scratch: Path
    """Its folder, removed with it."""
    copies: bool = False
    """Whether its device cannot share the arena, so that contents are copied inside the window."""
    phase: Phase = Phase.BUILD
    base: int = 0
    """The arena's address in the worker."""
    isolation: Isolation | None = None
    build_s: float = 0.0
    _channel: Channel = field(init=False)
    _frozen: bool = False

    def __attrs_post_init__(self) -> None:
        self._channel = Channel(self.process.sock, spin_s=SPIN_S)

    def __enter__(self) -> Program:
        return self

    def _failure(self, status: Status, check: str, message: str, **evidence: Any) -> Failure:
        return Failure(status, Finding(check, phase=self.phase, message=message, **evidence), self.name)

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self._channel.close()
        shutil.rmtree(self.scratch, ignore_errors=True)

    def wait_ready(self) -> None:
        """Take the first frame, sent before any hostile text reaches the worker."""
        self.base = int(self._guarded(lambda: self._channel.receive(30.0), 30.0)["base"])
        self.isolation = self.process.layers

    def ask(self, op: str, timeout: float, **fields: object) -> Message:
        """Send a request and give its answer; raises `Failure` for an error, a crash or a missed deadline."""
        self.send(op, timeout, **fields)
        return self.take(timeout)

    def send(self, op: str, timeout: float, **fields: object) -> None:
        """Send a request whose answer is taken later."""
        self.thaw()
        self._guarded(lambda: self._channel.send({"op": op, **fields}, timeout), timeout)

    def take(self, timeout: float) -> Message:
        """Give the answer to the request sent last."""
        answer: Message = self._guarded(lambda: self._channel.receive(timeout), timeout)
        error = answer.get("error")
        if error is not None:
            raise self._raised(error if isinstance(error, dict) else {})
        return answer

    def thaw(self) -> None:
        """Let the worker run."""
        if self._frozen:
            self.process.thaw()
            self._frozen = False

    def freeze(self) -> None:
        """Stop the worker and all its threads; raises `Failure` when that cannot be confirmed."""
        if self._frozen:
            return
        try:
            self.process.freeze(FREEZE_S)
        except NotStopped as error:
            if self.process.killed_because is None and self.process.exited() is not None:
                raise self._died() from None
            raise self._gone(f"it could not be stopped: {error}", check="not_stopped", status=Status.REJECTED) from None
        self._frozen = True

    def window(self, message: Message, tiles: Sequence[int], timeout: float) -> tuple[float, list[Any]]:
        """Time one batch: from its release until the judge holds tiles of its last output and the worker is frozen.

        ``tiles`` are seeds for where to read, from 0 to 2**31. Gives seconds and the outputs as decoded values.
        """
        start = time.monotonic_ns()
        self.thaw()
        self._guarded(lambda: self._channel.send(message, timeout), timeout)
        answer = self._guarded(lambda: self._channel.receive(timeout), timeout)
        self.freeze()
        error = answer.get("error")
        if error is not None:
            raise self._raised(error if isinstance(error, dict) else {})
        outputs = self._expand(answer.get("outputs"), len(message["slots"]))
        for _, leaf in leaves(outputs[-1]):
            if isinstance(leaf, TensorAt) and leaf.numel:
                for tile in tiles:
                    self.read_tile(leaf, tile % leaf.numel, 1024)
        return (time.monotonic_ns() - start) / 1e9, outputs

    def refuse_children(self) -> None:
        """A process that the candidate left behind is not stopped with it, so it could compute outside the clock."""
        count = self.process.children()
        if count:
            plural = "es" if count > 1 else ""
            message = f"{count} child process{plural} of the candidate ran while it was timed"
            raise self._failure(Status.REJECTED, "children", message)

    def _expand(self, said: object, count: int) -> list[Any]:
        """Read a batch's outputs; a bare number is the address of a tensor that looks like the one before."""
        if not isinstance(said, list) or len(said) != count:
            raise self._broken("an answer with another number of outputs than calls")
        outputs: list[Any] = []
        look: TensorAt | None = None
        for item in said:
            if isinstance(item, int) and look is not None:
                parts = [item, look.shape, look.stride, look.dtype, look.device, look.type_name]
                outputs.append(self._decoded(lambda parts=parts: read_tensor(parts)))
                continue
            value = self._decoded(lambda item=item: decode(item))
            look = value if isinstance(value, TensorAt) else None
            outputs.append(value)
        return outputs

    def decoded(self, tagged: object) -> Any:
        """Read a tagged value of the worker."""
        return self._decoded(lambda: decode(tagged))

    def _decoded(self, read: Any) -> Any:
        try:
            return read()
        except ProtocolError as error:
            raise self._broken(str(error)) from None

    def fetch(self, where: TensorAt) -> torch.Tensor:
        """Copy a tensor out of the worker's memory; contiguous, on the CPU. The worker must be frozen."""
        dtype = DTYPES[where.dtype]
        length = where.span * dtype.itemsize
        if length > MAX_SPAN:
            message = f"an output is spread over {length} bytes of memory"
            raise self._failure(Status.WRONG, "structure", message)
        buffer = torch.empty(where.span, dtype=dtype)
        if length:
            self.read(where.at, buffer.view(torch.uint8).numpy().data)
        return buffer.as_strided(where.shape, where.stride).contiguous()

    def read(self, address: int, buffer: memoryview) -> None:
        """Copy bytes of the frozen worker's memory."""
        try:
            self.process.read(address, buffer)
        except Unreadable as error:
            raise self._unreadable(error) from None

    def read_tile(self, where: TensorAt, start: int, count: int) -> torch.Tensor:
        """Copy up to ``count`` elements, from flat index ``start`` in logical order, whatever the strides."""
        dtype = DTYPES[where.dtype]
        count = min(count, where.numel - start)
        tile = torch.empty(count, dtype=dtype)
        buffer = tile.view(torch.uint8).numpy().data
        if where.span == where.numel and _contiguous(where):
            self.read(where.at + start * dtype.itemsize, buffer)
            return tile
        offsets = _offsets(where, start, count) * dtype.itemsize + where.at
        try:
            self.process.read_many([(int(offset), dtype.itemsize) for offset in offsets], buffer)
        except Unreadable as error:
            raise self._unreadable(error) from None
        return tile

    def _unreadable(self, error: Unreadable) -> Failure:
        message = f"the judge cannot read what the candidate says is its output: {error}"
        return self._failure(Status.REJECTED, "unreadable", message)

    def _guarded(self, action: Any, timeout: float) -> Any:
        try:
            return action()
        except ChannelTimeout:
            message = f"no answer within {timeout:.3g} s"
            raise self._gone(message, check="time_limit", status=Status.TIMED_OUT) from None
        except ChannelClosed:
            raise self._died() from None
        except ProtocolError as error:
            raise self._broken(str(error)) from None

    def _broken(self, message: str) -> Failure:
        return self._gone(f"the worker's answer is broken: {message}", check="protocol", status=Status.CRASHED)

    def _gone(self, message: str, *, check: str, status: Status) -> Failure:
        self.process.kill()
        text = self.process.output_tail() or None
        return self._failure(status, check, message, text=text)

    def _died(self) -> Failure:
        """Say why the worker is gone: its signal, its exit status, or the limit that it broke."""
        deadline = time.monotonic() + 2.0
        while (end := self.process.exited()) is None and time.monotonic() < deadline:
            time.sleep(0.005)
        because = self.process.killed_because
        self.process.kill()
        text = self.process.output_tail() or None
        if because == "memory":
            message = "the candidate used more memory than it is allowed, and was stopped"
            return self._failure(Status.CRASHED, "memory_limit", message, text=text)
        if end is None:
            message = "the candidate closed its connection to the judge"
            return self._failure(Status.CRASHED, "protocol", message, text=text)
        name = "SIGABRT" if end.status == signal.SIGABRT else end.signal  # see `Worker` on abort()
        if name is not None:
            message = f"the candidate's process was ended by {name}"
        else:
            message = f"the candidate's process ended by itself with status {end.status}, without an answer"
        return self._failure(Status.CRASHED, "crash", message, signal=name, text=text)

    def _raised(self, error: dict[str, Any]) -> Failure:
        """Turn an exception of the candidate into a failure."""
        kind, message = str(error.get("type", ""))[:200], str(error.get("message", ""))[:4000]
        text = str(error.get("traceback", ""))[-8000:] or None
        if self.phase is Phase.BUILD:
            log = str(error.get("log", ""))
            stage = error.get("stage")
            check = "compile" if log else stage if stage in ("import", "construct") else "import"
            return self._failure(Status.BUILD_FAILED, check, f"{kind}: {message}", text=log or text)
        return self._failure(Status.CRASHED, "forward", f"forward raised {kind}: {message}", text=text)


def _contiguous(where: TensorAt) -> bool:
    step = 1
    for size, stride in zip(reversed(where.shape), reversed(where.stride), strict=True):
        if size != 1 and stride != step:
            return False
        step *= size
    return True


def _offsets(where: TensorAt, start: int, count: int) -> NDArray[np.int64]:
    """Give the offsets in elements of consecutive elements of a strided tensor."""
    flat = np.arange(start, start + count, dtype=np.int64)
    total = np.zeros(count, dtype=np.int64)
    for size, stride in zip(reversed(where.shape), reversed(where.stride), strict=True):
        total += flat % size * stride
        flat //= size
    return total
