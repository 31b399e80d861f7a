"""Real traces of torch.profiler on the CPU, made here."""

from __future__ import annotations

import pytest
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule
from torch.utils.flop_counter import FlopCounterMode

from app.importers import import_file
from tests.app.importers.reading import codes, one, refusal

WIDTH, LENGTH, BATCH, HEADS = 64, 32, 2, 4


class Model(nn.Module):
    def __init__(self, eager: bool):
        super().__init__()
        self.eager = eager
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH, bias=False)
        self.ffn = nn.Sequential(
            nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH)
        )
        self.conv = nn.Conv1d(WIDTH, WIDTH, 3, padding=1, stride=2)

    def forward(self, x):
        q, k, v = (t.view(BATCH, LENGTH, HEADS, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        if self.eager:
            mixed = torch.softmax(q @ k.transpose(-1, -2) / 4.0, dim=-1) @ v
        else:
            mixed = F.scaled_dot_product_attention(q, k, v)
        return self.conv(self.ffn(mixed.transpose(1, 2).reshape(BATCH, LENGTH, WIDTH)).transpose(1, 2))


def record(path, steps=3, eager=False, late=False, **options):
    torch.manual_seed(0)
    model = Model(eager)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=False)
    x = torch.randn(BATCH, LENGTH, WIDTH)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=steps, repeat=0 if late else 1),
        on_trace_ready=None if late else lambda profiler: profiler.export_chrome_trace(str(path)),
        **options,
    ) as profiler:
        for _ in range(steps + 1):
            model(x).square().mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            profiler.step()
    if late:
        profiler.export_chrome_trace(str(path))
    return model, x


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json.gz"
    model, x = record(path, record_shapes=True, profile_memory=True, with_flops=True)
    return import_file(path, path.name), model, x


def test_steps_phases_and_categories(recorded):
    measurement = one(recorded[0])
    assert measurement.device == {"name": "cpu", "count": 1}
    assert len(measurement.steps_s) == 3
    assert all(0 < seconds < 10 for seconds in measurement.steps_s)
    assert sum(measurement.phases_s.values()) == pytest.approx(sum(measurement.breakdown_s.values()))
    assert sum(measurement.phases_s.values()) in [pytest.approx(seconds) for seconds in measurement.steps_s]
    for phase in ("forward", "backward", "optimizer", "host_wait"):
        assert measurement.phases_s[phase] > 0, phase
    for category in ("matmul", "attention", "elementwise", "optimizer", "host"):
        assert measurement.breakdown_s[category] > 0, category
    assert measurement.breakdown_s["communication"] == measurement.phases_s["bubble"] == 0
    assert measurement.memory.peak_bytes > 0
    assert {"flops-not-in-file", "cpu-memory-partial"} <= codes(recorded[0])


def test_flops_are_those_of_the_flop_counter(recorded):
    imported, model, x = recorded
    counter = FlopCounterMode(display=False)
    with counter:
        model(x).square().mean().backward()
    # the counter leaves out the CPU's fused attention: two products forward, five backward
    attention = 7 * 2.0 * BATCH * LENGTH**2 * WIDTH
    assert sum(kernel.flops or 0 for kernel in one(imported).kernels) == counter.get_total_flops() + attention


def test_wrappers_carry_no_flops_and_little_time(recorded):
    kernels = {kernel.name: kernel for kernel in one(recorded[0]).kernels}
    assert kernels["aten::linear"].flops is None
    assert kernels["aten::linear"].category == "host"
    assert kernels["aten::mm"].flops > 0
    assert kernels["aten::mm"].bytes > 0
    assert kernels["aten::mm"].count == 6
    assert kernels["aten::_scaled_dot_product_flash_attention_for_cpu"].category == "attention"
    assert kernels["aten::convolution_backward"].flops > 0


def test_eager_attention_is_known_by_its_scores(tmp_path):
    path = tmp_path / "trace.json"
    record(path, eager=True, record_shapes=True)
    kernels = {(kernel.name, kernel.category) for kernel in one(import_file(path, path.name)).kernels}
    assert ("aten::bmm", "attention") in kernels
    assert ("aten::_softmax", "attention") in kernels
    assert ("aten::mm", "matmul") in kernels


def test_recorded_with_stacks_and_without_shapes(tmp_path):
    path = tmp_path / "trace.json"
    record(path, with_stack=True)
    imported = import_file(path, path.name)
    assert {"with-stack-overhead", "no-shapes"} <= codes(imported)
    assert all(kernel.flops is None for kernel in one(imported).kernels)
    assert not any(".py" in kernel.name for kernel in one(imported).kernels)


def test_exported_after_a_new_cycle_began(tmp_path):
    path = tmp_path / "trace.json"
    with pytest.warns(UserWarning, match="clears events"):
        record(path, late=True)
    assert "on_trace_ready" in refusal(tmp_path, path.read_bytes()).remedy


def test_profile_without_a_schedule(tmp_path):
    path = tmp_path / "trace.json"
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as profiler:
        with record_function("phase:forward"):
            torch.mm(torch.ones(16, 32), torch.ones(32, 8))
        with record_function("phase:optimizer"):
            torch.ones(1000).mul_(2)
    profiler.export_chrome_trace(str(path))
    imported = import_file(path, path.name)
    measurement = one(imported)
    assert "steps-by-repetition" in codes(imported)
    assert {kernel.name: kernel.flops for kernel in measurement.kernels}["aten::mm"] == 2.0 * 16 * 32 * 8
    assert measurement.breakdown_s["optimizer"] == measurement.phases_s["optimizer"] > 0


def test_a_collective_of_gloo(tmp_path):
    path = tmp_path / "trace.json.gz"
    dist.init_process_group("gloo", init_method=f"file://{tmp_path}/rendezvous", rank=0, world_size=1)
    try:
        recording = profile(activities=[ProfilerActivity.CPU], record_shapes=True)
        with recording as profiler, record_function("phase:backward"):
            torch.ones(10).add_(1)
            dist.all_reduce(torch.ones(1_000_000))
    finally:
        dist.destroy_process_group()
    profiler.export_chrome_trace(str(path))
    imported = import_file(path, path.name)
    measurement = one(imported)
    assert measurement.breakdown_s["communication"] > 0
    (collective,) = measurement.collectives
    assert (collective.kind, collective.bytes, collective.ranks) == ("all-reduce", 4e6, 1)
    assert sum(measurement.breakdown_s.values()) == pytest.approx(measurement.steps_s[0])
