"""The built-in verifiers: what can be said of any candidate by reading it."""

from __future__ import annotations

import ast
import warnings

from kforge.records import Candidate, Diagnostic, Finding, Phase

ENTRY = "ModelNew"
"""The class that a candidate must define."""
MOST_BYTES = 1024 * 1024
_FILE = "candidate.py"
_MOST_EXCERPT = 400
_MOST_NAMES = 20


class CodeVerifier:
    """Finds source that is no Python module, or defines no ``ModelNew``: what the verdict `no_code` rests on."""

    def check_source(self, candidate: Candidate) -> tuple[Finding, ...]:
        """Parse, and look for the class; nothing is executed."""
        source = candidate.source
        finding = _text_fault(source)
        if finding is not None:
            return (finding,)
        try:
            with warnings.catch_warnings():
                # A doubtful escape sequence is the candidate's affair; it must not become our output or our error.
                warnings.simplefilter("ignore")
                tree = ast.parse(source, filename=_FILE)
        except SyntaxError as error:
            return (_syntax(error, source),)
        except (RecursionError, MemoryError):
            return (_code("the source is nested too deeply to be read", check="syntax"),)
        except ValueError as error:
            return (_code(f"the source cannot be read as Python: {error}", check="syntax"),)
        return _entry_faults(tree)


def _code(message: str, *, check: str = "code", diagnostics: tuple[Diagnostic, ...] = ()) -> Finding:
    return Finding(check, phase=Phase.CODE, message=message, diagnostics=diagnostics)


def _text_fault(source: str) -> Finding | None:
    """Find what makes a text no source at all."""
    if not source.strip():
        return _code("the candidate is empty")
    try:
        size = len(source.encode("utf-8"))
    except UnicodeEncodeError as error:
        return _code(f"the candidate is not UTF-8 text (character {error.start})")
    if size > MOST_BYTES:
        return _code(f"the candidate has {size} bytes, at most {MOST_BYTES} are read")
    if "\0" in source:
        return _code(f"the candidate holds a NUL byte in line {source[: source.index(chr(0))].count(chr(10)) + 1}")
    return None


def _syntax(error: SyntaxError, source: str) -> Finding:
    # Only \n, \r and \r\n end a line of Python; str.splitlines knows more.
    lines = source.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    number = error.lineno if error.lineno and error.lineno > 0 else None
    excerpt = lines[number - 1][:_MOST_EXCERPT] if number is not None and number <= len(lines) else None
    column = error.offset if error.offset and error.offset > 0 else None
    message = error.msg or "invalid syntax"
    place = "" if number is None else f" in line {number}"
    diagnostic = Diagnostic(message, file=_FILE, line=number, column=column, excerpt=excerpt)
    return _code(f"the source is not Python: {message}{place}", check="syntax", diagnostics=(diagnostic,))


def _entry_faults(tree: ast.Module) -> tuple[Finding, ...]:
    defined = _defined(tree.body)
    if ENTRY in defined:
        return ()
    nested = any(isinstance(node, ast.ClassDef) and node.name == ENTRY for node in ast.walk(tree))
    if nested:
        return (_code(f"class {ENTRY} is not at module level"),)
    names = [name if len(name) <= 80 else f"{name[:80]}..." for name in defined]
    shown = ", ".join(names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    return (_code(f"no class {ENTRY}; found: {shown}" if names else f"no class {ENTRY}; found no class or function"),)


def _defined(body: list[ast.stmt]) -> list[str]:
    """List what classes, functions and assignments name at module level, inside if, try and with included."""
    names: list[str] = []
    pending = list(reversed(body))
    while pending:
        node = pending.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            names.append(node.name)
        elif isinstance(node, ast.Assign):
            names += [target.id for target in node.targets if isinstance(target, ast.Name) and target.id == ENTRY]
        elif isinstance(node, ast.ImportFrom):
            names += [ENTRY for alias in node.names if (alias.asname or alias.name) == ENTRY]
        elif isinstance(node, ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While):
            pending += _inner(node)
    return list(dict.fromkeys(names))


def _inner(node: ast.If | ast.Try | ast.TryStar | ast.With | ast.For | ast.While) -> list[ast.stmt]:
    inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
    for handler in getattr(node, "handlers", []):
        inner += handler.body
    return list(reversed(inner))
