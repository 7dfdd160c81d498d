"""What a kernel's parameters are, read from the source's text: C types, and what may be passed for them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

import attrs

from kforge_xpu import _cpp

_MARKS = ("nd_range_kernel", "single_task_kernel")
_QUALIFIERS = frozenset(
    (
        "const",
        "volatile",
        "constexpr",
        "restrict",
        "__restrict__",
        "__restrict",
        "register",
        "struct",
        "enum",
        "typename",
    )
)
_BUILTIN_WORDS = frozenset(
    ("unsigned", "signed", "int", "long", "short", "char", "float", "double", "bool", "_Float16", "void")
)

# Letters are those of the struct module; "bf16" is a bfloat16, which it lacks.
_CODES = {
    "bool": "?",
    "char": "b",
    "signed char": "b",
    "unsigned char": "B",
    "short": "h",
    "unsigned short": "H",
    "int": "i",
    "unsigned int": "I",
    "long": "q",
    "unsigned long": "Q",
    "half": "e",
    "float": "f",
    "double": "d",
    "bfloat16": "bf16",
}
# Names of other types, by their last component: with `using namespace sycl` and namespace aliases about, the
# qualification says little.
_NAMED = {
    "int8_t": "signed char",
    "uint8_t": "unsigned char",
    "int16_t": "short",
    "uint16_t": "unsigned short",
    "int32_t": "int",
    "uint32_t": "unsigned int",
    "int64_t": "long",
    "uint64_t": "unsigned long",
    "size_t": "unsigned long",
    "uintptr_t": "unsigned long",
    "ptrdiff_t": "long",
    "intptr_t": "long",
    "ssize_t": "long",
    "byte": "unsigned char",
    "uchar": "unsigned char",
    "ushort": "unsigned short",
    "uint": "unsigned int",
    "ulong": "unsigned long",
    "half": "half",
    "_Float16": "half",
    "bfloat16": "bfloat16",
}
_VECTOR = re.compile(r"(char|uchar|short|ushort|int|uint|long|ulong|half|float|double)(?:2|3|4|8|16)\Z")

_BYTES = (
    "int8",
    "uint8",
    "bool",
    "float8_e4m3fn",
    "float8_e5m2",
    "float8_e4m3fnuz",
    "float8_e5m2fnuz",
    "float8_e8m0fnu",
)
# Unsigned types of 1 and 2 bytes are also how kernels see the raw bits of small floats.
_DTYPES: dict[str, tuple[str, ...]] = {
    "bool": ("bool",),
    "char": _BYTES,
    "signed char": ("int8", "uint8"),
    "unsigned char": _BYTES,
    "short": ("int16", "uint16"),
    "unsigned short": ("uint16", "int16", "float16", "bfloat16"),
    "int": ("int32", "uint32"),
    "unsigned int": ("uint32", "int32"),
    "long": ("int64", "uint64"),
    "unsigned long": ("uint64", "int64"),
    "half": ("float16",),
    "float": ("float32", "complex64"),
    "double": ("float64", "complex128"),
    "bfloat16": ("bfloat16",),
    "complex float": ("complex64",),
    "complex double": ("complex128",),
}


@attrs.frozen
class Parameter:
    """One parameter of a kernel.

    `text` is its declaration as tokens; `pointer` says whether it takes a tensor, None where that is not known.
    `type` is the (element) type, None where not known. `code`: the struct letter of a scalar. `dtypes`: names of the
    torch dtypes that a pointer accepts, empty for any.
    """

    text: str
    pointer: bool | None = None
    type: str | None = None

    @property
    def code(self) -> str | None:
        return _CODES.get(self.type) if self.type is not None and self.pointer is False else None

    @property
    def dtypes(self) -> tuple[str, ...]:
        if self.type is None or not self.pointer:
            return ()
        return _DTYPES.get(self.type.removeprefix("vector "), ())


@attrs.frozen
class Declaration:
    """A free-function kernel found in a source.

    `name` is what the runtime calls it, namespaces included. `dimensions`: 1 to 3, 0 for a single_task kernel, None
    where not known. `extern_c`: the runtime needs no registration of the name.
    """

    name: str
    dimensions: int | None
    parameters: tuple[Parameter, ...]
    extern_c: bool


def find_kernels(source: str, options: Sequence[str] = ()) -> list[Declaration]:
    """The free-function kernels of a source in order; templates are left out. Where one name is declared with two
    different parameter lists nothing is known about the types of either. Never raises."""
    tokens = _cpp.read(source, options)
    aliases = _aliases(tokens)
    found: dict[str, Declaration] = {}
    for declaration in _declarations(tokens, aliases):
        known = found.get(declaration.name)
        if known is None or _agree(known, declaration):
            found[declaration.name] = declaration
        else:
            unknown = tuple(Parameter(parameter.text) for parameter in declaration.parameters)
            found[declaration.name] = attrs.evolve(declaration, parameters=unknown, dimensions=None)
    return list(found.values())


def _agree(one: Declaration, other: Declaration) -> bool:
    def shape(declaration: Declaration) -> tuple[object, ...]:
        return declaration.dimensions, [(parameter.pointer, parameter.type) for parameter in declaration.parameters]

    return shape(one) == shape(other)


def _declarations(tokens: list[str], aliases: dict[str, list[str] | None]) -> Iterator[Declaration]:
    scopes: list[str] = []
    statement = 0
    for index, text in enumerate(tokens):
        if text == "{":
            scopes.append(_scope(tokens[statement:index]))
            statement = index + 1
        elif text == "}":
            if scopes:
                scopes.pop()
            statement = index + 1
        elif text == ";":
            statement = index + 1
        elif text in _MARKS:
            place = _function(tokens, index)
            before = tokens[statement:index]
            # A template has no kernel until it is instantiated, and then another name.
            if place is None or "template" in before:
                continue
            end = statement = _cpp.balanced(tokens, place + 1)
            parts = _cpp.split(tokens[place + 2 : end - 1])
            if parts == [["void"]]:
                parts = []
            extern_c = "extern" in scopes or 'extern "C"' in " ".join(before)
            spaces = [scope for scope in scopes if scope not in ("", "extern")]
            yield Declaration(
                name=tokens[place] if extern_c else "::".join([*spaces, tokens[place]]),
                dimensions=_dimensions(tokens, index),
                parameters=tuple(_parameter(part, aliases) for part in parts),
                extern_c=extern_c,
            )


def _scope(before: list[str]) -> str:
    """What a brace opens: `extern`, a namespace's name, or "" for anything else."""
    if before[-2:] == ["extern", '"C"']:
        return "extern"
    if "namespace" in before:
        words = before[before.index("namespace") + 1 :]
        return "".join(word for word in words if word == "::" or (_cpp.is_name(word) and word != "inline"))
    return ""


