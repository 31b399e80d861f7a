"""What PyTorch's own tools say of the steps of a series: ``python benchmarks/peers.py LIST.json OUT.json [WORKERS]``.

MemTracker's peak and RuntimeEstimator's time (its roofline, ``operator-level-cost-model``), both of a step on fake
tensors: they measure nothing. RuntimeEstimator needs a GPU to ask about; without one, MemTracker is asked alone, of the
processor's ops with a GPU's optimizer (under autocast other ops are cast there), and the step is traced as well, whose
tensors are printed beside. Beside each stands its seconds.
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
    """A step's peaks, the difference of what was traced from MemTracker's, and the seconds of both."""
    peaks = [found.get(tool, {}).get("peak_bytes") for tool in WITHOUT]
    if None in peaks:
        return f"{name:32} " + "; ".join(str(one.get("failed", "")) for one in found.values())
    theirs, ours = peaks
    took = "  ".join(f"{found[tool]['took_s']:6.1f} s" for tool in WITHOUT)
    return f"{name:32} {theirs / 1e9:9.4f} GB {ours / 1e9:9.4f} GB {ours / theirs - 1:+9.4%}  {took}"


def _in_a_process(job: tuple[str, str, str]) -> dict[str, Any]:
    ended = subprocess.run([sys.executable, __file__, *job], capture_output=True, text=True, check=False)
    if ended.returncode:
        last = (ended.stderr.strip().splitlines() or [f"ended with {ended.returncode}"])[-1]
        return {"failed": last[:300]}
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def _asked(tool: str, series: Path, name: str) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    entry = next(one for one in read_series(series) if one.name == name)
    began_s = time.perf_counter()
    found = {"mem_tracker": tracked, "runtime_estimator": estimated, "traced": traced}[tool](entry)
    return {**found, "took_s": round(time.perf_counter() - began_s, 2)}


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
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.mem_tracker import MemTracker

    with FakeTensorMode():
        program = _program(entry)
        batch = program.batch.values() if isinstance(program.batch, dict) else [program.batch]
        tracker = MemTracker()
        tracker.track_external(program.module, program.optimizer, *batch)
        with tracker:
            _step(program)
            tracker.reset_mod_stats()
            _step(program)
        peaks = tracker.get_tracker_snapshot("peak")
    there = [kinds for device, kinds in peaks.items() if torch.device(device).type == _device()]
    return {"peak_bytes": float(max(kinds["Total"] for kinds in there))}


def estimated(entry: Entry) -> dict[str, Any]:
    """RuntimeEstimator's time of the second step."""
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.distributed._tools.runtime_estimator import RuntimeEstimator

    with FakeTensorMode():
        program = _program(entry)
        _step(program)
        estimator = RuntimeEstimator()
        with estimator(estimate_mode_type="operator-level-cost-model"):
            _step(program)
    return {"step_s": float(estimator.total_runtime) * 1e-3}


def traced(entry: Entry) -> dict[str, Any]:
    """The most bytes that tensors of a traced step hold at once, without the allocator's rounding."""
    from estimator.scenario import catalog
    from runners.program.command import run, train
    from runners.program.peers import Peers
    from runners.program_of import program_of

    def program(_: Any) -> None:
        kernel = entry.options.get("optimizer_kernel", "default")
        train(program_of(module=entry.module, hf=entry.config, options=entry.program, device="cuda", kernel=kernel))

    found = run(program, chip=catalog.chip("h200-sxm"), peers=Peers(0, lambda rank: []), name=entry.name, own=False)
    changes = [0.0] * (len(found.calls) + 2)
    for one in found.storages:
        changes[max(one.born, 0)] += one.bytes
        if one.died >= 0:
            changes[one.died] -= one.bytes
    return {"peak_bytes": max(accumulate(changes)), "calls": len(found.calls)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
