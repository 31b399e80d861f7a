"""The importer and the runner read the same trace to the same kernels: one step, two readers."""

from __future__ import annotations

import gzip
import json

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function, schedule

from app.importers import import_file
from runners.trace.reduced import reduce_trace
from tests.app.importers.reading import one

BATCH, HEADS, LENGTH, WIDTH = 2, 4, 32, 16


def step(qkv, out, optimizer, x):
    with record_function("phase:forward"):
        q, k, v = (t.view(BATCH, LENGTH, HEADS, WIDTH).transpose(1, 2) for t in qkv(x).chunk(3, -1))
        scores = (q @ k.transpose(-1, -2)).mul(0.25).softmax(-1)
        loss = F.gelu(out((scores @ v).transpose(1, 2).reshape(BATCH, LENGTH, HEADS * WIDTH))).square().mean()
    with record_function("phase:backward"):
        loss.backward()
    with record_function("phase:optimizer"):
        optimizer.step()


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    path = tmp_path_factory.mktemp("trace") / "trace.json.gz"
    qkv, out = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH), nn.Linear(HEADS * WIDTH, HEADS * WIDTH)
    optimizer = torch.optim.AdamW([*qkv.parameters(), *out.parameters()], foreach=False)
    x = torch.ones(BATCH, LENGTH, HEADS * WIDTH)
    with profile(
        activities=[ProfilerActivity.CPU],
        schedule=schedule(wait=0, warmup=1, active=1, repeat=1),
        on_trace_ready=lambda profiler: profiler.export_chrome_trace(str(path)),
        record_shapes=True,
    ) as profiler:
        for _ in range(2):
            step(qkv, out, optimizer, x)
            profiler.step()
    return path


def test_the_same_kernels(path):
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    expected = {(k.name, k.category): k for k in reduce_trace(events, (BATCH * HEADS, LENGTH)).kernels}
    found = {(k.name, k.category): k for k in one(import_file(path, "trace.json.gz")).kernels}
    assert found.keys() == expected.keys()
    for key, kernel in expected.items():
        assert found[key].count == kernel.count, key
        assert found[key].total_s == pytest.approx(kernel.total_s, abs=1e-7), key
        assert (found[key].flops, found[key].bytes) == (kernel.flops, kernel.bytes), key


def test_the_same_phases(path):
    events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
    reduced = reduce_trace(events, (BATCH * HEADS, LENGTH))
    phases = one(import_file(path, "trace.json.gz")).phases_s
    for phase in ("forward", "backward", "optimizer"):
        work = sum(s for category, s in reduced.phases_s[phase].items() if category not in ("communication", "host"))
        assert phases[phase] == pytest.approx(work, abs=1e-6), phase
