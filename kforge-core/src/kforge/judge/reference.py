"""The reference: a Problem's file as a live module, in the judge and nowhere near a candidate."""

from __future__ import annotations

import hashlib
import linecache
import sys
import types
import warnings
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import torch
from attrs import field, frozen

from kforge.errors import ProblemError
from kforge.judge.guard import persons_code
from kforge.judge.kinds import a, bytes_of, output_fault, plain
from kforge.judge.worker import seed_all
from kforge.problems.source import ProblemSource
from kforge.records import Precision

__all__ = ["Reference", "bytes_of", "load_reference"]

_DTYPES: Final = {
    torch.float32: Precision.FP32,
    torch.float16: Precision.FP16,
    torch.bfloat16: Precision.BF16,
}
_INPUTS_HINT: Final = "return a list with the arguments of Model.forward, such as [x] for one"

Inputs = tuple[Any, ...]


@frozen(eq=False)
class Reference:
    """A Problem that can be constructed, fed and run.

    Whatever the person's code raises comes out as `ProblemError` with the person's line, or as `CannotJudgeError` where
    memory ran out; Ctrl-C passes.
    """

    source: ProblemSource
    module: types.ModuleType = field(kw_only=True, repr=False)
    precision: Precision | None = field(kw_only=True)
    """What the Problem declares as ``PRECISION``; None where it declares nothing."""

    def init_arguments(self, seed: int) -> tuple[Inputs, dict[str, Any]]:
        """Give positional and keyword arguments of the constructor, from `get_init_inputs` under ``seed``.

        A list of exactly a list and a dict, ``[[...], {...}]``, is positional and keyword arguments.
        """
        make = getattr(self.module, "get_init_inputs", None)
        if make is None:
            return (), {}
        with self._running("get_init_inputs"):
            seed_all(seed)
            made = make()
        if not isinstance(made, list | tuple):
            raise ProblemError(
                f"get_init_inputs returned {a(made)}, not a list",
                hint="return a list of the constructor's arguments; [[...], {...}] for keyword arguments too",
            )
        keywords: dict[str, Any] = {}
        if len(made) == 2 and isinstance(made[0], list | tuple) and isinstance(made[1], dict):
            made, keywords = made[0], plain(dict(made[1]), "keyword argument of Model")
            if not all(isinstance(name, str) for name in keywords):
                raise ProblemError("get_init_inputs returned keywords that are no strings", hint="name the arguments")
        return tuple(plain(item, f"constructor argument {number}") for number, item in enumerate(made)), keywords

    def construct(self, seed: int) -> torch.nn.Module:
        """Make the Model under ``seed``, in the mode in which its constructor leaves it."""
        arguments, keywords = self.init_arguments(seed)
        hint = "get_init_inputs() must return what the constructor takes"
        with self._running("Model(...)", hint=hint):
            seed_all(seed)
            made: object = self.module.Model(*arguments, **keywords)
        if not isinstance(made, torch.nn.Module):
            raise ProblemError(f"Model(...) gives {a(made)}", hint="let Model inherit torch.nn.Module")
        return made

    def draw_inputs(self, seed: int) -> Inputs:
        """Draw one set of inputs from `get_inputs` under ``seed``: tensors on the host, without gradients."""
        with self._running("get_inputs"):
            seed_all(seed)
            drawn = self.module.get_inputs()
        return _inputs(drawn, "get_inputs")

    def variants(self, seed: int) -> tuple[Inputs, ...]:
        """Draw the further sets of inputs of `get_input_variants`; none where the Problem has no such function."""
        make = getattr(self.module, "get_input_variants", None)
        if make is None:
            return ()
        with self._running("get_input_variants"):
            seed_all(seed)
            drawn = make()
            if isinstance(drawn, types.GeneratorType):
                drawn = list(drawn)
        if not isinstance(drawn, list | tuple):
            raise ProblemError(
                f"get_input_variants returned {a(drawn)}, not a list", hint="return a list of input lists"
            )
        return tuple(_inputs(one, f"get_input_variants()[{number}]") for number, one in enumerate(drawn))

    def run(self, module: torch.nn.Module, inputs: Inputs) -> Any:
        """Run forward without gradients; gives what it returned, which is of kinds that can be compared."""
        with self._running("the reference's forward"), torch.no_grad():
            output = module(*inputs)
        if output is None:
            raise ProblemError("the reference's forward returned None", hint="end forward with `return` and its result")
        fault = output_fault(output)
        if fault is not None:
            raise ProblemError(
                f"the reference's {fault}, which cannot be compared",
                hint="return plain dense tensors, numbers, strings, None, and tuples, lists or dicts of these",
            )
        return output

    def _running(self, doing: str, *, hint: str | None = None) -> AbstractContextManager[None]:
        return persons_code(self.source.path, doing, hint=hint)


def load_reference(source: ProblemSource) -> Reference:
    """Run a Problem's file as a module of its own; raises `ProblemError`, or `CannotJudgeError` without memory."""
    path = source.path
    _forget_siblings(path.parent)
    name = f"kforge_problem_{hashlib.sha256(str(path).encode('utf-8', 'surrogateescape')).hexdigest()[:16]}"
    module = types.ModuleType(name)
    module.__file__ = str(path)
    # Dataclasses and pickles look their module up by name; tracebacks must show the text that ran.
    sys.modules[name] = module
    linecache.cache[str(path)] = (len(source.text), None, source.text.splitlines(keepends=True), str(path))
    with persons_code(path, path.name, hint="a Problem must be importable: mend that line"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            code = compile(source.text, str(path), "exec", dont_inherit=True)
        exec(code, module.__dict__)  # noqa: S102 - the Problem is the person's own code
    for wanted in ("Model", "get_inputs"):
        if not callable(getattr(module, wanted, None)):
            there = "is not callable" if hasattr(module, wanted) else "is not there after running the file"
            raise ProblemError(f"{path.name}: `{wanted}` {there}", hint="define it at the top level of the file")
    return Reference(source, module=module, precision=_precision(getattr(module, "PRECISION", None)))


def _forget_siblings(folder: Path) -> None:
    """Forget modules that Problems of other folders imported from beside them, since names like ``utils`` recur."""
    loaded = [item for name, item in sys.modules.items() if name.startswith("kforge_problem_")]
    folders = {Path(str(item.__file__)).parent for item in loaded} - {folder}
    for name, item in list(sys.modules.items()):
        file = getattr(item, "__file__", None)
        if file and not name.startswith("kforge_problem_") and Path(file).parent in folders:
            del sys.modules[name]


def _precision(declared: object) -> Precision | None:
    if declared is None or isinstance(declared, Precision):
        return declared
    known = {precision.value: precision for precision in Precision}
    if isinstance(declared, torch.dtype) and declared in _DTYPES:
        return _DTYPES[declared]
    if isinstance(declared, str) and declared.strip().lower() in known:
        return known[declared.strip().lower()]
    raise ProblemError(f"PRECISION is {declared!r}", hint=f"write one of {', '.join(map(repr, known))}")


def _inputs(drawn: object, maker: str) -> Inputs:
    if isinstance(drawn, torch.Tensor):
        raise ProblemError(f"{maker} returned a tensor, not a list", hint=_INPUTS_HINT)
    if drawn is None:
        raise ProblemError(f"{maker} returned nothing", hint=_INPUTS_HINT)
    if not isinstance(drawn, list | tuple):
        raise ProblemError(f"{maker} returned {a(drawn)}, not a list", hint=_INPUTS_HINT)
    return tuple(plain(item, f"input {number}") for number, item in enumerate(drawn))
