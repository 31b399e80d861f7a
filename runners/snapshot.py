"""The caching allocator's snapshot of some work, as JSON: what PyTorch's viewer shows, and never a pickle."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

MOST_EVENTS = 200_000
MOST_FRAMES = 8


def record(work: Callable[[], Any], path: Path, *, frames: int = MOST_FRAMES) -> int:
    """Do ``work`` on a GPU and write what the allocator did to ``path`` (.json or .json.gz); return its bytes."""
    memory = torch.cuda.memory
    memory._record_memory_history(max_entries=MOST_EVENTS, stacks="python")
    try:
        work()
        torch.cuda.synchronize()
        snapshot = memory._snapshot()
    finally:
        memory._record_memory_history(enabled=None)
    return write(snapshot, path, frames=frames)


def write(snapshot: dict[str, Any], path: Path, *, frames: int = MOST_FRAMES) -> int:
    """Write a snapshot with at most so many innermost frames each, files by their last two names."""
    text = json.dumps(trimmed(snapshot, frames), separators=(",", ":"), default=str).encode()
    data = gzip.compress(text, mtime=0) if path.suffix == ".gz" else text
    path.write_bytes(data)
    return len(data)


def trimmed(snapshot: dict[str, Any], frames: int) -> dict[str, Any]:
    """Segments, events of devices that did something, and the allocator's settings."""
    traces = [[_entry(event, frames) for event in trace] for trace in snapshot.get("device_traces", [])]
    return {
        "segments": [
            _entry(segment, frames) | {"blocks": [_entry(block, frames) for block in segment.get("blocks", [])]}
            for segment in snapshot.get("segments", [])
        ],
        "device_traces": traces,
        "allocator_settings": snapshot.get("allocator_settings", {}),
    }


def _entry(entry: dict[str, Any], frames: int) -> dict[str, Any]:
    kept = {key: value for key, value in entry.items() if key not in ("frames", "history", "blocks")}
    if entry.get("frames"):
        kept["frames"] = [_frame(frame) for frame in entry["frames"][:frames]]
    return kept


def _frame(frame: dict[str, Any]) -> dict[str, Any]:
    """A frame without the folders of the machine that it was taken on."""
    parts = str(frame.get("filename", "")).replace("\\", "/").split("/")
    return {"filename": "/".join(parts[-2:]), "line": frame.get("line", 0), "name": frame.get("name", "")}
