"""A root folder for one worker, in its mount namespace: only what it may see exists there."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Final

from kforge.judge import _linux

DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SHORTCUTS: Final = ("/bin", "/lib", "/lib32", "/lib64", "/sbin")
PRIVATE_TMPFS: Final = ("/tmp", "/dev/shm")  # noqa: S108 - both are a private tmpfs in the new root
_READ_ONLY: Final = _linux.MS_RDONLY | _linux.MS_NOSUID | _linux.MS_NODEV
_STORE: Final = "/.store"


def real_paths(paths: Iterable[str]) -> list[str]:
    """Give the real, absolute, existing paths, without those that lie below another one."""
    kept: list[str] = []
    for path in sorted({os.path.realpath(path) for path in paths if path.startswith("/")}):
        inside = any(path == other or path.startswith(other.rstrip("/") + "/") for other in kept)
        if not inside and Path(path).exists():
            kept.append(path)
    return kept


def enter_new_root(
    scratch: str, scratch_bytes: int, *, readable: Sequence[str], writable: Sequence[str], devices: Sequence[str],
    hidden: Sequence[str], fresh_proc: bool,
) -> str | None:  # fmt: skip
    """Build the root on ``scratch`` and change to it; scratch is then a tmpfs of ``scratch_bytes``.

    Gives the reason why /proc is not a fresh one, or None. Raises OSError; the old root is then still there.
    """
    _linux.mount("none", "/", "", _linux.MS_REC | _linux.MS_PRIVATE)
    with ExitStack() as stack:
        nodes = [*DEVICES, *real_paths(devices)]
        sources = dict(_opened(stack, [*real_paths(readable), "/proc", *nodes]))
        kept = dict(_opened(stack, [path for path in map(os.path.realpath, writable) if Path(path).is_dir()]))
        # The full range of links, as `python` in a virtual environment is one and so are /lib and /bin.
        links = list(_links([*readable, *writable, *devices, scratch, *SHORTCUTS]))
        _linux.mount("tmpfs", scratch, "tmpfs", _linux.MS_NOSUID | _linux.MS_NODEV, "mode=0755,size=1m")
        try:
            private = _private_folders(scratch, os.path.realpath(scratch), scratch_bytes)
            reason = _fill(scratch, {**private, **sources}, {**private, **kept}, nodes, fresh_proc=fresh_proc)
            _linux.unmount(scratch + _STORE)
            _link(scratch, links)
            _hide(scratch, hidden, sources["/dev/null"])
            _linux.restrict_mount(scratch, _linux.MS_RDONLY, recursive=False)
        except OSError:
            _linux.unmount(scratch)
            raise
    _linux.pivot_root(scratch)
    return reason


def _opened(stack: ExitStack, paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Hold on to the sources, as the new root's mount may cover them."""
    for path in paths:
        try:
            held = os.open(path, os.O_PATH | os.O_CLOEXEC)
        except OSError:
            continue  # not there, or not for us: then not for the worker either
        stack.callback(os.close, held)
        yield path, f"/proc/self/fd/{held}"


def _private_folders(root: str, scratch: str, size: int) -> dict[str, str]:
    """Make scratch, /tmp and /dev/shm on one tmpfs, so that one size limits all; gives their places and sources."""
    store = root + _STORE
    Path(store).mkdir()
    _linux.mount("tmpfs", store, "tmpfs", _linux.MS_NOSUID | _linux.MS_NODEV, f"mode=0700,size={size}")
    private = {}
    for place in (scratch, *PRIVATE_TMPFS):
        part = Path(store) / place.replace("/", "+")
        part.mkdir(mode=0o700)
        private[place] = str(part)
    return private


def _fill(
    root: str, sources: dict[str, str], writable: dict[str, str], nodes: Sequence[str], *, fresh_proc: bool
) -> str | None:
    """Bind what may be seen, outer folders first; gives the reason why /proc is not fresh.

    A folder that is both private and readable, as /tmp is to a baseline whose Problem lies there, is the readable one.
    """
    reason = None
    for path, source in sorted({**writable, **sources}.items()):
        target = root + path
        _make_place(target, folder=Path(source).is_dir())
        if path == "/proc" and fresh_proc:
            try:
                _linux.mount("proc", target, "proc", _READ_ONLY & ~_linux.MS_RDONLY | _linux.MS_NOEXEC)
            except OSError as error:
                reason = f"no fresh /proc: {error.strerror}"
            else:
                continue
        _linux.mount(source, target, "", _linux.MS_BIND | _linux.MS_REC)
        if path in nodes or writable.get(path) == source:
            flags = _linux.MS_NOSUID | (_linux.MS_NOEXEC if path in nodes else _linux.MS_NODEV)
            _linux.restrict_mount(target, flags, recursive=True)
        elif path != "/proc":
            _linux.restrict_mount(target, _READ_ONLY, recursive=True)
    return reason


def _make_place(target: str, *, folder: bool) -> None:
    place = Path(target)
    if place.exists():
        return
    (place if folder else place.parent).mkdir(parents=True, exist_ok=True)
    if not folder:
        place.touch()


def _links(paths: Iterable[str]) -> Iterator[tuple[str, str]]:
    """Give the symbolic links (place, target) on the way to the paths, in the old root."""
    for path in paths:
        pending, seen = [path], 0
        while pending and seen < 64:
            seen += 1
            place = Path(pending.pop())
            for part in [*reversed(place.parents), place]:
                if part.is_symlink():
                    to = os.readlink(part)  # noqa: PTH115 - the text itself, a Path would change it
                    yield str(part), to
                    pending.append(os.path.normpath(part.parent / to / place.relative_to(part)))
                    break


def _link(root: str, links: Iterable[tuple[str, str]]) -> None:
    for place, target in links:
        try:
            inside = Path(root + place)
            inside.parent.mkdir(parents=True, exist_ok=True)
            inside.symlink_to(target)
        except OSError:
            continue  # it lies in a folder that is bound as a whole, and is there already


def _hide(root: str, hidden: Iterable[str], nothing: str) -> None:
    for path in hidden:
        target = root + os.path.realpath(path)
        if Path(target).is_file():
            _linux.mount(nothing, target, "", _linux.MS_BIND)
