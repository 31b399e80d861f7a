"""What people bring: logs and tables that name all of their run, odd headers, rows that ran out of memory."""

from __future__ import annotations

import json

import pytest

from app.importers.imported import ImportRefused
from app.importers.text.values.devices import of_name
from app.summary import summarize
from estimator.validation.csv_row import scenario_of_row
from estimator.validation.predicted_rows import predicted_table
from estimator.validation.predicted_rows.said_scenario import said_scenario
from tests.app.importers.reading import codes, one, read

RUN = {"model": "gpt2-xl", "gpu": "H100", "gpus": 8, "batch": 64, "sequence": 1024, "precision": "bf16"}
STEPS = ((1, 0.9), (2, 0.41), (3, 0.40), (4, 0.405))


def lines(run: dict, *, head: bool = False) -> str:
    """A line of JSON for each step, with the settings in each or once at the head."""
    rows = [{**({} if head else run), "step": at, "step_time_s": s} for at, s in STEPS]
    return "".join(json.dumps(row) + "\n" for row in ([{"config": run}] if head else []) + rows)


def columns(run: dict) -> str:
    names, cells = ",".join(run), ",".join(map(str, run.values()))
    return f"step,{names},step_time_s\n" + "".join(f"{at},{cells},{s}\n" for at, s in STEPS)


FORMS = {
    "each line": lambda run: lines(run),
    "the head": lambda run: lines(run, head=True),
    "columns": columns,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("stated", "sharding"),
    [
        ({"sharding": "fsdp"}, "fsdp"),
        ({"strategy": "DDP"}, "ddp"),
        ({"sharding": "SHARD_GRAD_OP"}, "zero3"),
        ({"zero_stage": 2}, "zero2"),
        ({}, "fsdp"),
    ],
)
def test_a_run_that_names_all_of_it_has_a_scenario(tmp_path, form, stated, sharding):
    found = one(read(tmp_path, FORMS[form](RUN | stated)))
    assert found.steps_s == pytest.approx((0.41, 0.40, 0.405))
    proposal = said_scenario(found)
    assert proposal.whole, proposal.reason
    scenario = proposal.scenario
    assert (scenario["model"]["name"], scenario["cluster"]["chip"]["name"]) == ("gpt2-xl", "h100-sxm")
    assert (scenario["plan"]["dp"], scenario["plan"]["sharding"]) == (8, sharding)
    assert (scenario["training"]["seq_len"], scenario["training"]["global_batch"]) == (1024, 64)
    assert proposal.fields["plan.sharding"].sure == bool(stated)


def test_the_steps_of_a_run_are_held_against_its_prediction_and_its_first_is_not(tmp_path):
    found = one(read(tmp_path, lines(RUN)))
    asked = predicted_table(found, "h100-sxm")
    assert [set(row) for row in asked.rows] == [set(), {"step_s"}, {"step_s"}, {"step_s"}]
    assert asked.errors["step_s"].n == 3
    assert "start-up" in asked.reasons[0]
    other = predicted_table(found, "a100-80gb-sxm")
    assert other.rows[1]["step_s"] > 1.5 * asked.rows[1]["step_s"]


@pytest.mark.parametrize("name", ["model", "sequence"])
def test_what_a_log_does_not_name_is_said_in_place_of_a_scenario(tmp_path, name):
    found = one(read(tmp_path, lines({key: value for key, value in RUN.items() if key != name})))
    reason = said_scenario(found).reason
    assert {"model": "its model", "sequence": "its sequence length"}[name] in reason
    assert predicted_table(found, "h100-sxm").unpredicted == reason.removesuffix(".")


def test_a_row_of_one_run_has_a_scenario_and_rows_of_several_have_none(tmp_path):
    head = "| model | gpu | tp | dp | batch | seq_len | step (ms) |\n|---|---|---|---|---|---|---|\n"
    found = one(read(tmp_path, head + "| llama3-8b | H200 | 2 | 4 | 16 | 4096 | 900 |\n"))
    plan = said_scenario(found).scenario["plan"]
    assert (found.steps_s, plan["tp"], plan["dp"], found.world_size) == ((0.9,), 2, 4, 8)
    rows = "".join(f"| llama3-8b | H200 | {tp} | 4 | 16 | 4096 | 900 |\n" for tp in (1, 2))
    several = one(read(tmp_path, head + rows))
    assert (several.steps_s, said_scenario(several)) == ((), None)
    assert summarize(several, created_s=0.0).world_size == 0, "rows of several numbers of chips have none"


