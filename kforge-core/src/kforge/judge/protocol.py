"""Frames between CLI, judge and workers: four bytes of length, then one JSON object (see docs/adr/0001)."""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from typing import Any, Final

WORKER_LIMIT: Final = 16 * 2**20
"""Largest frame from a worker, bytes."""
CLIENT_LIMIT: Final = 256 * 2**20
"""Largest frame between CLI and judge, bytes."""
_HEADER: Final = struct.Struct("<I")

Message = dict[str, Any]


class ChannelError(Exception):
    """The other side did not keep to the protocol, or is gone."""


class ChannelClosed(ChannelError):  # noqa: N818 - a state of the channel
    """The other side closed its end or died."""


class ChannelTimeout(ChannelError):  # noqa: N818 - as above
    """The deadline passed."""


class ProtocolError(ChannelError):
    """What came is not a frame of this protocol."""


class Channel:
    """One end of a private stream of frames. One thread at a time."""

    def __init__(self, sock: socket.socket, limit: int = WORKER_LIMIT, *, spin_s: float = 0.0) -> None:
        """Take over a socket; ``spin_s`` seconds of each wait are spent looking, which spares a slow wake-up."""
        self._sock = sock
        self._limit = limit
        self._spin_s = spin_s
        self._buffer = bytearray()
        self._readable, self._writable = select.poll(), select.poll()
        self._readable.register(sock, select.POLLIN)
        self._writable.register(sock, select.POLLOUT)
        sock.setblocking(False)

    def fileno(self) -> int:
        """Give the descriptor, for poll."""
        return self._sock.fileno()

    def send(self, message: Message, timeout: float | None = None) -> None:
        """Send one frame; ``timeout`` in seconds."""
        data = json.dumps(message, separators=(",", ":")).encode()
        left = memoryview(_HEADER.pack(len(data)) + data)
        deadline = None if timeout is None else time.monotonic() + timeout
        while left:
            try:
                left = left[self._sock.send(left) :]
            except BlockingIOError:
                _wait(self._writable, deadline, "the other side does not read")
            except OSError as error:
                raise ChannelClosed(str(error)) from None

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for one frame; ``timeout`` in seconds for all of it."""
        started = time.monotonic()
        deadline = None if timeout is None else started + timeout
        (length,) = _HEADER.unpack(self._exactly(_HEADER.size, started, deadline))
        if length > self._limit:
            raise ProtocolError(f"a frame of {length} bytes; at most {self._limit} are allowed")
        data = self._exactly(length, started, deadline)
        try:
            message = json.loads(data)
        except (ValueError, RecursionError):
            raise ProtocolError("a frame that is not JSON") from None
        if not isinstance(message, dict):
            raise ProtocolError("a frame that is not an object")
        return message

    def request(self, message: Message, timeout: float | None = None) -> Message:
        """Send one frame and wait for its answer."""
        self.send(message, timeout)
        return self.receive(timeout)

    def close(self) -> None:
        """Close this end."""
        self._sock.close()

    def _exactly(self, count: int, started: float, deadline: float | None) -> bytes:
        while len(self._buffer) < count:
            try:
                part = self._sock.recv(2**20)
            except BlockingIOError:
                if time.monotonic() - started >= self._spin_s:
                    _wait(self._readable, deadline, "no answer within the time allowed")
                continue
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            if not part:
                raise ChannelClosed("the other side closed its end")
            self._buffer += part
        taken = bytes(self._buffer[:count])
        del self._buffer[:count]
        return taken


def _wait(poll: select.poll, deadline: float | None, late: str) -> None:
    left = None if deadline is None else deadline - time.monotonic()
    if left is not None and (left <= 0 or not poll.poll(left * 1000)):
        raise ChannelTimeout(late)
    if left is None:
        poll.poll()
