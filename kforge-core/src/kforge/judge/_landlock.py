"""Landlock: an allow-list of files, no TCP, no signals and no abstract sockets out, as far as the kernel has it."""

from __future__ import annotations

import ctypes
import os
import stat
import struct
from collections.abc import Iterable
from typing import Final

from kforge.judge import _linux

_CREATE, _ADD_RULE, _RESTRICT = 444, 445, 446
_VERSION_FLAG: Final = 1
_PATH_BENEATH: Final = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_REFER, _TRUNCATE, _IOCTL = 1 << 13, 1 << 14, 1 << 15
_MAKE_CHAR, _MAKE_BLOCK = 1 << 6, 1 << 11
_ALL_FILES: Final = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1, 5: (1 << 16) - 1}
_ALL_TCP: Final = 3
_ABSTRACT_SOCKETS, _SIGNALS = 1, 2

READ: Final = _EXECUTE | _READ_FILE | _READ_DIR
DEVICE: Final = _READ_FILE | _WRITE_FILE
ACCELERATOR: Final = DEVICE | _READ_DIR | _IOCTL
WRITE: Final = _ALL_FILES[5] & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL)
_FILE_RIGHTS: Final = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL

FILES_SINCE, NETWORK_SINCE, SIGNALS_SINCE = 1, 4, 6
_TRUNCATE_SINCE: Final = 3


def version() -> int:
    """Give the kernel's Landlock ABI; raises OSError where there is none."""
    return _linux.system_call(_CREATE, None, 0, _VERSION_FLAG)


def truncation_covered(abi: int) -> bool:
    """Say whether this ABI can refuse truncate(2)."""
    return abi >= _TRUNCATE_SINCE


def restrict(abi: int, rules: Iterable[tuple[str, int]], *, files: bool, network: bool, signals: bool) -> None:
    """Allow the files of ``rules`` and nothing else; ask only for what ``abi`` has. Needs no_new_privs.

    Paths that do not exist are passed over. Raises OSError where the kernel refuses.
    """
    handled = _ALL_FILES[min(abi, 5)] if files else 0
    attributes = struct.pack("<3Q", handled, _ALL_TCP if network else 0, _ABSTRACT_SOCKETS | _SIGNALS if signals else 0)
    size = 24 if abi >= SIGNALS_SINCE else 16 if abi >= NETWORK_SINCE else 8
    ruleset = _linux.system_call(_CREATE, ctypes.c_char_p(attributes), size, 0)
    try:
        if files:
            for path, rights in rules:
                _allow(ruleset, path, rights & handled)
        _linux.system_call(_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _allow(ruleset: int, path: str, rights: int) -> None:
    try:
        folder = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(folder).st_mode):
            rights &= _FILE_RIGHTS
        rule = struct.pack("<Qi", rights, folder)
        _linux.system_call(_ADD_RULE, ruleset, _PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(folder)
