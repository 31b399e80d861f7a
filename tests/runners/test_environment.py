"""What a result tells of its machine, and what it must not."""

from __future__ import annotations

import getpass
import json
import platform
import re

import pytest
import torch

from estimator.scenario import catalog
from runners.environment import clock_hz, device, environment, l2_bytes, other_chip


def test_software_and_device_are_named():
    found, here = environment(cuda=False), device(cuda=False)
    assert found["torch"] == torch.__version__
    assert found["python"] == platform.python_version()
    assert found["threads"] == here["compute_units"] == torch.get_num_threads()
    assert here["kind"] == "cpu"
    assert here["name"]
    assert 1e8 < here["memory_bytes"] < 1e15


def test_no_host_user_or_path_is_told():
    text = json.dumps([environment(cuda=False), device(cuda=False)])
    words = set(re.findall(r"[\w.-]+", text))
    assert platform.node() not in words
    assert getpass.getuser() not in words
    assert "/" not in text


def test_clock_and_cache_are_numbers():
    assert clock_hz(cuda=False) >= 1e8
    assert l2_bytes(cuda=False) >= 0


@pytest.mark.parametrize(("kind", "name"), [("cpu", "AMD EPYC"), ("cuda", "NVIDIA A100-SXM4-80GB")])
def test_another_chip_than_the_scenarios_is_a_warning(kind, name):
    (warning,) = other_chip(catalog.chip("h100-sxm"), kind, name)
    assert warning.code == "other_chip"
    assert warning.where == "cluster.chip"
    assert name in warning.message


def test_the_scenarios_own_chip_or_an_unknown_one_is_not():
    assert other_chip(catalog.chip("a100-80gb-sxm"), "cuda", "NVIDIA A100-SXM4-80GB") == []
    assert other_chip(catalog.chip("h100-sxm"), "cuda", "Never heard of") == []
