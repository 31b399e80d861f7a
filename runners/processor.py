"""What the system tells of the CPU that this process runs on; without torch, for whoever asks before it is loaded."""

from __future__ import annotations

import os
import platform
from pathlib import Path

_QUOTA = "/sys/fs/cgroup/cpu.max"
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def cpu_name() -> str:
    """Model name of the processor, as far as the system tells it."""
    for name in cpu_info("model name"):
        return name
    return platform.processor() or platform.machine()


def cpu_cores() -> int:
    """Logical processors that this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def cpus_available() -> float:
    """Processors whose time this process may use: those it may run on, or its control group's quota if lower."""
    cores = float(cpu_cores())
    quota, _, period = _text(_QUOTA).partition(" ")  # "max 100000", or microseconds in each period
    try:
        return min(cores, float(quota) / float(period))
    except (ValueError, ZeroDivisionError):
        return cores


def cpu_memory_bytes() -> float:
    """Memory that this process may use: the machine's, or its control group's limit where that is lower."""
    total = float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    for path in _LIMITS:
        total = min(total, _number(path) or total)
    return total


def cpu_clock_hz() -> float:
    """Highest clock that the system tells of; 1 GHz where it tells none."""
    khz = _number("/sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq")
    if khz:
        return khz * 1e3
    return max(clocks_now_hz(), default=1e9)


def clocks_now_hz() -> list[float]:
    """Clock of each logical processor now; empty where the system does not tell."""
    return [float(megahertz) * 1e6 for megahertz in cpu_info("cpu MHz")]


CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
"""A folder for each cache of a processor, where the kernel says them."""


def cpu_cache_bytes() -> float:
    """Size of the last-level cache; 0 where the system does not tell. ``/proc/cpuinfo`` may name another level's."""
    levels = [_text(str(path)).removesuffix("K") for path in CACHES.glob("index*/size")]
    sizes = levels or [value.split()[0] for value in cpu_info("cache size")]
    return max((float(size) * 1024 for size in sizes if size.isdigit()), default=0.0)


def cpu_info(wanted: str) -> list[str]:
    """What ``/proc/cpuinfo`` says under a name, processor by processor; empty where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
    pairs = [line.partition(":") for line in lines]
    return [value.strip() for key, _, value in pairs if key.strip() == wanted and value.strip()]


def _number(path: str) -> float | None:
    try:
        return float(_text(path))
    except ValueError:
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="ascii").strip()
    except (OSError, ValueError):
        return ""
