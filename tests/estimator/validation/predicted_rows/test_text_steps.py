"""Lines of imported tables: on as many chips as each names, each on its own chip, and what they leave out."""

from __future__ import annotations

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario import catalog
from estimator.scenario.measurement import Measurement, Origin
from estimator.scenario.scenario import scenario_from_json
from estimator.validation.predicted_rows import predicted_table
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.text_steps import scenario_of_text_row, text_row, usual_precision
from estimator.validation.spellings import chips_named

LINE = {
    "model": "Llama-3-8B", "catalogue_model": "llama3-8b", "gpu": "H100", "gpus": 8, "batch": 64, "seq_len": 4096,
    "precision": "bf16", "step_s": 4.0, "status": "ok",
}  # fmt: skip
SMALL = {"model": "gpt2", "catalogue_model": "gpt2", "batch": 4, "seq_len": 1024, "step_s": 0.1, "status": "ok"}


def table(*rows):
    return Measurement(origin=Origin(kind="upload", format="text/step-times"), rows=rows)


def test_a_line_of_several_gpus_shares_its_batch_among_them_under_fsdp():
    place = TableDevice(chip="h100-sxm", ranks=1)
    found = text_row({**LINE, "micro_batch": 2, "recompute": "none"}, place)
    alone = estimate(
        scenario_from_json(
            {
                "model": "llama3-8b",
                "cluster": {"chip": "h100-sxm", "chips_per_node": 8, "nodes": 1},
                "plan": {"dp": 8, "sharding": "fsdp", "micro_batch": 2},
                "training": {"seq_len": 4096, "global_batch": 64, "precision": "bf16"},
            }
        )
    )
    assert found["step_s"] == pytest.approx(alone.step_time_s)
    said = "; ".join(place.assumed)
    assert "FSDP, as the table states no plan" in said
    assert "the batch is that of all GPUs together" in said
    unsaid = text_row(LINE, place)
    assert unsaid["peak_bytes"] < catalog.chip("h100").memory_bytes
    stated = text_row({**LINE, "batch": None, "batch_per_gpu": 8}, place)
    assert stated == unsaid


@pytest.mark.parametrize(
    ("columns", "why"),
    [
        ({"gpus": 6}, "batch: 64 sequences do not divide over 6 data-parallel ranks"),
        ({"tp": 3}, "gpus: 8 GPUs do not divide by tp · pp · cp = 3"),
        ({"sharding": "magic"}, "sharding: 'magic' is none that is known"),
        ({"gpus": 1, "batch": 6, "micro_batch": 4}, "micro_batch: 4 do not divide the 6 sequences"),
        (
            {"micro_batch": 4, "gradient_accumulation": 4},
            "gradient_accumulation: 4 passes of 4 sequences are not the 8 sequences of a rank",
        ),
    ],
)
def test_a_line_that_does_not_fit_together_says_why(columns, why):
    found = predicted_table(table({**LINE, **columns}), "")
    assert not any(found.rows)
    assert why in found.reasons[0]
    assert found.unpredicted == found.reasons[0]


def test_more_gpus_than_a_node_holds_are_several_nodes():
    cluster = TableDevice(chip="h100-sxm", ranks=1).cluster(16)
    assert (cluster.nodes, cluster.chips_per_node) == (2, 8)