def test_likely_chips_of_a_name_begin_with_the_one_that_is_meant_most():
    assert [one["chip"] for one in of_name("H100", "it says")] == ["h100-sxm", "h100-pcie"]
    assert of_name("A100", "it says")[0] == {
        "chip": "a100-80gb-sxm", "why": "it says A100, and this has the most memory",
    }  # fmt: skip
    assert of_name("Chip 9000", "it says") == []


OOM_HEADERS = ["OOM", "oom?", "out_of_memory", "Out of memory?", "OOM (y/n)", "oom*", "is_oom", "OOM [1]", "OOM†"]


@pytest.mark.parametrize("header", OOM_HEADERS)
@pytest.mark.parametrize("table", ["csv", "markdown"])
def test_a_yes_under_any_word_for_out_of_memory_is_that(tmp_path, header, table):
    rows = [
        ["model", "gpu", "seq_len", "step time (s)?", header],
        ["gpt2", "H100", "1024", "0.41", "no"],
        ["gpt2", "H100", "4096", "", "yes"],
        ["gpt2", "H100", "8192", "0.9", "yes"],
        ["gpt2", "H100", "16384", "0", "yes"],
    ]
    if table == "markdown":
        rows.insert(1, ["---"] * 5)
    text = "".join((",".join(row) if table == "csv" else f"| {' | '.join(row)} |") + "\n" for row in rows)
    found = one(read(tmp_path, text))
    assert [(row["status"], row["step_s"]) for row in found.rows] == [("ok", 0.41)] + [("oom", None)] * 3
    (said,) = [warning for warning in found.warnings if warning.code == "oom-beside-time"]
    assert said.where == f"line {4 if table == 'csv' else 5}"
    assert said.message.startswith("2 rows say out of memory beside a time or a rate")


def test_units_may_stand_in_a_row_of_their_own_and_footnotes_behind_headers(tmp_path):
    plain = one(read(tmp_path, "model,seq_len,forward¹,peak memory [2]\n,,(ms),GiB\ngpt2,1024,30.5,4\n"))
    assert plain.rows[0]["forward_s"] == pytest.approx(0.0305)
    assert plain.rows[0]["peak_memory_bytes"] == 4 * 2**30
    table = "| model | seq_len | step* |\n|---|---|---|\n| - | - | ms |\n| gpt2 | 1024 | 41 |\n"
    assert one(read(tmp_path, table)).rows[0]["step_s"] == pytest.approx(0.041)


def test_times_that_are_none_are_named_with_their_lines(tmp_path):
    text = "model,seq_len,step (ms)\ngpt2,512,40\ngpt2,1024,0\ngpt2,2048,-1\n"
    found = one(read(tmp_path, text))
    assert {one.code: one.where for one in found.warnings if one.code in ("zero", "negative")} == {
        "zero": "line 3", "negative": "line 4",
    }  # fmt: skip


def test_a_row_that_failed_is_not_taken_for_one_that_ran(tmp_path):
    text = "model,seq_len,step (ms),status\ngpt2,512,40,ok\ngpt2,1024,1,failed\ngpt2,2048,,OutOfMemoryError\n"
    assert [row["status"] for row in one(read(tmp_path, text)).rows] == ["ok", "failed", "oom"]


def test_a_file_of_one_s_own_without_a_model_says_that_it_lacks_one(tmp_path):
    flat = {"strategy": "ddp", "gpu": "H100", "gpus": 8, "mean_step_time_sec": 0.45, "tags": ["a"], "run": {"lr": 0.1}}
    imported = read(tmp_path, json.dumps(flat).encode())
    found = one(imported)
    assert "name no model and seq_len" in predicted_table(found, "h100-sxm").unpredicted
    (left,) = [warning.message for warning in imported.warnings if warning.code == "values-left-out"]
    assert left.endswith("left out: tags")
    (kept,) = [warning.message for warning in imported.warnings if warning.code == "unrecognised-table"]
    assert kept.endswith("with their units in the names of their columns")
    assert found.rows[0]["lr"] == 0.1


def test_what_stands_inside_objects_is_a_column_by_its_own_name(tmp_path):
    nested = {"config": {"model": "gpt2", "seq_len": 1024, "gpu": "H100"}, "results": {"step_ms": 41, "tokens": [1]}}
    row = one(read(tmp_path, json.dumps(nested).encode())).rows[0]
    assert (row["catalogue_model"], row["seq_len"], row["step_s"]) == ("gpt2", 1024, pytest.approx(0.041))
    twice = {"model": "gpt2", "eager": {"forward_ms": 41}, "compiled": {"forward_ms": 31}}
    imported = read(tmp_path, json.dumps(twice).encode())
    assert len([value for value in one(imported).rows[0].values() if value in (0.041, 0.031)]) == 2
    assert "values-left-out" not in codes(imported)


