"""What stands between a worker and the machine: namespaces, Landlock, no capabilities, limits.

Two stages, with a fork between them: `leave` in the process that forks the worker, `confine` in the worker itself. Each
layer is tried on its own; one that the machine refuses is reported with the reason and the others are still used. The
layer `limits` holds resource limits; `no sockets` is a filter of system calls.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from attrs import asdict, frozen

from kforge.judge import _filter, _landlock, _linux, _mounts
from kforge.records import Finding, Isolation, Layer, Phase

LAYERS: Final = (
    "user namespace",
    "pid namespace",
    "mount namespace",
    "network namespace",
    "ipc namespace",
    "uts namespace",
    "no new privileges",
    "no capabilities",
    "landlock files",
    "landlock network",
    "landlock signals",
    "no sockets",
    "limits",
)
"""Every layer, in the order in which it is reported."""
_NAMESPACES: Final = {
    "pid namespace": _linux.CLONE_NEWPID,
    "mount namespace": _linux.CLONE_NEWNS,
    "network namespace": _linux.CLONE_NEWNET,
    "ipc namespace": _linux.CLONE_NEWIPC,
    "uts namespace": _linux.CLONE_NEWUTS,
}
_OFF: Final = "switched off"
_SHARED: Final = ("/", "/home", "/root", "/run", "/srv", "/tmp", "/var", "/var/tmp")  # noqa: S108 - kept out
"""A script that lies here puts the folder on ``sys.path``; no package is installed in it."""
_SYSTEM: Final = (
    "/usr",
    *_mounts.SHORTCUTS,
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/localtime",
    "/etc/nsswitch.conf",
    "/etc/passwd",
    "/sys/devices/system",
)

_PROBE_S: Final = 10.0
"""Seconds until a probe is given up."""

Reasons = dict[str, str | None]
"""By name of layer: None where it is in use, else the reason why it is not."""


@frozen
class Confinement:
    """What one worker may use. Paths are absolute; sizes are bytes. Plain data, as it goes over a socket as JSON."""

    scratch: str
    """An existing, empty folder of its own; a tmpfs in the worker where there is a mount namespace."""
    scratch_bytes: int
    """Size of that tmpfs, which /tmp and /dev/shm share."""
    data_bytes: int
    """RLIMIT_DATA. A private, writable mapping of the arena counts as well."""
    readable: tuple[str, ...] = ()
    """Further files and folders to read and execute."""
    writable: tuple[str, ...] = ()
    """Folders to write, such as the candidate's build cache."""
    devices: tuple[str, ...] = ()
    """Nodes of an accelerator, or folders of them, to read, write and control."""
    hidden: tuple[str, ...] = ()
    """Files that look empty, whatever folder they lie in, where there is a mount namespace."""
    open_files: int = 256
    file_bytes: int = 2**30
    """Largest file that it may write."""
    layers: tuple[str, ...] | None = None
    """Use these layers only, to test weaker machines; None for all."""

    def to_json(self) -> dict[str, Any]:
        """Give plain data."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Confinement:
        """Read what `to_json` gave."""
        values: dict[str, Any] = {name: tuple(x) if isinstance(x, list) else x for name, x in data.items()}
        return cls(**values)

    def wants(self, layer: str) -> bool:
        """Say whether a layer may be used."""
        return self.layers is None or layer in self.layers


def isolation(reasons: Reasons) -> Isolation:
    """Make the record; a layer that nobody tried is missing."""
    layers = []
    for name in LAYERS:
        reason = reasons.get(name, "not tried")
        layers.append(Layer(name, used=reason is None, reason=reason))
    return Isolation(tuple(layers))


def exposure(isolation: Isolation) -> Finding | None:
    """Say what a candidate could do to the judge itself here; None where it cannot reach it, or nothing is known."""
    if not isolation.layers or {"pid namespace", "landlock signals"} & set(isolation.used):
        return None
    reach = "send signals to the judge"
    # The kernel forbids tracing out of a user namespace and out of any Landlock domain.
    if not {"user namespace", "landlock files", "landlock network"} & set(isolation.used):
        reach += ", and may be able to read and write its memory"
    why = {layer.name: layer.reason for layer in isolation.missing}
    return Finding(
        "isolation", phase=Phase.RUN, decisive=False,
        message=f"a candidate could {reach} on this machine: pid namespace: {why.get('pid namespace')}; "
        f"landlock signals: {why.get('landlock signals')}",
    )  # fmt: skip


def readable_folders(confinement: Confinement) -> list[str]:
    """Give all that a worker may read: the system's libraries, this Python, ``sys.path`` and what was asked for."""
    ours = [sys.prefix, sys.base_prefix, sys.exec_prefix, os.path.dirname(sys.executable), *sys.path]  # noqa: PTH120 - a text among texts
    shared = {*_SHARED, os.path.realpath(os.path.expanduser("~"))}  # noqa: PTH111 - as above
    ours = [path for path in ours if path.startswith("/") and os.path.realpath(path) not in shared]
    return [*_SYSTEM, *ours, *confinement.readable]


def leave(confinement: Confinement) -> Reasons:
    """Leave this process's namespaces, before the fork of the worker. Needs to be the only thread."""
    reasons: Reasons = {}
    user, group = os.getuid(), os.getgid()
    _try(reasons, confinement, "user namespace", lambda: _new_user_namespace(user, group))
    for name, flag in _NAMESPACES.items():
        _try(reasons, confinement, name, lambda flag=flag: _linux.unshare(flag))  # type: ignore[misc] # mypy cannot type a lambda's default
    if reasons["mount namespace"] is None and reasons["user namespace"] is not None:
        # As root itself: nothing that the worker mounts may reach the machine.
        _linux.mount("none", "/", "", _linux.MS_REC | _linux.MS_PRIVATE)
    return reasons


