"""Where the files of this repository are."""

from __future__ import annotations

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PACKAGES = {
    "kforge-core": "kforge",
    "kforge-cuda": "kforge_cuda",
    "kforge-triton": "kforge_triton",
    "kforge-xpu": "kforge_xpu",
}
"""The import name of each distribution."""


def committed(*patterns: str) -> list[Path]:
    """List the files that git knows, all of them or those that match."""
    command = ["git", "ls-files", "-z", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return [path for name in names if name and (path := ROOT / name).is_file()]


def sources(distribution: str = "kforge-*") -> list[Path]:
    """List the files that are shipped, whatever their type."""
    files = (path for path in ROOT.glob(f"{distribution}/src/**/*") if path.is_file())
    return sorted(path for path in files if "__pycache__" not in path.parts)


def python_files() -> list[Path]:
    """List all Python files that were written for this repository."""
    written = [*sources(), *ROOT.glob("tests/**/*.py"), *ROOT.glob("docs/**/*.py"), ROOT / "noxfile.py"]
    return [path for path in written if path.suffix == ".py"]


def shown(path: Path) -> str:
    """Name a file the way messages do."""
    return str(path.relative_to(ROOT))
