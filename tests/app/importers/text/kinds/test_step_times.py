from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read, step_rows


def test_columns_of_mean_and_spread_in_milliseconds(tmp_path):
    text = "model,batch,context_length,fwd_mean (ms),fwd_std (ms),bwd_mean (ms)\nxl,8,512,10.5,0.5,20\n"
    assert step_rows(tmp_path, text) == [
        {
            "model": "xl",
            "batch": 8,
            "seq_len": 512,
            "forward_s": 0.0105,
            "forward_std_s": 0.0005,
            "backward_s": 0.02,
            "status": "ok",
        }
    ]


def test_units_in_the_cells(tmp_path):
    text = "| Model | Forward pass | Backward pass | Peak memory |\n|---|---|---|---|\n"
    text += "| A | 4.027 ms | 80 us | 2.5 GiB |\n"
    (row,) = step_rows(tmp_path, text)
    assert row["forward_s"] == 0.004027
    assert row["backward_s"] == 8e-05
    assert row["peak_memory_bytes"] == 2.5 * 1024**3


def test_whole_steps_and_other_columns_are_kept(tmp_path):
    text = "size  dtype  step time (s)  GPU  tokens\nlarge  bf16  1.25  A100  4096\nxl  fp16  2.5  A100  4096\n"
    first, second = step_rows(tmp_path, text)
    assert first == {
        "model": "large",
        "precision": "bf16",
        "step_s": 1.25,
        "gpu": "A100",
        "tokens": 4096,
        "status": "ok",
    }
    assert second["precision"] == "fp16"


def test_out_of_memory_cells(tmp_path):
    imported = read(tmp_path, "model  seq_len  forward (ms)\nsmall  128  5.5\nxl  1024  OOM\n")
    last = one(imported).rows[-1]
    assert last == {"model": "xl", "seq_len": 1024, "forward_s": None, "status": "oom"}
    assert "oom-cells" in codes(imported)


@pytest.mark.parametrize(
    "sentence", ["big 2048 ran out of memory", "At batch 4, big at 2048 was OOM.", "OOM: big, seq 2048"]
)
def test_out_of_memory_sentences(tmp_path, sentence):
    imported = read(tmp_path, f"model  forward (ms)\nbig_seq512  5.5\nbig_seq1024  9.5\n\n{sentence}\n")
    assert one(imported).rows[-1] == {"model": "big", "seq_len": 2048, "forward_s": None, "status": "oom"}


def test_sentences_about_rows_that_ran_add_none(tmp_path):
    imported = read(
        tmp_path, "model  forward (ms)\nbig_seq512  5.5\nbig_seq1024  9.5\n\nbig 512 did not run out of memory\n"
    )
    assert len(one(imported).rows) == 2


def test_seconds_are_assumed_aloud(tmp_path):
    imported = read(tmp_path, "model_name  avg_forward_time\nsm  0.0227\nmd  0.0454\n")
    assert [row["model"] for row in one(imported).rows] == ["small", "medium"]
    assert "unit-assumed" in codes(imported)
    assert not {"batch-assumed", "precision-assumed"} & codes(imported)


def test_labels_tell_compiled_from_eager_and_the_precision(tmp_path):
    table = "model  forward (ms)\nxl_seq128  5.5\nxl_seq256  6.5\n"
    second, third = table.replace("5.5", "7.5"), table.replace("5.5", "3.5")
    text = f"# Times\ncompiled\n\n{table}\nnot compiled\n\n{second}\nBF16\n\n{third}"
    found = step_rows(tmp_path, text)
    assert [row["compile"] for row in found] == [True, True, False, False, False, False]
    assert [row.get("precision") for row in found] == [None] * 4 + ["bf16"] * 2


def test_totals_give_the_number_of_iterations(tmp_path):
    (row, _) = step_rows(tmp_path, "model  avg_forward_time (s)  total_forward_time (s)\na  0.5  10.0\nb  0.25  5.0\n")
    assert row == {"model": "a", "forward_s": 0.5, "forward_total_s": 10.0, "iterations": 20, "status": "ok"}


def test_sizes_in_megabytes_are_doubtful(tmp_path):
    assert "mb-ambiguous" in codes(read(tmp_path, "model  step (ms)  memory (MB)\na  5.5  100\nb  6.5  200\n"))
    said = read(tmp_path, "model  step (ms)  memory (GB)\na  5.5  10\nb  6.5  20\n").warnings
    assert ["'GB' was read" in one.message for one in said if one.code == "mb-ambiguous"] == [True]


