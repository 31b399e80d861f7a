"""What PyTorch's own tools say of the steps of a series: ``python benchmarks/peers.py LIST.json OUT.json [WORKERS]``.

MemTracker's peak and RuntimeEstimator's time (its roofline, ``operator-level-cost-model``), both of a step on fake
tensors: they measure nothing. RuntimeEstimator needs a GPU to ask about; without one, MemTracker is asked alone, of the
processor's ops with a GPU's optimizer (under autocast other ops are cast there), and the step is traced twice: alone,
and in a process where MemTracker counts the very ops that are recorded. A table is printed: what it counts of both, the
trace's tensors, the peak that is predicted of them, the measured one, and processor seconds of MemTracker's process
and of the trace's own, imports and the estimate included. OUT.json has each step as soon as it is answered.
``--measured FOLDER...`` behind: where NAME.json of a step's measurement lies.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from estimator.scenario.op_list import OpList
from runners.series_list import Entry, read_series

if TYPE_CHECKING:
    from runners.program.recording import Recording

WORKERS = 8
TOOLS = ("mem_tracker", "runtime_estimator", "traced", "predicted")
WITH_A_GPU, WITHOUT = TOOLS[:2], ("mem_tracker", "traced", "predicted")
HEAD = (
    "| step | MemTracker, peak | measured | RuntimeEstimator, step | MemTracker, s | RuntimeEstimator, s |",
    "|---|--:|--:|--:|--:|--:|",
)
"""On a host with a GPU."""
HEAD_WITHOUT = (
    "| step | MemTracker, processor | MemTracker, traced ops | traced tensors | apart | predicted peak | measured"
    " | MemTracker, s | trace, s |",
    "|---|--:|--:|--:|--:|--:|--:|--:|--:|",
)


def main(arguments: list[str]) -> int:
    """Ask both about every step of the list, each in a process of its own."""
    at = arguments.index("--measured") if "--measured" in arguments else len(arguments)
    arguments, folders = arguments[:at], [Path(one) for one in arguments[at + 1 :]]
    if len(arguments) < 2:
        print("needs LIST.json and OUT.json: nothing was asked")
        return 0
    if arguments[0] in TOOLS:
        print(json.dumps(_asked(arguments[0], Path(arguments[1]), arguments[2])))
        return 0
    names = [entry.name for entry in read_series(Path(arguments[0]))]
    on_gpu = _device() == "cuda"
    tools, row = (WITH_A_GPU, row_with_a_gpu) if on_gpu else (WITHOUT, row_without)
    print("\n".join(HEAD if on_gpu else HEAD_WITHOUT), flush=True)
    found = {}
    with ThreadPoolExecutor(int(arguments[2]) if len(arguments) > 2 else WORKERS) as pool:
        jobs = {name: [pool.submit(_in_a_process, (tool, arguments[0], name)) for tool in tools] for name in names}
        for name, asked in jobs.items():
            found[name] = {tool: one.result() for tool, one in zip(tools, asked, strict=True)}
            print(row(name, found[name], _measured(name, folders)), flush=True)
            Path(arguments[1]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def row_with_a_gpu(name: str, found: dict[str, Any], measured_bytes: float | None) -> str:
    """A row of ``HEAD`` in gigabytes and seconds; what a tool refused is no answer, and OUT.json has its words."""
    memory, time_of = (found.get(tool, {}) for tool in WITH_A_GPU)
    step = f"{time_of['step_s']:.4f} s" if "step_s" in time_of else "no answer"
    told = [_gigabytes(memory.get("peak_bytes")), _gigabytes(measured_bytes, ""), step]
    return f"| {' | '.join((name, *told, *map(_took, (memory, time_of))))} |"


def row_without(name: str, found: dict[str, Any], measured_bytes: float | None) -> str:
    """A row of ``HEAD_WITHOUT``, likewise."""
    theirs, same, ours = (found.get(tool, {}) for tool in WITHOUT)
    counted, traced, peak = same.get("mem_tracker_bytes"), same.get("peak_bytes"), ours.get("predicted_bytes")
    apart = f"{traced / counted - 1:+.4%}" if traced and counted else ""
    off = f" ({peak / measured_bytes - 1:+.2%})" if peak and measured_bytes else ""
    sizes = (theirs.get("peak_bytes"), counted, traced)
    told = [*map(_gigabytes, sizes), apart, _gigabytes(peak) + off, _gigabytes(measured_bytes, "")]
    return f"| {' | '.join((name, *told, *map(_took, (theirs, ours))))} |"


def _took(one: dict[str, Any]) -> str:
    return f"{one['took_s']:.1f}" if "took_s" in one else ""


def _gigabytes(size: float | None, without: str = "no answer") -> str:
    return without if size is None else f"{size / 1e9:.4f}"


def _measured(name: str, folders: Sequence[Path]) -> float | None:
    """The peak of a step's measurement, None where no folder has one."""
    for path in (folder / f"{name}.json" for folder in folders):
        if path.exists():
            return float(json.loads(path.read_text(encoding="utf-8"))["memory"]["peak_bytes"])
    return None


