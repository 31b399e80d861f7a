"""CSV row: what cells mean, which model and which scenario a row of a table tells, and what it leaves to assume."""

from __future__ import annotations

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.scenario import Scenario
from estimator.scenario.training import PRECISIONS as MODELLED
from estimator.validation.csv_row import SHARDINGS, chips_of_a_node, flag, model_of_row, scenario_of_row
from estimator.validation.measured import MEGATRON_VOCAB, number
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.text_steps import text_row
from estimator.validation.score import predict_rows
from estimator.validation.spellings import PRECISIONS, chip_of, chips_named, model_of, optimizer_of

ROW = {
    "source_id": "row_1",
    "hardware": "H100-80GB",
    "n_gpus": "16",
    "model": "some gpt",
    "n_layers": "24",
    "d_model": "1024",
    "n_heads": "16",
    "seq_len": "1024",
    "global_batch": "64",
    "micro_batch": "2",
    "tp": "2",
    "pp": "2",
    "precision": "bf16",
    "measured_step_time_s": "1.25",
}


def read(**changes: str) -> Scenario:
    row = scenario_of_row({**ROW, **changes})
    assert row.scenario is not None, row.reason
    return row.scenario


def reason(**changes: str) -> str:
    row = scenario_of_row({**ROW, **changes})
    assert row.scenario is None
    return row.reason


def assumed(**changes: str) -> str:
    return "; ".join(scenario_of_row({**ROW, **changes}).assumptions)


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
    ("model", "parts"),
    [
        ("Llama3.2-1B [forward (inference)]", ("forward",)),
        ("Llama3.2-1B [forward+backward]", ("forward", "backward")),
    ],
)
def test_a_model_that_names_a_part_of_a_step_times_that_part(model, parts):
    measured = scenario_of_row({**ROW, "model": model, "measured_peak_mem_gib": "4"}).measured
    assert (measured.timed_parts, measured.step_s, measured.memory_bytes) == (parts, 1.25, None)


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


def test_the_step_time_may_come_from_throughput():
    row = scenario_of_row({**ROW, "measured_step_time_s": "", "measured_tokens_per_s_per_gpu": "2048"})
    assert row.measured_step_s == 64 * 1024 / (2048 * 16)


def test_memory_is_stated_in_gib():
    row = scenario_of_row({**ROW, "measured_step_time_s": "", "measured_peak_mem_gib": "40.5"})
    assert row.scenario is not None
    assert row.measured_step_s is None
    assert row.measured_memory_bytes == 40.5 * 2**30


def test_a_row_without_measurement_is_skipped():
    assert reason(measured_step_time_s="").startswith("no measured time or memory: give measured_step_time_s")


@pytest.mark.parametrize(
    ("name", "gated", "norm", "position", "tied"),
    [
        ("Llama-like 5B", True, "rms", "rope", False),
        ("GPT L24 h1024", False, "layer", "learned", True),
        ("GPT-NeoX-like 1B", False, "layer", "rope", False),
        ("OPT-1.3B", False, "layer", "learned", True),
        ("BLOOM-7B1", False, "layer", "alibi", True),
    ],
)
def test_the_family_follows_from_the_name(name, gated, norm, position, tied):
    model = read(model=name).model
    assert (model.gated_ffn, model.norm, model.position, model.tied_embedding) == (gated, norm, position, tied)


QWEN3 = {"model": "Qwen3-0.6B", "n_layers": "28", "d_model": "1024", "n_heads": "16", "n_kv_heads": "8",
         "d_ff": "3072", "vocab": "151936"}  # fmt: skip


def test_a_model_of_the_catalogue_keeps_its_blocks():
    model = read(**QWEN3).model
    assert (model.qk_norm, model.tied_embedding, model.head_dim) == (True, True, 128)
    assert "blocks" not in assumed(**QWEN3)


@pytest.mark.parametrize("name", ["Qwen3-0.6B", "Qwen3-0.6B truncated to 4 layers", "Qwen3-0.6B (first 4 blocks)"])
def test_a_truncated_model_keeps_its_blocks_and_says_so(name):
    cut = {**QWEN3, "n_layers": "4", "model": name}
    assert "blocks as in qwen3-0.6b, at this depth and width" in assumed(**cut)
    assert (read(**cut).model.qk_norm, read(**cut).model.layers) == (True, 4)


def test_columns_override_the_family():
    model = read(gated_ffn="true", tied_embedding="false", head_dim="128", n_kv_heads="4").model
    assert (model.gated_ffn, model.tied_embedding, model.head_dim, model.kv_heads) == (True, False, 128, 4)


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
    assert set(SHARDINGS.values()) == {"ddp", "zero1", "zero2", "zero3", "fsdp"}


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


def test_experts_come_from_the_catalogue_at_any_depth():
    model = read(model="Mixtral-8x7B").model
    assert (model.experts, model.top_k, model.layers) == (8, 2, 24)
    assert "blocks as in mixtral-8x7b, at this depth and width" in assumed(model="Mixtral-8x7B")


def test_rates_of_known_flop_conventions_are_step_times():
    cells = {"measured_step_time_s": "", "measured_tflops_per_gpu": "140", "vocab": "51200", "d_ff": "4096"}
    tokens = 64 * 1024 * 24 * 1024**2
    paper = scenario_of_row({**ROW, **cells, "notes": "formula 96BslH^2(1+s/6h+V/16lh)"})
    expected = 96 * tokens * (1 + 1 / 6 + 51200 / (16 * 24 * 1024)) / (140e12 * 16)
    assert paper.measured_step_s == pytest.approx(expected)
    counter = scenario_of_row({**ROW, **cells, "source": "NVIDIA/Megatron-LM README"})
    expected = 72 * tokens * (1 + 1 / 6 + 51200 / (12 * 24 * 1024)) / (140e12 * 16)
    assert counter.measured_step_s == pytest.approx(expected)
    assert scenario_of_row({**ROW, **cells}).measured_step_s is None


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


