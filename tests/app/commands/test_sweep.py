"""``headroom sweep``: plans for people and as JSON, and specifications that are refused."""

from __future__ import annotations

import json

import pytest

from app.cli import run
from tests.app.examples import LLAMA

SPEC = {key: LLAMA[key] for key in ("model", "cluster", "training")} | {"locked": {"pp": 1, "tp": 1}}
BF16 = {"training": LLAMA["training"] | {"precision": "bf16"}}


def test_sweep_lists_plans(write, capsys):
    assert run(["sweep", write(SPEC), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"plans_tried", "plans_fitting", "plans_per_s", "seconds", "best", "pareto"} <= set(found)
    assert run(["sweep", write(SPEC)]) == 0
    text = capsys.readouterr().out
    assert "best by step_time" in text
    assert "training, where the file leaves it out: " in text
    assert "framework pytorch-eager" in text.split("best by")[0]
    assert "precision" not in text.split("best by")[0], "the file gives it"
    assert run(["sweep", write(SPEC | {"limits": {"memory_bytes": 80}})]) == 1
    captured = capsys.readouterr()
    assert "No plan fits within limits.memory_bytes = 80 B: allow more, " in captured.out
    assert '"search": {"offload": "all"}' in captured.out, (
        "plans that keep state in the host's memory were not asked for"
    )
    assert "the plan of least memory needs " in captured.err
    assert " of 80 B a chip: " in captured.err
    tried = SPEC | {"limits": {"max_step_time_s": 1e-3}, "search": {"offload": "all"}}
    assert run(["sweep", write(tried)]) == 1
    captured = capsys.readouterr()
    assert "offload" not in captured.out
    assert "the fastest plan that fits takes " in captured.err
    locked = SPEC | {"locked": {"cp": 1, "schedule": "gpipe", "placement": "dp-tp-cp-pp", "offload": "none"}}
    assert run(["sweep", write(locked), "--json"]) == 0
    for found in json.loads(capsys.readouterr().out)["best"]:
        assert found["scenario"]["plan"]["placement"] == "dp-tp-cp-pp"
        assert found["scenario"]["plan"]["schedule"] == "gpipe"


def test_a_best_plan_that_may_run_out_of_memory_says_so(write, capsys):
    long = {**LLAMA["training"], "seq_len": 8192, "global_batch": 64, "precision": "bf16-amp"}
    tight = SPEC | {"training": long, "cluster": {"chip": "h100-sxm", "chips_per_node": 4}}
    assert run(["sweep", write(tight), "--json"]) == 0
    best, *others = json.loads(capsys.readouterr().out)["best"]
    assert best["out_of_memory_frac"] > 0.2 > min(one["out_of_memory_frac"] for one in others)
    assert run(["sweep", write(tight)]) == 0
    assert 0.2 < best["out_of_memory_frac"] < 0.4
    risk = f"(about {best['out_of_memory_frac']:.0%} of steps predicted like it run out of memory)"
    assert f"best by step_time; the first fits only just {risk}:" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"model": "llama3-8b"}, "cluster: is missing"),
        (SPEC | {"locked": {"placement": "tp-dp"}}, "locked.placement: "),
        (SPEC | {"cluster": {"chip": "v100-32gb"}} | BF16, "training.precision: "),
        ([], 'holds a list, not a search. Write {"model": '),
        ("null", "holds null, not a search. "),
        (LLAMA, "plan: is what a search finds. Leave it out; "),
        (SPEC | {"locked": {"tp": 3}}, "locked.tp: tp = 3 does not divide 8 chips. "),
        (SPEC | {"limits": {"memory": 80}}, "limits.memory: unknown key. Did you mean 'memory_bytes'?"),
    ],
)
def test_bad_input_is_one_line_per_problem(refused, content, words):
    refused(["sweep"], content, words)
