"""SYCL source compiled in this process, its kernels launched on torch tensors.

    module = SyclModule(source, options=["-O3"])
    module.vadd(1024, 64, a, b, out, n)

Kernels are SYCL *free functions* (sycl_ext_oneapi_free_function_kernels): `void` functions marked
`SYCL_EXT_ONEAPI_FUNCTION_PROPERTY((sycl::ext::oneapi::experimental::nd_range_kernel<1>))`, best with `extern "C"`.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kforge_xpu._launch import Launcher
from kforge_xpu._locate import prepare_shim, runtime_environment
from kforge_xpu._runtime import DeviceLimits, KernelFacts, Runtime, process, runtime, torch_has_xpu
from kforge_xpu.errors import SyclBuildError
from kforge_xpu.signature import Declaration, Parameter, find_kernels

__all__ = ["SyclKernel", "SyclModule", "prepare_shim", "runtime_environment"]

Size = int | Sequence[int]


@attrs.frozen
class Program:
    """One source built for one device. `log`: the compiler's warnings, empty when a cache answered."""

    runtime: Runtime
    handle: int
    log: str
    limits: DeviceLimits
    kind: str
    index: int | None


# Programs stay for the life of the process: kernels and torch's queues refer to them, and libsycl's own teardown
# order makes freeing them at exit unsafe.
_programs: dict[tuple[object, ...], Program] = {}


class SyclModule:
    """Compiles SYCL C++ in its constructor, for torch's Intel GPU where there is one, else for the CPU.

    `source`: C++ text holding free-function kernels. `options`: the compiler's (`-O3`, `-ffast-math`, `-DN=4`).
    Tensors on the other kind of device than it was built for make a build at the first such launch. The same source
    and options are compiled once per process; with SYCL_CACHE_PERSISTENT=1 and SYCL_CACHE_DIR set before the first
    module, builds are kept on disk.

    Kernels are attributes: `module.name(global_size, local_size, *arguments)` (see SyclKernel), also `module["name"]`,
    which is the way to `module["space::name"]` and to a kernel named like an attribute below.

    Attributes: `source`, `options`; `kernel_names`, those found in the source; `build_log`, the compiler's warnings.
    Raises SyclBuildError, or SyclUnavailable where a runtime, compiler or device is missing.
    """

    def __init__(self, source: str, *, options: Sequence[str] = ()) -> None:
        if isinstance(options, str):
            raise TypeError("options is a sequence of strings, such as ['-O3'], not one string")
        self.source = source
        self.options = tuple(options)
        self._declarations = {found.name: found for found in find_kernels(source, self.options)}
        kind = "xpu" if torch_has_xpu() else "cpu"
        index = _current_xpu() if kind == "xpu" else None
        self._program = self._build(kind, index)
        self._kernels: dict[str, SyclKernel] = {}
        has = self._program.runtime.has_kernel
        self.kernel_names = tuple(name for name in self._declarations if has(self._program.handle, name))
        self.build_log = self._program.log

    def __getattr__(self, name: str) -> SyclKernel:
        # Copying and pickling ask for special names, before there is anything to look in.
        if name.startswith("__") or "_kernels" not in self.__dict__:
            raise AttributeError(name)
        try:
            kernel = self[name]
        except KeyError:
            known = ", ".join(self.kernel_names) or "none"
            raise AttributeError(f"no kernel {name!r} in this SYCL module; its kernels: {known}") from None
        self.__dict__[name] = kernel
        return kernel

    def __getitem__(self, name: str) -> SyclKernel:
        """The kernel of that name, namespaces included or, where only one fits, left out. Raises KeyError."""
        if name not in self._kernels:
            self._kernels[name] = SyclKernel(self, self._resolve(name))
        return self._kernels[name]

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernel_names]

    def __repr__(self) -> str:
        return f"<SyclModule on {self._program.limits.name}: {', '.join(self.kernel_names) or 'no kernels'}>"

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.source, self.options)

    def _resolve(self, name: str) -> str:
        # What the reader of the source missed, behind macros of a header say, the runtime may still know.
        if name in self.kernel_names or self._program.runtime.has_kernel(self._program.handle, name):
            return name
        fitting = [known for known in self.kernel_names if known.endswith(f"::{name}")]
        if len(fitting) != 1:
            raise KeyError(name)
        return fitting[0]

    def _build(self, kind: str, index: int | None) -> Program:
        key = (kind, index, self.source, self.options)
        with process.lock:
            # The runtime is asked first: in a fork of a process that used it, nothing built there can be used.
            loaded = runtime()
            if key not in _programs:
                queue = loaded.queue(kind, index)
                names = [found.name for found in self._declarations.values() if not found.extern_c]
                try:
                    handle, log = loaded.build(queue, self.source, self.options, names)
                except SyclBuildError as problem:
                    # The compiler refers to the names given to it in lines of its own, behind the source. A kernel of
                    # a branch that the preprocessor dropped must not take the others with it.
                    fewer = [name for name in names if f'{{"{name}", ' not in problem.log]
                    if fewer == names:
                        raise
                    handle, log = loaded.build(queue, self.source, self.options, fewer)
                _programs[key] = Program(loaded, handle, log, loaded.limits(queue), kind, index)
            return _programs[key]


