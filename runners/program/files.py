"""Files of tensors: none is written, only shapes are kept; what one holds for "cuda" is read on the host, then sent."""

from __future__ import annotations

import functools
import os
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as trees

from runners.program.recording import Recording
from runners.program.tensors import is_on_device
from runners.program.unimported import once_imported

UNWRITTEN = "files of tensors that the program saves are not written"


def install(recording: Recording, fakes: FakeTensorMode) -> None:
    """Replace ``torch.save`` and ``torch.load`` for the rest of the process; what was saved can be loaded again."""
    anywhere: Any = torch
    save, load = anywhere.save, anywhere.load
    kept: dict[str, Any] = {}

    def shape_of(one: Any) -> Any:
        if not isinstance(one, torch.Tensor):
            return one
        with torch._C.DisableTorchFunction(), torch.no_grad():
            if type(one) not in (FakeTensor, torch.nn.Parameter):
                return one.detach().clone()
            with fakes:
                made = torch.empty_strided(one.shape, one.stride(), dtype=one.dtype, device="cpu")
            made.was_on_device = is_on_device(one)  # type: ignore[attr-defined]
            return made

    def keep(f: Any, found: Any) -> None:
        recording.assume(UNWRITTEN)
        if isinstance(f, (str, os.PathLike)):
            kept[os.path.realpath(f)] = trees.tree_map(shape_of, found)

    @functools.wraps(save)
    def saved(found: Any, f: Any = None, *args: Any, **kwargs: Any) -> None:
        keep(f, found)

    @functools.wraps(load)
    def loaded(f: Any, map_location: Any = None, *args: Any, **kwargs: Any) -> Any:
        again = kept.get(os.path.realpath(f)) if isinstance(f, (str, os.PathLike)) else None
        if again is not None:
            return trees.tree_map(functools.partial(_sent, map_location), again)
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

    def change_safetensors(module: Any) -> None:
        read = module.load_file

        def load_file(filename: Any, device: Any = "cpu", **options: Any) -> Any:
            again = kept.get(os.path.realpath(filename))
            if again is None:
                return read(filename, device, **options)
            return trees.tree_map(functools.partial(_sent, device), again)

        module.save_file = lambda tensors, filename, metadata=None: keep(filename, dict(tensors))
        module.load_file = load_file

    anywhere.save, anywhere.load = saved, loaded
    once_imported("safetensors.torch", change_safetensors)
    once_imported("torch.distributed.checkpoint", functools.partial(_leave_checkpoints, recording))


def _leave_checkpoints(recording: Recording, checkpoint: Any) -> None:
    """Checkpoints of several ranks are not written; reading one that the program has saved changes no shape."""
    load, kept = checkpoint.load, set[str]()

    def named(given: tuple[Any, ...], options: dict[str, Any]) -> str:
        path = options.get("checkpoint_id") or next((one for one in given if isinstance(one, (str, os.PathLike))), None)
        writer = options.get("storage_writer") or options.get("storage_reader")
        return os.path.realpath(path or getattr(writer, "path", "") or "")

    def saved(state: Any, *given: Any, **options: Any) -> None:
        recording.assume(UNWRITTEN)
        kept.add(named(given, options))

    def later(state: Any, *given: Any, **options: Any) -> Any:
        saved(state, *given, **options)
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def loaded(state: Any, *given: Any, **options: Any) -> None:
        if named(given, options) not in kept:
            load(state, *given, **options)

    checkpoint.save, checkpoint.async_save, checkpoint.load = saved, later, loaded


def _sent(map_location: Any, one: Any) -> Any:
    if not isinstance(one, torch.Tensor):
        return one
    before = "cuda" if getattr(one, "was_on_device", False) else "cpu"
    if isinstance(map_location, int):
        map_location = f"cuda:{map_location}"
    to_device = before == "cuda" if callable(map_location) else _goes_to_device(map_location, before)
    return one.to("cuda") if to_device else one.clone()


def _goes_to_device(map_location: Any, location: str) -> bool:
    target = map_location.get(location, location) if isinstance(map_location, Mapping) else map_location
    return str(location if target is None else target).startswith("cuda")
