"""Logs in columns, a row for each step, and what of loggers is refused by name."""

from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read, refusal


def test_rows_of_a_logger_are_steps(tmp_path):
    lightning = "epoch,step,train_loss,train/step_time_s,tokens_per_sec\n" + "".join(
        f"0,{at},6.{at},0.4{at},4010{at}\n,{at},,,\n" for at in range(1, 5)
    )
    found = one(read(tmp_path, lightning))
    assert (found.origin.format, found.steps_s) == ("log/columns", pytest.approx((0.42, 0.43, 0.44)))
    assert found.rows[0] == {"step": 1, "epoch": 0.0, "train_loss": 6.1, "step_s": 0.41, "tokens_per_s": 40101.0}


def test_times_since_the_start_are_taken_apart(tmp_path):
    wandb = "_step,_runtime,_timestamp,train/loss,train/mfu\n" + "".join(
        f"{100 * at},{23.2 + 48.1 * at},{1760375091.2 + 48.1 * at},6.12,48.2\n" for at in range(4)
    )
    found = one(read(tmp_path, wandb))
    assert found.steps_s == pytest.approx((0.481,) * 3)
    assert found.rows[1]["mfu_frac"] == pytest.approx(0.482)


def test_metrics_in_rows_of_their_own_are_those_of_their_step(tmp_path):
    mlflow = "key,value,timestamp,step,run_id\n" + "".join(
        f"{name},{value + at},{1717000000000 + 400 * at},{at},abc\n"
        for name, value in (("step_time_seconds", 0.25), ("loss", 6.5))
        for at in range(4)
    )
    found = one(read(tmp_path, mlflow))
    assert found.steps_s == pytest.approx((1.25, 2.25, 3.25))
    assert found.rows[1]["loss"] == 7.5


@pytest.mark.parametrize("text", [
    "step,time (ms)\n1,5.5\n1,5.4\n2,5.6\n",  # which of them was the first step?
    "step,loss\n1,5.5\n2,5.4\n3,5.6\n",
    "step,value\n1,5.5\n2,5.4\n3,5.6\n",
    "step_size,time (ms)\n1,5.5\n2,5.4\n3,5.6\n",
])  # fmt: skip
def test_other_columns_stay_a_table(tmp_path, text):
    found = one(read(tmp_path, text))
    assert (found.origin.format, found.steps_s) == ("text/table", ())
    assert "unrecognised-table" in codes(found)


def test_a_table_of_a_report_may_be_the_log_of_its_run(tmp_path):
    text = "Model: llama3-8b | 8x H100 80GB | seq 4096 | global batch 64 | bf16 | FSDP\n\n"
    text += "| Iter | Step (ms) | TFLOP/s/GPU |\n|---|---|---|\n| 1 | 105,795.8 | 139.2 (warmup) |\n"
    text += "| 2 | 7,147.6 | 2,059.5 |\n| 3 | **7,199.5** | 2,044.6 |\n"
    found = one(read(tmp_path, text))
    assert (found.origin.format, found.steps_s) == ("log/columns", pytest.approx((7.1476, 7.1995)))
    assert found.rows[1]["flops_per_s_per_gpu"] == pytest.approx(2059.5e12)
    assert found.world_size == 8


CHART = (
    '"Step","llama - 8b - train/step_time","llama - 8b - train/step_time__MIN","llama - 8b - train/step_time__MAX"\n'
)


def test_a_chart_of_weights_and_biases_is_the_log_of_its_run(tmp_path):
    found = one(read(tmp_path, CHART + "".join(f'"{at}","2.4{at}","2.3","2.5"\n' for at in (1, 2, 3))))
    assert (found.label, found.origin.format) == ("llama - 8b", "log/columns")
    assert found.steps_s == pytest.approx((2.42, 2.43))
    assert found.rows[0] == {"step": 1, "step_s": 2.41}


def test_each_run_of_a_chart_is_a_measurement(tmp_path):
    names = [f"{run} - tokens_per_sec{beside}" for run in "ab" for beside in ("", "__MIN", "__MAX")]
    rows = "".join(f"{at},{at}1,{at}1,{at}1,{f'{at}2' if at > 2 else ''},,\n" for at in range(1, 6))
    found = read(tmp_path, ",".join(["Step", *names]) + "\n" + rows).measurements
    assert [(run.label, [row["tokens_per_s"] for row in run.rows]) for run in found] == [
        ("a", [11, 21, 31, 41, 51]), ("b", [32, 42, 52]),
    ]  # fmt: skip
    assert codes(found[0]) == {"no-step-time"}


def test_files_of_loggers_are_refused_with_the_way_out(tmp_path):
    assert "settings of a run" in refusal(tmp_path, "wandb_version: 1\n\nlr:\n  value: 0.1\n").message
    assert "Weights" in refusal(tmp_path, b":W&B\xe1\xbe\x00" + bytes(40)).message
