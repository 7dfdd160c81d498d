"""Each detector finds the bad sample made for it, and lets the good one pass."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.meta import detectors

# Put together from pieces, so that this file does not hold what is looked for.
IGNORE = "# type: " + "ignore[misc]"
NOQA = "# no" + "qa: S101"
BLANKET = "# no" + "qa"
HOME = "/ho" + "me/ada/kernels"
ROOT_HOME = "/ro" + "ot/.cache"

BAD: list[tuple[Callable[[str], list[str]], str, str]] = [
    (detectors.too_long, "x = 1\n" * 401, "401 lines"),
    (detectors.long_functions, "def f():\n" + "    x = 1\n" * 60, "f has 61 lines"),
    (detectors.long_functions, "class A:\n    async def g(self):\n" + "        x = 1\n" * 60, "g has 61 lines"),
    (detectors.vendor_names, "# runs on CUDA", "CUDA"),
    (detectors.vendor_names, "from kforge_xpu import x", "xpu"),
    (detectors.vendor_names, "os.environ['ROCM_HOME']", "ROCM"),
    (detectors.unexplained_silencers, f"x = 1  {IGNORE}\n", "line 1"),
    (detectors.unexplained_silencers, f"\nx = 1  {NOQA}\n", "line 2"),
    (detectors.unexplained_silencers, f"x = 1  {IGNORE}  {BLANKET}\n", "line 1"),
    (detectors.unexplained_silencers, f"x = 1  # a fine reason in front {NOQA}\n", "line 1"),
    (detectors.slow_imports, "import torch", "torch"),
    (detectors.slow_imports, "from torch.nn import Module", "torch.nn"),
    (detectors.slow_imports, "import os, openai", "openai"),
    (detectors.slow_imports, "try:\n    x = 1\nexcept E:\n    import triton", "triton"),
    (detectors.slow_imports, "class A:\n    import torch", "torch"),
    (detectors.slow_imports, "if TYPE_CHECKING:\n    x = 1\nelse:\n    import torch", "torch"),
    (detectors.slow_imports, "match x:\n    case 1:\n        import torch", "torch"),
    (detectors.machine_paths, f"see {HOME}", "line 1"),
    (detectors.machine_paths, f"\n'{ROOT_HOME}'", "line 2"),
]
GOOD: list[tuple[Callable[[str], list[str]], str]] = [
    (detectors.too_long, "x = 1\n" * 400),
    (detectors.long_functions, "def f():\n" + "    x = 1\n" * 59 + "y = 1\n" * 50),
    (detectors.vendor_names, "intelligent = barracuda  # damdam"),
    (detectors.unexplained_silencers, f"x = 1  {IGNORE}  # the stubs are wrong here\n"),
    (detectors.unexplained_silencers, f"x = 1  {NOQA} - trusted input\n"),
    (detectors.unexplained_silencers, f"x = '{NOQA}'\n"),
    (detectors.slow_imports, "def f():\n    import torch"),
    (detectors.slow_imports, "from __future__ import annotations\nif TYPE_CHECKING:\n    import torch"),
    (detectors.slow_imports, "import torchlight\nfrom . import torch"),
    (detectors.machine_paths, "https://example.org" + HOME + " and ./ho" + "me and $HO" + "ME/x"),
]


@pytest.mark.parametrize("detector,text,expected", BAD)
def test_a_bad_sample_is_found(detector: Callable[[str], list[str]], text: str, expected: str) -> None:
    (found,) = detector(text)
    assert expected in found


@pytest.mark.parametrize("detector,text", GOOD)
def test_a_good_sample_passes(detector: Callable[[str], list[str]], text: str) -> None:
    assert detector(text) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        "# A page, named so\n"
        "[self](#a-page-named-so) [web](https://example.org/x) [file](page.md)\n"
        "```\n[in code](nowhere.md)\n```\n"
        "[gone](gone.md) [wrong](page.md#other)\n",
        encoding="utf-8",
    )
    assert detectors.broken_links(page) == ["gone.md: no such file", "page.md#other: no such heading"]


def test_modules_loaded_by_an_import_are_found(tmp_path: Path) -> None:
    (tmp_path / "openai.py").write_text("", encoding="utf-8")
    (tmp_path / "helper.py").write_text("import openai", encoding="utf-8")
    (tmp_path / "plugin.py").write_text("import helper", encoding="utf-8")
    assert detectors.loaded_by_import("plugin", [tmp_path]) == ["openai"]
    assert detectors.loaded_by_import("json", [tmp_path]) == []