@pytest.mark.parametrize(
    ("header", "cell", "seconds"),
    [
        ("ms/iter", "7915.6", 7.9156),
        ("s/step", "~31.8", 31.8),
        ("seconds per iteration", "1.5", 1.5),
        ("Time (s/it)", "1.5", 1.5),
        ("Step time", "1m10s", 70),
        ("it/s", "4", 0.25),
        ("train_steps_per_second", "0.5", 2),
    ],
)
def test_ways_to_say_how_long_a_step_is(tmp_path, header, cell, seconds):
    (row,) = step_rows(tmp_path, f"| model | gpu | batch | {header} |\n|---|---|---|---|\n| xl | H100 | 8 | {cell} |\n")
    assert row["step_s"] == seconds


def test_a_time_of_training_in_hours_is_no_step(tmp_path):
    text = "| model | gpu | Training time | Steps/s |\n|---|---|---|---|\n| a | V100-32GB | 2h 14m | 6.4 |\n"
    (row,) = step_rows(tmp_path, text)
    assert (row["training_time_s"], row["step_s"]) == (8040, 1 / 6.4)


def test_a_unit_that_is_none_is_not_taken_for_seconds(tmp_path):
    imported = read(tmp_path, "| model | step time |\n|---|---|\n| a | 12 fortnights |\n| b | 3 s |\n")
    first, second = one(imported).rows
    assert (first["step_s"], second["step_s"]) == (None, 3)
    assert any("kept empty: '12 fortnights'" in warning.message for warning in imported.warnings)
    assert "unit-assumed" not in codes(imported)


def test_what_cannot_be_counted_is_said_with_its_column(tmp_path):
    text = "model,gpu,gpus,batch,step (ms)\nxl,H100,0,8,1\nxl,H100,-3,8,1\nxl,H100,1.5,8,1\nxl,H100,2,8,1\n"
    (warning,) = [one for one in read(tmp_path, text).warnings if one.code == "no-count"]
    assert "'gpus'" in warning.message
    assert "0, -3, 1.5" in warning.message
    assert "whole number" in warning.message


def test_a_table_of_rates_needs_no_time(tmp_path):
    text = "| Model | GPUs | TPS/GPU | Throughput (S/s) |\n|---|---|---|---|\n| Llama 8B | 8 | 5,762 | 5.6 |\n"
    (row,) = step_rows(tmp_path, text)
    assert (row["tokens_per_s_per_gpu"], row["samples_per_s"]) == (5762, 5.6)


def test_what_a_step_counts_is_no_time_of_it(tmp_path):
    text = "model,gpu,Step,train_loss,tokens_per_step,train_steps,step_time (ms)\nxl,H100,10,2.31,524288,1000,310\n"
    (row,) = step_rows(tmp_path, text)
    assert (row["step_s"], row["step"], row["train_loss"]) == (0.31, 10, 2.31)


def test_minutes_are_no_least_where_nothing_else_has_a_statistic(tmp_path):
    text = "| model | gpu | Time per step (min) |\n|---|---|---|\n| xl | H100 | 1.7 |\n"
    assert step_rows(tmp_path, text)[0]["step_s"] == 102
    both = "| model | gpu | step (max) | step (min) |\n|---|---|---|---|\n| xl | H100 | 2 s | 1.7 s |\n"
    assert step_rows(tmp_path, both)[0]["step_min_s"] == 1.7


def test_a_speed_in_seconds_is_no_speed_up(tmp_path):
    text = "| Model | GPU | Speed | Memory |\n|---|---|---|---|\n| a | H100 | 1.5 s/it | 2 GiB |\n"
    text += "| b | H100 | 3.2it/s | - |\n"
    assert one(read(tmp_path, text)).origin.format == "text/table"


@pytest.mark.parametrize(
    ("header", "row"),
    [
        ("model,ms", {"step_s": 0.04}),
        ("model,seq,ms,GB", {"step_s": 0.04, "seq_len": 512, "memory_bytes": 5.5e9}),
        ("model,seq,s,GiB", {"step_s": 40.0, "seq_len": 512, "memory_bytes": 5.5 * 2**30}),
    ],
)
def test_a_bare_unit_of_time_beside_a_model_is_that_of_a_step(tmp_path, header, row):
    cells = {"model": "gpt2", "seq": "512", "ms": "40", "s": "40", "GB": "5.5", "GiB": "5.5"}
    (found,) = step_rows(tmp_path, f"{header}\n{','.join(cells[name] for name in header.split(','))}\n")
    assert {name: found.get(name) for name in row} == row


def test_sizes_under_a_bare_gb_are_memory_and_what_lacks_a_unit_is_asked_for_one_that_it_may_have(tmp_path):
    found = one(read(tmp_path, "seq,ms,GB\n512,41.2,9.1\n1024,79.9,13.2\n"))
    assert (found.origin.format, found.rows[0]) == ("text/table", {"seq": 512, "time_s": 0.0412, "memory_bytes": 9.1e9})
    (asked,) = [one.message for one in one(read(tmp_path, "name,peak mem\na,9.1\n")).warnings if "unit" in one.code]
    assert "'peak mem (GiB)'" in asked