def test_every_line_is_predicted_on_its_own_gpu_and_what_may_be_two_is_asked_for():
    rows = [{**SMALL, "gpu": name} for name in ("H100", "A100-80GB", "A100 80GB SXM", "A100", "Chip 9000")]
    unasked = predicted_table(table(*rows), "")
    assert [bool(row) for row in unasked.rows] == [True, True, True, False, False]
    assert unasked.reasons[3].startswith("A100 may be a100-40gb-pcie, a100-40gb-sxm, ")
    assert unasked.reasons[4].startswith("the catalogue has no GPU 'Chip 9000': choose one that is like it under ")
    assert unasked.rows[4] == {}
    assert unasked.chip == "NVIDIA H100 SXM 80 GB, NVIDIA A100 SXM 80 GB"
    asked = predicted_table(table(*rows), "a100-40gb-sxm")
    assert asked.rows[:3] == unasked.rows[:3]
    assert asked.rows[3]["step_s"] > asked.rows[1]["step_s"]
    assert "the catalogue has no GPU 'Chip 9000', so NVIDIA A100 SXM 40 GB is taken" in asked.assumptions
    assert asked.rows[4] == asked.rows[3]
    assert (asked.errors["step_s"].n, asked.taken_errors["step_s"].n, asked.taken) == (4, 1, "NVIDIA A100 SXM 40 GB")
    alone = predicted_table(table(rows[4]), "")
    assert "docs/adding_a_gpu.md" in alone.unpredicted


@pytest.mark.parametrize(
    ("name", "keys"),
    [
        ("NVIDIA A100-SXM4-80GB", {"a100-80gb-sxm"}),
        ("8xH100", {"h100-sxm"}),
        ("H100 80GB HBM3", {"h100-sxm"}),
        ("A100 PCIe", {"a100-40gb-pcie", "a100-80gb-pcie"}),
        ("RTX 4090", {"rtx-4090"}),
        ("no such", set()),
        ("", set()),
    ],
)
def test_names_of_gpus(name, keys):
    assert set(chips_named(name)) == keys


def test_a_precision_that_no_column_states_is_the_chips_usual_one():
    assert [usual_precision(catalog.chip(name)) for name in ("h100", "v100-32gb", "p100-pcie")] == [
        "bf16-amp", "fp16-amp", "fp32",
    ]  # fmt: skip
    found = predicted_table(table(SMALL), "h100-sxm")
    said = "precision bf16-amp on NVIDIA H100 SXM 80 GB, where the table states none (column precision)"
    assert said in found.assumptions
    both = predicted_table(table({**SMALL, "gpu": "V100-32GB"}, SMALL), "h100-sxm").assumptions
    assert [words.split(",")[0] for words in both if words.startswith("precision")] == [
        "precision fp16-amp on NVIDIA V100 SXM2 32 GB", "precision bf16-amp on NVIDIA H100 SXM 80 GB",
    ]  # fmt: skip
    assert found.rows == predicted_table(table({**SMALL, "precision": "bf16-amp"}), "h100-sxm").rows


def test_where_every_prediction_is_far_off_something_assumed_is_likely_wrong():
    assert predicted_table(table({**SMALL, "step_s": 0.9}), "h100-sxm").doubt.startswith("every prediction is more")
    assert "is its unit ms?" in predicted_table(table({**SMALL, "step_s": 40.0}), "h100-sxm").doubt
    assert "is its unit s?" in predicted_table(table({**SMALL, "step_s": 4e-5}), "h100-sxm").doubt
    near = predicted_table(table(SMALL), "h100-sxm").rows[0]["step_s"]
    assert predicted_table(table({**SMALL, "step_s": near}, {**SMALL, "step_s": 90.0}), "h100-sxm").doubt == ""


def without(row, *names):
    return {name: value for name, value in row.items() if name not in names}


@pytest.mark.parametrize(
    "columns",
    [
        {"batch_per_gpu": 4, "gradient_accumulation": 2},
        {"micro_batch": 4, "gradient_accumulation": 2},
        {"batch": 4, "gradient_accumulation": 2},
        {"global_batch": 64, "gradient_accumulation": 2},
        {"global_batch": 64, "micro_batch": 4, "dp": 8},
        {"global_batch": 64, "micro_batch": 4, "gpus": None, "dp": 8},
        {"global_batch": 64, "micro_batch": 4, "gpus": None, "nodes": 1},
        {"global_batch": 64, "micro_batch": 4, "gpus": None, "nodes": 2, "gpus_per_node": 4},
        {"batch_per_gpu": 8, "micro_batch": 4},
    ],
)
def test_a_step_is_the_same_however_its_batch_and_its_gpus_are_said(columns):
    place = TableDevice(chip="h100-sxm", ranks=1)
    one = text_row({**LINE, "global_batch": 64, "micro_batch": 4}, place)
    assert text_row({**without(LINE, "batch"), **columns}, place) == one


