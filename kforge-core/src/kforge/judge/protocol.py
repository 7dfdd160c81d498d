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

    def __init__(self, sock: socket.socket, limit: int = WORKER_LIMIT) -> None:
        self._sock = sock
        self._limit = limit
        self._poll = select.poll()
        self._poll.register(sock, select.POLLIN)
        sock.setblocking(True)

    def fileno(self) -> int:
        """Give the descriptor, for poll."""
        return self._sock.fileno()

    def send(self, message: Message, timeout: float | None = None) -> None:
        """Send one frame; ``timeout`` in seconds."""
        data = json.dumps(message, separators=(",", ":")).encode()
        self._sock.settimeout(timeout)
        try:
            self._sock.sendall(_HEADER.pack(len(data)) + data)
        except TimeoutError:
            raise ChannelTimeout("the other side does not read") from None
        except OSError as error:
            raise ChannelClosed(str(error)) from None
        finally:
            self._sock.settimeout(None)

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for one frame; ``timeout`` in seconds for all of it."""
        deadline = None if timeout is None else time.monotonic() + timeout
        (length,) = _HEADER.unpack(self._exactly(_HEADER.size, deadline))
        if length > self._limit:
            raise ProtocolError(f"a frame of {length} bytes; at most {self._limit} are allowed")
        data = self._exactly(length, deadline)
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

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        parts = bytearray()
        while len(parts) < count:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0 or not self._poll.poll(left * 1000):
                    raise ChannelTimeout("no answer within the time allowed")
            try:
                part = self._sock.recv(min(count - len(parts), 2**20))
            except OSError as error:
                raise ChannelClosed(str(error)) from None
            if not part:
                raise ChannelClosed("the other side closed its end")
            parts += part
        return bytes(parts)
