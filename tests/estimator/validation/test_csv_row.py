"""CSV row: what cells mean, which scenario a row of a table tells, and what it leaves to assume."""

from __future__ import annotations

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.hardware import chips_of_a_node
from estimator.validation.csv_row import scenario_of_row
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.text_steps import text_row
from estimator.validation.score import predict_rows
from estimator.validation.spellings import chips_named
from tests.estimator.validation.rows import ROW, TOLD, assumed, read, reason


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


def test_a_row_that_ran_out_of_memory_says_what_it_needs_instead_of_an_error():
    (small,) = predict_rows([{**ROW, "oom": "yes"}])
    (large,) = predict_rows([{**ROW, "n_layers": "2000", "status": "OutOfMemoryError"}])
    assert small.reason.startswith("it ran out of memory, though predicted to need ")
    assert large.reason.startswith("it ran out of memory, as predicted: ")


def test_a_stated_network_is_shared_by_the_chips_of_a_node():
    assert read(interconnect="1600 Gbps node-node").cluster.network.bytes_per_s == 1600e9 / 8 / 8
    default = read().cluster.network.bytes_per_s
    assert read(interconnect="NVLink").cluster.network.bytes_per_s == default


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


def test_spaces_and_missing_columns_do_not_matter():
    row = scenario_of_row({f" {key} ": f" {value} " for key, value in ROW.items()})
    assert row.scenario == scenario_of_row(ROW).scenario
    assert scenario_of_row({}).reason


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
