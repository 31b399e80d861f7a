"""The Triton kernels without a GPU: the portable ones interpreted, Hopper's own compiled. tests/gpu runs both."""

from __future__ import annotations

import importlib.util
import json
import os
import platform
import subprocess
import sys

import pytest

from runners.flash.attention import LSE_RELATIVE_ERROR, RELATIVE_ERROR
from tests.runners.examples import ROOT

HOPPER_SHARED_BYTES = 232_448
"""What one block may have: NVIDIA H100 Tensor Core GPU architecture, 227 KiB."""

needs_triton = pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() != "x86_64", reason="Triton is built for Linux on x86-64"
)


def lines(module, **environment):
    done = subprocess.run(
        (sys.executable, "-m", module),
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


@needs_triton
def test_the_portable_kernels_interpreted_are_attention():
    assert importlib.util.find_spec("triton") is not None, "pip install triton"
    found = lines("tests.runners.flash_interpreted", TRITON_INTERPRET="1")
    assert len(found) == 12
    for row in found:
        precision, alone = row["case"][0], row["case"][3:5] == [1, 1]
        for name, error in row["errors"].items():
            if alone and name in ("dq", "dk"):
                continue  # one key: the weight is one whatever the score, and both gradients are zero
            bound = (LSE_RELATIVE_ERROR if name == "lse" else RELATIVE_ERROR)[precision]
            assert error < bound, (row["case"], name)


@needs_triton
def test_hoppers_kernels_compile_and_fit(tmp_path):
    found = lines("tests.runners.flash_compiled", TRITON_CACHE_DIR=str(tmp_path))
    assert [(row["kernel"], row["dim"]) for row in found] == [
        (kernel, dim) for dim in (64, 128) for kernel in ("forward", "backward")
    ]
    for row in found:
        assert row["shared_bytes"] <= HOPPER_SHARED_BYTES, row
        assert row["products"] > 0, row
