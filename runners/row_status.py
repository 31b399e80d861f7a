"""What becomes of a row: measured, out of memory, not supported here, failed, not begun, or ended by the watchdog."""

from __future__ import annotations

import torch

STATUSES = ("ok", "oom", "unsupported", "failed", "not_run", "timed_out")
OOM_SIGNS = ("out of memory", "can't allocate memory", "cannot allocate memory", "not enough memory", "alloc_failed")
UNSUPPORTED_SIGNS = ("not implemented", "not supported", "unsupported", "no available kernel", "not compiled with")


class Unsupported(Exception):  # noqa: N818  (it is an outcome, not a mistake)
    """Raised where this device, library or version cannot do what a row asks for."""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell the many ways in which PyTorch and the libraries below it say that memory is short."""
    text = str(error).lower()
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(sign in text for sign in OOM_SIGNS)


def status_of(error: Exception) -> str:
    """One of oom, unsupported and failed."""
    if is_out_of_memory(error):
        return "oom"
    text = str(error).lower()
    refused = isinstance(error, (Unsupported, NotImplementedError)) or any(sign in text for sign in UNSUPPORTED_SIGNS)
    return "unsupported" if refused else "failed"


def message_of(error: Exception) -> str:
    """The first line of what an error says, short enough for a cell."""
    first = next(iter(str(error).strip().splitlines()), "")
    # The status of such a row is the name of the exception
    return (first if isinstance(error, Unsupported) else f"{type(error).__name__}: {first}")[:300]
