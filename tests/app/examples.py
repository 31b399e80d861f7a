"""Inputs that several tests of the app use."""

from __future__ import annotations

import copy
import json
from pathlib import Path

from app.disk import DataFolder, write_json
from app.runs.events import append_state
from app.this_cpu import ThisCpu
from estimator.scenario.codec import encode
from estimator.scenario.measurement import Kernel, MeasuredMemory, Measurement, Origin
from estimator.scenario.op_list import Call, Operand, OpList, Signature, to_json
from tests import warm

ROOT = Path(__file__).parents[2]
HF_CONFIGS = ROOT / "tests" / "reference" / "hf_configs"
HEADROOM = [warm.python(), "-c", "from app.cli import main; main()"]
HEADROOM_STARTED = [warm.COLD, *HEADROOM[1:]]
"""The same by an interpreter that imports all of it, as a user's does."""

ONE_THREAD = '{"cpus_per_process": 1}'
"""HEADROOM_PLACEMENT of tests: two threads wait for each other busily, longer than these steps compute."""

SCENARIO = {
    "model": {"layers": 1, "hidden": 32, "heads": 2, "ffn": 64, "vocab": 97},
    "cluster": {"chip": "a100-80gb-sxm", "chips_per_node": 1, "nodes": 1},
    "plan": {"dp": 1, "micro_batch": 1},
    "training": {"seq_len": 16, "global_batch": 2, "precision": "fp32"},
}

QUICK = {"benchmark": "precision", "device": "cpu", "warmup": 0, "steps": 1, "label": "quick"}
"""Any run: it makes no optimizer, for the first of which torch imports its compiler, longer than all else takes."""

ENDLESS = {
    "benchmark": "attention",
    "options": {"implementations": ["naive"], "dims": [16], "heads": 1, "batch": 1, "precisions": ["fp32"],
                "causals": ["no"], "seq_lens": list(range(128, 1128))},
    "device": "cpu",
    "warmup": 1,
    "steps": 200,
    "label": "endless",
}  # fmt: skip
"""Rows that come one after the other for longer than any test looks, of a benchmark that begins soon as well."""

LLAMA = {
    "model": "llama3-8b",
    "cluster": {"chip": "h200-sxm", "chips_per_node": 8, "nodes": 1},
    "plan": {"dp": 8, "sharding": "fsdp", "micro_batch": 1, "recompute": "full"},
    "training": {"seq_len": 4096, "global_batch": 8, "precision": "bf16"},
}


def scenario(**changes: object) -> dict:
    """A tiny scenario with some dotted fields changed, as in ``scenario(plan__tp=3)``."""
    found = copy.deepcopy(SCENARIO)
    for name, value in changes.items():
        part, _, field = name.partition("__")
        found[part][field] = value
    return found


MEASUREMENT = Measurement(
    label="a measured step",
    origin=Origin(kind="run", format="step", producer="headroom", version="0.1.0"),
    device={"name": "NVIDIA A100", "memory_bytes": 80e9},
    scenario=SCENARIO,
    steps_s=(0.011, 0.010, 0.012),
    phases_s={"forward": 0.003, "backward": 0.006, "optimizer": 0.002, "exposed_communication": 0.0},
    breakdown_s={"matmul": 0.008, "optimizer": 0.002},
    kernels=(Kernel(name="gemm", category="matmul", count=7, total_s=0.008),),
    memory=MeasuredMemory(peak_bytes=1e9, reserved_bytes=2e9),
)


def write_run(runs: Path, run_id: str, *, state: str = "ok", measurement: Measurement | None = MEASUREMENT) -> Path:
    """Write a job folder as a run leaves it."""
    folder = runs / run_id
    folder.mkdir(parents=True)
    write_json(folder / "job.json", {"benchmark": "step", "scenario": SCENARIO, "label": "tiny", "backend": "local"})
    write_json(folder / "request.json", {"command": ["python", "-m", "runners"], "environment": {}})
    append_state(folder, "queued")
    if state != "queued":
        append_state(folder, "running")
        with (folder / "events.jsonl").open("a") as file:
            event = {"t_s": 5.0, "kind": "progress", "phase": "measure", "step": 3, "steps": 4, "step_s": 0.01}
            file.write(json.dumps(event) + "\n")
    if state not in ("queued", "running"):
        append_state(folder, state)
    if measurement is not None:
        write_json(folder / "result.json", encode(measurement))
    return folder


OPS = OpList(
    source="profile",
    program="an op",
    chip="h200-sxm",
    signatures=(Signature(op="aten::relu", inputs=(Operand(shape=(4, 8), dtype="float32"),)),),
    calls=(Call(kind="kernel", signature=0, phase="forward", measured_s=2e-6),),
)


def write_upload(uploads: Path, upload_id: str, count: int = 2) -> Path:
    """Write an upload folder as the endpoint leaves it."""
    folder = uploads / upload_id
    (folder / "measurements").mkdir(parents=True)
    (folder / "source").write_text("a,b\n")
    for index in range(count):
        document = encode(MEASUREMENT) | {"id": f"{upload_id}-{index}", "label": f"table {index}"}
        write_json(folder / "measurements" / f"{index:05}.json", document)
        (folder / "ops").mkdir(exist_ok=True)
        write_json(folder / "ops" / f"{index:05}.json", to_json(OPS))
    write_json(folder / "upload.json", {"filename": "a.txt", "created_s": 1000.0, "warnings": [], "skipped": []})
    return folder


CPU = {
    "name": "cpu",
    "label": "This CPU",
    "kind": "cpu",
    "fp32_flops_per_s": 2.0e11,
    "fp16_flops_per_s": 3.2e9,
    "bf16_flops_per_s": 4.4e11,
    "memory_bytes": 25e9,
    "memory_bytes_per_s": 3.3e10,
    "compute_units": 2,
    "clock_hz": 2.6e9,
    "chips_per_node": 1,
    "link": "loopback",
    "network": "loopback",
    "efficiency": "cpu",
}


def knows_cpu(data: Path) -> None:
    """Leave what an earlier start measured of this CPU in a data folder; tests of that measure."""
    folder = DataFolder(data)
    folder.create()
    write_json(ThisCpu(folder, 0).cache_file, {"chip": CPU})