class SyclKernel:
    """One kernel of a SyclModule.

    Calling it: `kernel(global_size, local_size, *arguments)`. Sizes count work-items and are an int or up to three
    ints in SYCL's order: the last dimension varies fastest, as the last dimension of a torch shape does. The global
    size must be a multiple of the local size in every dimension; a global size of zero launches nothing.

    Arguments, one per parameter:
    - pointers take a torch tensor, whose memory is used in place, or None (a null pointer). The dtype must be the
      parameter's element type. The kernel gets `data_ptr()`: shape and strides are the author's business, so a tensor
      that is not contiguous must be made so, or its strides passed along.
    - numbers take int, float, bool, numpy or ctypes scalars, converted to the declared type; a value that does not fit
      is an error. Where the source does not tell a parameter's type, a ctypes or numpy scalar says it.

    On the CPU the call returns when the work is done. On an Intel GPU it is enqueued on torch's current stream.
    Raises SyclLaunchError before anything runs; memory errors of the kernel itself end the process.

    Attributes: `name`, `parameters` (from the source), `dimensions` (1 to 3, 0 for a single task, None if unknown).
    """

    def __init__(self, module: SyclModule, name: str) -> None:
        self.name = name
        self._module = module
        found = module._declarations.get(name) or Declaration(name, None, (), True)
        program = module._program
        self._launchers: dict[tuple[str, int | None], Launcher] = {}
        facts = program.runtime.kernel(program.handle, name)
        self.dimensions = found.dimensions
        # The runtime's count is the truth: where the text was read otherwise, its types are not to be trusted either.
        fits = len(found.parameters) == facts.arguments
        self.parameters = found.parameters if fits else (Parameter(""),) * facts.arguments
        self._launch = self._add(program, facts)

    def __repr__(self) -> str:
        return f"<SyclKernel {self.name}({', '.join(parameter.text or '?' for parameter in self.parameters)})>"

    def __call__(self, global_size: Size, local_size: Size, *arguments: object) -> None:
        """Launch; see the class."""
        if not self._launch(global_size, local_size, arguments):
            self._elsewhere(arguments)(global_size, local_size, arguments)

    def _elsewhere(self, arguments: Sequence[object]) -> Launcher:
        kind, index = self._launch.device_of(arguments)
        if (kind, index) not in self._launchers:
            program = self._module._build(kind, index)
            self._add(program, program.runtime.kernel(program.handle, self.name))
        return self._launchers[kind, index]

    def _add(self, program: Program, facts: KernelFacts) -> Launcher:
        launcher = Launcher(
            name=self.name,
            parameters=self.parameters,
            dimensions=self.dimensions,
            runtime=program.runtime,
            facts=facts,
            limits=program.limits,
            kind=program.kind,
            index=program.index,
        )
        self._launchers[program.kind, program.index] = launcher
        return launcher


def _rebuild(source: str, options: tuple[str, ...]) -> SyclModule:
    return SyclModule(source, options=options)


def _current_xpu() -> int:
    import torch

    return int(torch.xpu.current_device())