def test_degrees_that_do_not_make_the_gpus_are_refused_and_those_alone_make_them():
    found = predicted_table(table({**LINE, "dp": 4}), "")
    assert found.reasons == ("dp: 4 is not 8 GPUs over tp · pp · cp = 1",)
    place = TableDevice(chip="h100-sxm", ranks=1)
    assert text_row({**LINE, "tp": 2, "gpus": None, "dp": 4}, place) == text_row({**LINE, "tp": 2}, place)
    assert "as many GPUs as dp · tp · pp · cp, as the table states none (column gpus)" in place.assumed


def test_a_batch_that_is_none_is_not_taken_for_one_that_is_not_stated():
    assert predicted_table(table({**LINE, "batch": 0}), "").reasons == ("batch: 0 is no count",)
    several = predicted_table(table({**LINE, "gpus": 0}, {**LINE, "gpus": -3}), "")
    assert several.unpredicted == "gpus: 0 is no count; gpus: -3 is no count"


def test_rates_are_of_all_gpus_or_of_one():
    row = text_row({**LINE, "batch": 64}, TableDevice(chip="h100-sxm", ranks=1))
    assert row["tokens_per_s"] == pytest.approx(64 * 4096 / row["step_s"])
    assert row["tokens_per_s_per_gpu"] == pytest.approx(row["tokens_per_s"] / 8)
    assert row["samples_per_s"] == pytest.approx(64 / row["step_s"])


@pytest.mark.parametrize(("said", "read"), [("bf16-true", "bf16"), ("32-true", "fp32"), ("amp_bf16", "bf16-amp")])
def test_words_of_trainers_for_precisions(said, read):
    place = TableDevice(chip="h100-sxm", ranks=1)
    assert text_row({**SMALL, "precision": said}, place) == text_row({**SMALL, "precision": read}, place)


def test_a_batch_that_its_passes_make_is_that_of_each_gpu():
    place = TableDevice(chip="h100-sxm", ranks=1)
    own = text_row({**LINE, "batch": 8, "micro_batch": 2, "gradient_accumulation": 4}, place)
    assert own == text_row({**LINE, "batch": None, "global_batch": 64, "micro_batch": 2}, place)
    assert any(said.startswith("the batch is that of each GPU") for said in place.assumed)


def test_an_empty_cell_of_recomputation_is_none():
    whole = {**SMALL, "gpu": "H100"}
    found = predicted_table(table({**whole, "recompute": None}, {**whole, "recompute": "none"}), "")
    assert found.rows[0] == found.rows[1] != {}


def test_what_is_offloaded_is_not_passed_over():
    assert predicted_table(table({**LINE, "offload": "none"}), "").rows[0]
    assert (
        predicted_table(table({**LINE, "offload": "cpu"}), "").reasons[0].startswith("offload: 'cpu' is not predicted")
    )


def test_tokens_that_make_no_whole_sequences_are_no_batch_of_one():
    found = predicted_table(table({**without(LINE, "batch"), "batch_tokens": 5e6, "seq_len": 4096}), "")
    assert found.reasons == ("batch_tokens: 5000000.0 tokens are no whole number of sequences",)


