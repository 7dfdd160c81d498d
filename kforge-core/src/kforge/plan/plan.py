"""The plan: a language-neutral list of kernels."""

from __future__ import annotations
