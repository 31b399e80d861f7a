"""Header: what a trace says about its machine and its run; names of hosts, users and paths are never kept."""

from __future__ import annotations

import re
from typing import Any

from app.importers.kineto.trace_columns import Trace

_RANK_IN_NAME = re.compile(r"rank[_\-]?(\d{1,6})", re.IGNORECASE)
_MOST_GROUPS = 64
_MOST_RANKS = 10**7


def device(metadata: dict[str, Any], trace: Trace) -> dict[str, Any]:
    """Name, memory and capability of the device whose kernels the trace holds; ``cpu`` where it holds none."""
    if not len(trace.device):
        return {"name": "cpu", "count": 1}
    listed = metadata.get("deviceProperties") or metadata.get("computeProperties")
    cards = [card for card in listed if isinstance(card, dict)] if isinstance(listed, list) else []
    used = [card for card in cards if any(card.get("id") == device for device in trace.devices)]
    found = (used or cards or [{}])[0]
    kept: dict[str, Any] = {"name": _text(found.get("name")) or trace.maker, "count": max(1, len(trace.devices))}
    for key, name in (("totalGlobalMem", "memory_bytes"), ("numSms", "multiprocessors")):
        if (count := _whole(found.get(key))) is not None:
            kept[name] = count
    major, minor = _whole(found.get("computeMajor")), _whole(found.get("computeMinor"))
    if major is not None and minor is not None:
        kept["compute_capability"] = f"{major}.{minor}"
    return kept


def ranks(metadata: dict[str, Any], trace: Trace, filename: str) -> tuple[int, int, str]:
    """Return (world size, rank, ground): ground is file, name or nothing; without the file's word, the world is at
    least as large as the largest group that its kernels name.
    """
    said = metadata.get("distributedInfo")
    if isinstance(said, dict):
        world, rank = _whole(said.get("world_size")), _whole(said.get("rank"))
        if world is not None and rank is not None and 0 <= rank < world <= _MOST_RANKS:
            return world, rank, "file"
    world = max((one.ranks for one in trace.collectives if one.ranks <= _MOST_RANKS), default=1)
    named = _RANK_IN_NAME.search(filename)
    return (max(world, int(named[1]) + 1), int(named[1]), "name") if named else (max(world, 1), 0, "")


def environment(metadata: dict[str, Any]) -> dict[str, Any]:
    """Versions, what was recorded, and the sizes of the process groups."""
    kept: dict[str, Any] = {}
    for key in ("cuda_runtime_version", "cuda_driver_version", "hip_runtime_version", "hip_driver_version"):
        if (number := _whole(metadata.get(key))) is not None:
            kept[key] = number
    kept["recorded"] = {key: metadata.get(key) == 1 for key in ("record_shapes", "with_stack", "profile_memory")}
    said = metadata.get("distributedInfo")
    if isinstance(said, dict):
        kept["backend"] = _text(said.get("backend"))[:40]
        if version := _text(said.get("nccl_version"))[:40]:
            kept["nccl_version"] = version
        groups = said.get("pg_config")
        if isinstance(groups, list):
            sizes = [_whole(group.get("pg_size")) for group in groups[:_MOST_GROUPS] if isinstance(group, dict)]
            kept["process_group_sizes"] = [size for size in sizes if size is not None]
    return kept


def _text(value: Any) -> str:
    return value[:100] if isinstance(value, str) else ""


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**62 else None
