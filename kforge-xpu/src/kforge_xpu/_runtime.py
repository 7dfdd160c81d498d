"""The shim as Python sees it: loaded once per process, at the first use and never at import."""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Sequence

import attrs

from kforge_xpu import _locate
from kforge_xpu.diagnostics import parse_clang
from kforge_xpu.errors import SyclBuildError, SyclError, SyclUnavailable

_POINTER = ctypes.c_void_p
_TEXT = ctypes.c_char_p
_FUNCTIONS: dict[str, tuple[object, list[object]]] = {
    "kf_error": (_TEXT, []),
    "kf_text": (_TEXT, []),
    "kf_open_cpu": (_POINTER, []),
    "kf_device_name": (_TEXT, [_POINTER]),
    "kf_device_limits": (ctypes.c_int, [_POINTER, _POINTER]),
    "kf_build": (
        _POINTER,
        [_POINTER, _TEXT, ctypes.c_size_t, _POINTER, ctypes.c_int, _POINTER, ctypes.c_int],
    ),
    "kf_has_kernel": (ctypes.c_int, [_POINTER, _TEXT]),
    "kf_kernel": (_POINTER, [_POINTER, _TEXT, _POINTER]),
    "kf_launch": (ctypes.c_int, [_POINTER, _POINTER, _TEXT, ctypes.c_int]),
}


@attrs.frozen
class KernelFacts:
    """What the runtime says of a built kernel. `required`: its fixed work-group size in
    SYCL's order, with leading ones for absent dimensions, or None."""

    handle: int
    arguments: int
    largest_group: int
    required: tuple[int, int, int] | None


@attrs.frozen
class DeviceLimits:
    """`name`; the largest work-group in work-items; the largest extent per dimension in SYCL's order."""

    name: str
    largest_group: int
    largest_extents: tuple[int, int, int]


class Runtime:
    """The loaded shim. Queues, modules and kernels are addresses, and live as long as the process."""

    def __init__(self) -> None:
        gpu = torch_has_xpu()
        installation = _locate.find_installation()
        if not gpu and _locate.find_opencl_cpu() is None:
            raise SyclUnavailable("intel-opencl-rt, SYCL's CPU device, is not installed", _locate.PIP_HINT)
        shim = _locate.prepare_shim()
        os.environ.update(_locate.runtime_environment(gpu=gpu))
        # libsycl first and by its path: the shim then finds it by its name, wherever an environment was moved to.
        self._sycl = _load(str(installation.library))
        self._library = _load(str(shim))
        for name, (result, arguments) in _FUNCTIONS.items():
            function = getattr(self._library, name)
            function.restype, function.argtypes = result, arguments
        self.launch = self._library.kf_launch
        self._cpu_queue: int | None = None

    def error(self) -> str:
        """Why this thread's last call failed."""
        return _decoded(self._library.kf_error())

    def queue(self, kind: str, index: int | None = None) -> int:
        """The address of the sycl::queue for `cpu` or `xpu`.

        For `xpu` it is torch's current stream of device `index`, so kernels run in order with torch's own. That road
        has been written to PyTorch's documented interface and has not run: it needs an Intel GPU.
        """
        if kind == "xpu":
            import torch

            return int(torch.xpu.current_stream(index).sycl_queue)
        with process.lock:
            if self._cpu_queue is None:
                self._cpu_queue = self._library.kf_open_cpu()
        if self._cpu_queue is None:
            raise SyclUnavailable(
                f"SYCL has no CPU device here: {self.error()}",
                f"{_locate.PIP_HINT}; ONEAPI_DEVICE_SELECTOR={os.environ.get('ONEAPI_DEVICE_SELECTOR', '')!r} must "
                "permit a cpu, and OCL_ICD_FILENAMES must name libintelocl.so before anything loads SYCL or OpenCL",
            )
        return self._cpu_queue

    def limits(self, queue: int) -> DeviceLimits:
        """What the queue's device permits."""
        numbers = (ctypes.c_uint64 * 4)()
        name = self._library.kf_device_name(queue)
        if not name or not self._library.kf_device_limits(queue, numbers):
            raise SyclError(f"the SYCL device does not answer: {self.error()}")
        return DeviceLimits(_decoded(name), numbers[0], (numbers[1], numbers[2], numbers[3]))

    def build(self, queue: int, source: str, options: Sequence[str], names: Sequence[str]) -> tuple[int, str]:
        """Compile for the queue's device: the module's address and the compiler's log. Raises SyclBuildError,
        or SyclUnavailable where the compiler cannot work."""
        # Lone surrogates go through as they are: the compiler says what it thinks of them.
        text = source.encode(errors="surrogatepass")
        module = self._library.kf_build(
            queue, text, len(text), _strings(options), len(options), _strings(names), len(names)
        )
        if not module:
            problem = SyclBuildError(self.error(), source)
            _blame_the_machine(problem)
            raise problem
        return module, _decoded(self._library.kf_text())

    def has_kernel(self, module: int, name: str) -> bool:
        """Whether a built module holds the kernel."""
        return bool(self._library.kf_has_kernel(module, name.encode()))

    def kernel(self, module: int, name: str) -> KernelFacts:
        """A kernel of a built module."""
        facts = (ctypes.c_uint64 * 5)()
        handle = self._library.kf_kernel(module, name.encode(), facts)
        if not handle:
            raise SyclError(f"{name}: {self.error()}")
        # The runtime answers in OpenCL's order, first dimension fastest; absent dimensions are 1.
        required = (facts[4], facts[3], facts[2])
        return KernelFacts(handle, facts[0], facts[1], required if any(required) else None)


