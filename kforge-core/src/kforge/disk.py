"""Room on disk, looked for before anything is spent."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Final

from kforge.errors import HarnessError

CACHE: Final = "KFORGE_CACHE"
"""The variable that names the folder for what can be made again."""
ROOM: Final = 16 * 2**20
"""Bytes that shims, kernels and compiled references of one Problem may take."""


def require_room(folder: Path, variable: str) -> None:
    """Make the folder, and raise `HarnessError` when it cannot take files; ``variable`` is what moves it elsewhere."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder) as file:
            os.posix_fallocate(file.fileno(), 0, ROOM)
    except OSError as error:
        raise HarnessError(
            f"{folder} cannot take files of {ROOM // 2**20} MiB: {error.strerror}",
            hint=f"free some space or raise the limit (ulimit -f), or use another folder: {variable}=FOLDER",
        ) from error
