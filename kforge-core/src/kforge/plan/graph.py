"""The plain graph that the judge answers when it is asked what a reference computes. No torch object crosses."""

from __future__ import annotations

from attrs import field, frozen


@frozen
class Ref:
    """Names another value of the graph."""

    name: str


Scalar = bool | int | float | str | None
Argument = Ref | Scalar | tuple["Argument", ...]


@frozen
class Value:
    """Shape (sizes), stride (elements) and dtype (torch's word without ``torch.``) of one tensor."""

    name: str
    shape: tuple[int, ...] = field(kw_only=True)
    stride: tuple[int, ...] = field(kw_only=True)
    dtype: str = field(kw_only=True)
