"""What runs inside a worker in these tests instead of the worker's program: text that the test sends as settings."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from typing import Any


def serve(sock: socket.socket, arena: int, settings: dict[str, Any], layers: Sequence[dict[str, Any]]) -> None:
    """Run the text; it answers with ``say``."""
    refused = {}

    def attempt(name: str, action: Any) -> None:
        try:
            refused[name] = f"done: {action()!r}"
        except OSError as error:
            refused[name] = type(error).__name__

    def say(value: object) -> None:
        sock.sendall(json.dumps(value).encode() + b"\n")

    exec(settings["code"], {"os": os, "sock": sock, "arena": arena, "attempt": attempt, "refused": refused, "say": say})
