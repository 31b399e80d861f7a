"""The probe gives a chip of this machine that the estimator can use."""

from __future__ import annotations

import json

import pytest
import torch

from estimator.scenario.codec import decode
from estimator.scenario.hardware import Chip
from estimator.scenario.scenario import scenario_from_json
from runners.benchmarks.chip import probe, run
from runners.ranks import Ranks
from tests.runners.examples import scenario_json


@pytest.fixture(scope="module")
def document(tmp_path_factory):
    path = tmp_path_factory.mktemp("probe") / "chip.json"
    assert run(path, 1.0, "cpu") == 0
    return json.loads(path.read_text(encoding="utf-8"))


def test_the_document_says_what_it_is(document):
    assert document["schema_version"] == 1
    assert document["device"]["kind"] == "cpu"
    assert document["environment"]["torch"] == torch.__version__


def test_the_chip_can_be_read_and_is_plausible(document):
    chip = decode(Chip, document["chip"])
    assert chip.name == "cpu"
    assert 1e8 < chip.fp32_flops_per_s < 1e15
    assert chip.bf16_flops_per_s > 0
    assert chip.tf32_flops_per_s == 0
    assert 1e8 < chip.memory_bytes_per_s < 1e13
    assert chip.memory_bytes > 1e8
    assert chip.chips_per_node == 1


def test_the_chip_serves_a_scenario(document):
    scenario = scenario_from_json(scenario_json(cluster={"chip": document["chip"]}))
    assert scenario.cluster.chip.fp32_flops_per_s == document["chip"]["fp32_flops_per_s"]


def test_the_hosts_time_is_per_kernel(document):
    host = document["host"]
    assert 1e-7 < host["forward_s_per_kernel"] < 1e-2
    assert 1e-7 < host["backward_s_per_kernel"] < 1e-2
    assert host["backward_kernels"] > host["forward_kernels"] > 4 * 20


def test_peaks_are_the_best_of_the_samples(document):
    rates = [rate for key, found in document["samples"].items() if "fp32_matmul" in key for rate in found.values()]
    assert document["chip"]["fp32_flops_per_s"] == max(rates)
    assert document["chip"]["memory_bytes_per_s"] == document["samples"]["copy_bytes_per_s"]["maximum"]


@pytest.mark.parametrize(("whole", "single"), [(0.0, False), (100.0, True)])
def test_one_thread_is_measured_too_where_others_use_the_cpu(monkeypatch, whole, single):
    monkeypatch.setattr("runners.benchmarks.chip.WHOLE_SHARE_FRAC", whole)
    threads = torch.get_num_threads()
    samples = probe(Ranks(), 0.2)["samples"]
    assert 0 < samples["cpu_share_frac"] < 1.5
    assert ("fp32_matmul_1_flops_per_s" in samples) is single
    assert torch.get_num_threads() == threads