def _dimensions(tokens: list[str], index: int) -> int | None:
    if tokens[index] == "single_task_kernel":
        return 0
    after = tokens[index + 1 : index + 4]
    if len(after) == 3 and after[0] == "<" and after[2] == ">" and after[1] in ("1", "2", "3"):
        return int(after[1])
    return None


def _function(tokens: list[str], index: int) -> int | None:
    """The index of the name of the function that the property at `index` belongs to."""
    index += 1
    while index < len(tokens) and tokens[index] != "void":
        if tokens[index] in (";", "{", "}", *_MARKS):
            return None
        index += 1
    index += 1
    while index + 1 < len(tokens):
        text = tokens[index]
        if text == "[":
            index = _cpp.balanced(tokens, index)
        elif not _cpp.is_name(text):
            return None
        elif tokens[index + 1] != "(":
            index += 1
        else:
            end = _cpp.balanced(tokens, index + 1)
            if tokens[end - 1] != ")":
                return None
            after = tokens[end] if end < len(tokens) else ""
            # An attribute or macro with arguments stands before the name; behind the name's come body or end.
            if not (_cpp.is_name(after) and after != "noexcept"):
                return index
            index = end
    return None


def _aliases(tokens: list[str]) -> dict[str, list[str] | None]:
    """`using X = T;` and `typedef T X;` of the whole source; None where one name stands for two types."""
    aliases: dict[str, list[str] | None] = {}
    for index, text in enumerate(tokens):
        if text not in ("using", "typedef"):
            continue
        # Longer ones are nothing that this reader understands.
        end = next((at for at in range(index, min(index + 40, len(tokens))) if tokens[at] == ";"), None)
        words = tokens[index + 1 : end] if end is not None else []
        if text == "using" and len(words) > 2 and words[1] == "=":
            name, meaning = words[0], words[2:]
        elif text == "typedef" and len(words) > 1 and _cpp.is_name(words[-1]):
            name, meaning = words[-1], words[:-1]
        else:
            continue
        aliases[name] = meaning if aliases.get(name, meaning) == meaning else None
    return aliases


