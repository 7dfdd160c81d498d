"""The five hooks. Each yields records and never calls back; the core acts on them when it needs to.

Every hook is called once per process, after all plugins are registered, in the command line and again in the judge. An
implementation may rely on nothing but its own imports, and must import nothing heavy: it describes, it does not do.
"""

from __future__ import annotations

from collections.abc import Iterable

import pluggy

from kforge.interfaces import AgentPlugin, CompilerPlugin, DevicePlugin, ProfilerPlugin, VerifierPlugin

PROJECT = "kforge"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def kforge_agents() -> Iterable[AgentPlugin]:
    """Yield the agents that may propose candidates.

    A name may be given by one distribution only.

    Example::

        @kforge.hookimpl
        def kforge_agents():
            yield AgentPlugin("manual", summary="candidates from a folder", build=ManualAgent)
    """
    return ()


@hookspec
def kforge_compilers() -> Iterable[CompilerPlugin]:
    """Yield the languages that candidates may be written in.

    A language may be given by one distribution only; it makes the targets ``language@device`` for its devices.

    Example::

        @kforge.hookimpl
        def kforge_compilers():
            yield CompilerPlugin("toy", devices=("cpu",), summary="a toy language", build=ToyCompiler)
    """
    return ()


@hookspec
def kforge_verifiers() -> Iterable[VerifierPlugin]:
    """Yield further checks of a candidate; they run in the judge, in the order of their names.

    Example::

        @kforge.hookimpl
        def kforge_verifiers():
            yield VerifierPlugin("no-network", summary="finds socket calls", build=NoNetwork)
    """
    return ()


@hookspec
def kforge_profilers() -> Iterable[ProfilerPlugin]:
    """Yield the profilers whose files can be read.

    Example::

        @kforge.hookimpl
        def kforge_profilers():
            yield ProfilerPlugin("toy-trace", summary="the toy tool's traces", build=ToyTrace)
    """
    return ()


@hookspec
def kforge_devices() -> Iterable[DevicePlugin]:
    """Yield what is known about a kind of device; several plugins may enrich one kind.

    Example::

        @kforge.hookimpl
        def kforge_devices():
            yield DevicePlugin("toy-facts", kind="cpu", summary="cache sizes", build=ToyFacts)
    """
    return ()
