"""A scenario in one line: model, chips, and what of plan and training is no default."""

from __future__ import annotations

from dataclasses import replace

import pytest

from app.commands.described import described
from estimator.scenario.scenario import scenario_from_json
from tests.app.examples import scenario

H100 = "NVIDIA H100 SXM 80 GB"


@pytest.mark.parametrize(
    ("document", "line"),
    [
        (
            {
                "model": "gpt2",
                "cluster": {"chip": "h100-sxm", "chips_per_node": 1},
                "training": {"seq_len": 1024, "global_batch": 8, "compile": True},
            },
            f"gpt2 on 1 × {H100}, micro_batch 1, seq_len 1024, global_batch 8, bf16-amp, compile",
        ),
        (
            {
                "model": "llama3-70b",
                "cluster": {"chip": "h100-sxm", "nodes": 4},
                "plan": {"dp": 2, "tp": 4, "pp": 4, "schedule": "gpipe", "overlap": False},
                "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16", "framework": "megatron"},
            },
            f"llama3-70b on 32 × {H100} in 4 nodes, dp 2, tp 4, pp 4, gpipe, ddp, micro_batch 1, no overlap, "
            "seq_len 4096, global_batch 64, bf16, megatron",
        ),
    ],
)
def test_a_line_says_what_is_predicted(document, line):
    assert described(scenario_from_json(document)) == line


def test_what_has_no_name_is_told_by_its_kind():
    chosen = scenario_from_json(scenario())
    chip = replace(chosen.cluster.chip, name="", label="")
    chosen = replace(chosen, cluster=replace(chosen.cluster, chip=chip), model=replace(chosen.model, name=""))
    assert described(chosen).startswith("transformer on 1 × chip, ")
