"""Op lists that tests of their estimates share, and the estimate of one on a chip."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.op_list import OpList, from_json

OPS = Path(__file__).parents[2] / "reference" / "ops"


def traced(name: str) -> OpList:
    return from_json(json.loads((OPS / f"{name}.json").read_text(encoding="utf-8")))


LLAMA, GPT2 = traced("llama"), traced("gpt2")


def predicted(found: OpList, chip: str = "", **changes):
    cluster = cluster_for(found, chip)
    return estimate_op_list(found, replace(cluster, chip=replace(cluster.chip, **changes)))
