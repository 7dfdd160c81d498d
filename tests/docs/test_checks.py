"""The page of checks lists every name that the sources give to a finding, and no other."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from kforge.records import Phase, Status
from tests.meta.repository import ROOT, sources

PAGE = (ROOT / "docs" / "reference" / "checks.md").read_text(encoding="utf-8")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def _parameters(function: Function) -> list[ast.arg]:
    """List a function's positional parameters, without the object itself."""
    found = [*function.args.posonlyargs, *function.args.args]
    return found[1:] if found and found[0].arg in {"self", "cls"} else found


def _helpers(functions: list[Function]) -> dict[str, int | None]:
    """Find functions with a parameter ``check``, and its position; None where it is given by name only."""
    found: dict[str, int | None] = {"Finding": 0}
    for function in functions:
        names = [one.arg for one in _parameters(function)]
        if "check" in names:
            found[function.name] = names.index("check")
        elif "check" in [one.arg for one in function.args.kwonlyargs]:
            found[function.name] = None
    return found


def _defaults(function: Function) -> Iterator[ast.expr]:
    """Give the default of a function's parameter ``check``."""
    for one, default in zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True):
        if one.arg == "check" and default is not None:
            yield default


def _texts(value: ast.expr, function: Function | None) -> set[str]:
    """Find the names that an expression may give; raises `AssertionError` for one that this test cannot follow."""
    match value:
        case ast.Constant(value=str() as text):
            return {text}
        case ast.IfExp():
            return _texts(value.body, function) | _texts(value.orelse, function)
        case ast.Attribute(attr="check"):
            return set()  # copied from another finding
        case ast.Name() if function is not None:
            if value.id == "check" and any(
                one.arg == "check" for one in ast.walk(function.args) if isinstance(one, ast.arg)
            ):
                return set()  # a helper; its callers are read
            assigned = [
                node.value for node in ast.walk(function)
                if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == value.id
            ]  # fmt: skip
            parts = [part for one in assigned for part in ast.walk(one)]
            found = {part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)}
            assert found, f"no name is assigned to {value.id}"
            return found
    raise AssertionError(f"line {value.lineno}: cannot follow {ast.unparse(value)}")


def names_of_checks(text: str) -> set[str]:
    """Collect the names of checks that a module may put into findings."""
    tree = ast.parse(text)
    functions = [node for node in ast.walk(tree) if isinstance(node, Function)]
    helpers = _helpers(functions)
    found = {name for function in functions for default in _defaults(function) for name in _texts(default, function)}
    inside: dict[ast.AST, Function] = {}
    for function in functions:  # outer ones come first, so inner ones win
        inside.update(dict.fromkeys(ast.walk(function), function))
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if name not in helpers:
            continue
        position = helpers[name]
        given = [keyword.value for keyword in node.keywords if keyword.arg == "check"]
        if not given and position is not None:
            given = node.args[position : position + 1]
        for value in given:
            found |= _texts(value, inside.get(node))
    return found


def _rows() -> list[tuple[str, str]]:
    """Read the page's rows: a check and its verdict."""
    return re.findall(r"^\| `(\w+)` \| `?(\w+)`? \|", PAGE, re.MULTILINE)


def _in_sources() -> set[str]:
    files = [path for path in sources() if path.suffix == ".py"]
    return {name for path in files for name in names_of_checks(path.read_text(encoding="utf-8"))}


def test_the_page_lists_the_checks_of_the_sources() -> None:
    listed = [name for name, _ in _rows()]
    assert len(listed) == len(set(listed))
    assert set(listed) == _in_sources()


def test_each_verdict_exists() -> None:
    words = {status.value for status in Status} | {"none"}
    assert {verdict for _, verdict in _rows()} <= words


def test_the_page_names_each_phase() -> None:
    assert [phase.value for phase in Phase if f"`{phase.value}`" not in PAGE] == []


def test_names_are_found_in_a_sample() -> None:
    sample = """
def helper(status, check, message):
    return Finding(check, phase=1)

def by_name(message, *, check="fallback"):
    return Finding(check, phase=1)

def use(self, odd, other):
    word = "first" if odd else other if other in ("second",) else "first"
    return [
        helper(1, word, "text"), by_name("text"), by_name("text", check="third"),
        Finding("fourth" if odd else "fifth", phase=1), Finding(other.check, phase=1),
    ]
"""
    assert names_of_checks(sample) == {"fallback", "first", "second", "third", "fourth", "fifth"}
