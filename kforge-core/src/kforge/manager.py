"""Finds plugins, loads each on its own, and asks them for their records. What is broken is named; the rest works."""

from __future__ import annotations

import difflib
import functools
import importlib.metadata
import inspect
import os
import re
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from types import ModuleType
from typing import Any, Generic, TypeVar

import pluggy
from attrs import field, frozen

import kforge
from kforge import hookspecs
from kforge.errors import KforgeError, MissingError, UsageError
from kforge.interfaces import AgentPlugin, CompilerPlugin, DevicePlugin, ProfilerPlugin, VerifierPlugin
from kforge.records import Target

GROUP = "kforge"
"""The entry-point group in which plugins announce themselves."""
CORE = "kforge-core"
SELECTION = "KFORGE_PLUGINS"
TRACE = "KFORGE_TRACE"

Record = AgentPlugin | CompilerPlugin | DevicePlugin | ProfilerPlugin | VerifierPlugin
T = TypeVar("T", AgentPlugin, CompilerPlugin, DevicePlugin, ProfilerPlugin, VerifierPlugin, covariant=True)

HOOKS: Mapping[str, type[Record]] = {
    "kforge_agents": AgentPlugin,
    "kforge_compilers": CompilerPlugin,
    "kforge_verifiers": VerifierPlugin,
    "kforge_profilers": ProfilerPlugin,
    "kforge_devices": DevicePlugin,
}


@frozen
class Source:
    """Where a plugin comes from: a distribution, and the entry point (or the module of the core) in it."""

    entry_point: str
    distribution: str = field(kw_only=True)
    version: str = field(kw_only=True)

    def __str__(self) -> str:
        return f"{self.distribution} {self.version}"


@frozen
class Provided(Generic[T]):
    """A record and the plugin that yielded it."""

    record: T
    source: Source = field(kw_only=True)


@frozen
class Broken:
    """A plugin, or a part of one, that does not work."""

    source: Source
    reason: str = field(kw_only=True)
    remedy: str = field(kw_only=True)


@frozen
class Conflict:
    """One name that several plugins claim."""

    kind: str
    """``agent``, ``compiler``, ``verifier`` or ``profiler``."""
    name: str = field(kw_only=True)
    sources: tuple[Source, ...] = field(kw_only=True)
    remedy: str = field(kw_only=True)

    @property
    def message(self) -> str:
        """Who claims what, in one sentence."""
        claims = " and ".join(f"{source} (entry point {source.entry_point})" for source in self.sources)
        return f"the {self.kind} {self.name!r} is claimed by {claims}"


def name_of(record: Record) -> str:
    """Give the name under which a record is found."""
    return record.language if isinstance(record, CompilerPlugin) else record.name


