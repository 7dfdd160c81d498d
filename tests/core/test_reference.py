"""References as people write them are loaded, constructed and run; what they do wrong is said in their own lines."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from kforge.errors import CannotJudgeError, ExitCode, KforgeError, ProblemError
from kforge.judge.kinds import bytes_of
from kforge.judge.reference import Reference, load_reference
from kforge.problems.source import read_problem
from kforge.records import Precision

HEAD = "import torch\nfrom torch import nn\n"
MODEL = "class Model(nn.Module):\n    def forward(self, *x):\n        return x[0] * 2\n"
INPUTS = "def get_inputs():\n    return [torch.randn(3, 4)]\n"

Load = Callable[..., Reference]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a Problem of parts and load it."""

    def load(*parts: str, name: str = "problem.py") -> Reference:
        path = tmp_path / name
        path.write_text(HEAD + "".join(parts), encoding="utf-8")
        return load_reference(read_problem(path))

    return load


def _output(reference: Reference) -> object:
    return reference.run(reference.construct(1), reference.draw_inputs(2))


def _error(work: Callable[[], object], kind: type[KforgeError] = ProblemError) -> str:
    with pytest.raises(kind) as caught:
        work()
    assert caught.value.hint
    return caught.value.message


def test_without_init_inputs_the_constructor_takes_nothing(load: Load) -> None:
    reference = load(MODEL, INPUTS)
    (x,) = reference.draw_inputs(2)
    assert torch.equal(_output(reference), x * 2)  # type: ignore[arg-type] # a tensor, or the test fails
    assert (reference.variants(0), reference.precision, reference.init_arguments(0)) == ((), None, ((), {}))


def test_one_seed_gives_one_draw_and_one_set_of_weights(load: Load) -> None:
    layer = "    def __init__(self):\n        super().__init__()\n        self.l = nn.Linear(4, 2)\n"
    draws = "random.random(), float(numpy.random.rand()), torch.rand(2)"
    reference = load(f"import numpy, random\nclass Model(nn.Module):\n{layer}def get_inputs():\n    return [{draws}]\n")
    first, again, other = (reference.draw_inputs(seed) for seed in (5, 5, 6))
    assert repr(first) == repr(again) != repr(other)
    weights = [reference.construct(seed).get_parameter("l.weight") for seed in (5, 5, 6)]
    assert torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[0], weights[2])


@pytest.mark.parametrize(
    "returned, expected",
    [("[1]", (1, 7)), ("(1, 2)", (1, 2)), ("[[1], {'b': 3}]", (1, 3)), ("[[1, 2], {}]", (1, 2))],
)
def test_constructor_arguments(load: Load, returned: str, expected: tuple[int, int]) -> None:
    text = (
        "class Model(nn.Module):\n    def __init__(self, a, b=7):\n        super().__init__()\n        self.ab = a, b\n"
    )
    made = load(text, INPUTS, f"def get_init_inputs():\n    return {returned}\n").construct(0)
    assert made.ab == expected


def test_siblings_helpers_and_main_blocks(load: Load, tmp_path: Path) -> None:
    (tmp_path / "helper_beside.py").write_text("N = 3\n", encoding="utf-8")
    before = list(sys.path)
    reference = load(
        "import dataclasses\nfrom helper_beside import N\n@dataclasses.dataclass\nclass Config:\n    n: int = N\n",
        MODEL,
        "def get_inputs():\n    import helper_beside\n",
        "    return [torch.ones(Config().n), 4, True, None, {'k': [1.5, (2j, 's')]}]\n",
        "print('loading')\nif __name__ == '__main__':\n    raise SystemExit\n",
    )
    assert reference.draw_inputs(0)[1:] == (4, True, None, {"k": [1.5, (2j, "s")]})
    assert sys.path == before
    assert [path.name for path in tmp_path.iterdir() if path.name == "__pycache__"] == []


def test_siblings_of_one_name_in_two_folders_are_kept_apart(tmp_path: Path) -> None:
    for number in (1, 2):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "same_name_beside.py").write_text(f"N = {number}\n", encoding="utf-8")
        path = folder / "problem.py"
        path.write_text(HEAD + "from same_name_beside import N\n" + MODEL + "def get_inputs(): return [N]\n")
        assert load_reference(read_problem(path)).draw_inputs(0) == (number,)


def test_what_a_problem_prints_does_not_reach_stdout(load: Load, capsys: pytest.CaptureFixture[str]) -> None:
    load("print('hello')\n", MODEL, INPUTS)
    assert capsys.readouterr() == ("", "hello\n")


@pytest.mark.parametrize(
    "text, expected",
    [("'bf16'", Precision.BF16), ("'FP32'", Precision.FP32), ("torch.float16", Precision.FP16), ("None", None)],
)
def test_precision(load: Load, text: str, expected: Precision | None) -> None:
    assert load(MODEL, INPUTS, f"PRECISION = {text}\n").precision is expected


def test_an_unknown_precision_is_refused(load: Load) -> None:
    assert "PRECISION is 'fp8'" in _error(lambda: load(MODEL, INPUTS, "PRECISION = 'fp8'\n"))


def test_variants_are_sets_of_inputs(load: Load) -> None:
    reference = load(MODEL, INPUTS, "def get_input_variants():\n    yield [torch.ones(1)]\n    yield [torch.ones(2)]\n")
    assert [one[0].shape for one in reference.variants(0)] == [(1,), (2,)]


