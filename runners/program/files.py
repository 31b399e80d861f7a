"""Files of tensors: none is written, and what one holds for "cuda" is read on the host, then sent to the device."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import torch
from torch.utils import _pytree as trees

from runners.program.recording import Recording


def install(recording: Recording) -> None:
    """Replace ``torch.save`` and ``torch.load`` for the rest of the process."""
    anywhere: Any = torch
    save, load = anywhere.save, anywhere.load

    @functools.wraps(save)
    def saved(found: Any, *args: Any, **kwargs: Any) -> None:
        recording.assume("files that the program saves with torch.save are not written")

    @functools.wraps(load)
    def loaded(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        if callable(map_location) and not isinstance(map_location, torch.device):
            return load(f, map_location, *args, **kwargs)
        sent: set[int] = set()

        def on_host(storage: Any, location: str) -> Any:
            if _goes_to_device(map_location, location):
                sent.add(storage._cdata)
            return storage

        found = load(f, on_host, *args, **kwargs)

        def moved(one: Any) -> Any:
            if not isinstance(one, torch.Tensor) or one.device.type != "cpu":
                return one
            return one.to("cuda") if one.untyped_storage()._cdata in sent else one

        return trees.tree_map(moved, found) if sent else found

    anywhere.save, anywhere.load = saved, loaded


def _goes_to_device(map_location: Any, location: str) -> bool:
    target = map_location.get(location, location) if isinstance(map_location, Mapping) else map_location
    return str(location if target is None else target).startswith("cuda")
