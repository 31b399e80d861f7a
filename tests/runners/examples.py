"""Small scenarios and subprocesses that several tests of the runners share."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from estimator.scenario.scenario import Scenario, scenario_from_json

ROOT = Path(__file__).resolve().parents[2]

TINY: dict[str, Any] = {
    "model": {"layers": 2, "hidden": 64, "heads": 4, "kv_heads": 2, "ffn": 128, "vocab": 97},
    "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
    "plan": {"micro_batch": 2},
    "training": {"seq_len": 32, "global_batch": 2, "precision": "fp32", "attention": "sdpa"},
}


def scenario_json(dp: int = 1, **changes: dict[str, Any]) -> dict[str, Any]:
    """TINY with some fields of its parts replaced, over ``dp`` chips."""
    document = copy.deepcopy(TINY)
    document["plan"]["dp"] = document["cluster"]["chips_per_node"] = dp
    document["training"]["global_batch"] = 2 * dp
    for part, values in changes.items():
        document[part] |= values
    return document


def scenario(dp: int = 1, **changes: dict[str, Any]) -> Scenario:
    return scenario_from_json(scenario_json(dp, **changes))


def too_large(dp: int = 1) -> dict[str, Any]:
    """A micro-batch whose activations need hundreds of GB."""
    size = 1_000_000
    return scenario_json(dp, plan={"micro_batch": size}, training={"global_batch": size * dp})


def limited(command: tuple[str, ...], address_space_bytes: int = 6_000_000_000) -> tuple[str, ...]:
    """The same command with less memory than that, so that allocation fails instead of the machine."""
    code = (
        f"import os, resource, sys; resource.setrlimit(resource.RLIMIT_AS, ({address_space_bytes},) * 2); "
        "os.execv(sys.argv[1], sys.argv[1:])"
    )
    return (sys.executable, "-c", code, *command)


def run_module(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run ``python -m runners`` as a user does."""
    return subprocess.run(
        (sys.executable, "-m", "runners", *arguments),
        cwd=options.pop("cwd", ROOT),
        env={**os.environ, **options.pop("environment", {})},
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
        **options,
    )


def write_scenario(folder: Path, document: dict[str, Any]) -> Path:
    path = folder / "scenario.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path