STEPS_OF_SIZES = (
    "\n\n| size | batch | ctx | step (ms) |\n|---|---|---|---|\n| small | 4 | 1024 | 72 |\n| large | 4 | 1024 | 430 |\n"
)


@pytest.mark.parametrize(
    ("text", "chips"),
    [
        ("# Results on an A100 SXM 40GB", ["a100-40gb-sxm"]),
        ("CS336 assignment 2, NVIDIA A100-SXM4-40GB.", ["a100-40gb-sxm"]),
        ("All runs on one H100 80GB, batch size 4", ["h100-sxm", "h100-pcie"]),
        ("We train on a single A100-40GB, bf16 autocast:", ["a100-40gb-sxm", "a100-40gb-pcie"]),
        ("# 8x B200", ["b200"]),
        ("Timed on H100 SXM, T4 cards stood idle", ["h100-sxm"]),
        ("# Setup\nUsing an RTX 4090\n# Table", ["rtx-4090"]),
    ],
)
def test_a_chip_that_a_heading_or_prose_says_it_ran_on_comes_first(tmp_path, text, chips):
    found = one(read(tmp_path, text + STEPS_OF_SIZES)).device["candidates"]
    assert [chip["chip"] for chip in found] == chips
    assert all(chip["why"].startswith("the text names it: ") for chip in found)


@pytest.mark.parametrize(
    "text",
    [
        "It would be faster on an H100 SXM",
        "See the H100 SXM's manual",
        "an answer at 4",
        "How many H100 80GB GPUs worth of memory is this?",
        "`3,517.57 GB / 80 GB = 43.97 ≈ 44 H100 GPUs`",
        "**Number of H100 80GB GPUs:**",
    ],
)
def test_a_chip_that_is_only_spoken_of_is_not_what_it_ran_on(tmp_path, text):
    found = one(read(tmp_path, text + STEPS_OF_SIZES)).device["candidates"]
    assert {chip["why"] for chip in found} <= {""}


def test_kernels_that_were_built_for_another_chip_than_the_text_names_are_believed(tmp_path):
    text = "Timed on one H100. The longest kernel is `ampere_sgemm_128x64_tn`."
    found = one(read(tmp_path, text + STEPS_OF_SIZES)).device["candidates"]
    assert found[0] == {"chip": "a100-80gb-pcie", "why": "kernels are named ampere_s…"}


SIZES = "| size | ctx |{} forward (ms) |\n|---|---|{} ---|\n| small | 512 |{} 14 |\n| xl | 512 |{} 172 |\n"
DIMENSIONS = ("d_model | d_ff | num_layers | num_heads |", "---|" * 4, "768|3072|12|12|", "1600|6400|48|25|")


@pytest.mark.parametrize(
    ("text", "columns", "models"),
    [
        ("# CS336", ("",) * 4, ["cs336-small", "cs336-xl"]),
        ("# Assignment 2: systems\n\n## Forward", ("",) * 4, ["cs336-small", "cs336-xl"]),
        ("Sizes as in CS 336.", ("",) * 4, ["cs336-small", "cs336-xl"]),
        ("# CS336", ("params |", "---|", "350M|", "2.0B|"), [None, "cs336-xl"]),
        ("# Mine", ("",) * 4, [None, None]),
        ("# Mine", ("params |", "---|", "128M|", "2.0B|"), ["cs336-small", "cs336-xl"]),
        ("# Mine", DIMENSIONS, ["cs336-small", "cs336-xl"]),
        ("# Mine, as GPT-2", DIMENSIONS, [None, None]),
        ("# CS336", (*DIMENSIONS[:3], "1600|6400|24|25|"), ["cs336-small", None]),
    ],
)
def test_bare_sizes_are_the_course_s_where_the_text_or_their_dimensions_say_so(tmp_path, text, columns, models):
    imported = read(tmp_path, f"{text}\n\n{SIZES.format(*columns)}")
    assert [row.get("catalogue_model") for row in one(imported).rows] == models
    if "params" not in columns[0]:
        assert ("course-models" in codes(imported)) == any(models)


OUT_OF_MEMORY = ("OOM", "oomed", "CUDA OOM", "OOMError", "out-of-memory", "OutOfMemoryError", "ran out of memory",
                 "out of memeory", "torch.cuda.OutOfMemoryError")  # fmt: skip