class Manager:
    """The plugins of this process. Make one with `load`, or share the process's own with `manager`."""

    def __init__(self, *, trace: bool = False) -> None:
        self._pluggy = pluggy.PluginManager(hookspecs.PROJECT)
        self._pluggy.add_hookspecs(hookspecs)
        self._trace = trace
        self._sources: dict[str, Source] = {}
        self._broken: list[Broken] = []
        self._yields: dict[str, tuple[Provided[Any], ...]] = {}

    # Registration

    def register(self, plugin: object, source: Source) -> None:
        """Take a plugin in; what is wrong with its hooks is recorded in `broken`."""
        self._yields.clear()
        for reason in _faults_of_hooks(plugin):
            self._note(source, reason, f"correct it in {_where(plugin)}; `kforge plugins` shows whether it is found")
        key = f"{source.distribution}:{source.entry_point}"
        try:
            self._pluggy.register(plugin, name=key)
        except (pluggy.PluginValidationError, ValueError) as error:
            self._note(source, _one_line(str(error)), f"correct it in {_where(plugin)}")
            # pluggy keeps the hooks that it had taken before it met the wrong one.
            if self._pluggy.get_plugin(key) is plugin:
                self._pluggy.unregister(plugin)
        else:
            self._sources[key] = source

    def load(self, entry: importlib.metadata.EntryPoint) -> None:
        """Import and register one entry point; whatever it raises is recorded in `broken`."""
        source = source_of(entry)
        try:
            plugin = entry.load()
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit and anything else of a stranger must not end us
            self._note(source, _reason(error, entry), _remedy(error, entry))
        else:
            self.register(plugin, source)

    def _note(self, source: Source, reason: str, remedy: str) -> None:
        broken = Broken(source, reason=reason, remedy=remedy)
        if broken not in self._broken:
            self._broken.append(broken)

    # Questions

    @property
    def sources(self) -> tuple[Source, ...]:
        """The plugins that were registered."""
        return tuple(self._sources.values())

    @property
    def broken(self) -> tuple[Broken, ...]:
        """What does not work; asks every hook first, so that faults in yielding are known as well."""
        for hook in HOOKS:
            self._ask(hook)
        return tuple(self._broken)

    @property
    def conflicts(self) -> tuple[Conflict, ...]:
        """Names that several plugins claim; a device may be enriched by many and never conflicts."""
        return tuple(conflict for hook in HOOKS for conflict in self._conflicts(hook))

    def offered(self) -> tuple[Provided[Any], ...]:
        """Give the records of all hooks, conflicting ones included."""
        return tuple(provided for hook in HOOKS for provided in self._ask(hook))

    def agents(self) -> tuple[Provided[AgentPlugin], ...]:
        """Give the agents; `UsageError` when two plugins claim one name."""
        return self._agreed("kforge_agents")

    def compilers(self) -> tuple[Provided[CompilerPlugin], ...]:
        """Give the languages; `UsageError` when two plugins claim one name."""
        return self._agreed("kforge_compilers")

    def verifiers(self) -> tuple[Provided[VerifierPlugin], ...]:
        """Give the verifiers by name; `UsageError` when two plugins claim one name."""
        return tuple(sorted(self._agreed("kforge_verifiers"), key=lambda provided: provided.record.name))

    def profilers(self) -> tuple[Provided[ProfilerPlugin], ...]:
        """Give the profilers; `UsageError` when two plugins claim one name."""
        return self._agreed("kforge_profilers")

    def devices(self, kind: str | None = None) -> tuple[Provided[DevicePlugin], ...]:
        """Give what enriches devices, of one kind (torch's device type) or of all."""
        return tuple(one for one in self._agreed("kforge_devices") if kind in {None, one.record.kind})

    def agent(self, name: str) -> Provided[AgentPlugin]:
        """Give the agent of that name; `MissingError` names those that exist."""
        return self._named(self.agents(), "agent", name)

    def compiler(self, target: Target) -> Provided[CompilerPlugin]:
        """Give the compiler of a target; `MissingError` when the language or its device is not served."""
        found: Provided[CompilerPlugin] = self._named(self.compilers(), "language", target.language)
        devices = found.record.devices
        if "*" not in devices and target.device not in devices:
            choices = ", ".join(f"{target.language}@{device}" for device in devices)
            raise MissingError(f"{target.language!r} cannot run on {target.device!r}", hint=f"choose {choices}")
        return found

    def _named(self, offered: tuple[Provided[Any], ...], kind: str, name: str) -> Provided[Any]:
        for provided in offered:
            if name_of(provided.record) == name:
                return provided
        known = ", ".join(sorted(name_of(provided.record) for provided in offered)) or "none"
        broken = "".join(f"; broken: {one.source} ({one.reason})" for one in self.broken)
        raise MissingError(
            f"there is no {kind} {name!r}",
            hint=f"installed: {known}{broken}; `kforge plugins` lists where each comes from",
        )

    def _agreed(self, hook: str) -> tuple[Provided[Any], ...]:
        for conflict in self._conflicts(hook):
            raise UsageError(conflict.message, hint=conflict.remedy)
        return self._ask(hook)

    def _conflicts(self, hook: str) -> Iterator[Conflict]:
        if hook == "kforge_devices":
            return
        claims: dict[str, list[Source]] = defaultdict(list)
        for provided in self._ask(hook):
            claims[name_of(provided.record)].append(provided.source)
        kind = hook.removeprefix("kforge_").removesuffix("s")
        for name, sources in claims.items():
            if len(sources) > 1:
                yield Conflict(kind, name=name, sources=tuple(sources), remedy=self._resolution(sources))

    def _resolution(self, sources: list[Source]) -> str:
        removable = [source for source in dict.fromkeys(sources) if source.distribution != CORE]
        choices = []
        for leave_out in removable:
            rest = ",".join(
                _selector(source, self.sources)
                for source in self.sources
                if source != leave_out and source.distribution != CORE
            )
            choices.append(f"without {leave_out.distribution}: {SELECTION}={rest or repr('')}")
        uninstall = " or ".join(f"`pip uninstall {source.distribution}`" for source in removable)
        return f"load one of them only, {'; '.join(choices)}; or {uninstall}"

    # Calls

    def _ask(self, hook: str) -> tuple[Provided[Any], ...]:
        if hook not in self._yields:
            self._yields[hook] = tuple(
                provided for key, source in self._sources.items() for provided in self._call(hook, key, source)
            )
        return self._yields[hook]

    def _call(self, hook: str, key: str, source: Source) -> Iterable[Provided[Any]]:
        plugin = self._pluggy.get_plugin(key)
        if all(
            implementation.plugin is not plugin for implementation in getattr(self._pluggy.hook, hook).get_hookimpls()
        ):
            return ()
        others = [one for name, one in self._pluggy.list_name_plugin() if name != key and one is not None]
        # One plugin at a time, so that a fault can be laid at its door.
        caller = self._pluggy.subset_hook_caller(hook, others)
        started = time.perf_counter()
        try:
            records = [record for result in caller() for record in result]
            _check_yields(records, HOOKS[hook])
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - SystemExit and anything else of a stranger must not end us
            self._note(source, f"{hook} {_failure(error)}", _remedy_for(source))
            self._tell(hook, source, f"raised {error!r}", started)
            return ()
        self._tell(hook, source, f"-> {records!r}", started)
        return [Provided(record, source=source) for record in records]

    def _tell(self, hook: str, source: Source, what: str, started: float) -> None:
        if self._trace:
            took = (time.perf_counter() - started) * 1e3
            sys.stderr.write(f"kforge: {hook}() of {source} ({source.entry_point}) {what} in {took:.3f} ms\n")


