"""Clocks, power and temperature of this device now, as far as the system tells: a slow clock explains a slow run."""

from __future__ import annotations

import shutil
import statistics
import subprocess

import torch

from runners.processor import clocks_now_hz

QUERY = {
    "clocks.sm": ("sm_clock_hz", 1e6),
    "clocks.mem": ("memory_clock_hz", 1e6),
    "clocks.max.sm": ("maximum_sm_clock_hz", 1e6),
    "power.draw": ("power_w", 1.0),
    "power.limit": ("power_limit_w", 1.0),
    "temperature.gpu": ("temperature_celsius", 1.0),
}
"""Words of nvidia-smi, ours, and the factor to SI."""

TIMEOUT_S = 10


def clocks(cuda: bool) -> dict[str, float]:
    """Read them once; empty where nothing tells."""
    return _of_gpu() if cuda else _of_cpu()


def _of_gpu() -> dict[str, float]:
    program = shutil.which("nvidia-smi")
    uuid = getattr(torch.cuda.get_device_properties(torch.cuda.current_device()), "uuid", None)
    if program is None or uuid is None:
        return {}
    command = [program, f"--query-gpu={','.join(QUERY)}", "--format=csv,noheader,nounits", f"--id=GPU-{uuid}"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=True)
    except (OSError, subprocess.SubprocessError):
        return {}
    return parse(done.stdout)


def parse(line: str) -> dict[str, float]:
    """Read one line of nvidia-smi's answer to QUERY; what it does not tell (``[N/A]``) is left out."""
    found = {}
    for text, (name, factor) in zip(line.split(","), QUERY.values(), strict=False):
        try:
            found[name] = float(text) * factor
        except ValueError:
            continue
    return found


def _of_cpu() -> dict[str, float]:
    clocks_hz = clocks_now_hz()
    return {"cpu_clock_hz": statistics.fmean(clocks_hz)} if clocks_hz else {}
