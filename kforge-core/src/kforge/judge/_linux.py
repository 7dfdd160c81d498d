"""System calls that Python does not offer, by ctypes. Each raises OSError; nothing here imports torch."""

from __future__ import annotations

import ctypes
import os
import platform
import struct
from array import array
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

_libc: Final = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS: Final = 0x00020000
CLONE_NEWUTS: Final = 0x04000000
CLONE_NEWIPC: Final = 0x08000000
CLONE_NEWUSER: Final = 0x10000000
CLONE_NEWPID: Final = 0x20000000
CLONE_NEWNET: Final = 0x40000000

MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC = 1, 2, 4, 8
MS_REMOUNT, MS_BIND, MS_REC, MS_PRIVATE = 32, 4096, 16384, 1 << 18
MNT_DETACH: Final = 2
_AT_FDCWD, _AT_RECURSIVE = -100, 0x8000

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP, _PR_SET_NO_NEW_PRIVS, _PR_SET_SUBREAPER = 1, 4, 24, 38, 36
_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL = 47, 4
_CAPABILITY_VERSION_3: Final = 0x20080522
_MOST_RANGES: Final = 1024

# Numbers from the kernel's tables; those from 403 on are the same on every architecture.
_NUMBERS: Final = {"x86_64": {"pivot_root": 155, "seccomp": 317}, "aarch64": {"pivot_root": 41, "seccomp": 277}}
_MOUNT_SETATTR: Final = 442


def _check(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def system_call(number: int | str, *arguments: Any) -> int:
    """Make a system call by its number, or by one of the names above."""
    name = str(number)
    if isinstance(number, str):
        known = _NUMBERS.get(platform.machine(), {})
        if number not in known:
            raise OSError(38, f"{number}: not known for {platform.machine()}")
        number = known[number]
    wide = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    return _check(int(_libc.syscall(ctypes.c_long(number), *wide)), f"system call {name}")


def prctl(option: int, *arguments: int) -> None:
    """Call prctl with up to four numbers."""
    values = [ctypes.c_ulong(value) for value in (*arguments, 0, 0, 0, 0)[:4]]
    _check(int(_libc.prctl(option, *values)), f"prctl {option}")


def unshare(flags: int) -> None:
    """Leave the namespaces that the CLONE_NEW* flags name."""
    _check(int(_libc.unshare(flags)), "unshare")


def mount(source: str, target: str, kind: str, flags: int, options: str = "") -> None:
    """Call mount(2)."""
    data = options.encode() or None
    done = _libc.mount(source.encode(), os.fsencode(target), kind.encode(), ctypes.c_ulong(flags), data)
    _check(int(done), f"mount {target}")


def unmount(target: str) -> None:
    """Take a mount away, at once for all to come."""
    _check(int(_libc.umount2(os.fsencode(target), MNT_DETACH)), f"umount {target}")


def restrict_mount(target: str, flags: int, *, recursive: bool) -> None:
    """Add MS_RDONLY, MS_NOSUID, MS_NODEV or MS_NOEXEC to a mount, and to those below it."""
    attributes = struct.pack("<4Q", flags, 0, 0, 0)
    where = ctypes.c_char_p(os.fsencode(target))
    system_call(_MOUNT_SETATTR, _AT_FDCWD, where, _AT_RECURSIVE if recursive else 0, ctypes.c_char_p(attributes), 32)


def pivot_root(folder: str) -> None:
    """Make a mount point the root, and let go of the old root."""
    os.chdir(folder)
    try:
        system_call("pivot_root", ctypes.c_char_p(b"."), ctypes.c_char_p(b"."))
    except OSError:
        # The root of an initramfs cannot be pivoted. Without capabilities and open folders a chroot holds as well.
        os.chroot(".")
    else:
        unmount(".")
    os.chdir("/")


def drop_capabilities() -> None:
    """Give up every capability, for good where the kernel lets us shrink the bounding set."""
    prctl(_PR_CAP_AMBIENT, _PR_CAP_AMBIENT_CLEAR_ALL)
    last = int(Path("/proc/sys/kernel/cap_last_cap").read_text(encoding="ascii"))
    for capability in range(last + 1):
        try:
            prctl(_PR_CAPBSET_DROP, capability)
        except OSError:
            break  # an ordinary user may not; it has none to get back either, under no_new_privs
    header = struct.pack("<Ii", _CAPABILITY_VERSION_3, 0)
    _check(int(_libc.capset(header, bytes(24))), "capset")


def no_new_privileges() -> None:
    """Make set-uid programs and file capabilities powerless in this process and all below it, for good."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)


def die_with_parent() -> None:
    """Ask for SIGKILL at the end of the parent *thread*."""
    prctl(_PR_SET_PDEATHSIG, 9)


def set_dumpable() -> None:
    """Let processes of the same user read this one's memory again, which a change of credentials forbids."""
    prctl(_PR_SET_DUMPABLE, 1)


def become_subreaper() -> None:
    """Adopt orphans among the descendants of this process."""
    prctl(_PR_SET_SUBREAPER, 1)


def read_memory(pid: int, ranges: Sequence[tuple[int, int]], target: int) -> None:
    """Copy ranges (address, bytes) of another process one after the other to the address ``target``.

    Raises OSError: EFAULT where a range is not mapped, EPERM where it may not be read, ESRCH without a process.
    """
    start = 0
    pending = [item for item in ranges if item[1] > 0]
    while start < len(pending):
        part = pending[start : start + _MOST_RANGES]
        remote = array("Q", [number for item in part for number in item])
        total = sum(length for _, length in part)
        local = array("Q", [target, total])
        got = _libc.process_vm_readv(
            ctypes.c_int(pid),
            ctypes.c_void_p(local.buffer_info()[0]),
            ctypes.c_ulong(1),
            ctypes.c_void_p(remote.buffer_info()[0]),
            ctypes.c_ulong(len(part)),
            ctypes.c_ulong(0),
        )
        if _check(int(got), f"read of process {pid}") == 0:
            raise OSError(14, f"read of process {pid}: nothing there")
        target += got
        if got == total:
            start += len(part)
            continue
        # Short: a range is unmapped (the next try says so) or the kernel's limit of 2 GiB a call was reached.
        while got >= pending[start][1]:
            got -= pending[start][1]
            start += 1
        address, length = pending[start]
        pending[start] = (address + got, length - got)


_libc.process_vm_readv.restype = ctypes.c_ssize_t
_libc.syscall.restype = ctypes.c_long
