"""Each detector lists what is wrong with a text, one line a finding; test_detectors.py proves that it can."""

from __future__ import annotations

import ast
import io
import json
import os
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator, Sequence
from pathlib import Path

MOST_LINES = 400
MOST_FUNCTION_LINES = 60
SLOW_IMPORTS = frozenset({"openai", "torch", "triton"})

_VENDOR = re.compile(
    # Underscores separate words here, so that kforge_xpu and CUDA_VISIBLE_DEVICES are found too.
    r"(?<![a-z])(nvidia|cuda|intel|xpu|sycl|triton|amd|rocm|nvrtc|opencl)(?![a-z])",
    re.IGNORECASE,
)
_SILENCER = re.compile(
    r"type:\s*ignore(?:\[[^\]]*\])?|noqa(?::\s*[A-Z]+[0-9]+(?:\s*,\s*[A-Z]+[0-9]+)*)?",
    re.IGNORECASE,
)
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:root|home/[A-Za-z_][\w-]*|Users/[A-Za-z_][\w-]*)/")
_FENCE = re.compile(r"^(`{3,}|~{3,}).*?^\1`*~*\s*$", re.MULTILINE | re.DOTALL)
_LINK = re.compile(r"\[[^\]]*\]\(\s*<?([^)\s>]+)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*\s*$", re.MULTILINE)


def too_long(text: str) -> list[str]:
    """Find a file with too many lines."""
    count = len(text.splitlines())
    return [f"{count} lines, at most {MOST_LINES} are allowed"] if count > MOST_LINES else []


def long_functions(text: str) -> list[str]:
    """Find functions with too many lines, docstring included."""
    functions = (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef))
    sizes = ((node, (node.end_lineno or node.lineno) - node.lineno + 1) for node in functions)
    return [
        f"line {node.lineno}: {node.name} has {size} lines, at most {MOST_FUNCTION_LINES} are allowed"
        for node, size in sizes
        if size > MOST_FUNCTION_LINES
    ]


def vendor_names(text: str) -> list[str]:
    """Find names of vendors and of their languages."""
    lines = enumerate(text.splitlines(), 1)
    return [f"line {number}: {match[0]}" for number, line in lines for match in _VENDOR.finditer(line)]


def unexplained_silencers(text: str) -> list[str]:
    """Find comments that switch a check off and give no reason after it."""
    found = []
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        matches = list(_SILENCER.finditer(token.string)) if token.type == tokenize.COMMENT else []
        if matches and len(re.findall(r"\w{2,}", token.string[matches[-1].end() :])) < 2:
            found.append(f"line {token.start[0]}: {token.string}")
    return found


def _executed_at_import(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Walk the statements that run when the module is imported."""
    for node in body:
        yield node
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        if isinstance(node, ast.If) and ast.unparse(node.test) in {"TYPE_CHECKING", "typing.TYPE_CHECKING"}:
            yield from _executed_at_import(node.orelse)
            continue
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.stmt):
                yield from _executed_at_import([child])
            elif isinstance(child, ast.ExceptHandler | ast.match_case):
                yield from _executed_at_import(child.body)


def slow_imports(text: str) -> list[str]:
    """Find imports that are done at module level, hidden in a class, condition or try included, and take long."""
    found = []
    for node in _executed_at_import(ast.parse(text).body):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names = [node.module]
        else:
            continue
        found += [f"line {node.lineno}: {name}" for name in names if name.split(".")[0] in SLOW_IMPORTS]
    return found


def machine_paths(text: str) -> list[str]:
    """Find paths into the home folder of one person or machine."""
    lines = enumerate(text.splitlines(), 1)
    return [f"line {number}: {match[0]}" for number, line in lines for match in _MACHINE_PATH.finditer(line)]


def _anchors(text: str) -> set[str]:
    """Give the anchors of the headings, by GitHub's rule."""
    headings = _HEADING.findall(_FENCE.sub("", text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def broken_links(page: Path) -> list[str]:
    """Find relative links of a Markdown page whose file or heading does not exist."""
    text = page.read_text(encoding="utf-8")
    found = []
    for link in _LINK.findall(_FENCE.sub("", text)):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = link.partition("#")
        target = page.parent / name if name else page
        if not target.exists():
            found.append(f"{link}: no such file")
        elif anchor and target.suffix == ".md" and anchor not in _anchors(target.read_text(encoding="utf-8")):
            found.append(f"{link}: no such heading")
    return found


def loaded_by_import(module: str, path: Sequence[Path]) -> list[str]:
    """Find the slow modules that a fresh interpreter has loaded once the module is imported."""
    code = f"import json, sys, {module}; print(json.dumps(sorted(set(sys.modules) & {set(SLOW_IMPORTS)!r})))"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, path))}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found: list[str] = json.loads(done.stdout.splitlines()[-1])
    return found
