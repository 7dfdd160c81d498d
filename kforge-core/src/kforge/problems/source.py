"""Reading a Problem's file: all that can be known without running a line of it."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from attrs import field, frozen

from kforge.errors import ProblemError

MAX_BYTES: Final = 16 * 2**20
"""Largest file that is read, bytes."""
_SHAPE_HINT: Final = (
    "a Problem defines `class Model(torch.nn.Module)` with `forward`, "
    "and `get_inputs()` that returns a list of its arguments"
)


@frozen
class ProblemSource:
    """A Problem's file as it was read: syntactically right, and it binds `Model` and `get_inputs`."""

    path: Path
    """Absolute."""
    text: str = field(kw_only=True, repr=False)
    name: str = field(kw_only=True)
    """The file's name without its suffix."""


def read_problem(path: Path) -> ProblemSource:
    """Read a Problem; raises `ProblemError`, and runs nothing."""
    shown = printable(str(path))
    text = _decode(_read(path, shown), shown)
    names = list(_bound(_parse(text, shown).body))
    bound = {name for name, _ in names}
    # What a star import brings is known only when it runs; the reference's loader looks again.
    if "*" not in bound:
        classes = [name for name, node in names if isinstance(node, ast.ClassDef)]
        if "Model" not in bound:
            raise _no_model(shown, classes)
        if "get_inputs" not in bound:
            raise _no_inputs(shown, [name for name, node in names if isinstance(node, ast.FunctionDef)])
    path = path.absolute()
    return ProblemSource(path, text=text, name=path.stem)


def printable(text: str) -> str:
    """Replace what a terminal would act on, line ends included."""
    return "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text)


def _read(path: Path, shown: str) -> bytes:
    try:
        if path.is_dir():
            raise ProblemError(f"{shown} is a folder", hint="name one Python file that holds the Problem")
        if not path.exists():
            raise ProblemError(
                f"{shown}: no such file", hint="check the path; docs/examples of KForge holds Problems to start with"
            )
        if not path.is_file():
            raise ProblemError(f"{shown} is not a regular file", hint="name a Python file that holds the Problem")
        size = path.stat().st_size
        if size > MAX_BYTES:
            raise ProblemError(
                f"{shown} has {size} bytes; at most {MAX_BYTES} are read",
                hint="name a Python file, and let it make large data instead of holding it",
            )
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise ProblemError(f"{shown} cannot be read: {reason}", hint="check the path and its permissions") from None


def _decode(data: bytes, shown: str) -> str:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProblemError(
            f"{shown} is not UTF-8: byte 0x{data[error.start]:02x} on line {line}",
            hint="save the file as UTF-8; if it is not Python source, name the file that is",
        ) from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise ProblemError(f"{shown} holds a NUL byte on line {line}", hint="name a Python source file, saved as UTF-8")
    if not text.strip():
        raise ProblemError(f"{shown} is empty", hint=_SHAPE_HINT)
    return text


def _parse(text: str, shown: str) -> ast.Module:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
            # Some errors, such as `return` outside a function, show only when code is generated.
            compile(text, shown, "exec", dont_inherit=True)
    except SyntaxError as error:
        raise ProblemError(
            _syntax_message(error, shown), hint=f"mend that line; `python -m py_compile {shown}` checks the file"
        ) from None
    except (RecursionError, MemoryError, ValueError, OverflowError) as error:
        raise ProblemError(
            f"{shown} cannot be parsed: {str(error) or type(error).__name__}",
            hint="an expression is nested too deeply or a number is too long: split it up",
        ) from None
    return tree


def _syntax_message(error: SyntaxError, shown: str) -> str:
    place = f"{shown}, line {error.lineno}" if error.lineno else shown
    message = f"{place}: {printable(error.msg)}"
    lines = (error.text or "").splitlines()
    if not lines or not lines[0].strip():
        return message
    line = printable(lines[0].replace("\t", " ").rstrip())
    kept = line.lstrip()
    message += f"\n    {kept}"
    if error.offset is not None:
        column = error.offset - 1 - (len(line) - len(kept))
        message += "\n    " + " " * max(0, min(column, len(kept))) + "^"
    return message


def _bound(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Give the names that importing the module would bind, with what binds them; ``*`` for a star import."""
    pending = list(reversed(body))
    while pending:
        node = pending.pop()
        match node:
            case ast.ClassDef() | ast.FunctionDef() | ast.AsyncFunctionDef():
                yield node.name, node
            case ast.Import():
                yield from ((alias.asname or alias.name.split(".")[0], node) for alias in node.names)
            case ast.ImportFrom():
                yield from ((alias.asname or alias.name, node) for alias in node.names)
            case ast.Assign():
                yield from ((name, node) for target in node.targets for name in _targets(target))
            case ast.AnnAssign() if node.value is not None:
                yield from ((name, node) for name in _targets(node.target))
            case _:
                pending += reversed(_inner(node))


def _targets(target: ast.expr) -> Iterator[str]:
    return (part.id for part in ast.walk(target) if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store))


def _inner(node: ast.stmt) -> list[ast.stmt]:
    """Give the statements inside a compound statement that importing may run."""
    if isinstance(node, ast.If) and any(
        isinstance(part, ast.Name) and part.id == "__name__" for part in ast.walk(node.test)
    ):
        return node.orelse
    found: list[ast.stmt] = []
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):
            found.append(child)
        elif isinstance(child, ast.ExceptHandler | ast.match_case):
            found += child.body
    return found


def _no_model(shown: str, classes: list[str]) -> ProblemError:
    if "ModelNew" in classes:
        return ProblemError(
            f"{shown} defines `ModelNew` but no `Model`: it looks like a candidate",
            hint=f"judge it with `kforge verify {shown} --problem PROBLEM --target TARGET`; PROBLEM defines `Model`",
        )
    if not classes:
        return ProblemError(f"{shown} defines no class `Model`, and no other class", hint=_SHAPE_HINT)
    listed = ", ".join(f"`{printable(name)}`" for name in classes[:10]) + (", ..." if len(classes) > 10 else "")
    return ProblemError(
        f"{shown} defines no class `Model`; its classes: {listed}",
        hint=f"rename the class, or add the line `Model = {printable(classes[-1])}` to the end of the file",
    )


def _no_inputs(shown: str, functions: list[str]) -> ProblemError:
    listed = ", ".join(f"`{printable(name)}`" for name in functions[:10]) or "none"
    return ProblemError(
        f"{shown} defines no function `get_inputs`; its functions: {listed}",
        hint="add `def get_inputs():` that returns a list with the arguments of `Model.forward`",
    )