def test_a_row_that_ran_out_of_memory_is_held_against_what_it_is_predicted_to_need():
    oom = {**LINE, "batch": 256, "seq_len": 8192, "sharding": "ddp", "step_s": None, "status": "oom"}
    small = {**oom, **SMALL, "batch": None, "batch_per_gpu": 1, "step_s": None, "status": "oom"}
    found = predicted_table(table(LINE, {**oom, "status": "ok", "step_s": 9.0}, oom, small, {**oom, "gpus": 7}), "")
    assert found.rows[2:] == ({}, {}, {})
    assert found.reasons[2].startswith("it ran out of memory, as predicted: ")
    assert found.reasons[2].endswith(" of 85.9 GB")
    assert found.reasons[3].startswith("it ran out of memory, though predicted to need ")
    assert (found.fits.oom, found.fits.oom_known, found.fits.oom_unfit) == (3, 2, 1)
    assert (found.fits.ran, found.fits.ran_unfit) == (2, 1)
    # nothing says that it took its sequences one by one, which would have been room enough
    at_once = {**LINE, "batch": 128, "step_s": None, "status": "oom"}
    assert predicted_table(table(at_once), "").fits.oom_unfit == 1
    assert predicted_table(table({**at_once, "micro_batch": 1, "recompute": "full"}), "").fits.oom_unfit == 0


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ({}, ("adamw", "default", "pytorch-eager")),
        ({"optimizer": "AdamW"}, ("adamw", "default", "pytorch-eager")),
        ({"optimizer": "AdamW (fused)"}, ("adamw", "fused", "pytorch-eager")),
        ({"optimizer": "AdamW foreach=False"}, ("adamw", "for-loop", "pytorch-eager")),
        ({"optimizer": "AdamW (fused)", "optimizer_kernel": "foreach"}, ("adamw", "foreach", "pytorch-eager")),
        ({"optimizer": "AdamW (fused)", "optimizer_kernel": "default"}, ("adamw", "default", "pytorch-eager")),
        ({"optimizer_kernel": "For-Loop"}, ("adamw", "for-loop", "pytorch-eager")),
        ({"optimizer": "8-bit Adam", "framework": "Megatron"}, ("adamw-8bit", "default", "megatron")),
        ({"framework": "our own"}, ("adamw", "default", "pytorch-eager")),
    ],
)
def test_a_line_names_its_optimizer_its_kernels_and_its_framework(columns, chosen):
    place = TableDevice(chip="h100-sxm", ranks=1)
    training = scenario_of_text_row({**SMALL, **columns}, place).training
    assert (training.optimizer, training.optimizer_kernel, training.framework) == chosen
    assert any("'our own', none that is known" in one for one in place.assumed) == ("our own" in columns.values())


def test_kernels_that_are_none_are_refused_by_their_column():
    (reason,) = predicted_table(table({**SMALL, "gpu": "H100", "optimizer_kernel": "turbo"}), "").reasons
    assert reason.startswith("optimizer_kernel: 'turbo' is none that is known; write default, foreach, fused or")


def test_a_line_of_megatron_is_laid_out_as_its_recipes_are():
    place = TableDevice(chip="h100-sxm", ranks=1)
    line = {**LINE, "gpus": 16, "tp": 4, "micro_batch": 1}
    plain, own = (scenario_of_text_row(row, place).plan for row in (line, {**line, "framework": "megatron"}))
    assert (plain.sharding, plain.sequence_parallel) == ("fsdp", False)
    assert (own.sharding, own.sequence_parallel, own.tp_overlap) == ("zero1", True, True)
    assert any("as Megatron's published recipes set it" in one for one in place.assumed)


@pytest.mark.parametrize(
    ("columns", "chosen"),
    [
        ({"compile": "no"}, (False, "sdpa")),
        ({"compile": "False", "attention": "SDPA"}, (False, "sdpa")),
        ({"compile": "Yes", "attention": "flash2"}, (True, "flash")),
        ({"compile": "max-autotune", "attention": "flash"}, (True, "flash")),
        ({"compile": True, "attention": "naive"}, (True, "eager")),
        ({"compile": 0}, (False, "sdpa")),
    ],
)
def test_a_line_says_whether_it_is_compiled_and_which_attention_it_has(columns, chosen):
    training = scenario_of_text_row({**SMALL, **columns}, TableDevice(chip="h100-sxm", ranks=1)).training
    assert (training.compile, training.attention) == chosen