def _parameter(tokens: list[str], aliases: dict[str, list[str] | None]) -> Parameter:
    text = " ".join(tokens)
    words = _plain(tokens)
    pointers = words.count("*") + words.count("[")
    if "&" in words or "(" in words:
        return Parameter(text)
    cut = next((i for i, word in enumerate(words) if word in "*["), len(words))
    type_words = words[:cut]
    if pointers and words[cut] == "[" and len(type_words) > 1:
        type_words = type_words[:-1]
    name, depth = _type(type_words, aliases, named=not pointers)
    pointers += depth
    if pointers:
        return Parameter(text, True, name if pointers == 1 else None)
    if name is None:
        return Parameter(text)
    return Parameter(text, False, name if name in _CODES else None)


def _plain(tokens: list[str]) -> list[str]:
    """Without attributes, qualifiers, default value and the contents of array bounds."""
    words: list[str] = []
    index = 0
    while index < len(tokens):
        text = tokens[index]
        if text == "=":
            break
        if text == "[":
            if tokens[index + 1 : index + 2] != ["["]:
                words.append("[")
            index = _cpp.balanced(tokens, index)
        elif text in ("__attribute__", "alignas") and tokens[index + 1 : index + 2] == ["("]:
            index = _cpp.balanced(tokens, index + 1)
        else:
            if text not in _QUALIFIERS:
                words.append(text)
            index += 1
    return words


def _type(
    words: list[str], aliases: dict[str, list[str] | None], *, named: bool, fuel: int = 8
) -> tuple[str | None, int]:
    """The canonical type and how many pointers an alias added. `named`: a parameter's name may follow the type."""
    if not words or fuel == 0 or _cpp.UNKNOWN in words:
        return None, 0
    if words[0] in _BUILTIN_WORDS:
        return _builtin([word for word in words if word in _BUILTIN_WORDS]), 0
    path, rest = _path(words)
    if "<" in rest[:1]:
        return _template(path, rest, aliases), 0
    if not path or len(rest) > (1 if named else 0):
        return None, 0
    last = path[-1]
    if last in aliases:
        meaning = aliases[last]
        if meaning is None:
            return None, 0
        plain = _plain(meaning)
        stars = plain.count("*")
        # `using half = sycl::half;` means the other one.
        others = {name: value for name, value in aliases.items() if name != last}
        name, depth = _type([word for word in plain if word != "*"], others, named=False, fuel=fuel - 1)
        return name, stars + depth
    vector = _VECTOR.match(last)
    if vector:
        # Only of use behind a pointer: as a scalar it has no code.
        base = _NAMED.get(vector[1], vector[1])
        return f"vector {base}", 0
    return _NAMED.get(last), 0


def _path(words: list[str]) -> tuple[list[str], list[str]]:
    """`a::b::c rest` as its components and the rest."""
    path: list[str] = []
    index = 1 if words[:1] == ["::"] else 0
    while index < len(words) and _cpp.is_name(words[index]):
        path.append(words[index])
        index += 1
        if index < len(words) and words[index] == "::":
            index += 1
        else:
            break
    return path, words[index:]


def _template(path: list[str], rest: list[str], aliases: dict[str, list[str] | None]) -> str | None:
    if not path or path[-1] not in ("complex", "vec"):
        return None
    parts = _cpp.split(rest[1 : rest.index(">")] if ">" in rest else [])
    base, depth = _type(parts[0], aliases, named=False) if parts else (None, 0)
    if base is None or depth:
        return None
    return f"complex {base}" if path[-1] == "complex" else f"vector {base}"


def _builtin(words: list[str]) -> str | None:
    if words == ["void"]:
        return "void"
    signed = "unsigned " if "unsigned" in words else ""
    for kind in ("float", "double", "bool", "_Float16"):
        if kind in words:
            return None if len(words) > 1 else "half" if kind == "_Float16" else kind
    if "char" in words:
        return "signed char" if "signed" in words else f"{signed}char"
    if "short" in words:
        return f"{signed}short"
    return f"{signed}long" if "long" in words else f"{signed}int"
