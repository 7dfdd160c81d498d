"""The arena: the one memory that workers may see. The judge maps it shared and seals it; workers map it privately."""

from __future__ import annotations

import fcntl
import mmap
import os
from typing import Final, Self

import numpy as np
import torch
from numpy.typing import NDArray

from kforge.judge.values import DTYPES, TensorAt, dtype_name

ALIGNMENT: Final = 256
"""Bytes; torch's own allocator aligns to 64."""
_F_SEAL_FUTURE_WRITE: Final = 0x10


def itemsize(dtype: str) -> int:
    """Give the bytes of one element."""
    return DTYPES[dtype].itemsize


def view(buffer: NDArray[np.uint8], where: TensorAt) -> torch.Tensor:
    """Give the tensor that lies at ``where`` of ``buffer``, without a copy."""
    dtype = DTYPES[where.dtype]
    if where.numel == 0:
        return torch.empty_strided(where.shape, where.stride, dtype=dtype)
    length = where.span * dtype.itemsize
    if where.at + length > buffer.nbytes:
        raise ValueError("a tensor outside the arena")
    flat = torch.from_numpy(buffer[where.at : where.at + length]).view(dtype)
    return flat.as_strided(where.shape, where.stride)


class Layout:
    """Hands out places in an arena that does not exist yet."""

    def __init__(self) -> None:
        self.size = 0

    def place(self, tensor: torch.Tensor) -> TensorAt:
        """Reserve a place for a tensor of this shape, stride and dtype."""
        where = TensorAt(
            self.size, shape=tuple(tensor.shape), stride=tuple(tensor.stride()), dtype=dtype_name(tensor.dtype)
        )
        end = self.size + where.span * tensor.dtype.itemsize
        self.size = (end + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
        return where


class Arena:
    """The judge's side. A context manager; ``fd`` may be handed to workers."""

    def __init__(self, size: int) -> None:
        self.size = max(size, mmap.PAGESIZE)
        self.fd = os.memfd_create("kforge-arena", os.MFD_ALLOW_SEALING | os.MFD_CLOEXEC)
        os.ftruncate(self.fd, self.size)
        self._map = mmap.mmap(self.fd, self.size, flags=mmap.MAP_SHARED, prot=mmap.PROT_READ | mmap.PROT_WRITE)
        self.bytes: NDArray[np.uint8] = np.frombuffer(self._map, dtype=np.uint8)
        seals = _F_SEAL_FUTURE_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_SEAL
        fcntl.fcntl(self.fd, fcntl.F_ADD_SEALS, seals)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def tensor(self, where: TensorAt) -> torch.Tensor:
        """Give the judge's writable tensor at a place."""
        return view(self.bytes, where)

    def flat(self, where: TensorAt) -> NDArray[np.uint8]:
        """Give all bytes between a tensor's first and last element."""
        return self.bytes[where.at : where.at + where.span * itemsize(where.dtype)]

    def put(self, tensor: torch.Tensor, where: TensorAt) -> None:
        """Copy a tensor's elements to its place."""
        if tensor.numel():
            # The storage is copied, not the elements: elements of an expanded tensor share memory.
            source = torch.as_strided(tensor, (where.span,), (1,))
            torch.from_numpy(self.flat(where)).view(tensor.dtype).copy_(source)
