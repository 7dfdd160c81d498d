"""Right verdicts on every kind of output, input, weight and state that a reference may have."""

from __future__ import annotations

import pytest

from kforge.errors import CannotJudgeError
from kforge.records import Precision, Status
from tests.judge.conftest import Opens
from tests.judge.court import assert_correct, assert_wrong, shown

NESTED = """
import torch


class {name}(torch.nn.Module):
    def forward(self, x, scale=2, flip=False, *, extra=None):
        total = float(x.sum())
        made = {{
            "pair": (x * scale, [x.t() + 1, None]),
            "count": x.shape[0], "flag": not flip, "mean": total / 64, "root": complex(total, 1.0),
            "text": "unchanged", "empty": x[:0], "whole": x.mul(100).to(torch.int32), "mask": x > 0.5,
            3: x.sum(),
        }}
        {change}
        return made
"""
NESTED_INPUTS = """
def get_inputs():
    return [torch.rand(8, 8), 3, False]
"""
CHANGES = {
    'made["pair"] = list(made["pair"])': "structure",
    'made["pair"][1][1] = 0': "structure",
    'made["pair"][1][0] = made["pair"][1][0] * 1.001': "values",
    'made["pair"] = (*made["pair"], None)': "structure",
    'del made["flag"]': "structure",
    'made["more"] = None': "structure",
    'made["count"] = 8.0': "structure",
    'made["count"] += 1': "values",
    'made["flag"] = 1': "structure",
    'made["flag"] = False': "values",
    'made["mean"] *= 1.001': "values",
    'made["mean"] = x.mean()': "structure",
    'made["root"] = complex(total, 1.1)': "values",
    'made["text"] = "changed"': "values",
    'made["empty"] = x[:0, :1]': "shape",
    'made["empty"] = None': "structure",
    'made["whole"] = made["whole"] + (x > 0.9)': "values",
    'made["whole"] = made["whole"].long()': "dtype",
    'made["mask"] = ~made["mask"]': "values",
    'made["mask"] = made["mask"].to(torch.uint8)': "dtype",
    "made[3] = made[3].reshape(1)": "shape",
    'made["3"] = made.pop(3)': "structure",
    "made = tuple(made.values())": "structure",
}


def test_nested_outputs(once: Opens) -> None:
    court = once(NESTED.format(name="Model", change="pass") + NESTED_INPUTS)
    assert_correct(court.judge(NESTED.format(name="ModelNew", change="pass")))
    for change, check in CHANGES.items():
        finding = assert_wrong(court.judge(NESTED.format(name="ModelNew", change=change)), check)
        assert finding.output is not None, change


DTYPES = """
import torch


class {name}(torch.nn.Module):
    def forward(self, single, half, brain, double, whole, flags, waves, bytes_):
        made = dict(
            single=single.sin(), half=half * 3, brain=brain + 1, double=double.exp(), whole=whole * 2 - 1,
            flags=~flags, waves=waves * 2j, bytes=bytes_ // 2, most=whole.argmax(), scalar=double.mean(),
        )
        {change}
        return made
"""
DTYPE_INPUTS = """
def get_inputs():
    return [
        torch.randn(32, 33), torch.randn(65).half(), torch.randn(65).bfloat16(), torch.randn(16).double(),
        torch.randperm(99), torch.rand(7) > 0.5, torch.randn(9, dtype=torch.complex64),
        torch.randint(0, 255, (5,), dtype=torch.uint8),
    ]
"""


def test_dtypes(once: Opens) -> None:
    court = once(DTYPES.format(name="Model", change="pass") + DTYPE_INPUTS)
    assert_correct(court.judge(DTYPES.format(name="ModelNew", change="pass")))
    for change, check in {
        'made["single"] = made["single"].half().float()': "values",
        'made["half"] = made["half"].float()': "dtype",
        'made["brain"] = made["brain"] * 1.02': "values",
        'made["double"] = double.float().exp().double()': "values",
        'made["whole"][5] += 1': "values",
        'made["waves"] = made["waves"].conj()': "values",
        'made["most"] = made["most"] - 1': "values",
        'made["flags"] = made["flags"].logical_not()': "values",
    }.items():
        finding = assert_wrong(court.judge(DTYPES.format(name="ModelNew", change=change)), check)
        assert finding.output is not None
        assert change.partition('"')[2].partition('"')[0] in finding.output, finding


