"""Placement: what a job asks of a cluster's scheduler; every value is checked before it reaches a script.

Names, options and variables are matched against patterns and lists, so that none of them can say more than it should.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from estimator.scenario.codec import spec
from estimator.scenario.problems import Problem

NAMES = ("partition", "account", "qos", "constraint")
OPTIONS = (
    *("begin", "comment", "contiguous", "core-spec", "deadline", "dependency", "exclude", "exclusive", "gpu-bind"),
    *("gpu-freq", "gres-flags", "hint", "licenses", "mail-type", "mail-user", "mem-per-cpu", "mem-per-gpu", "network"),
    *("nice", "nodelist", "oversubscribe", "power", "priority", "propagate", "reservation", "sockets-per-node"),
    *("spread-job", "switches", "thread-spec", "threads-per-core", "tmp", "wckey"),
)
"""Options of sbatch that a job may add: none that starts a program, redirects output, or belongs to the script."""

VARIABLES = ("NCCL_", "TORCH_NCCL_", "RCCL_", "GLOO_", "UCX_", "FI_", "CUDA_DEVICE_", "OMP_", "MKL_", "PYTORCH_")
"""How the names of environment variables begin that a job may set."""

_NAME = re.compile(r"[\w.:@+][\w.:@+/,=*|&()\[\]-]{0,199}", re.ASCII)
_MODULE = re.compile(r"(?!.*\.\.)[A-Za-z0-9][\w.+/@:-]{0,199}", re.ASCII)
"""No path: a module file elsewhere is a program."""

_VALUE = re.compile(r"[\^=-]{0,2}[\w.:+,@-]{0,200}", re.ASCII)
"""No path either: some variables of these libraries name plug-ins to load."""

_OPTION = re.compile(r"--([a-z][a-z-]*)(?:=(.*))?", re.DOTALL)
_VARIABLE = re.compile(r"[A-Z][A-Z0-9_]{0,99}")


@dataclass(frozen=True, kw_only=True)
class Placement:
    """Hosts, devices and queue; what is empty is left to the scheduler."""

    nodes: int = spec(1, minimum=1, maximum=100_000, help="hosts that share the processes equally")
    gpus_per_node: int | None = spec(None, minimum=0, maximum=1024, help="none: one for each process, 0 on a CPU")
    cpus_per_process: int = spec(0, minimum=0, maximum=4096, help="cores, and threads of torch; 0: the scheduler's")
    memory_bytes: float = spec(0.0, minimum=0, maximum=1e15, help="host memory per node; 0: the scheduler's")
    partition: str = spec("", help="queue")
    account: str = spec("", help="who is charged")
    qos: str = spec("", help="quality of service")
    constraint: str = spec("", help="features that the nodes must have")
    options: tuple[str, ...] = spec((), help="further options of sbatch, as --name=value")
    modules: tuple[str, ...] = spec((), help="environment modules to load first")
    environment: dict[str, str] = field(default_factory=dict)


def problems(placement: Placement, world_size: int = 0, where: str = "placement") -> list[Problem]:
    """List what cannot be asked for, each with its remedy; ``world_size`` 0 stands for any number of processes."""
    found = []

    def refuse(name: str, message: str, remedy: str) -> None:
        found.append(Problem(field=f"{where}.{name}", message=message, remedy=remedy))

    if world_size % placement.nodes:
        message = f"{world_size} processes cannot be shared equally by {placement.nodes} nodes"
        refuse("nodes", message, "Choose a number of nodes that divides the number of processes.")
    for name in NAMES:
        value = getattr(placement, name)
        if value and not _NAME.fullmatch(value):
            refuse(name, f"{value[:40]!r} is not a name", "Use letters, digits and . : @ + / - _.")
    for index, option in enumerate(placement.options):
        match = _OPTION.fullmatch(option)
        if not match or match[1] not in OPTIONS:
            refuse(f"options[{index}]", f"{option[:40]!r} may not be given", f"Choose of: {', '.join(OPTIONS)}.")
        elif match[2] is not None and not _NAME.fullmatch(match[2]):
            refuse(f"options[{index}]", f"the value of --{match[1]} is not plain", "Leave spaces and quotes out.")
    for index, module in enumerate(placement.modules):
        if not _MODULE.fullmatch(module):
            refuse(f"modules[{index}]", f"{module[:40]!r} is not a module's name", "Write it as in cuda/12.4.")
    for name, value in placement.environment.items():
        if not _VARIABLE.fullmatch(name) or not name.startswith(VARIABLES):
            known = ", ".join(f"{start}*" for start in VARIABLES)
            refuse("environment", f"{name[:40]!r} may not be set", f"Choose of: {known}.")
        elif not _VALUE.fullmatch(value):
            refuse(f"environment.{name}", "its value is not plain", "Leave spaces, quotes and paths out.")
    return found


def gpus_per_node(placement: Placement, world_size: int, device: str) -> int:
    """GPUs that each node must give: what is asked for, else one for each of its processes unless they use the CPU."""
    if placement.gpus_per_node is not None:
        return placement.gpus_per_node
    return 0 if device == "cpu" else world_size // placement.nodes
