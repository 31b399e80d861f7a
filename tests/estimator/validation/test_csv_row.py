"""CSV row: what cells mean, which scenario a row of a table tells, and what it leaves to assume."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.hardware import chips_of_a_node
from estimator.scenario.plan import SHARDINGS as PLANNED
from estimator.scenario.training import PRECISIONS as MODELLED
from estimator.validation.csv_row import scenario_of_row
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.text_steps import text_row
from estimator.validation.score import predict_rows
from estimator.validation.spellings import PRECISIONS, SHARDINGS, chip_of, chips_named, flag, optimizer_of, sharding_of
from tests.estimator.validation.rows import ROW, assumed, read, reason


def test_what_is_stated_is_taken():
    found = read()
    assert (found.plan.tp, found.plan.pp, found.plan.dp, found.plan.micro_batch) == (2, 2, 4, 2)
    assert (found.model.layers, found.model.hidden, found.model.heads) == (24, 1024, 16)
    assert (found.training.seq_len, found.training.global_batch, found.training.precision) == (1024, 64, "bf16")
    assert (found.cluster.chip.name, found.cluster.chips_per_node, found.cluster.nodes) == ("h100-sxm", 8, 2)
    assert scenario_of_row(ROW).measured_step_s == 1.25
    assert scenario_of_row(ROW).source_id == "row_1"


def test_what_is_left_empty_is_assumed_and_listed():
    text = assumed(micro_batch="", tp="", pp="", precision="")
    for words in ("micro_batch = 4 (as many sequences of a GPU at a time as fit)", "tp = 1", "pp = 1",
                  "dp = 16", "precision = bf16", "framework = pytorch-eager",
                  "d_ff = 4096", "vocab = ", "recompute = none", "GPT blocks, tied embedding"):  # fmt: skip
        assert words in text


def test_what_is_stated_is_not_listed_as_assumed():
    text = assumed(framework="megatron", d_ff="4096", vocab="51200", recompute="full", dp="4")
    for words in ("micro_batch", "tp =", "dp =", "precision", "framework", "d_ff", "vocab", "recompute"):
        assert words not in text


def test_the_measurement_changes_nothing_but_itself():
    slow = scenario_of_row({**ROW, "measured_step_time_s": "99", "measured_mfu": "3"})
    assert slow.scenario == scenario_of_row(ROW).scenario
    assert slow.assumptions == scenario_of_row(ROW).assumptions


@pytest.mark.parametrize(
    ("model", "words"),
    [
        ("Llama3-70B LoRA", "adapters only"),
        ("Llama3.1-8B QLoRA", "adapters only"),
    ],
)
def test_what_is_no_step_of_the_whole_model_is_refused(model, words):
    assert words in reason(model=model)


@pytest.mark.parametrize("model", ["Llama3-70B SFT", "Llama3.2-1B [forward+backward+AdamW]"])
def test_whole_steps_are_read(model):
    assert read(model=model).model.name == model
    assert scenario_of_row({**ROW, "model": model}).measured.timed_parts == ()


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


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("amp_bf16", "bf16-amp"),
        ("fp16", "fp16-amp"),
        ("BF16", "bf16"),
        ("float32", "fp32"),
        ("autocast", "bf16-amp"),
        ("float8", "fp8"),
        ("FP8 (current scaling)", "fp8"),
        ("BF16 + FP8", "fp8"),
        ("fp16 mixed", "fp16-amp"),
    ],
)
def test_spellings_of_precisions(written, read_as):
    assert read(precision=written).training.precision == read_as


def test_every_spelling_leads_to_something_modelled():
    assert set(PRECISIONS.values()) <= set(MODELLED)
    assert set(SHARDINGS.values()) <= set(PLANNED)


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("FSDP2", "fsdp"), ("Full Shard", "fsdp"), ("SHARD_GRAD_OP", "zero3"), ("ZeRO stage 2", "zero2"),
     ("zero-0", "ddp"), ("deepspeed_stage_3", "zero3"), ("DistributedDataParallel", "ddp"),
     ("none (dp=1)", "ddp"), ("auto", "")],
)  # fmt: skip
def test_spellings_of_shardings(written, read_as):
    assert sharding_of(written) == read_as


def test_a_row_that_ran_out_of_memory_says_what_it_needs_instead_of_an_error():
    (small,) = predict_rows([{**ROW, "oom": "yes"}])
    (large,) = predict_rows([{**ROW, "n_layers": "2000", "status": "OutOfMemoryError"}])
    assert small.reason.startswith("it ran out of memory, though predicted to need ")
    assert large.reason.startswith("it ran out of memory, as predicted: ")


def test_a_chip_without_bf16_defaults_to_fp16():
    assert read(hardware="V100-32GB", precision="", pp="1", tp="1").training.precision == "fp16-amp"


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("full", "full"), ("True", "full"), ("selective (attention core)", "selective"), ("no", "none")],
)
def test_spellings_of_recomputation(written, read_as):
    assert read(recompute=written).plan.recompute == read_as


def test_a_stated_network_is_shared_by_the_chips_of_a_node():
    assert read(interconnect="1600 Gbps node-node").cluster.network.bytes_per_s == 1600e9 / 8 / 8
    default = read().cluster.network.bytes_per_s
    assert read(interconnect="NVLink").cluster.network.bytes_per_s == default


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


def test_an_8_gpu_row_is_one_node():
    assert read(n_gpus="4", pp="1").cluster.nodes == 1
    assert read(n_gpus="4", pp="1").cluster.chips_per_node == 4


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"ep": "8"}, "no experts"),
        ({"experts": "64"}, "model.top_k"),
        ({"model": "Mystery-8x7B"}, "has experts"),
        ({"cp": "3"}, "plan.cp"),
        ({"vp": "5"}, "plan.virtual_stages"),
        ({"precision": "nvfp4"}, "no matrix unit for fp4"),
        ({"precision": "int3"}, "int3"),
        ({"hardware": ""}, "hardware"),
        ({"hardware": "abacus"}, "abacus"),
        ({"d_model": ""}, "d_model is empty"),
        ({"d_model": "wide"}, "not a number"),
        ({"n_layers": "inf"}, "not a number"),
        ({"tp": "3"}, "plan"),
        ({"tp": "0"}, "tp is 0, no count"),
        ({"n_gpus": "0"}, "n_gpus is 0, no count"),
        ({"n_gpus": "20"}, "global_batch"),
        ({"optimizer": "lion"}, "training.optimizer"),
    ],
)
def test_what_cannot_be_predicted_has_a_reason(changes, words):
    assert words in reason(**changes)


@pytest.mark.parametrize("column", [name for name in ROW if name not in ("source_id", "hardware", "model")])
@pytest.mark.parametrize("cell", ["nan", "inf", "-1", "0", "1e400", "?"])
def test_no_cell_ends_in_a_traceback(column, cell):
    row = scenario_of_row({**ROW, column: cell})
    assert (row.scenario is None) == bool(row.reason)


def test_a_vp_column_without_pipeline_does_not_matter():
    assert read(vp="3", pp="1").plan.pp == 1


def test_spaces_and_missing_columns_do_not_matter():
    row = scenario_of_row({f" {key} ": f" {value} " for key, value in ROW.items()})
    assert row.scenario == scenario_of_row(ROW).scenario
    assert scenario_of_row({}).reason


@pytest.mark.parametrize(("text", "default", "value"), [("", True, True), ("Yes", False, True), ("0", True, False)])
def test_flag(text, default, value):
    assert flag(text, default) is value


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("AdamW", "adamw"), ("adamw-fused", "adamw"), ("adamw-forloop", "adamw"), ("AdamW (fused)", "adamw"),
     ("fused adam", "adamw"), ("SGD", "sgd"), ("lion", "lion"), ("", ""),
     ("8-bit Adam", "adamw-8bit"), ("PagedAdamW8bit", "adamw-8bit"), ("Adafactor", "adafactor")],
)  # fmt: skip
def test_spellings_of_optimizers(written, read_as):
    assert optimizer_of(written) == read_as


@pytest.mark.parametrize(
    ("written", "read_as"),
    [("8x NVIDIA H100 80GB HBM3", "h100-sxm"), ("H200 (SXM)", "h200-sxm"), ("AMD Instinct MI250 (one GCD)", "mi250"),
     ("A100-80GB SXM (Selene DGX A100)", "a100-80gb-sxm"), ("B200 [HGX]", "b200"), ("abacus", "abacus")],
)  # fmt: skip
def test_spellings_of_chips(written, read_as):
    assert chip_of(written) == read_as


def test_a_rack_is_used_as_evenly_as_the_chips_divide():
    assert [chips_of_a_node(chips, 72) for chips in (8, 64, 72, 128, 144, 256)] == [8, 64, 72, 64, 72, 64]
    wide = {"hardware": "GB200", "n_gpus": "256", "global_batch": "128"}
    cluster = read(**wide).cluster
    assert (cluster.chips_per_node, cluster.nodes) == (64, 4)
    assert "64 chips of a node used" in assumed(**wide)


def test_a_tuned_table_is_taken_to_have_the_fastest_micro_batch_that_fits():
    tuned = {**ROW, "framework": "megatron", "micro_batch": "", "n_layers": "24", "global_batch": "512"}
    (found,) = predict_rows([tuned])
    each = predict_rows([{**tuned, "micro_batch": str(size)} for size in (1, 2, 4, 8)])
    fitting = [one.step_s for one in each if one.fits]
    assert found.step_s == min(fitting)
    size = found.row.scenario.plan.micro_batch
    said = [one for one in found.row.assumptions if one.startswith("micro_batch")]
    assert said == [f"micro_batch = {size} (the fastest that fits, as the table is of tuned runs)"]
    (plain,) = predict_rows([{**tuned, "framework": "pytorch-eager"}])
    assert plain.row.scenario.plan.micro_batch == 1


@pytest.mark.parametrize(
    ("columns", "wanted"),
    [
        ({"hardware": "H100-80GB", "global_batch": "4"}, 4),
        ({"hardware": "RTX 4090", "global_batch": "48"}, 12),
        ({"hardware": "H100-80GB", "global_batch": "8", "micro_batch": "2"}, 2),
    ],
    ids=["all at once", "what fits", "stated"],
)
def test_a_row_has_the_micro_batch_that_an_imported_table_takes(columns, wanted):
    row = {**ROW, "model": "gpt2", "n_layers": "12", "d_model": "768", "n_heads": "12", "vocab": "50257", "n_gpus": "1",
           "tp": "1", "pp": "1", "micro_batch": "", "precision": "fp32", "recompute": "none",
           "attention_impl": "sdpa", **columns}  # fmt: skip
    (found,) = predict_rows([row])
    said = {name: int(row[name]) for name in ("global_batch", "micro_batch", "seq_len") if row[name]}
    line = {"catalogue_model": "gpt2", "gpus": 1, "precision": "fp32", "recompute": "none", "attention": "sdpa", **said}
    (chip,) = chips_named(columns["hardware"])
    imported = text_row(line, TableDevice(chip=chip, ranks=1))
    assert found.row.scenario.plan.micro_batch == wanted
    assert found.fits
    assert imported["step_s"] == pytest.approx(found.step_s)


def test_what_a_row_leaves_open_widens_its_interval():
    row = {**ROW, "framework": "megatron", "n_layers": "24", "global_batch": "512"}
    (stated,) = predict_rows([{**row, "vp": "1"}])
    (unstated,) = predict_rows([{**row, "micro_batch": ""}])
    assert stated.row.alternatives == ()
    sizes = {(one.plan.micro_batch, one.plan.virtual_stages) for one in unstated.row.alternatives}
    assert sizes == {(1, 1), (2, 1), (4, 1), (8, 1), (1, 3), (1, 12)}
    known = estimate(unstated.row.scenario)
    assert unstated.step_s == known.step_time_s
    assert unstated.low_s < known.interval_s[0] or unstated.high_s > known.interval_s[1]


def test_the_last_ranks_memory_is_told_from_the_fullest():
    cells = {"measured_peak_mem_gib": "4", "framework": "megatron"}
    logged = scenario_of_row({**ROW, **cells, "source": "NVIDIA/Megatron-LM tests/functional_tests/x.json"})
    assert logged.measured.memory_of_last
    assert not scenario_of_row({**ROW, **cells}).measured.memory_of_last
    assert read(notes="--transformer-impl=local", framework="megatron").training.attention == "eager"
    assert read(ep="", tp_overlap="").plan.tp_overlap is False
    assert read(framework="megatron").plan.tp_overlap
    assert not read(framework="megatron", tp_overlap="false").plan.tp_overlap


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


TOLD = "args: --transformer-impl=transformer_engine --deterministic-mode=True"


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


def test_arguments_tell_what_blocks_are_of_and_that_stages_are_uneven():
    told = f"{TOLD} --untie-embeddings-and-output-weights=True --position-embedding-type=rope --swiglu=False"
    model = read(framework="megatron", notes=told).model
    assert (model.tied_embedding, model.position, model.gated_ffn, model.bias) == (False, "rope", False, True)
    assert read(framework="megatron").model.tied_embedding
    # int((4 · hidden · 2 / 3) / 64) · 64 in megatron/training/arguments.py
    assert read(framework="megatron", notes=f"{TOLD} --swiglu=True", d_model="512", n_heads="8").model.ffn == 1344
    assert "untied embedding" in assumed(framework="megatron", notes=told)
    assert "dealt out evenly" not in assumed(framework="megatron", notes=told)
    assert "dealt out evenly" in assumed(framework="megatron", notes=f"{TOLD} --decoder-last-pipeline-num-layers=2")


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


def test_degrees_alone_tell_how_many_chips_there_are():
    whole, by_degrees = read(), read(n_gpus="", dp="4")
    assert by_degrees == whole
    assert "n_gpus = 16 (dp · tp · pp · cp)" in assumed(n_gpus="", dp="4")
    rate = {"measured_step_time_s": "", "measured_tokens_per_s_per_gpu": "4096"}
    measured = [scenario_of_row({**ROW, **rate, **one}).measured_step_s for one in ({}, {"n_gpus": "", "dp": "4"})]
    assert measured == [1.0, 1.0]


@pytest.mark.parametrize(
    ("column", "cell"), [("n_gpus", "0"), ("n_gpus", "-3"), ("n_gpus", "1.5"), ("micro_batch", "0")]
)
def test_what_is_no_count_is_refused_with_its_column(column, cell):
    assert reason(**{column: cell}).startswith(f"{column} is {cell}, no count: write a whole number")


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
