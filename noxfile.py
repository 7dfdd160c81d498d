"""Everything that is checked before a change goes in: plain ``nox`` runs lint, types, tests and docs."""

from __future__ import annotations

from pathlib import Path

import nox

ROOT = Path(__file__).parent
CONSTRAINTS = str(ROOT / "constraints.txt")
PACKAGES = ("kforge-core", "kforge-cuda", "kforge-triton", "kforge-xpu")
TEST_TOOLS = ("hypothesis", "jsonschema", "mypy", "nox", "pytest", "pytest-timeout", "ruff", "types-jsonschema")

nox.needs_version = ">=2025.5"
nox.options.default_venv_backend = "venv"
nox.options.error_on_external_run = True
nox.options.reuse_venv = "yes"
nox.options.sessions = ["lint", "types", "tests", "docs"]


def _python(session: nox.Session) -> str:
    """Give the interpreter of the environment that the sessions ``types``, ``tests``, ``docs`` and ``bench`` share."""
    return str(Path(session.cache_dir).parent / "env" / "bin" / "python")


def _run(session: nox.Session, *arguments: str) -> None:
    """Run a module or script with the shared interpreter."""
    session.run(_python(session), *arguments, external=True)


@nox.session
def lint(session: nox.Session) -> None:
    """Check style, forbidden imports and formatting."""
    session.install("-c", CONSTRAINTS, "ruff")
    session.run("ruff", "check", *session.posargs)
    session.run("ruff", "format", "--check")


@nox.session(default=False)
def env(session: nox.Session) -> None:
    """Install the four packages editable, the CPU runtimes and the test tools, once for all sessions that need them."""
    editable = [word for name in PACKAGES for word in ("-e", f"./{name}{'[cpu]' if name == 'kforge-xpu' else ''}")]
    session.install("-c", CONSTRAINTS, *editable, *TEST_TOOLS)


@nox.session(requires=["env"], venv_backend="none")
def types(session: nox.Session) -> None:
    """Check the packages, the tests and this file with mypy in strict mode."""
    _run(session, "-m", "mypy", *session.posargs)


@nox.session(requires=["env"], venv_backend="none")
def tests(session: nox.Session) -> None:
    """Run the tests; ``nox -s tests -- tests/cli -k run`` runs some of them."""
    _run(session, "-m", "pytest", *(session.posargs or ["--ignore=tests/docs"]))


@nox.session(requires=["env"], venv_backend="none")
def docs(session: nox.Session) -> None:
    """Check that commands, links and indexes in the documentation are true."""
    _run(session, "-m", "pytest", "tests/docs", *session.posargs)


@nox.session(requires=["env"], venv_backend="none", default=False)
def bench(session: nox.Session) -> None:
    """Run the benchmark scripts, all of them or those named; each writes its own result."""
    scripts = session.posargs or sorted(str(path) for path in ROOT.glob("docs/benchmarks/[!_]*.py"))
    if not scripts:
        session.skip("docs/benchmarks holds no script")
    for script in scripts:
        _run(session, script)


@nox.session(default=False, reuse_venv=False)
def wheels(session: nox.Session) -> None:
    """Build the four wheels, then use kforge-core's alone, away from the checkout."""
    folder = Path(session.create_tmp()).resolve() / "wheels"
    for old in folder.glob("*.whl"):
        old.unlink()
    session.run("pip", "wheel", "--no-deps", "--wheel-dir", str(folder), *(f"./{name}" for name in PACKAGES))
    built = sorted(path.name for path in folder.glob("*.whl"))
    if len(built) != len(PACKAGES):
        session.error(f"expected {len(PACKAGES)} wheels, found {built}")
    (core,) = folder.glob("kforge_core-*.whl")
    session.install("-c", CONSTRAINTS, str(core))
    session.chdir(folder)
    for command in ("--help", "plugins", "doctor"):
        session.run("kforge", command)