LAID_OUT = """
import torch


class {name}(torch.nn.Module):
    def forward(self, turned, wide, sparse, none, alone):
        assert turned.stride() == (1, 16) and wide.stride() == (1, 0) and sparse.stride() == (2,)
        assert none.shape == (0, 4) and alone.shape == ()
        return turned {sign} wide[:, :1].t().sum(), sparse * alone, none.sum(0), none.t()
"""
LAID_OUT_INPUTS = """
def get_inputs():
    return [torch.rand(8, 16).t(), torch.rand(4, 1).expand(4, 8), torch.rand(21)[::2], torch.rand(0, 4), torch.rand(())]
"""


def test_strides_and_empty_inputs_come_as_the_reference_gets_them(once: Opens) -> None:
    court = once(LAID_OUT.format(name="Model", sign="+") + LAID_OUT_INPUTS)
    assert_correct(court.judge(LAID_OUT.format(name="ModelNew", sign="+")))
    assert_wrong(court.judge(LAID_OUT.format(name="ModelNew", sign="-")), "values")


BATCH_NORM = """
import torch


class {name}(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features{more})

    def forward(self, x):
        return self.norm(x)
"""
BATCH_NORM_INPUTS = """
def get_inputs():
    return [torch.randn(512, 16) + 3]


def get_init_inputs():
    return [16]
"""


def test_buffers_are_compared_after_the_call(once: Opens) -> None:
    court = once(BATCH_NORM.format(name="Model", more="") + BATCH_NORM_INPUTS)
    assert_correct(court.judge(BATCH_NORM.format(name="ModelNew", more="")))
    finding = assert_wrong(court.judge(BATCH_NORM.format(name="ModelNew", more=", momentum=0.2")), "buffers")
    assert finding.output == "buffer norm.running_mean"


RENAMED = """
import torch


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.linear = torch.nn.{layer}(features, features)

    def forward(self, x):
        return self.linear(x)
"""


def test_weights_of_other_names_are_kept_and_told(once: Opens) -> None:
    court = once(RENAMED.format(layer="Linear").replace("ModelNew", "Model").replace("linear", "dense")
                 + "\n\ndef get_inputs():\n    return [torch.rand(8, 32)]\n"
                 "\n\ndef get_init_inputs():\n    return [32]\n")  # fmt: skip
    renamed = court.judge(RENAMED.format(layer="Linear"))
    assert_correct(renamed)
    (told,) = [finding for finding in renamed.verdict.findings if finding.check == "parameters"]
    assert not told.decisive
    assert "dense.weight" in told.message
    other = RENAMED.format(layer="Linear").replace("super().__init__()", "super().__init__(); torch.rand(1)")
    judgement = court.judge(other)
    assert_wrong(judgement, "values")
    assert "parameters" in [finding.check for finding in judgement.verdict.findings]


POINTWISE = """
import torch


class {name}(torch.nn.Module):
    def forward(self, x):
        return {expression}


def get_inputs():
    return [{inputs}]
"""


def _pair(expression: str, inputs: str) -> str:
    return POINTWISE.format(name="Model", expression=expression, inputs=inputs)


def _answer(expression: str) -> str:
    return POINTWISE.format(name="ModelNew", expression=expression, inputs="")


def test_infinities_and_not_a_number_must_stand_where_they_stand(once: Opens) -> None:
    court = once(_pair("torch.log(x) / x.round()", "torch.randn(4096)"))
    assert_correct(court.judge(_answer("torch.log(x) / x.round()")))
    finding = assert_wrong(court.judge(_answer("torch.log(x.abs()) / x.round()")), "nonfinite", "values")
    assert "nan" in (finding.expected or "") or finding.error is not None
    assert_wrong(court.judge(_answer("torch.nan_to_num(torch.log(x) / x.round())")), "nonfinite")
    assert_wrong(court.judge(_answer("-(torch.log(x) / x.round())")), "nonfinite", "values")