def confine(confinement: Confinement, reasons: Reasons) -> Reasons:
    """Confine this process, the worker, for good; ``reasons`` are those of `leave`. Raises nothing for lost layers."""
    reasons = dict(reasons)
    paths = readable_folders(confinement)
    if reasons["mount namespace"] is None:
        fresh = reasons["pid namespace"] is None
        try:
            why = _mounts.enter_new_root(
                confinement.scratch,
                confinement.scratch_bytes,
                readable=paths,
                writable=confinement.writable,
                devices=confinement.devices,
                hidden=confinement.hidden,
                fresh_proc=fresh,
            )
        except OSError as error:
            reasons["mount namespace"] = _why(error)
            why = "no fresh /proc: no root of its own"
        if fresh:
            reasons["pid namespace"] = why
    elif reasons["pid namespace"] is None:
        reasons["pid namespace"] = "no fresh /proc: no mount namespace"
    os.chdir(confinement.scratch)
    os.umask(0o077)
    _try(reasons, confinement, "no new privileges", _linux.no_new_privileges)
    _try(reasons, confinement, "no capabilities", _linux.drop_capabilities)
    _linux.set_dumpable()
    _landlock_layers(confinement, reasons, paths)
    _try(reasons, confinement, "no sockets", _filter.install)
    _try(reasons, confinement, "limits", lambda: _limit(confinement))
    return reasons


def probe() -> Isolation:
    """Say what this machine offers, by confining a process of its own; takes about 0.2 s and imports no torch."""
    with tempfile.TemporaryDirectory(prefix="kforge-probe-") as scratch:
        command = [sys.executable, "-P", "-B", "-m", "kforge.judge._probe", scratch]
        try:
            done = subprocess.run(command, capture_output=True, timeout=_PROBE_S, check=False, cwd="/")
            reasons: Reasons = json.loads(done.stdout)
        except (subprocess.TimeoutExpired, ValueError) as error:
            why = f"no process could be confined: {error}"
            return isolation(dict.fromkeys(LAYERS, why))
    return isolation(reasons)


def _new_user_namespace(user: int, group: int) -> None:
    _linux.unshare(_linux.CLONE_NEWUSER)
    # Without this the files below belong to root, and an ordinary user cannot write them.
    _linux.set_dumpable()
    own = Path("/proc/self")
    (own / "setgroups").write_text("deny", encoding="ascii")
    (own / "uid_map").write_text(f"{user} {user} 1", encoding="ascii")
    (own / "gid_map").write_text(f"{group} {group} 1", encoding="ascii")


def _landlock_layers(confinement: Confinement, reasons: Reasons, paths: list[str]) -> None:
    since = {
        "landlock files": _landlock.FILES_SINCE,
        "landlock network": _landlock.NETWORK_SINCE,
        "landlock signals": _landlock.SIGNALS_SINCE,
    }
    wanted = [name for name in since if confinement.wants(name)]
    reasons.update(dict.fromkeys(since, _OFF))
    try:
        abi = _landlock.version()
    except OSError as error:
        reasons.update(dict.fromkeys(wanted, _why(error)))
        return
    for name in list(wanted):
        if abi < since[name]:
            reasons[name] = f"Landlock ABI {abi}; it came with {since[name]}"
            wanted.remove(name)
    rules = [*((path, _landlock.READ) for path in [*paths, "/proc"])]
    rules += [(path, _landlock.DEVICE) for path in _mounts.DEVICES]
    rules += [(path, _landlock.ACCELERATOR) for path in confinement.devices]
    rules += [(path, _landlock.READ | _landlock.WRITE) for path in (confinement.scratch, *confinement.writable)]
    if reasons["mount namespace"] is None:
        rules += [(path, _landlock.READ | _landlock.WRITE) for path in _mounts.PRIVATE_TMPFS]
    try:
        _landlock.restrict(
            abi,
            rules,
            files="landlock files" in wanted,
            network="landlock network" in wanted,
            signals="landlock signals" in wanted,
        )
    except OSError as error:
        reasons.update(dict.fromkeys(wanted, _why(error)))
    else:
        reasons.update(dict.fromkeys(wanted))


def _limit(confinement: Confinement) -> None:
    """Set the limits. The number of processes has none: the kernel counts all of a user's, not those of a worker."""
    limits = {
        resource.RLIMIT_DATA: confinement.data_bytes,
        resource.RLIMIT_NOFILE: confinement.open_files,
        resource.RLIMIT_FSIZE: confinement.file_bytes,
        resource.RLIMIT_CORE: 0,
        resource.RLIMIT_MEMLOCK: 0,
        resource.RLIMIT_RTPRIO: 0,
    }
    for limit, value in limits.items():
        hard = resource.getrlimit(limit)[1]
        value = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(limit, (value, value))


def reset_signals() -> None:
    """Give every signal its default action and block none; a worker takes over nothing of the zygote's."""
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in signal.valid_signals():
        try:
            if signal.getsignal(number) not in (signal.SIG_DFL, None):
                signal.signal(number, signal.SIG_DFL)
        except OSError:
            continue  # SIGKILL and SIGSTOP


def offer_to_oom_killer() -> None:
    """Let the kernel take this process, and those below it, before any other when memory runs out."""
    Path("/proc/self/oom_score_adj").write_text("1000", encoding="ascii")


def _try(reasons: Reasons, confinement: Confinement, name: str, action: Callable[[], None]) -> None:
    if not confinement.wants(name):
        reasons[name] = _OFF
        return
    try:
        action()
    except OSError as error:
        reasons[name] = _why(error)
    else:
        reasons[name] = None


def _why(error: OSError) -> str:
    return str(error.strerror or error)
