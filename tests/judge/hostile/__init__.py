"""Hostile candidates, each with the verdict that is right about it, by what they attack."""

from __future__ import annotations

import textwrap
from typing import Final

from attrs import field, frozen

from kforge.records import Phase, Status

PROBLEM: Final = """\
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4096))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x):
        self.calls += 1
        return torch.tanh(x) * self.weight


def get_inputs():
    return [torch.rand(64, 4096)]
"""

_TEMPLATE: Final = """\
import ctypes, gc, mmap, os, resource, shutil, signal, socket, struct, sys, threading, time
import torch

libc = ctypes.CDLL(None, use_errno=True)


def channel():
    for fd in range(3, 200):
        try:
            if os.path.samestat(os.fstat(fd), os.fstat(fd)) and os.readlink(f"/proc/self/fd/{fd}").startswith("socket"):
                return fd
        except OSError:
            pass
    raise RuntimeError("no channel found")


@TOP@


class ModelNew(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.rand(4096))
        self.register_buffer("calls", torch.zeros(()))
        self.number = 0
@CONSTRUCT@

    def right(self, x):
        self.calls += 1
        return torch.tanh(x) * self.weight

    def forward(self, x):
        self.number += 1
@FORWARD@
"""
TIMED: Final = "self.number > 3"
"""True only after the three calls of the comparison, so in a timed worker."""


@frozen
class Hostile:
    """One hostile candidate; ``checks`` are the findings of which one must be the first."""

    name: str
    status: Status
    checks: tuple[str, ...]
    source: str = field(repr=False)
    phase: Phase | None = None
    """Where it must fail, if that is certain."""
    says: str = ""
    """What the message must hold."""


def hostile(
    name: str, status: Status, *checks: str, top: str = "", construct: str = "", forward: str = "return self.right(x)",
    phase: Phase | None = None, says: str = "",
) -> Hostile:  # fmt: skip
    """Make a candidate that is honest but for the given pieces of text."""
    source = _TEMPLATE.replace("@TOP@", textwrap.dedent(top).strip())
    for mark, text in (("@CONSTRUCT@", construct), ("@FORWARD@", forward)):
        source = source.replace(mark, textwrap.indent(textwrap.dedent(text).strip(), " " * 8))
    return Hostile(name, status, checks, source, phase, says)


HONEST: Final = hostile("honest", Status.CORRECT).source
