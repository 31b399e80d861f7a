"""A GPU host without our server: two folders, Python and torch are enough, and the result is uploaded."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from app.settings import ROOT
from estimator.scenario import catalog
from estimator.scenario.scenario import scenario_from_json
from runners.parallel.variants import parse
from runners.refusals import refusals
from tests.app.examples import scenario
from tests.markdown import blocks

FOLDERS = ("estimator", "runners")

TORCH = (
    *("torch", "torchgen", "functorch", "triton", "nvidia", "filelock", "typing_extensions.py", "sympy", "mpmath"),
    *("networkx", "jinja2", "markupsafe", "fsspec"),
)
"""What ``pip install torch`` brings."""

ALONE = """
import runpy, sys
sys.path[:0] = [sys.argv[1]]
sys.path.append(sys.argv[2])
sys.argv = ["runners", *sys.argv[3:]]
runpy.run_module("runners", run_name="__main__", alter_sys=True)
"""
"""``python -m runners`` in an interpreter that sees no installed package but those in one folder."""


def host_with(folder, *names):
    """A folder as on the host after the copy, and beside it one with torch alone."""
    for name in names:
        shutil.copytree(ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
    installed = Path(sysconfig.get_paths()["purelib"])
    packages = folder.with_name(f"{folder.name}-packages")
    packages.mkdir()
    for name in TORCH:
        if (installed / name).exists():
            (packages / name).symlink_to(installed / name)
    return folder


def alone(folder, *arguments):
    packages = folder.with_name(f"{folder.name}-packages")
    command = (sys.executable, "-I", "-S", "-c", ALONE, folder, packages, *arguments)
    environment = {"OMP_NUM_THREADS": "1"}
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=240, check=False
    )


def test_two_folders_are_enough_and_the_result_can_be_uploaded(client, tmp_path):
    host = host_with(tmp_path / "host", *FOLDERS)
    (host / "SCENARIO.json").write_text(json.dumps(scenario()))
    sizes = ("--device", "cpu", "--steps", "2", "--warmup", "1", "--label", "bare host")
    done = alone(host, "step", "--scenario", "SCENARIO.json", "--out", "RESULT.json", *sizes)
    assert done.returncode == 0, done.stderr
    response = client.put("/api/uploads?filename=RESULT.json", content=(host / "RESULT.json").read_bytes())
    assert response.status_code == 201, response.text
    (measured,) = response.json()["measurements"]
    assert (measured["label"], measured["status"]) == ("bare host", "ok")
    whole = client.get(f"/api/measurements/{measured['id']}").json()
    assert len(whole["steps_s"]) == 2
    assert whole["prediction"]["step_time_s"] > 0


@pytest.mark.parametrize("name", FOLDERS)
def test_each_of_the_two_is_needed(name, tmp_path):
    done = alone(host_with(tmp_path / "host", name), "--help")
    assert done.returncode != 0
    assert "No module named" in done.stderr


def test_the_readme_shows_these_steps():
    (steps,) = (block.text for block in blocks(ROOT / "README.md", "sh") if "scp -r" in block.text)
    written = re.search(r"echo '(\{.+?\})' > SCENARIO\.json", steps, re.DOTALL)
    assert written
    assert refusals(scenario_from_json(json.loads(written[1])), world_size=1, cuda=True) == [], "it can be measured"
    assert "scp -r estimator runners " in steps
    assert "python -m runners step --scenario SCENARIO.json --out RESULT.json" in steps
    assert "curl --upload-file RESULT.json" in steps
    assert "/api/uploads?filename=RESULT.json" in steps


def test_the_readme_spreads_a_model_over_ranks_in_every_way_that_it_names(client, tmp_path):
    (steps,) = (block.text for block in blocks(ROOT / "README.md", "sh") if "runners ddp" in block.text)
    line = steps.splitlines()[0].removeprefix("ssh gpu-host ")
    written = shlex.split(line)
    assert written[:2] == ["torchrun", "--nproc-per-node"]
    ranks, name = int(written[2]), written[written.index("--models") + 1]
    variants = [parse(text) for text in written[written.index("--variants") + 1].split(",")]
    assert {one.kind for one in variants} == {"fsdp", "zero1", "tp", "pp"}
    model = catalog.model(name)
    assert not model.tied_embedding, "tensor and pipeline parallelism refuse a head that is the embedding"
    assert {model.heads % ranks, model.kv % ranks, model.ffn % ranks, model.layers % ranks} == {0}
    assert all(one.micro_batches >= ranks for one in variants if one.kind == "pp")

    # the same command with fewer ranks of a small model, on the CPU
    host = host_with(tmp_path / "host", *FOLDERS)
    written[2], written[written.index("--models") + 1] = "2", "tiny"
    sizes = ("--device", "cpu", "--seq-lens", "16", "--precisions", "fp32", "--warmup", "1", "--steps", "2")
    torchrun = (sys.executable, "-m", "torch.distributed.run", *written[1:], *sizes)
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE", "PYTHONPATH")}
    done = subprocess.run(
        torchrun,
        cwd=host,
        env=environment | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    response = client.put("/api/uploads?filename=DDP.json", content=(host / "DDP.json").read_bytes())
    assert response.status_code == 201, response.text
    (measured,) = response.json()["measurements"]
    rows = client.get(f"/api/measurements/{measured['id']}").json()["rows"]
    assert [(row["variant"], row["status"]) for row in rows] == [(one.text, "ok") for one in variants]
