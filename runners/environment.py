"""What a run ran on: device and software, without names of hosts, users or paths."""

from __future__ import annotations

import math
import os
import platform
from typing import Any

import torch

from estimator.scenario import catalog
from estimator.scenario.hardware import Chip
from estimator.scenario.measurement import Warning
from estimator.scenario.problems import InputProblems
from runners.processor import cpu_cache_bytes, cpu_clock_hz, cpu_cores, cpu_memory_bytes, cpu_name


def environment(cuda: bool) -> dict[str, Any]:
    """Versions of Python, torch and the libraries below it, and how many threads and devices there are."""
    found: dict[str, Any] = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "torch": torch.__version__,
        "cpu": cpu_name(),
        "cpu_count": cpu_cores(),
        "threads": torch.get_num_threads(),
    }
    if cuda:
        found |= {
            "cuda": torch.version.cuda,
            "hip": torch.version.hip,
            "cudnn": torch.backends.cudnn.version(),  # type: ignore[no-untyped-call]
            "nccl": _nccl_version(),
            "gpu_count": torch.cuda.device_count(),
        }
    return found


def device(cuda: bool) -> dict[str, Any]:
    """Name, memory and units of the device that this process works on."""
    if not cuda:
        return {
            "kind": "cpu",
            "name": cpu_name(),
            "memory_bytes": cpu_memory_bytes(),
            "compute_units": torch.get_num_threads(),
        }
    properties = torch.cuda.get_device_properties(torch.cuda.current_device())
    return {
        "kind": "cuda",
        "name": properties.name,
        "memory_bytes": float(properties.total_memory),
        "compute_units": properties.multi_processor_count,
        "capability": f"{properties.major}.{properties.minor}",
    }


def bound_bytes(cuda: bool) -> float:
    """Memory beyond which the system ends this process without a word: its part of a CPU's, shared with the others of
    this host; a GPU's allocator says so itself.
    """  # fmt: skip
    return math.inf if cuda else cpu_memory_bytes() / int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def other_chip(chip: Chip, kind: str, name: str) -> list[Warning]:
    """Warn where the scenario names another chip than the one that this run is on, as far as the catalogue knows it."""
    try:
        here = "cpu" if kind == "cpu" else catalog.chip(name).name
    except InputProblems:
        return []
    if here == chip.name:
        return []
    message = (
        f"the scenario names {chip.label or chip.name}, but this ran on {name}; compare with cluster.chip {here!r}"
    )
    return [Warning(code="other_chip", message=message, where="cluster.chip")]


def clock_hz(cuda: bool) -> float:
    """Highest clock that the system tells of; 1 GHz where it tells none."""
    if cuda:
        properties = torch.cuda.get_device_properties(torch.cuda.current_device())
        return float(getattr(properties, "clock_rate", 1_000_000)) * 1e3
    return cpu_clock_hz()


def l2_bytes(cuda: bool) -> float:
    """Size of the last-level cache; 0 where the system does not tell."""
    if cuda:
        return float(getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "L2_cache_size", 0))
    return cpu_cache_bytes()


def _nccl_version() -> str | None:
    if not torch.distributed.is_nccl_available():
        return None
    return ".".join(str(part) for part in torch.cuda.nccl.version())  # type: ignore[no-untyped-call]
