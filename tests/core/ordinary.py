"""``python tests/core/ordinary.py FOLDER PROGRAM ...``: run a program as uid 65534, with root's interpreter in reach.

Root's interpreter may lie in a folder of mode 700. A mount namespace of its own lays an empty folder over that one and
binds in only what the interpreter needs; the machine sees nothing of it.
"""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path
from typing import Final

from kforge.judge import _linux

USER: Final = 65534


def _closed(path: Path) -> Path | None:
    """Give the outermost folder on the way that others may not pass."""
    for folder in [*reversed(path.parents), path]:
        if folder.is_dir() and folder.stat().st_mode & 0o005 != 0o005:
            return folder
    return None


def _open_ways(paths: list[Path]) -> None:
    """Bind the paths behind closed folders into empty ones that lie over them."""
    behind: dict[Path, list[tuple[Path, int]]] = {}
    for path in paths:
        closed = _closed(path)
        if closed is not None and closed != path:
            behind.setdefault(closed, []).append((path, os.open(path, os.O_PATH)))
    for closed, wanted in behind.items():
        _linux.mount("none", str(closed), "tmpfs", _linux.MS_NOSUID | _linux.MS_NODEV, "mode=0755,size=1m")
        for path, held in sorted(wanted):
            if not path.exists():
                path.mkdir(parents=True)
                _linux.mount(f"/proc/self/fd/{held}", str(path), "", _linux.MS_BIND | _linux.MS_REC)
            os.close(held)


def main(folder: str, command: list[str]) -> None:
    """Give the folder to the user, and become the user and the program."""
    here = Path.cwd()
    _linux.unshare(_linux.CLONE_NEWNS)
    _linux.mount("none", "/", "", _linux.MS_REC | _linux.MS_PRIVATE)
    needed = [sys.prefix, sys.base_prefix, *site.getsitepackages(), *sys.path, str(here)]
    _open_ways([path for path in sorted({Path(name).resolve() for name in needed if name}) if path.is_dir()])
    os.chown(folder, USER, USER)
    environment = {name: os.environ[name] for name in ("PATH", "LANG", "CXX") if name in os.environ}
    home = Path(folder)
    for name in ("home", "tmp", "store", "cache"):
        (home / name).mkdir()
        os.chown(home / name, USER, USER)
    environment |= {"HOME": f"{home}/home", "TMPDIR": f"{home}/tmp", "KFORGE_HOME": f"{home}/store"}
    environment |= {"KFORGE_CACHE": f"{home}/cache", "PYTHONDONTWRITEBYTECODE": "1"}
    os.setgroups([])
    os.setresgid(USER, USER, USER)
    os.setresuid(USER, USER, USER)
    os.chdir(here)  # the folder that it was in may lie below a new mount
    os.execve(command[0], command, environment)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