def source_of(entry: importlib.metadata.EntryPoint) -> Source:
    """Say which distribution an entry point belongs to."""
    distribution = entry.dist
    if distribution is None:
        return Source(entry.name, distribution="unknown distribution", version="?")
    return Source(entry.name, distribution=distribution.name, version=distribution.version)


def load(environment: Mapping[str, str] = os.environ) -> Manager:
    """Load the built-in plugins and the installed ones that ``KFORGE_PLUGINS`` admits.

    Raises `UsageError` when ``KFORGE_PLUGINS`` names one that is not installed.
    """
    from kforge import null, plugins

    result = Manager(trace=environment.get(TRACE, "") not in {"", "0"})
    for module in (plugins, null):
        result.register(module, Source(module.__name__, distribution=CORE, version=kforge.__version__))
    for entry in _selected(installed(), environment.get(SELECTION)):
        result.load(entry)
    return result


@functools.cache
def manager() -> Manager:
    """Give the plugins of this process, loaded on the first call."""
    return load()


def installed() -> tuple[importlib.metadata.EntryPoint, ...]:
    """List the entry points of installed plugins, in an order that does not depend on the file system."""
    return tuple(sorted(importlib.metadata.entry_points(group=GROUP), key=lambda one: (one.name, str(source_of(one)))))


def _selected(
    entries: tuple[importlib.metadata.EntryPoint, ...], setting: str | None
) -> tuple[importlib.metadata.EntryPoint, ...]:
    if setting is None:
        return entries
    wanted = [word.strip() for word in setting.split(",") if word.strip()]
    names = {entry: {entry.name, _selector(source_of(entry), ())} for entry in entries}
    unknown = [word for word in wanted if not any(word in known for known in names.values())]
    if unknown:
        known = ", ".join(dict.fromkeys(entry.name for entry in entries)) or "none"
        raise UsageError(
            f"{SELECTION} names {', '.join(map(repr, unknown))}, which is not installed",
            hint=f"installed plugins: {known}; an empty {SELECTION} loads the built-in ones only",
        )
    return tuple(entry for entry in entries if names[entry] & set(wanted))


def _selector(source: Source, others: Iterable[Source]) -> str:
    """Give the shortest word that selects a plugin in ``KFORGE_PLUGINS`` among those installed."""
    if [one.entry_point for one in others].count(source.entry_point) == 1:
        return source.entry_point
    return f"{source.distribution}:{source.entry_point}"


def _faults_of_hooks(plugin: object) -> Iterator[str]:
    for name in dir(plugin):
        value = getattr(plugin, name, None)
        if not inspect.isroutine(value):
            continue
        marked = isinstance(getattr(value, f"{hookspecs.PROJECT}_impl", None), dict)
        if name in HOOKS and not marked:
            yield f"{name} lacks the marker @kforge.hookimpl, so it is never called"
        elif name not in HOOKS and (marked or name.startswith("kforge_")):
            close = difflib.get_close_matches(name, HOOKS, n=1)
            yield f"{name} is no hook of KForge" + (f"; did you mean {close[0]}?" if close else "")


def _check_yields(records: list[object], kind: type[Record]) -> None:
    for record in records:
        if not isinstance(record, kind):
            raise KforgeError(f"yields {record!r}, which is no {kind.__name__}")
        name: object = name_of(record)
        if not isinstance(name, str) or not re.fullmatch(r"[a-z][a-z0-9_.-]*", name):
            raise KforgeError(f"yields a {kind.__name__} whose name is {name!r}; names are like 'toy' or 'toy-facts'")


def _where(plugin: object) -> str:
    return plugin.__name__ if isinstance(plugin, ModuleType) else type(plugin).__qualname__


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _failure(error: BaseException) -> str:
    return str(error) if isinstance(error, KforgeError) else f"raised {_described(error)}"


def _described(error: BaseException) -> str:
    return _one_line(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def _reason(error: BaseException, entry: importlib.metadata.EntryPoint) -> str:
    if isinstance(error, ModuleNotFoundError) and error.name:
        if error.name == entry.module or entry.module.startswith(f"{error.name}."):
            return f"its module {entry.module} is not there"
        return f"it needs the module {error.name!r}, which is not installed"
    if isinstance(error, SystemExit):
        return f"it ends the program when it is imported ({_described(error)})"
    return f"importing {entry.module} raised {_described(error)}"


def _remedy(error: BaseException, entry: importlib.metadata.EntryPoint) -> str:
    source = source_of(entry)
    if isinstance(error, ModuleNotFoundError):
        return f'install it again with all that it needs: pip install --force-reinstall "{source.distribution}"'
    return _remedy_for(source)


def _remedy_for(source: Source) -> str:
    return (
        f"update it: pip install --upgrade {source.distribution}; "
        f"or leave it out: {SELECTION}=<the entry points to load>; or pip uninstall {source.distribution}"
    )
