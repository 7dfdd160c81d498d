"""The worker: imports a candidate and runs it. Nothing that it says is believed; see docs/adr/0001 for its requests.

The same program, with the reference instead of a candidate, is the baseline worker, so that the protocol costs the same
on both sides.
"""

from __future__ import annotations

import ctypes
import gc
import linecache
import mmap
import os
import random
import signal
import socket
import sys
import tempfile
import traceback
import types
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch

from kforge.judge.arena import view
from kforge.judge.protocol import Channel, Message
from kforge.judge.values import TensorAt, decode, dtype_name, encode

_M_TRIM_THRESHOLD, _M_TOP_PAD, _M_MMAP_MAX, _M_PERTURB, _M_ARENA_MAX = -1, -2, -4, -6, -8
_MADV_POPULATE_READ: Final = 22
MAX_LOG: Final = 2**20
"""Bytes of a compiler's text that go to the judge."""
CANDIDATE_FILE: Final = "candidate.py"


def serve(sock: socket.socket, arena_fd: int, settings: Mapping[str, Any], _layers: object) -> None:
    """Answer the judge's requests until it closes its end."""
    worker = Worker(arena_fd, settings)
    channel = Channel(sock)
    channel.send({"ready": True, "base": worker.base})
    while True:
        request = channel.receive()
        channel.send(worker.answer(request))


