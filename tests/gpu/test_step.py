"""The step benchmark on a GPU: no slower than a bare loop, graphs that train, a snapshot that can be read."""

from __future__ import annotations

import gzip
import json
import statistics
import time

import pytest
import torch
import torch.nn.functional as F

from estimator.scenario.scenario import Scenario
from runners.benchmarks.step import run
from runners.job import Job
from runners.ranks import Ranks
from runners.timed_step import timed_step
from runners.train_step import capture, one_step, prepare
from tests.runners.examples import scenario, scenario_json

pytestmark = pytest.mark.gpu

MODEL = {"layers": 12, "hidden": 1024, "heads": 16, "kv_heads": 16, "ffn": 4096, "vocab": 32_000}
RANKS = Ranks(device="cuda:0")


def gpu_scenario(**training) -> Scenario:
    return scenario(
        model=MODEL,
        plan={"micro_batch": 8},
        training={"seq_len": 1024, "global_batch": 8, "precision": "bf16-amp", **training},
    )


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
def test_step_takes_what_a_bare_loop_takes(attention):
    """The same module and optimizer, in turns; the bare loop knows nothing of phases, events and records."""
    trainer = prepare(gpu_scenario(attention=attention), RANKS, seed=0)
    ((tokens, targets),) = trainer.batches

    def bare() -> float:
        torch.cuda.synchronize()
        begin_s = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = trainer.module(tokens)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            del logits
        loss.backward()
        trainer.optimizer.step()
        trainer.optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return time.perf_counter() - begin_s

    for _ in range(5):
        bare()
        timed_step(trainer)
    found: dict[str, list[float]] = {"bare": [], "step": []}
    ways = {"bare": bare, "step": lambda: timed_step(trainer)["step"]}
    for turn in range(40):
        for name in sorted(ways, reverse=turn % 2 == 1):
            found[name].append(ways[name]())
    # What else the host does only adds: by the fastest, no loop is charged with it
    for of in (statistics.median, min):
        bare_s, step_s = of(found["bare"]), of(found["step"])
        said = f"bare loop {bare_s * 1e3:.3f} ms, step {step_s * 1e3:.3f} ms, {step_s / bare_s - 1:+.2%}"
        print(f"{attention}, {of.__name__}: {said}")
    assert step_s == pytest.approx(bare_s, rel=0.01)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_graphs_train_as_eager_steps_do(micro_batches):
    losses = []
    for graph in (False, True):
        chosen = scenario(training={"precision": "bf16-amp", "global_batch": 2 * micro_batches})
        trainer = prepare(chosen, RANKS, seed=0, graph=graph)
        for group in trainer.optimizer.param_groups:
            group["lr"] = 1e-3
        if graph:
            capture(trainer)  # takes three steps
        else:
            for _ in range(3):
                one_step(trainer, lambda phase: None)
        found = []
        for _ in range(5):
            one_step(trainer, lambda phase: None)
            found.append(float(trainer.loss))
        losses.append(found)
    assert losses[1] == pytest.approx(losses[0], rel=2e-3)
    assert losses[1][-1] < losses[1][0]


def test_graphs_launch_less(tmp_path):
    steps = {}
    for graph in (False, True):
        job = Job(scenario=scenario_json(), options={"graph": graph}, device="cuda", warmup=3, steps=20)
        result = run(job, lambda event: None)
        assert result.status == "ok"
        steps[graph] = statistics.median(result.steps_s)
    assert steps[True] < 0.5 * steps[False]


def test_a_snapshot_and_a_trace_land_beside_each_other(tmp_path):
    job = Job(scenario=scenario_json(), options={"snapshot": True}, device="cuda", warmup=1, steps=2)
    result = run(job, lambda event: None, tmp_path / "trace.json.gz")
    assert result.status == "ok"
    snapshot = json.loads(gzip.decompress((tmp_path / "snapshot.json.gz").read_bytes()))
    (trace,) = [trace for trace in snapshot["device_traces"] if trace]
    assert {"alloc", "free_completed"} <= {event["action"] for event in trace}
    assert sum(segment["total_size"] for segment in snapshot["segments"]) > 0
    assert result.memory.peak_bytes == pytest.approx(sum(result.memory.by_kind.values()))
