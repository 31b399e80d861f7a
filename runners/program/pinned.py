"""Which memory of the host is page-locked, and what a copy between it and the device takes of the host."""

from __future__ import annotations

import weakref
from typing import Any

import torch

from runners.program.tensors import local

PAGEABLE = ("host", "pageable")
"""What a copy's signature says where its host side is not page-locked; of one that is, nothing."""

SENT_ALONG_BYTES = 64 * 1024
"""Up to so many bytes from pageable memory go along with the launch (CUDA C++ programming guide, section asynchronous
concurrent execution: copies from host to device of at most 64 KB); more the host itself puts into buffers of the
driver."""


class Pinned:
    """Storages that the program has pinned; without a GPU nothing is page-locked, so that they are remembered."""

    def __init__(self) -> None:
        self._storages: weakref.WeakSet[Any] = weakref.WeakSet()

    def add(self, tensor: torch.Tensor) -> None:
        """Remember what lies behind a tensor as page-locked."""
        if tensor.layout is torch.strided:
            self._storages.add(local(tensor).untyped_storage())

    def has(self, tensor: torch.Tensor) -> bool:
        """Whether a tensor, perhaps a view, lies in page-locked memory."""
        return tensor.layout is torch.strided and local(tensor).untyped_storage() in self._storages


def holds_the_host(*, pinned: bool, to_device: bool, non_blocking: bool, size_bytes: int) -> bool:
    """Whether the host waits for a copy's end: one that blocks, and one of pageable memory, which it copies itself.

    torch's blocking copies synchronise the stream whatever memory they are from (Copy.cu of torch 2.13).
    """
    return not non_blocking or not (pinned or (to_device and size_bytes <= SENT_ALONG_BYTES))
