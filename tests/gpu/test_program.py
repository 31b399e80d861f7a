"""A Hugging Face model's step on a GPU: no slower than a bare loop of the same module, and its peak to the byte."""

from __future__ import annotations

import statistics
import time

import pytest
import torch

from runners.allocation import allocator_peaks
from runners.benchmarks.program_step import trainer_of
from runners.options import ProgramOptions
from runners.program_of import program_of
from runners.ranks import Ranks
from runners.timed_step import timed_step
from tests.runners.programs import write_config

pytestmark = pytest.mark.gpu

SIZES = {"n_layer": 12, "n_embd": 1024, "n_head": 16, "vocab_size": 50_304, "n_positions": 1024, "bos_token_id": 0,
         "eos_token_id": 0}  # fmt: skip


@pytest.mark.parametrize("precision", ["bf16", "bf16-amp"])
def test_step_takes_what_a_bare_loop_takes_and_its_memory(tmp_path, precision):
    options = ProgramOptions(batch=8, seq=1024, precision=precision)
    program = program_of(hf=str(write_config(tmp_path, **SIZES)), options=options, device="cuda:0")
    trainer = trainer_of(program, Ranks(device="cuda:0"))
    module, batch, optimizer = program.module, program.batch, program.optimizer
    held: list[torch.Tensor] = []

    def bare() -> float:
        torch.cuda.synchronize()
        begin_s = time.perf_counter()
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=precision == "bf16-amp"):
            loss = module(**batch).loss
        loss.backward()
        held[:] = [loss.detach()]
        del loss
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        torch.cuda.synchronize()
        return time.perf_counter() - begin_s

    def measured() -> float:
        return timed_step(trainer)["step"]

    for _ in range(5):
        bare()
        measured()
    found: dict[str, list[float]] = {"bare": [], "step": []}
    ways = {"bare": bare, "step": measured}
    for turn in range(40):
        for name in sorted(ways, reverse=turn % 2 == 1):
            found[name].append(ways[name]())
    for of in (statistics.median, min):
        bare_s, step_s = of(found["bare"]), of(found["step"])
        said = f"bare loop {bare_s * 1e3:.3f} ms, step {step_s * 1e3:.3f} ms, {step_s / bare_s - 1:+.2%}"
        print(f"{precision}, {of.__name__}: {said}")
    assert step_s == pytest.approx(bare_s, rel=0.01)
    torch.cuda.reset_peak_memory_stats()
    bare()
    peak = torch.cuda.max_memory_allocated()
    print(f"{precision}: peak {peak} bytes")
    assert max(phase["allocated_bytes"] for phase in allocator_peaks(trainer).values()) == peak