@pytest.mark.parametrize(("text", "value"), [("", None), ("nan", None), ("inf", None), ("n/a", None), ("1e3", 1000.0)])
def test_number(text, value):
    assert number(text) == value


@pytest.mark.parametrize(("text", "default", "value"), [("", True, True), ("Yes", False, True), ("0", True, False)])
def test_flag(text, default, value):
    assert flag(text, default) is value


SHAPE = {"n_layers": "4", "d_model": "64", "n_heads": "4"}


def test_the_catalogue_tells_the_blocks_of_a_known_model_of_the_same_shape():
    assumptions: list[str] = []
    row = {
        "model": "Qwen3-0.6B",
        "n_layers": "28",
        "d_model": "1024",
        "n_heads": "16",
        "vocab": "151936",
        "d_ff": "3072",
    }
    found = model_of_row(row, assumptions)
    assert (found["norm"], found["qk_norm"], found["head_dim"], found["tied_embedding"]) == ("rms", True, 128, True)
    assert assumptions == []


def test_a_truncated_model_is_known_by_its_family_and_says_so():
    assumptions: list[str] = []
    found = model_of_row({**SHAPE, "model": "Llama-3 70B, 4 layers", "d_ff": "224", "vocab": "1000"}, assumptions)
    assert (found["gated_ffn"], found["norm"], found["position"], found["bias"]) == (True, "rms", "rope", False)
    assert assumptions == ["Llama blocks, untied embedding"]


def test_a_gpt_of_unknown_width_and_vocabulary_takes_stated_defaults():
    assumptions: list[str] = []
    found = model_of_row({**SHAPE, "model": "GPT 1B"}, assumptions)
    assert (found["ffn"], found["vocab"], found["tied_embedding"]) == (4 * 64, MEGATRON_VOCAB, True)
    assert [text.split(" ")[0] for text in assumptions] == ["GPT", "d_ff", "vocab"]


def test_columns_beat_the_family():
    found = model_of_row({**SHAPE, "model": "GPT", "gated_ffn": "true", "tied_embedding": "false"}, [])
    assert (found["gated_ffn"], found["tied_embedding"]) == (True, False)


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


def test_what_is_done_with_a_model_is_no_part_of_its_name():
    for name in ("Llama3.1-8B full finetune", "Llama3-8B SFT", "Llama3-8B [forward+backward]"):
        found = model_of(name)
        assert found is not None, name
        assert found.name == "llama3-8b"
    assert model_of("no such model") is None


def test_a_rack_is_used_as_evenly_as_the_chips_divide():
    assert [chips_of_a_node(chips, 72) for chips in (8, 64, 72, 128, 144, 256)] == [8, 64, 72, 64, 72, 64]
    wide = {"hardware": "GB200", "n_gpus": "256", "global_batch": "128"}
    cluster = read(**wide).cluster
    assert (cluster.chips_per_node, cluster.nodes) == (64, 4)
    assert "64 chips of a node used" in assumed(**wide)


def test_utilisation_is_a_time_by_the_convention_of_its_source():
    cells = {"measured_step_time_s": "", "measured_mfu": "40", "vocab": "51200", "d_ff": "4096"}
    blocks, head, square = 24 * 12 * 1024**2, 51200 * 1024, 24 * 1024 * 1024
    rate = 0.4 * 989.4e12 * 16
    for convention, halves in (("palm", 2), ("causal", 1)):
        found = scenario_of_row({**ROW, **cells, "flop_convention": convention}).measured.step_s
        assert found == pytest.approx(64 * 1024 * 6 * (blocks + head + halves * square) / rate)
        again = scenario_of_row({**ROW, **cells, "measured_mfu": "0.4", "flop_convention": convention}).measured.step_s
        assert again == pytest.approx(found)
    assert "FLOP convention" in reason(**cells)


def test_memory_of_the_device_or_the_allocator_is_told_from_what_was_allocated():
    cells = {"measured_peak_mem_gib": "4"}
    kinds = {
        "": "allocated",
        "max memory reserved": "reserved",
        "nvml used memory after training (about 1343 MiB context)": "device",
    }
    for notes, kind in kinds.items():
        measured = scenario_of_row({**ROW, **cells, "notes": notes}).measured
        assert measured.memory_kind == kind
    assert measured.context_bytes == 1343 * 2**20


def test_a_network_without_a_vocabulary_head_has_none():
    row = {"model": "BERT-Large", "notes": "AutoModelForSequenceClassification: NO vocabulary head"}
    assert not read(**row).model.head
    assert read(model="BERT-Large").model.head
    assert (read(model="OPT-1.3B").model.activation, read(activation="relu").model.activation) == ("relu", "relu")
    assert (read(dropout="0.1").training.dropout, read().training.dropout) == (0.1, 0.0)


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


def test_notes_name_an_optimizer_and_families_have_their_dropout():
    bert = {**ROW, "model": "BERT-large", "framework": "pytorch-eager", "tp": "1", "pp": "1", "n_gpus": "1", "dp": "1"}
    found = scenario_of_row({**bert, "notes": "8-bit Adam; grad accumulation 1"})
    assert (found.scenario.training.optimizer, found.scenario.training.dropout) == ("adamw-8bit", 0.1)
    assert any("dropout = 0.1 (of BERT's" in text for text in found.assumptions)
    assert scenario_of_row({**bert, "mode": "inference", "measured_forward_s": "1"}).scenario.training.dropout == 0
    assert scenario_of_row({**bert, "dropout": "0.2"}).scenario.training.dropout == 0.2


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