def test_numbers_that_follow_from_inputs_are_compared_on_the_same_inputs(once: Opens) -> None:
    court = once(_pair("(x * 2, float(x[0, 0]), int(x.sum()))", "torch.rand(64, 64)"))
    assert_correct(court.judge(_answer("(x * 2, float(x[0, 0]), int(x.sum()))")))
    kept = _answer("(x * 2, self.__dict__.setdefault('first', float(x[0, 0])), int(x.sum()))")
    assert_wrong(court.judge(kept), "values")


def test_a_sum_in_another_order_is_right_and_a_shorter_one_is_wrong(once: Opens) -> None:
    court = once(_pair("x.sum(1)", "torch.randn(16, 65536)"))
    assert_correct(court.judge(_answer("x.view(16, 256, 256).sum(1).sum(1)")))
    assert_correct(court.judge(_answer("x.flip(1).cumsum(1)[:, -1]")))
    assert_wrong(court.judge(_answer("x[:, :-1].sum(1)")), "values")
    assert_wrong(court.judge(_answer("x.bfloat16().sum(1).float()")), "values")


def test_a_wrong_element_is_named_with_what_was_expected_and_what_came(once: Opens) -> None:
    court = once(_pair("x * 2", "torch.ones(40, 50) + torch.rand(40, 50)"))
    finding = assert_wrong(
        court.judge(_answer("torch.where(torch.arange(2000).view(40, 50) == 1234, 7.0, x * 2)")), "values"
    )
    assert finding.index == (24, 34)
    assert finding.got == "7.0"
    assert finding.expected is not None
    assert 2 <= float(finding.expected) <= 4
    assert "[24, 34] is 7, expected" in finding.message
    assert "1 of 2000 elements" in finding.message


def test_lower_precision_is_right_only_where_it_is_declared(once: Opens) -> None:
    product = "x @ x.t()"
    low = _answer("(x.bfloat16() @ x.bfloat16().t()).float()")
    strict = once(_pair(product, "torch.randn(256, 256)"))
    assert_wrong(strict.judge(low), "values")
    loose = once(_pair(product, "torch.randn(256, 256)"), precision=Precision.BF16)
    assert_correct(loose.judge(low))
    assert_wrong(loose.judge(_answer("(x.bfloat16() @ x.bfloat16().t()).float() * 1.05")), "values")


def test_a_reference_that_cannot_run_in_float64_is_compared_at_its_own_precision(once: Opens) -> None:
    text = "torch.nn.functional.linear(x, torch.ones(8, 8, dtype=torch.float32))"
    court = once(_pair(text, "torch.rand(8, 8)"))
    assert [finding.check for finding in court.facts.findings] == ["float64"]
    assert_correct(court.judge(_answer(text)))
    assert_wrong(court.judge(_answer(f"{text} * 1.0001")), "values")


@pytest.mark.parametrize("problem, says", [
    (_pair("x + torch.rand(8)", "torch.rand(8)"), "not deterministic"),
    (_pair("[x] * int(torch.randint(1, 99, ()))", "torch.rand(8)"), "not deterministic"),
    (_pair("x.add_(1)", "torch.rand(8)"), "changes its input"),
    (_pair("x + 1", "torch.rand(int(torch.randint(1, 9999, ())))"), "other shapes"),
])  # fmt: skip
def test_what_cannot_be_judged_blames_no_candidate(once: Opens, problem: str, says: str) -> None:
    with pytest.raises(CannotJudgeError, match=says) as caught:
        once(problem)
    assert caught.value.hint


def test_modules_stay_in_the_mode_in_which_they_were_constructed(once: Opens) -> None:
    court = once(_pair("x * 2 if self.training else x", "torch.rand(64)"))
    assert_correct(court.judge(_answer("x * 2")))
    assert court.judge(_answer("x")).verdict.status is Status.WRONG


def test_a_broken_build_says_where(once: Opens) -> None:
    court = once(_pair("x * 2", "torch.rand(64)"))
    judgement = court.judge("import torch\n\n\nclass ModelNew(torch.nn.Module):\n    x = missing\n")
    assert judgement.verdict.status is Status.BUILD_FAILED, shown(judgement)
    assert judgement.build is not None
    (diagnostic,) = judgement.build.diagnostics
    assert (diagnostic.line, diagnostic.message) == (5, "NameError: name 'missing' is not defined")
    assert court.judge("def broken(:\n").verdict.status is Status.NO_CODE
    assert court.judge("x = 1\n").verdict.status is Status.NO_CODE
