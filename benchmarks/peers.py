"""What PyTorch's own tools say of the steps of a series: ``python benchmarks/peers.py LIST.json OUT.json [WORKERS]``.

MemTracker's peak and RuntimeEstimator's time (its roofline, ``operator-level-cost-model``), both of a step on fake
tensors: they measure nothing. RuntimeEstimator needs a GPU to ask about; without one, MemTracker is asked alone, of the
processor's ops with a GPU's optimizer (under autocast other ops are cast there), and the step is traced as well, in a
process where MemTracker counts the very ops that are recorded: printed are what it counts of both, the trace's tensors,
the peak that is predicted of them, and processor seconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate
from pathlib import Path
from typing import Any
from unittest import mock

sys.path.insert(0, str(Path(__file__).parents[1]))

from runners.series_list import Entry, read_series

WORKERS = 8
TOOLS = ("mem_tracker", "runtime_estimator", "traced")
WITH_A_GPU, WITHOUT = TOOLS[:2], ("mem_tracker", "traced")


def main(arguments: list[str]) -> int:
    """Ask both about every step of the list, each in a process of its own."""
    if len(arguments) < 2:
        print("needs LIST.json and OUT.json: nothing was asked")
        return 0
    if arguments[0] in TOOLS:
        print(json.dumps(_asked(arguments[0], Path(arguments[1]), arguments[2])))
        return 0
    names = [entry.name for entry in read_series(Path(arguments[0]))]
    tools = WITH_A_GPU if _device() == "cuda" else WITHOUT
    jobs = [(tool, arguments[0], name) for name in names for tool in tools]
    with ThreadPoolExecutor(int(arguments[2]) if len(arguments) > 2 else WORKERS) as pool:
        answers = dict(zip(jobs, pool.map(_in_a_process, jobs), strict=True))
    found = {name: {tool: answers[tool, arguments[0], name] for tool in tools} for name in names}
    for name, one in found.items():
        print(_row(name, one))
    Path(arguments[1]).write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


def _row(name: str, found: dict[str, Any]) -> str:
    """MemTracker's peaks, of the processor's ops and of those traced, the trace's, what is predicted, seconds."""
    theirs, ours = found.get("mem_tracker", {}), found.get("traced", {})
    if "peak_bytes" not in ours:
        return f"{name:32} " + "; ".join(str(one.get("failed", "")) for one in found.values())
    peak, same = ours["peak_bytes"], ours["mem_tracker_bytes"]
    alone = f"{theirs['peak_bytes'] / 1e9:9.4f}" if "peak_bytes" in theirs else "no answer"
    took = "  ".join(f"{found[tool]['took_s']:6.1f} s" for tool in WITHOUT if tool in found)
    return (
        f"{name:32} {alone} GB {same / 1e9:9.4f} GB {peak / 1e9:9.4f} GB {peak / same - 1:+9.4%}  "
        f"{ours['predicted_bytes'] / 1e9:9.4f} GB  {took}"
    )


def _in_a_process(job: tuple[str, str, str]) -> dict[str, Any]:
    ended = subprocess.run([sys.executable, __file__, *job], capture_output=True, text=True, check=False)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or [f"ended with {ended.returncode}"])[-1]
        return {"failed": last[:300]}
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def _asked(tool: str, series: Path, name: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    entry = next(one for one in read_series(series) if one.name == name)
    clock = time.perf_counter if _device() == "cuda" else time.process_time
    began_s = clock()
    found = {"mem_tracker": tracked, "runtime_estimator": estimated, "traced": traced}[tool](entry)
    return {**found, "took_s": round(clock() - began_s, 2)}


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


def traced(entry: Entry) -> dict[str, Any]:
    """The most bytes that tensors of a traced step hold at once, MemTracker's count of the same ops, the prediction.

    ``mem_tracker_bytes`` has the allocator's rounding, ``predicted_bytes`` workspaces of libraries as well.
    """
    from estimator.estimate.of_op_list import cluster_for, estimate_op_list
    from estimator.scenario import catalog
    from runners.program.command import run
    from runners.program.peers import Peers
    from runners.program_of import program_of

    counted: list[float] = []

    def program(_: Any) -> None:
        import torch
        from torch.distributed._tools import mem_tracker

        kernel = entry.options.get("optimizer_kernel", "default")
        program = program_of(module=entry.module, hf=entry.config, options=entry.program, device="cuda", kernel=kernel)
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

    chip = catalog.chip("h200-sxm")
    found = run(program, chip=chip, peers=Peers(0, lambda rank: []), name=entry.name, own=False)
    changes = [0.0] * (len(found.calls) + 2)
    for one in found.storages:
        changes[max(one.born, 0)] += one.bytes
        if one.died >= 0:
            changes[one.died] -= one.bytes
    predicted = estimate_op_list(found, cluster_for(found), interval=False).memory.peak_bytes
    return {
        "peak_bytes": max(accumulate(changes)),
        "mem_tracker_bytes": counted[0],
        "predicted_bytes": predicted,
        "calls": len(found.calls),
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
