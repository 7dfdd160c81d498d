"""The README promises two commands, and all that it names exists."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.meta.repository import PACKAGES, ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(\w*)\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)


def _first_command() -> list[str]:
    """Split the command that installs and runs."""
    return shlex.split(BLOCKS[0][1])


def test_there_are_two_commands() -> None:
    assert [language for language, _ in BLOCKS] == ["bash", "bash"]
    install_and_run, check = (text.splitlines() for _, text in BLOCKS)
    assert len(install_and_run) == 1
    assert install_and_run[0].startswith("pip install -c constraints.txt -e ")
    assert check == ["pip install nox && nox"]


def test_files_in_the_first_command_exist() -> None:
    command = _first_command()
    names = [word.partition("[")[0] for word in command if "/" in word or word.endswith(".txt")]
    assert "constraints.txt" in names
    assert "./kforge-core" in names
    assert [name for name in names if not (ROOT / name).exists()] == []


def test_extras_exist() -> None:
    named = set(re.findall(r"(kforge-\w+)\[(\w+)\]", README))
    assert ("kforge-xpu", "cpu") in named
    for distribution, extra in named:
        project = tomllib.loads((ROOT / distribution / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert extra in project["optional-dependencies"]


def _commands(text: str) -> set[str]:
    """Find the commands of kforge that a text names."""
    return set(re.findall(r"(?:`|&& )kforge ([a-z]+)", text))


@pytest.mark.parametrize("page", ["README.md", *(f"{name}/README.md" for name in PACKAGES)])
def test_named_kforge_commands_exist(page: str) -> None:
    kforge = Path(sys.executable).with_name("kforge")
    for name in _commands((ROOT / page).read_text(encoding="utf-8")):
        done = subprocess.run([kforge, name, "--help"], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert f"kforge {name}" in done.stdout


def test_the_readme_names_the_main_commands() -> None:
    assert {"run", "verify", "runs", "plugins", "doctor"} == _commands(README)


def test_the_table_names_each_package() -> None:
    rows = dict(re.findall(r"^\| \[(kforge-\w+)\]\(.*?\) \| `(\w+)` \|", README, re.MULTILINE))
    assert rows == PACKAGES
