"""One profiled step, and the trace that is kept."""

from __future__ import annotations

import gzip
import json

import pytest
import torch

from runners.ranks import Ranks
from runners.trace.profile import profile
from runners.train_step import prepare
from tests.runners.examples import scenario


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_the_kept_trace_is_a_chrome_trace_with_phases_and_shapes(monkeypatch, tmp_path, name):
    # what torch makes an object of every event with takes longer than all the rest, for nobody
    monkeypatch.delattr(torch.autograd.profiler.profile, "_parse_kineto_results")
    trainer = prepare(scenario(), Ranks(), seed=0)
    reduced = profile(trainer, keep=tmp_path / name)
    data = (tmp_path / name).read_bytes()
    events = json.loads(gzip.decompress(data) if name.endswith(".gz") else data)["traceEvents"]
    names = [event["name"] for event in events if event.get("ph") == "X"]
    assert [n for n in names if n.startswith("phase:")] == ["phase:forward", "phase:backward", "phase:optimizer"]
    (products,) = (kernel for kernel in reduced.kernels if kernel.name == "aten::mm")
    assert products.count == names.count("aten::mm") == 3 * (7 * 2 + 1)
    assert any(event.get("args", {}).get("Input Dims") for event in events)
