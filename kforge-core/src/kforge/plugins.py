"""The built-in plugins, registered like anybody's: `kforge.plugins` and `kforge.null`."""

from __future__ import annotations

from collections.abc import Iterator

from kforge.hookspecs import hookimpl
from kforge.interfaces import Agent, AgentPlugin, Verifier, VerifierPlugin


def _template() -> Agent:
    from kforge.agents.template import TemplateAgent

    return TemplateAgent()


def _code() -> Verifier:
    from kforge.verifiers import CodeVerifier

    return CodeVerifier()


@hookimpl
def kforge_agents() -> Iterator[AgentPlugin]:
    """Agents that need neither a key nor a network."""
    yield AgentPlugin("template", summary="renders candidates from a plan of the reference; no model", build=_template)


@hookimpl
def kforge_verifiers() -> Iterator[VerifierPlugin]:
    """Checks that hold for every language."""
    yield VerifierPlugin("code", summary="the source is Python and defines ModelNew", build=_code)
