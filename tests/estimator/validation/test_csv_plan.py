"""Plan and training of a row: what its cells and notes say, and what its framework is known to do else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.validation.csv_row import scenario_of_row
from tests.estimator.validation.rows import ROW, TOLD, assumed, read


@pytest.mark.parametrize(
    ("written", "compiled"), [("", False), ("no", False), ("yes", True), ("default", True), ("max-autotune", True)]
)
def test_modes_of_the_compiler_are_compiling(written, compiled):
    assert read(compile=written).training.compile is compiled


def test_ddp_of_a_table_that_does_not_know_the_distributed_optimizer_is_unstated():
    known = {"hardware": "H100", "framework": "megatron", "sharding": "ddp"}
    notes = "FSDP column=0 (0 = DDP per source; distributed-optimizer use not stated in table)"
    assert read(**known).plan.sharding == "ddp"
    assert read(**known, notes=notes).plan.sharding == "zero1"
    assert "distributed optimizer" in assumed(**known, notes=notes)


def test_megatrons_buckets_grow_with_the_ranks():
    known = {"hardware": "H100", "framework": "megatron", "global_batch": "128"}
    assert read(**known).plan.bucket_bytes == 4 * 40_000_000
    assert read(**known, n_gpus="256").plan.bucket_bytes == 4 * 64_000_000
    assert read(**known, bucket_mb="25").plan.bucket_bytes == 25 * 2**20
    assert "bucket_mb = 153 (Megatron's default)" in assumed(**known)


def test_a_chip_without_bf16_defaults_to_fp16():
    assert read(hardware="V100-32GB", precision="", pp="1", tp="1").training.precision == "fp16-amp"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("full", "full"), ("True", "full"), ("selective (attention core)", "selective"), ("no", "none")],
)
def test_spellings_of_recomputation(written, read_as):
    assert read(recompute=written).plan.recompute == read_as


def test_buckets_and_modes_of_ddp():
    assert read(bucket_mb="10").plan.bucket_bytes == 10 * 2**20
    assert read(ddp_mode="bucketed").plan.overlap
    assert not read(ddp_mode="flat").plan.overlap
    assert not read(ddp_mode="naive").plan.overlap


def test_sequence_parallelism_needs_tensor_parallelism():
    assert read(sequence_parallel="true").plan.sequence_parallel
    assert not read(sequence_parallel="true", tp="1").plan.sequence_parallel


def test_axes_of_a_row():
    plan = read(cp="2", vp="3").plan
    assert (plan.cp, plan.dp, plan.virtual_stages, plan.schedule) == (2, 2, 3, "interleaved")
    assert read(precision="amp_fp8").training.precision == "fp8"
    assert read(n_layers="25").model.layers == 25


def test_a_vp_column_without_pipeline_does_not_matter():
    assert read(vp="3", pp="1").plan.pp == 1


def test_software_is_of_the_month_that_a_row_was_measured_in():
    bert = {**ROW, "model": "BERT-large", "framework": "pytorch-eager"}
    assert read(**bert, source="docs (commit 1; measured 2022-01)").training.framework == "pytorch-1.10"
    assert read(**bert, source="docs (measured 2022-03)").training.framework == "pytorch-eager"
    assert read(framework="megatron", source="docs (measured 2022-01)").training.framework == "megatron"
    assert read(**bert, notes="HF transformers model; steady state").training.framework == "transformers"
    pages = "huggingface/transformers docs/perf.md (measured {})"
    assert read(**bert, source=pages.format("2022-01")).training.framework == "trainer-2022"
    assert read(**bert, source=pages.format("2022-03")).training.framework == "trainer"
    assert read(**{**bert, "framework": "megatron"}, source=pages).training.framework == "megatron"
    assert read(framework="torchtitan", notes="measured 2024-12").training.framework == "torchtitan-2024"
    assert read(framework="torchtitan", notes="measured 2025-06").training.framework == "torchtitan"


def test_notes_name_an_optimizer_and_families_have_their_dropout():
    bert = {**ROW, "model": "BERT-large", "framework": "pytorch-eager", "tp": "1", "pp": "1", "n_gpus": "1", "dp": "1"}
    found = scenario_of_row({**bert, "notes": "8-bit Adam; grad accumulation 1"})
    assert (found.scenario.training.optimizer, found.scenario.training.dropout) == ("adamw-8bit", 0.1)
    assert any("dropout = 0.1 (of BERT's" in text for text in found.assumptions)
    assert scenario_of_row({**bert, "mode": "inference", "measured_forward_s": "1"}).scenario.training.dropout == 0
    assert scenario_of_row({**bert, "dropout": "0.2"}).scenario.training.dropout == 0.2


@pytest.mark.parametrize(
    ("cells", "kernel"),
    [
        ({"optimizer": "AdamW (fused)"}, "fused"),
        ({"optimizer": "adamw", "optimizer_kernel": "for-loop"}, "for-loop"),
        ({"optimizer": "foreach Adam"}, "foreach"),
        ({"optimizer": "AdamW foreach=False"}, "for-loop"),
        ({"optimizer": "AdamW (fused=True)"}, "fused"),
        ({"optimizer": "AdamW fused=False"}, "default"),
        ({"optimizer": "AdamW", "optimizer_kernel": "for loop"}, "for-loop"),
        ({"optimizer": "AdamW", "optimizer_kernel": "default"}, "default"),
        ({"optimizer": "AdamW", "optimizer_kernel": "For_Loop"}, "for-loop"),
        ({}, "default"),
    ],
)
def test_a_row_names_the_kernels_of_its_optimizer(cells, kernel):
    training = read(**cells).training
    assert (training.optimizer, training.optimizer_kernel) == ("adamw", kernel)


def test_a_word_that_is_no_kernel_is_refused():
    row = scenario_of_row({**ROW, "optimizer": "AdamW (fused)", "optimizer_kernel": "turbo"})
    assert row.scenario is None
    assert row.reason.startswith("training.optimizer_kernel: 'turbo' is not known.")


@pytest.mark.parametrize(
    ("hardware", "notes", "attention", "dropout"),
    [
        ("H100-80GB", TOLD, "sdpa", 0.1),
        ("GB200", TOLD, "flash", 0.1),
        ("A100 (DGX)", TOLD, "flash", 0.1),
        ("A100 (DGX)", TOLD.replace("--deterministic-mode=True", ""), "flash", 0.1),
        ("GB200", TOLD.replace("--deterministic-mode=True", ""), "sdpa", 0.1),
        ("GB200", f"{TOLD} --attention-dropout=0.0 --hidden-dropout=0.0", "flash", 0.0),
        ("H100-80GB", "", "sdpa", 0.0),
    ],
)
def test_runs_that_list_what_they_were_told_have_the_frameworks_own_defaults_else(hardware, notes, attention, dropout):
    training = read(hardware=hardware, framework="megatron", notes=notes).training
    assert (training.attention, training.dropout) == (attention, dropout)


def test_copies_of_a_sharded_optimizer_are_told_among_the_arguments():
    told = {"framework": "megatron", "n_gpus": "8", "tp": "1", "pp": "1", "sharding": "zero1"}
    assert read(**told).plan.shard_ranks == 0
    assert read(**told, notes=f"{TOLD} --num-distributed-optimizer-instances=2").plan.shard_ranks == 4


def test_a_recipe_for_a_model_sets_its_optimizer_and_another_stays_possible():
    moonlight = {**ROW, "model": "Moonlight-16B-A3B", "n_layers": "27", "d_model": "2048", "framework": "megatron",
                 "n_gpus": "8", "pp": "1", "ep": "8", "measured_peak_mem_gib": "34"}  # fmt: skip
    usual = scenario_of_row(moonlight)
    assert usual.scenario.training.optimizer == "adamw-bf16"
    assert any("optimizer = adamw-bf16 (Megatron's recipe" in text for text in usual.assumptions)
    assert [one.training.optimizer for one in usual.other_moments] == ["adamw"]
    assert usual.scenario.training.framework == "megatron-unfused"
    assert scenario_of_row({**moonlight, "notes": TOLD}).scenario.training.framework == "megatron"
    for stated in ({"optimizer": "adamw"}, {"notes": TOLD}):
        other = scenario_of_row({**moonlight, **stated})
        assert (other.scenario.training.optimizer, other.other_moments) == ("adamw", ())
    plain = scenario_of_row({**moonlight, "model": "some gpt", "ep": "1"})
    assert [plain.scenario, *plain.other_moments] == [
        replace(plain.scenario, training=replace(plain.scenario.training, optimizer=name))
        for name in ("adamw", "adamw-bf16")
    ]


@pytest.mark.parametrize(
    ("changed", "dispatch", "experts"),
    [
        ({}, "to-nodes", "fused"),
        ({"source": "archive 26.06.01 NeMo Container"}, "to-nodes", "fused"),
        ({"source": "archive 26.04 NeMo Container"}, "to-experts", "default"),
        ({"source": "a paper"}, "to-experts", "default"),
        ({"hardware": "H100"}, "to-experts", "default"),
        ({"precision": "bf16"}, "to-nodes", "default"),
        ({"framework": "xla"}, "to-experts", "default"),
    ],
)
def test_megatrons_newer_recipes_for_blackwell_fuse_experts_and_send_tokens_once(changed, dispatch, experts):
    row = {"model": "Qwen3-30B-A3B", "n_layers": "48", "d_model": "2048", "n_heads": "32", "hardware": "GB200",
           "n_gpus": "8", "tp": "1", "pp": "1", "dp": "8", "ep": "8", "precision": "MXFP8", "framework": "megatron",
           "source": "archive 26.06 NeMo Container"}  # fmt: skip
    found = read(**{**row, **changed})
    assert (found.plan.ep_dispatch, found.training.experts) == (dispatch, experts)
    said = assumed(**{**row, **changed})
    assert ("ep_dispatch = to-nodes" in said) == (dispatch == "to-nodes")
    assert ("experts = fused" in said) == (experts == "fused")


@pytest.mark.parametrize(
    ("model", "fused_at_first"),
    [
        ({"model": "Qwen3-30B-A3B", "n_layers": "48", "d_model": "2048", "n_heads": "32"}, True),
        ({"model": "GPT-OSS-120B", "n_layers": "36", "d_model": "2880", "n_heads": "64"}, False),
    ],
)
def test_experts_that_the_first_fused_kernels_refused_may_have_run_unfused(model, fused_at_first):
    row = {**ROW, "hardware": "GB200", "n_gpus": "8", "tp": "1", "pp": "1", "dp": "8", "ep": "8", "precision": "MXFP8",
           "framework": "megatron", "source": "archive 26.06 NeMo Container", **model}  # fmt: skip
    assert read(**row).training.experts == "fused"
    others = {one.training.experts for one in scenario_of_row(row).alternatives}
    assert others == ({"fused"} if fused_at_first else {"fused", "default"})


def test_torchtitans_pipelines_of_2024_had_as_many_micro_batches_as_stages():
    row = {"framework": "torchtitan", "micro_batch": "", "tp": "1", "pp": "4", "dp": "4", "global_batch": "128"}
    older = {**row, "notes": "measured 2024-12"}
    assert read(**older).plan.micro_batch == 8
    assert read(**row).plan.micro_batch == 1
    assert "as many micro-batches as stages" in assumed(**older)
    assert "as many micro-batches" not in assumed(**row)