class Worker:
    """What one worker process holds."""

    def __init__(self, arena_fd: int, settings: Mapping[str, Any]) -> None:
        self._libc = ctypes.CDLL(None, use_errno=True)
        if os.getpid() == 1:
            # The first process of a namespace ignores SIGABRT, so that abort() would end in a SIGSEGV of its own.
            self._libc.signal(signal.SIGABRT, self._libc._exit)
        gc.enable()
        self._keep_memory(int(settings["warm_bytes"]))
        os.environ.update(settings["environment"])
        tempfile.tempdir = None
        torch.set_num_threads(int(settings["threads"]))
        size = os.fstat(arena_fd).st_size
        self._map = mmap.mmap(arena_fd, size, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self._bytes = np.frombuffer(self._map, dtype=np.uint8)
        self.base = int(self._bytes.ctypes.data)
        self._device = str(settings["device"])
        self._source_folder = Path(settings["scratch"])
        self._module: Any = None
        self._stage = "import"
        self._slots: list[tuple[Any, ...]] = []
        self._outputs: list[Any] = []

    def _keep_memory(self, warm_bytes: int) -> None:
        """Keep freed memory in the process and touch it now: page faults would be most of the time otherwise."""
        for option, value in ((_M_MMAP_MAX, 0), (_M_TRIM_THRESHOLD, -1), (_M_ARENA_MAX, 1), (_M_TOP_PAD, 64 * 2**20)):
            self._libc.mallopt(option, value)
        self._libc.malloc.restype = ctypes.c_void_p
        block = self._libc.malloc(ctypes.c_size_t(warm_bytes))
        if block:
            self._libc.memset(ctypes.c_void_p(block), 0, ctypes.c_size_t(warm_bytes))
            self._libc.free(ctypes.c_void_p(block))

    def answer(self, request: Message) -> Message:
        """Do what is asked; an exception of the candidate is an answer."""
        handlers: dict[str, Callable[[Message], Message]] = {
            "ping": lambda _: {},
            "build": self._build,
            "load": self._load,
            "bind": self._bind,
            "call": self._call,
            "batch": self._batch,
            "state": self._state,
            "free": self._free,
        }
        try:
            return handlers[request["op"]](request)
        except BaseException as error:  # noqa: BLE001 - whatever a candidate raises is a fact about it, sys.exit too
            return {"error": {**describe(error), "stage": self._stage}}

    def _tensor(self, where: TensorAt) -> torch.Tensor:
        return view(self._bytes, where).to(self._device)

    def _build(self, request: Message) -> Message:
        """Import the module and construct the class under the given seed."""
        namespace = load_module(request["source"], self._source_folder / request["file"], request["path"])
        self._stage = "construct"
        arguments, keywords = decode(request["arguments"], self._tensor)
        seed_all(request["seed"])
        module = getattr(namespace, request["class"])(*arguments, **keywords)
        if isinstance(module, torch.nn.Module):
            module = module.to(self._device)
        if request["compile"]:
            module = torch.compile(module)
        self._module = module
        with torch.no_grad():
            for slot in request["warm"]:
                module(*decode(slot, self._tensor))
        return self._state(request)

    def _load(self, request: Message) -> Message:
        """Copy the judge's state in place, where names and shapes match."""
        mine = dict(self._named())
        loaded, unmatched = [], []
        with torch.no_grad():
            for name, tagged in request["state"]:
                source = decode(tagged, self._tensor)
                target = mine.pop(name, None)
                if target is not None and target.shape == source.shape and target.dtype == source.dtype:
                    target.copy_(source)
                    loaded.append(name)
                else:
                    unmatched.append(name)
        return {"loaded": loaded, "unmatched": unmatched, "extra": sorted(mine)[:100]}

    def _bind(self, request: Message) -> Message:
        if len(request["slots"]) > 1:  # first touches are no part of a time
            size = ctypes.c_size_t(self._bytes.nbytes)
            self._libc.madvise(ctypes.c_void_p(self.base), size, _MADV_POPULATE_READ)
        self._slots = [decode(slot, self._tensor) for slot in request["slots"]]
        return {}

    def _call(self, request: Message) -> Message:
        poison = int(request["poison"])
        if poison:
            self._libc.mallopt(_M_PERTURB, poison)
        try:
            with torch.no_grad():
                output = self._module(*self._slots[request["slot"]])
        finally:
            if poison:
                self._libc.mallopt(_M_PERTURB, 0)
        self._outputs.append(output)
        return {"output": encode(output, self._export)}

    def _batch(self, request: Message) -> Message:
        """Run many calls; only addresses cross for outputs that look like the one before."""
        module, slots, outputs = self._module, self._slots, self._outputs
        if self._device != "cpu":
            self._refresh(request)
        with torch.no_grad():
            for slot in request["slots"]:
                outputs.append(module(*slots[slot]))
        said: list[Any] = []
        last: tuple[Any, ...] | None = None
        for output in outputs[len(outputs) - len(request["slots"]) :]:
            if type(output) is torch.Tensor and self._device == "cpu":
                look = (output.shape, output.stride(), output.dtype)
                if look == last:
                    said.append(output.data_ptr())
                    continue
                last = look
            said.append(encode(output, self._export))
        return {"outputs": said}

    def _refresh(self, request: Message) -> None:
        """Copy the arena's contents to a device that cannot share it; inside the timed window, on both sides."""
        for slot in set(request["slots"]):
            self._slots[slot] = decode(request["arguments"][str(slot)], self._tensor)

    def _state(self, _: Message) -> Message:
        parameters = dict(self._module.named_parameters()) if isinstance(self._module, torch.nn.Module) else {}
        return {"state": [[name, name in parameters, encode(tensor, self._export)] for name, tensor in self._named()]}

    def _named(self) -> list[tuple[str, torch.Tensor]]:
        if not isinstance(self._module, torch.nn.Module):
            return []
        module = getattr(self._module, "_orig_mod", self._module)
        return [*module.named_parameters(), *module.named_buffers()]

    def _free(self, _: Message) -> Message:
        self._outputs.clear()
        return {}

    def _export(self, tensor: torch.Tensor) -> TensorAt:
        """Say where a tensor lies, after copying it to host memory where the device cannot share."""
        kind = f"{type(tensor).__module__}.{type(tensor).__qualname__}"
        device = tensor.device.type
        tensor = tensor.detach()
        if device != "cpu":
            tensor = tensor.cpu()
            self._outputs.append(tensor)
        if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
            tensor = tensor.to_dense() if tensor.layout is not torch.strided else tensor.resolve_conj().resolve_neg()
            self._outputs.append(tensor)
        return TensorAt(
            tensor.data_ptr(),
            shape=tuple(tensor.shape),
            stride=tuple(tensor.stride()),
            dtype=dtype_name(tensor.dtype),
            device=device,
            type_name="torch.Tensor" if kind in _PLAIN_TYPES else kind,
        )


_PLAIN_TYPES: Final = ("torch.Tensor", "torch.nn.parameter.Parameter")


def load_module(source: str, path: Path, search: Sequence[str]) -> types.ModuleType:
    """Write the source to a real file and run it as a module: compilers of kernels look for their own source."""
    path.write_text(source, encoding="utf-8", errors="surrogateescape")
    module = types.ModuleType(path.stem)
    module.__file__ = str(path)
    sys.modules[path.stem] = module
    sys.path[:0] = [entry for entry in search if entry not in sys.path]
    linecache.checkcache(str(path))
    exec(compile(source, str(path), "exec"), module.__dict__)  # noqa: S102 - running the candidate is the worker's purpose
    return module


def seed_all(seed: int) -> None:
    """Seed every generator that a constructor may draw from."""
    torch.manual_seed(seed)
    random.seed(seed)
    np.random.seed(seed % 2**32)


def describe(error: BaseException) -> dict[str, Any]:
    """Say what was raised, as plain data of bounded length."""
    log = getattr(error, "log", None)
    try:
        message = str(error)
    except Exception:  # noqa: BLE001 - __str__ is the candidate's
        message = ""
    lines = traceback.format_exception(error, limit=-20)
    return {
        "type": type(error).__name__[:200],
        "message": message[:20_000],
        "traceback": "".join(lines)[-20_000:],
        "log": str(log)[:MAX_LOG] if isinstance(log, str) else "",
    }
