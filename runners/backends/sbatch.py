"""The sbatch script of one job or of an array of jobs, as text: lines for Slurm, and a program of bash.

Values of users stand in it quoted by shlex, or in lines for sbatch alone that ``runners.placement`` has checked.
"""

from __future__ import annotations

import math
import os
import re
import shlex
import sys
from pathlib import Path

from runners.backends.processes import MARK
from runners.job import EXIT_FILE, LOG_FILE, TRACE_FILE, Job
from runners.placement import Placement, gpus_per_node

PYTHON = "HEADROOM_SLURM_PYTHON"
"""Environment variable that names the interpreter on the nodes; this one's path without it."""

FIRST_PORT, PORTS = 20_000, 20_000
"""Where the first node's rendezvous listens: a port by the job's number, below those that Linux hands out."""

_LEAVE_EXIT_CODE = r"""
leave() {
  code=$?
  printf '{"exit_code": %d, "job_id": "%s"}\n' "$code" "$SLURM_JOB_ID" > "$folder/.exit.$SLURM_JOB_ID"
  mv "$folder/.exit.$SLURM_JOB_ID" "$folder/EXIT_FILE"
}
trap leave EXIT
trap 'exit 143' TERM
""".strip().replace("EXIT_FILE", EXIT_FILE)

_EACH_NODE = (
    'exec "$1" -m torch.distributed.run --node-rank "$SLURM_NODEID" --master-addr "$SLURM_LAUNCH_NODE_IPADDR" "${@:2}"'
)
"""What srun runs on every node: torchrun with the node's number and the first node's address, which only srun knows."""


def job_name(folder: Path) -> str:
    """Name of a job in Slurm, which finds it again by its folder's."""
    return "headroom-" + re.sub(r"[^\w.-]", "-", folder.name, flags=re.ASCII)


def script(jobs: list[tuple[Path, Job]]) -> str:
    """Write the script; the jobs of an array are alike but for folder and benchmark."""
    folder, job = jobs[0]
    head = ["#!/bin/bash", *(f"#SBATCH {option}" for option in _options(folder, job, len(jobs)))]
    body = [*_which(jobs), _LEAVE_EXIT_CODE, "", *_environment(job), *_start(job)]
    return "\n".join([*head, "", *body]) + "\n"


def _options(folder: Path, job: Job, count: int) -> list[str]:
    placement = job.placement
    per_node = job.world_size // placement.nodes
    gpus = gpus_per_node(placement, job.world_size, job.device)
    options = [f"--job-name={job_name(folder)}", f"--nodes={placement.nodes}", "--ntasks-per-node=1"]
    options += [f"--gres=gpu:{gpus}"] if gpus else []
    options += [f"--cpus-per-task={placement.cpus_per_process * per_node}"] if placement.cpus_per_process else []
    options += [f"--mem={math.ceil(placement.memory_bytes / 2**20)}M"] if placement.memory_bytes else []
    options += [f"--time={math.ceil(job.time_limit_s / 60)}"] if job.time_limit_s else []
    for name in ("partition", "account", "qos", "constraint"):
        value = getattr(placement, name)
        options += [f"--{name}={value}"] if value else []
    options += [f"--array=0-{count - 1}"] if count > 1 else []
    # A run that starts anew in the same folder would mix two measurements
    return [*options, *placement.options, "--no-requeue", "--open-mode=append"]


def _which(jobs: list[tuple[Path, Job]]) -> list[str]:
    if len(jobs) == 1:
        return [f"folder={shlex.quote(str(jobs[0][0]))}", f"benchmark={shlex.quote(jobs[0][1].benchmark)}"]
    folders = " ".join(shlex.quote(str(folder)) for folder, _ in jobs)
    benchmarks = " ".join(shlex.quote(job.benchmark) for _, job in jobs)
    return [
        f"folders=({folders})",
        f"benchmarks=({benchmarks})",
        "folder=${folders[$SLURM_ARRAY_TASK_ID]} benchmark=${benchmarks[$SLURM_ARRAY_TASK_ID]}",
        f'exec >> "$folder/{LOG_FILE}" 2>&1',
    ]


def _environment(job: Job) -> list[str]:
    placement: Placement = job.placement
    root = str(Path(__file__).resolve().parents[2])
    paths = [root, *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
    values = {"PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)), "PYTHONUNBUFFERED": "1"}
    if placement.cpus_per_process:
        values["OMP_NUM_THREADS"] = str(placement.cpus_per_process)
    values |= placement.environment
    lines = [f"module load {shlex.join(placement.modules)}"] if placement.modules else []
    return [*lines, f'export {MARK}="$folder"', *(f"export {name}={shlex.quote(v)}" for name, v in values.items())]


def _start(job: Job) -> list[str]:
    placement = job.placement
    per_node = job.world_size // placement.nodes
    python = shlex.quote(os.environ.get(PYTHON) or sys.executable)
    srun = f"srun --nodes={placement.nodes} --ntasks-per-node=1 --export=ALL --kill-on-bad-exit=1"
    if placement.cpus_per_process:
        srun += f" --cpus-per-task={placement.cpus_per_process * per_node}"
    worker = f'-m runners "$benchmark" --job "$folder" --trace "$folder/{TRACE_FILE}"'
    if job.world_size == 1:
        return [f"{srun} \\", f"  {python} {worker}"]
    if placement.nodes == 1:
        start = f"{python} -m torch.distributed.run --standalone --local-addr 127.0.0.1"
    else:
        port = f"$(({FIRST_PORT} + SLURM_JOB_ID % {PORTS}))"
        start = f"bash -c {shlex.quote(_EACH_NODE)} torchrun {python} --nnodes {placement.nodes} --master-port {port}"
    return [f"{srun} \\", f"  {start} \\", f"  --nproc-per-node {per_node} --max-restarts 0 \\", f"  {worker}"]
