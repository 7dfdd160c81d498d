"""A small, tolerant reader of C++ source: tokens, and the source's own macros expanded. It never fails on bad source.

Headers are not read, so conditions on macros that only they define stay undecided and both branches are kept.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs

# Expanding hostile macros must end; real kernels stay far below. Counted in tokens looked at.
_FUEL = 500_000
# Nothing in brackets that matters here (parameters, attributes, arguments of macros) is longer, in tokens.
_FARTHEST = 3_000
_MAX_DEPTH = 24

_TOKEN = re.compile(
    r"""
    (?P<skip>[ \t\r\f\v]+ | //[^\n]* | /\*.*?(?:\*/|\Z))
  | (?P<newline>\n)
  | (?P<raw>(?:u8|[uUL])?R"(?P<fence>[^()\\\s"]{0,16})\(.*?(?:\)(?P=fence)"|\Z))
  | (?P<text>(?:u8|[uUL])?(?:"(?:[^"\\\n]|\\.)*"? | '(?:[^'\\\n]|\\.)*'?))
  | (?P<number>\.?[0-9](?:[eEpP][+-]|'?[A-Za-z0-9_.])*)
  | (?P<name>[^\W\d]\w*)
  | (?P<mark>::|\S)
    """,
    re.VERBOSE | re.DOTALL,
)
_IDENTIFIER = re.compile(r"[^\W\d]\w*\Z")

# What an identifier becomes when nobody can say what it stands for.
UNKNOWN = "?"

CLOSING = {"(": ")", "[": "]", "{": "}"}


@attrs.frozen
class Token:
    text: str
    start: int
    first_on_line: bool = False


@attrs.frozen
class Macro:
    parameters: tuple[str, ...] | None
    body: tuple[str, ...]


def is_name(text: str) -> bool:
    return _IDENTIFIER.match(text) is not None


def balanced(tokens: Sequence[str], index: int) -> int:
    """The index after the bracket that closes the one at `index`; where none does, of the end or somewhere before."""
    opening, closing = tokens[index], CLOSING[tokens[index]]
    depth = 0
    end = min(len(tokens), index + _FARTHEST)
    for position in range(index, end):
        if tokens[position] == opening:
            depth += 1
        elif tokens[position] == closing:
            depth -= 1
            if depth == 0:
                return position + 1
    return end


def read(source: str, options: Sequence[str] = ()) -> list[str]:
    """The tokens of a source, without comments and directives, with its own macros (and `-DNAME=VALUE`) expanded."""
    preprocessor = _Preprocessor(_option_macros(options))
    preprocessor.feed(list(_tokens(source)))
    return preprocessor.output


def _tokens(source: str) -> Iterator[Token]:
    fresh = True
    joined = source.replace("\\\r\n", "").replace("\\\n", "")
    for match in _TOKEN.finditer(joined):
        kind = match.lastgroup if match.lastgroup != "fence" else "raw"
        if kind == "skip":
            continue
        if kind == "newline":
            fresh = True
            continue
        yield Token(match.group(), match.start(), fresh)
        fresh = False


def _option_macros(options: Sequence[str]) -> dict[str, Macro]:
    macros = {}
    for option in options:
        if option.startswith("-D"):
            name, _, value = option[2:].strip().partition("=")
            body = tuple(token.text for token in _tokens(value or "1"))
            macros[name] = Macro(None, body)
    return macros


class _Preprocessor:
    def __init__(self, macros: dict[str, Macro]) -> None:
        self.macros = macros
        self.output: list[str] = []
        self._fuel = _FUEL
        # One entry per open #if: True keeps, False drops, None undecided (kept).
        self._conditions: list[bool | None] = []

    def feed(self, tokens: list[Token]) -> None:
        index, pending = 0, list[str]()
        while index < len(tokens):
            token = tokens[index]
            if token.first_on_line and token.text == "#":
                end = index + 1
                while end < len(tokens) and not tokens[end].first_on_line:
                    end += 1
                # Macros must be expanded as they are defined at this point.
                self._flush(pending)
                self._directive(tokens[index + 1 : end])
                index = end
                continue
            if False not in self._conditions:
                pending.append(token.text)
            index += 1
        self._flush(pending)

    def _flush(self, pending: list[str]) -> None:
        self.output.extend(self._expand(pending, frozenset(), 0))
        pending.clear()

    def _directive(self, tokens: list[Token]) -> None:
        if not tokens:
            return
        word, rest = tokens[0].text, tokens[1:]
        if word in ("if", "ifdef", "ifndef"):
            self._conditions.append(self._condition(word, [token.text for token in rest]))
        elif word == "endif" and self._conditions:
            self._conditions.pop()
        elif word in ("else", "elif", "elifdef", "elifndef") and self._conditions:
            kept = self._conditions[-1]
            # What follows a kept branch is dropped, what follows a dropped one may be kept.
            self._conditions[-1] = None if kept is None or (word != "else" and not kept) else not kept
        elif False not in self._conditions and word == "define" and rest:
            self._define(rest)
        elif False not in self._conditions and word == "undef" and rest:
            self.macros.pop(rest[0].text, None)

    def _condition(self, word: str, rest: list[str]) -> bool | None:
        if word == "if":
            if rest in (["0"], ["1"]):
                return rest == ["1"]
            names = [text for text in rest if text not in ("defined", "(", ")")]
            if len(names) != 1 or rest[0] != "defined":
                return None
            word, rest = "ifdef", names
        if rest and rest[0] in self.macros:
            return word == "ifdef"
        return None

    def _define(self, tokens: list[Token]) -> None:
        name, rest = tokens[0], tokens[1:]
        parameters: tuple[str, ...] | None = None
        if rest and rest[0].text == "(" and rest[0].start == name.start + len(name.text):
            texts = [token.text for token in rest]
            end = balanced(texts, 0)
            parameters = tuple(text for text in texts[1 : end - 1] if text != ",")
            rest = rest[end:]
        macro = Macro(parameters, tuple(token.text for token in rest))
        known = self.macros.get(name.text)
        if known is not None and known != macro and None in self._conditions:
            macro = Macro(None, (UNKNOWN,))
        self.macros[name.text] = macro

    def _expand(self, tokens: Sequence[str], hidden: frozenset[str], depth: int) -> list[str]:
        output: list[str] = []
        index = 0
        while index < len(tokens):
            text = tokens[index]
            index += 1
            macro = self.macros.get(text) if text not in hidden else None
            if macro is None or depth > _MAX_DEPTH or self._fuel <= 0:
                output.append(text)
                continue
            body: Sequence[str] = macro.body
            if macro.parameters is not None:
                if index >= len(tokens) or tokens[index] != "(":
                    output.append(text)
                    continue
                end = balanced(tokens, index)
                self._fuel -= end - index
                body = self._substitute(macro, split(tokens[index + 1 : end - 1]))
                index = end
            self._fuel -= 1 + len(body)
            output.extend(self._expand(body, hidden | {text}, depth + 1))
        return output

    def _substitute(self, macro: Macro, arguments: list[list[str]]) -> list[str]:
        names = macro.parameters or ()
        values = dict(zip(names, arguments, strict=False))
        if names and names[-1] == "." and len(arguments) > len(names) - 4:
            # `...` arrives as three marks; __VA_ARGS__ is everything from there on.
            rest = arguments[len(names) - 3 :]
            values["__VA_ARGS__"] = [text for argument in rest for text in (",", *argument)][1:]
        body: list[str] = []
        for text in macro.body:
            if text == "#":
                continue
            body.extend(values.get(text, [text]))
            if len(body) > self._fuel:
                break
        return body


def split(tokens: Sequence[str]) -> list[list[str]]:
    """Tokens divided at commas outside of any bracket, angle brackets included; empty for no tokens."""
    if not tokens:
        return []
    parts: list[list[str]] = [[]]
    depth = 0
    for text in tokens:
        if text in "([{<":
            depth += 1
        elif text in ")]}>":
            depth -= 1
        if text == "," and depth == 0:
            parts.append([])
        else:
            parts[-1].append(text)
    return parts