def _in_a_process(job: tuple[str, str, str]) -> dict[str, Any]:
    """What a tool answers; on a host without a GPU the seconds are the process' own, of all its processors."""
    with tempfile.TemporaryFile("w+") as said, tempfile.TemporaryFile("w+") as failed:
        child = subprocess.Popen([sys.executable, __file__, *job], stdout=said, stderr=failed)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        failed.seek(0)
        if child.returncode:
            last = (failed.read().strip().splitlines() or [f"ended with {child.returncode}"])[-1]
            return {"failed": last[:300]}
        found = dict(json.loads(said.read().splitlines()[-1]))
    return {"took_s": round(usage.ru_utime + usage.ru_stime, 2), **found}


def _asked(tool: str, series: Path, name: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    entry = next(one for one in read_series(series) if one.name == name)
    asked = {"mem_tracker": tracked, "runtime_estimator": estimated, "traced": counted_beside, "predicted": predicted}
    if _device() == "cpu":
        return asked[tool](entry)
    began_s = time.perf_counter()
    return {**asked[tool](entry), "took_s": round(time.perf_counter() - began_s, 2)}


def _device() -> str:
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def _program(entry: Entry) -> Any:
    from torch import nn

    from runners.program_of import program_of

    kernel = entry.options.get("optimizer_kernel", "default")
    if kernel == "default" and _device() == "cpu":
        kernel = "foreach"  # as torch chooses on a GPU
    with mock.patch.object(nn.Module, "_apply", _converted):
        return program_of(module=entry.module, hf=entry.config, options=entry.program, device=_device(), kernel=kernel)


def _converted(module: Any, convert: Any, recurse: bool = True) -> Any:
    """``Module._apply``, which swaps tensors in place: fake ones refuse that."""
    from torch import nn

    made: dict[int, Any] = {}
    for child in module.modules():
        for name, parameter in child._parameters.items():
            if parameter is not None and id(parameter) not in made:
                made[id(parameter)] = nn.Parameter(convert(parameter.detach()), parameter.requires_grad)
            child._parameters[name] = None if parameter is None else made[id(parameter)]
        for name, buffer in child._buffers.items():
            child._buffers[name] = None if buffer is None else convert(buffer)
    return module


def _step(program: Any) -> None:
    program.loss(program.batch).backward()
    program.optimizer.step()
    program.optimizer.zero_grad(set_to_none=True)


def tracked(entry: Entry) -> dict[str, Any]:
    """MemTracker's peak of the second step."""
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        program = _program(entry)
        tracker = _tracker(program)
        with tracker:
            _step(program)
            tracker.reset_mod_stats()
            _step(program)
    return {"peak_bytes": _peak_bytes(tracker, _device())}


def _tracker(program: Any) -> Any:
    """A MemTracker that knows of what there is before the step."""
    from torch.distributed._tools.mem_tracker import MemTracker

    batch = program.batch.values() if isinstance(program.batch, dict) else [program.batch]
    tracker = MemTracker()
    tracker.track_external(program.module, program.optimizer, *batch)
    return tracker


def _peak_bytes(tracker: Any, device: str) -> float:
    import torch

    peaks = tracker.get_tracker_snapshot("peak")
    there = [kinds for found, kinds in peaks.items() if torch.device(found).type == device]
    return float(max(kinds["Total"] for kinds in there))


def estimated(entry: Entry) -> dict[str, Any]:
    """RuntimeEstimator's time of the second step; ``two_types``: ops that it refuses, taken as of the narrower type."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools import runtime_estimator

    priced, refused = runtime_estimator.get_compute_time, set()

    def compute_time(op: Any, args: Any, kwargs: Any, out: Any, types: set[Any]) -> Any:
        if len(types) > 1:  # it asserts one, and cuDNN's attention gives statistics in fp32 beside bf16
            refused.add(str(op))
            types = {min(types, key=lambda dtype: dtype.itemsize)}
        return priced(op, args, kwargs, out, types)

    with FakeTensorMode(), mock.patch.object(runtime_estimator, "get_compute_time", compute_time):
        program = _program(entry)
        _step(program)
        estimator = runtime_estimator.RuntimeEstimator()
        with estimator(estimate_mode_type="operator-level-cost-model"):
            _step(program)
    return {"step_s": float(estimator.total_runtime) * 1e-3, "two_types": sorted(refused)}


def counted_beside(entry: Entry) -> dict[str, Any]:
    """The most bytes that tensors of a traced step hold at once, and MemTracker's count of the same ops."""
    counted: list[float] = []

    def train(program: Any, _: Recording) -> None:
        import torch
        from torch.distributed._tools import mem_tracker

        begin = mem_tracker._WeakRefInfo.__init__

        def on_one_device(self: Any, size: int, element_size: int, device: torch.device, kind: Any) -> None:
            begin(self, size, element_size, device if device.type == "cpu" else torch.device("cuda", 0), kind)

        with mock.patch.object(mem_tracker._WeakRefInfo, "__init__", on_one_device):
            tracker = _tracker(program)
            try:
                with tracker:
                    while True:  # the trace ends it
                        _step(program)
                        tracker.reset_mod_stats()
            finally:
                counted.append(_peak_bytes(tracker, "cuda"))

    found = _traced(entry, train)
    changes = [0.0] * (len(found.calls) + 2)
    for one in found.storages:
        changes[max(one.born, 0)] += one.bytes
        if one.died >= 0:
            changes[one.died] -= one.bytes
    return {"peak_bytes": max(accumulate(changes)), "mem_tracker_bytes": counted[0], "calls": len(found.calls)}


def predicted(entry: Entry) -> dict[str, Any]:
    """The peak that is predicted of a trace, with the allocator's rounding and workspaces of libraries."""
    from estimator.estimate.of_op_list import cluster_for, estimate_op_list
    from runners.program.command import train

    found = _traced(entry, train)
    return {"predicted_bytes": estimate_op_list(found, cluster_for(found), interval=False).memory.peak_bytes}


def _traced(entry: Entry, train: Callable[[Any, Recording], None]) -> OpList:
    from estimator.scenario import catalog
    from runners.program.command import run
    from runners.program.peers import Peers
    from runners.program_of import program_of

    def program(recording: Recording) -> None:
        kernel = entry.options.get("optimizer_kernel", "default")
        made = program_of(module=entry.module, hf=entry.config, options=entry.program, device="cuda", kernel=kernel)
        train(made, recording)

    peers = Peers(0, lambda rank: [])
    return run(program, chip=catalog.chip("h200-sxm"), peers=peers, name=entry.name, own=False)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
