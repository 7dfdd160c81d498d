"""A filter of system calls: no sockets of any family, and none of the calls that reach kernel objects without a name.

Of pairs of sockets only streams are left, as one of datagrams can be connected, or send, to any other address.

Namespaces leave holes that this closes: a socket in a folder can be connected to whatever network namespace one is in,
and sockets to the host of a virtual machine belong to no namespace.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from typing import Final

from kforge.judge import _linux

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_ALLOW, _ERRNO = 0x7FFF0000, 0x00050000
_SET_FILTER, _SPEC_ALLOW = 1, 4
_OTHER_ABI: Final = 0x40000000
_ARCHITECTURES: Final = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# socket, io_uring_setup (makes sockets too), add_key, request_key, keyctl, bpf, perf_event_open
_REFUSED: Final = {"x86_64": (41, 425, 248, 249, 250, 321, 298), "aarch64": (198, 425, 217, 218, 219, 280, 241)}

_SOCKETPAIR: Final = {"x86_64": 53, "aarch64": 199}
_SECOND_ARGUMENT: Final = 24
_TYPE_MASK, _STREAM = 0xF, 1


def _program(machine: str) -> bytes:
    refused = _REFUSED[machine]
    end = len(refused) + 9  # place of the step that refuses; the one before it allows
    steps = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 0, end - 2, _ARCHITECTURES[machine]),
        (_LOAD, 0, 0, 0),
        (_AT_LEAST, end - 4, 0, _OTHER_ABI),
        *((_EQUAL, end - 1 - place, 0, number) for place, number in enumerate(refused, 4)),
        (_EQUAL, 0, 3, _SOCKETPAIR[machine]),
        (_LOAD, 0, 0, _SECOND_ARGUMENT),
        (_AND, 0, 0, _TYPE_MASK),
        (_EQUAL, 0, 1, _STREAM),
        (_RETURN, 0, 0, _ALLOW),
        (_RETURN, 0, 0, _ERRNO | errno.EACCES),
    ]
    return b"".join(struct.pack("<HBBI", *step) for step in steps)


def install() -> None:
    """Refuse the calls with EACCES in this process and all below it, for good. Needs no_new_privs; raises OSError."""
    machine = platform.machine()
    if machine not in _REFUSED:
        raise OSError(errno.ENOSYS, f"no filter of system calls for {machine}")
    program = ctypes.create_string_buffer(_program(machine))
    header = struct.pack("<H6xQ", len(program) // 8, ctypes.addressof(program))
    # SPEC_ALLOW: without it older kernels slow down every load after a store, and with it the kernels we time.
    _linux.system_call("seccomp", _SET_FILTER, _SPEC_ALLOW, ctypes.c_char_p(header))