class _Process:
    """What this process has loaded. `inherited`: it is a fork of one that had loaded the runtime."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self.runtime: Runtime | None = None
        self.inherited = False

    def after_fork(self) -> None:
        # Another thread of the parent may have held the lock.
        self.lock = threading.RLock()
        self.inherited = self.inherited or self.runtime is not None


process = _Process()
os.register_at_fork(after_in_child=process.after_fork)


def runtime() -> Runtime:
    """The process's runtime, loaded at the first call. Raises SyclUnavailable where something is missing."""
    with process.lock:
        if process.inherited:
            raise SyclUnavailable(
                "the SYCL runtime was loaded before this process was forked, and its threads did not come along",
                "construct the first SyclModule after the fork, or start the process by spawn",
            )
        if process.runtime is None:
            process.runtime = Runtime()
        return process.runtime


def torch_has_xpu() -> bool:
    """Whether torch, already imported or being imported by another thread, can use an Intel GPU."""
    if "torch" not in sys.modules:
        return False
    import torch  # waits for the other thread

    return bool(torch.xpu.is_available())


def _blame_the_machine(problem: SyclBuildError) -> None:
    """Raise SyclUnavailable where it is not the source that is at fault."""
    for found in parse_clang(problem.log):
        # Only the compiler itself speaks without naming a line: `#error` cannot pretend to be this.
        if found.file is None and found.message.startswith("unable to make temporary file"):
            folder = os.environ.get("TMPDIR", "/tmp")  # noqa: S108  # a name for the message, nothing is written
            raise SyclUnavailable(
                f"the SYCL kernel compiler cannot write in {folder}: {found.message}",
                "set TMPDIR to a folder that can be written",
            ) from problem


def _load(path: str) -> ctypes.CDLL:
    try:
        return ctypes.CDLL(path)
    except OSError as problem:
        raise SyclUnavailable(
            f"{path} does not load: {problem}",
            f"{_locate.PIP_HINT} --force-reinstall; a broken shim in {_locate.shim_folder()} may be deleted",
        ) from problem


def _strings(items: Sequence[str]) -> object:
    return (ctypes.c_char_p * len(items))(*(item.encode() for item in items))


def _decoded(text: bytes | None) -> str:
    return (text or b"").decode(errors="replace")