@pytest.mark.parametrize("word", OUT_OF_MEMORY)
def test_a_word_for_out_of_memory_is_one_wherever_it_stands(tmp_path, word):
    cells = f"model,seq_len,step (ms)\ngpt2,512,40\ngpt2,1024,{word}\n"
    status = f"model,seq_len,step (ms),status\ngpt2,512,40,ok\ngpt2,1024,90,failed: {word}\n"
    sentence = f"| model | seq_len | step (ms) |\n|---|---|---|\n| gpt2 | 512 | 40 |\n\ngpt2 1024: {word}.\n"
    for text in (cells, status, sentence):
        assert [row["status"] for row in one(read(tmp_path, text)).rows] == ["ok", "oom"], text
    assert scenario_of_row({"status": f"failed: {word}"}).out_of_memory


def test_no_word_for_out_of_memory_is_one_behind_a_no(tmp_path):
    text = "model,seq_len,step (ms),status\ngpt2,512,40,no OOM\ngpt2,1024,90,fits without OOM\n"
    assert [row["status"] for row in one(read(tmp_path, text)).rows] == ["ok", "ok"]


def test_parameters_name_a_model_where_no_column_does_and_all_their_digits_are_there(tmp_path):
    text = "params,batch,seq_len,step (ms)\n124439808,8,1024,90\n1.3B,8,1024,210\n"
    found = one(read(tmp_path, text), "step-times")
    assert [(row["model"], row.get("catalogue_model")) for row in found.rows] == [("124439808", "gpt2"), ("1.3B", None)]
    (said,) = [warning.message for warning in found.warnings if warning.code == "models-by-count"]
    assert "124439808 is gpt2" in said
    assert "1.3B" not in said


def test_times_without_a_unit_are_milliseconds_where_rate_and_batch_say_so(tmp_path):
    header = "model,train_samples_per_sec,train_step_time,train_batch_size,train_img_size,param_count\n"
    found = one(
        read(tmp_path, f"{header}tinynet_e,10001.12,50.423,512,106,2.04\nmnasnet,6438.14,78.983,512,224,2.04\n")
    )
    assert [row["step_s"] for row in found.rows] == [0.050423, 0.078983]
    assert (found.rows[0]["samples_per_s"], found.rows[0]["global_batch"]) == (10001.12, 512)
    assert not [key for key in found.rows[0] if key.endswith("_s") and key not in ("step_s", "samples_per_s")]
    assert {"unit-inferred"} == {warning.code for warning in found.warnings if warning.code.startswith("unit-i")}
    assert not [warning for warning in found.warnings if warning.code == "unit-assumed"]


def test_a_column_of_answers_is_no_time_and_a_name_that_begins_with_a_digit_no_figure(tmp_path):
    text = "d_model,context_length,only_forward,mean_s,oom\n768,128,False,0.049,False\n768,128,True,,True\n"
    found = one(read(tmp_path, text))
    assert found.origin.format == "text/table"
    assert [(row["mean_s"], row["status"]) for row in found.rows] == [(0.049, "ok"), (None, "oom")]
    plans = "| schedule | TPS/GPU |\n|---|---|\n| 1F1B | 100 |\n| 2D | 128 |\n"
    assert [row["schedule"] for row in one(read(tmp_path, plans)).rows] == ["1F1B", "2D"]
    spaced = "| Model | Batch size (tokens) | Through put (tokens/sec) |\n|---|---|---|\n| gpt2 | 0.5M | 503k |\n"
    row = one(read(tmp_path, spaced), "step-times").rows[0]
    assert (row["tokens_per_s"], row["batch_tokens"]) == (503_000.0, 500_000.0)


def test_lines_of_a_log_that_name_a_variant_are_no_table_of_variants(tmp_path):
    line = "[I][examples/fsdp:340] epoch={} dt=12.48 test_acc=95.5 dt/mean=11.99 dt/max=12.48 dt/min=11.89 dt/std=0.1\n"
    try:
        formats = {found.origin.format for found in read(tmp_path, line.format(1) + line.format(2)).measurements}
    except ImportRefused:
        formats = set()
    assert "text/data-parallel-variants" not in formats


def test_whole_numbers_of_memory_without_a_unit_are_bytes_and_times_are_asked_for(tmp_path):
    text = "d_model,seq_len,forward_time,mem_before_backward\n16,256,0.00011,19660800.0\n16,1024,0.0004,52690944.0\n"
    found = one(read(tmp_path, text), "attention")
    assert [row["memory_before_backward_bytes"] for row in found.rows] == [19_660_800.0, 52_690_944.0]
    (asked,) = [warning.message for warning in found.warnings if warning.code == "unit-missing"]
    assert "forward_time" in asked
    assert "mem_before" not in asked
