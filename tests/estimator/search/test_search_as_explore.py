"""Search against Explore: no slider leads from the plan that a search found best to a better one."""

import pytest

from estimator.search.axis import axis
from estimator.search.sweep import sweep

SLIDERS = ("plan.micro_batch", "plan.tp", "plan.pp", "plan.cp", "plan.ep", "plan.expert_tp", "plan.virtual_stages")


@pytest.mark.parametrize(
    ("model", "cluster", "seq_len", "global_batch"),
    [
        ("gpt2", {"chip": "h100-sxm", "chips_per_node": 1}, 1024, 64),
        ("llama3-8b", {"chip": "h200-sxm", "chips_per_node": 8}, 4096, 64),
        ("qwen3-30b-a3b", {"chip": "h200-sxm", "chips_per_node": 8}, 4096, 64),
    ],
)
def test_no_slider_beats_the_best_plan(model, cluster, seq_len, global_batch):
    document = {
        "model": model,
        "cluster": cluster,
        "training": {"seq_len": seq_len, "global_batch": global_batch, "precision": "bf16"},
    }
    best = sweep(document).best[0]
    chips = cluster["chips_per_node"]
    for field in SLIDERS:
        for point in axis(document | {"plan": best.scenario["plan"]}, field).points:
            if point.estimate is not None and point.estimate.memory.fits and point.estimate.chips == chips:
                assert point.estimate.step_time_s >= best.step_time_s * (1 - 1e-9), (field, point.value)


def test_micro_batches_beyond_the_odd_sizes_are_tried():
    training = {"seq_len": 1024, "global_batch": 64, "precision": "bf16"}
    cluster = {"chip": "h100-sxm", "chips_per_node": 1}
    assert (
        sweep({"model": "gpt2", "cluster": cluster, "training": training}).best[0].scenario["plan"]["micro_batch"] > 16
    )


def test_experts_are_divided_where_that_is_faster():
    document = {
        "model": "mixtral-8x7b",
        "cluster": {"chip": "b200", "chips_per_node": 8},
        "training": {"seq_len": 4096, "global_batch": 8},
        "locked": {"ep": 2, "tp": 4, "cp": 1},
    }
    free, whole = sweep(document), sweep({**document, "locked": {**document["locked"], "expert_tp": 1}})
    assert free.best[0].scenario["plan"]["expert_tp"] == 4
    assert not whole.best or free.best[0].step_time_s < whole.best[0].step_time_s