def test_modules_stay_in_the_mode_in_which_they_were_made(load: Load) -> None:
    init = "    def __init__(self):\n        super().__init__()\n        self.eval()\n"
    reference = load(MODEL, f"class Base(Model):\n{init}Model = Base\n", INPUTS)
    module = reference.construct(0)
    reference.run(module, reference.draw_inputs(0))
    assert not module.training


@pytest.mark.parametrize(
    "returned",
    ["(x, [x], {'a': x, 1: None})", "(True, 1, 1.5, 2j, 's')", "torch.max(x, 0)", "torch.nn.Parameter(x)", "x[:0]"],
)
def test_outputs_that_can_be_compared(load: Load, returned: str) -> None:
    output = _output(load(f"class Model(nn.Module):\n    def forward(self, x):\n        return {returned}\n", INPUTS))
    assert isinstance(output, tuple | torch.Tensor)


@pytest.mark.parametrize(
    "returned, words",
    [
        ("None", "returned None"),
        ("object()", "output is an object, which"),
        ("[x, {'a': x.to_sparse()}]", "output[1]['a'] is a sparse tensor"),
        ("x.numpy()", "output is an object of numpy.ndarray"),
        ("{(1, 2): x}", "output has a key that is a tuple"),
        ("1 / 0", "raises ZeroDivisionError: division by zero (problem.py, line 5: return 1 / 0)"),
        ("exit(3)", "ended the program (SystemExit: 3)"),
    ],
)
def test_outputs_that_cannot(load: Load, returned: str, words: str) -> None:
    reference = load(f"class Model(nn.Module):\n    def forward(self, x):\n        return {returned}\n", INPUTS)
    assert words in _error(lambda: _output(reference))


@pytest.mark.parametrize(
    "returned, words",
    [
        ("None", "returned nothing"),
        ("torch.ones(1)", "returned a tensor, not a list"),
        ("{'x': 1}", "returned a dict, not a list"),
        ("(x for x in [])", "returned a generator, not a list"),
        ("[1, object()]", "input 1 is an object, a kind"),
        ("[torch.eye(2).to_sparse()]", "input 0 is a sparse tensor"),
        ("[[torch.ones(1, device='meta')]]", "input 0[0] is a tensor without contents"),
        ("[type('Mine', (torch.Tensor,), {})()]", "Mine, a subclass of torch.Tensor"),
        ("[torch.ones(1).numpy()]", "input 0 is an object of numpy.ndarray"),
        ("missing", "raises NameError: name 'missing' is not defined (problem.py, line 7: return missing)"),
    ],
)
def test_inputs_that_cannot_be_handed_over(load: Load, returned: str, words: str) -> None:
    reference = load(MODEL, "def get_inputs():\n", f"    return {returned}\n")
    assert words in _error(lambda: reference.draw_inputs(0))


@pytest.mark.filterwarnings("ignore:.*quantize_per_tensor")
def test_quantised_tensors_cannot_be_handed_over(load: Load) -> None:
    text = "def get_inputs():\n    return [torch.quantize_per_tensor(torch.ones(1), 1.0, 0, torch.qint8)]\n"
    reference = load(MODEL, text)
    assert "input 0 is a quantised tensor" in _error(lambda: reference.draw_inputs(0))


def test_no_inputs_are_inputs_and_gradients_are_taken_off(load: Load) -> None:
    assert load(MODEL, "def get_inputs(): return []\n").draw_inputs(0) == ()
    (x,) = load(MODEL, "def get_inputs(): return [torch.ones(1, requires_grad=True)]\n").draw_inputs(0)
    assert not x.requires_grad


@pytest.mark.parametrize(
    "text, words",
    [
        ("import not_there_at_all\n", "ModuleNotFoundError"),
        ("x = 1\nassert not x, 'no'\n", "AssertionError: no (problem.py, line 4: assert not x, 'no')"),
        ("import sys\nsys.exit('bye')\n", "SystemExit: bye"),
    ],
)
def test_a_file_that_fails_when_run(load: Load, text: str, words: str) -> None:
    assert words in _error(lambda: load(text, MODEL, INPUTS))


def test_names_that_are_bound_to_something_else(load: Load) -> None:
    assert "`Model` is not callable" in _error(lambda: load("Model = 3\n", INPUTS))
    assert "`Model` is not there" in _error(lambda: load("from math import *\n", INPUTS))
    assert "gives an int" in _error(lambda: load("Model = lambda: 3\n", INPUTS).construct(0))
    text = "class Model(nn.Module):\n    def __init__(self, n):\n        super().__init__()\n"
    assert "missing 1 required positional argument" in _error(lambda: load(text, INPUTS).construct(0))


@pytest.mark.parametrize("size", ["2**50", "2**62"])
def test_a_lack_of_memory_is_nobodys_mistake(load: Load, size: str) -> None:
    reference = load(MODEL, f"def get_inputs():\n    return [torch.empty({size})]\n")
    message = _error(lambda: reference.draw_inputs(0), CannotJudgeError)
    assert "memory" in message
    assert size != "2**50" or "4 PiB" in message
    assert CannotJudgeError.exit_code is ExitCode.CANNOT_JUDGE


def test_ctrl_c_passes(load: Load) -> None:
    reference = load(MODEL, "def get_inputs():\n    raise KeyboardInterrupt\n")
    with pytest.raises(KeyboardInterrupt):
        reference.draw_inputs(0)


def test_bytes_of_nested_values() -> None:
    assert bytes_of([torch.ones(3), {"a": (torch.ones(2, dtype=torch.float64), 5)}]) == 28
