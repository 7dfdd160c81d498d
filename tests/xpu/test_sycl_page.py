"""docs/reference/sycl.md: its candidate runs, its messages are the real ones."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

from kforge_xpu import SyclLaunchError, SyclModule
from tests.meta.repository import ROOT

PAGE = (ROOT / "docs" / "reference" / "sycl.md").read_text(encoding="utf-8")
X = torch.ones(1000)

CALLS: dict[str, Callable[[Any], object]] = {
    "divisible": lambda module: module.scale(1000, 256, X, X, 1.0, 1000),
    "dimensions": lambda module: module.scale((32, 32), (8, 8), X, X, 1.0, 1000),
    "count": lambda module: module.scale(1024, 256, X, X, 1.0),
    "dtype": lambda module: module.scale(1024, 256, X.double(), X, 1.0, 1000),
    "number": lambda module: module.scale(1024, 256, X, X, 1.0, 2.5),
    "group": lambda module: module.scale(1 << 20, 1 << 20, X, X, 1.0, 1000),
    "name": lambda module: module.scales(1, 1),
}


@pytest.fixture(scope="module")
def candidate(vadd: SyclModule) -> torch.nn.Module:
    """The page's candidate."""
    (code,) = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(code, "candidate.py", "exec"), names)
    module = names["ModelNew"]()
    assert isinstance(module, torch.nn.Module)
    return module


def test_the_candidate_runs(candidate: torch.nn.Module) -> None:
    x = torch.randn(3, 333)
    assert torch.equal(candidate(x), 2 * x)


@pytest.mark.parametrize("call", CALLS)
def test_the_messages_are_the_real_ones(candidate: torch.nn.Module, call: str) -> None:
    with pytest.raises((SyclLaunchError, AttributeError)) as raised:
        CALLS[call](candidate.kernels)
    messages = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
    patterns = [re.escape(message).replace(r"\.\.\.", ".*") for message in messages]
    assert any(re.fullmatch(pattern, str(raised.value)) for pattern in patterns), str(raised.value)
