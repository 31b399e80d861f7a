"""Logs whose iterations are passes of gradient accumulation, and other words that say less than they seem to."""

from __future__ import annotations

import pytest

from tests.app.importers.reading import codes, one, read


def test_a_step_is_all_of_its_passes(tmp_path):
    """litgpt counts iterations and the steps that they make; read as steps they were a quarter of one."""
    lines = [
        f"Epoch 1 | iter {at} step {at // 4} | loss train: 2.5, val: n/a | iter time: {80 + 10 * (at % 4 == 0)}.5 ms"
        f"{' (step)' * (at % 4 == 0)} remaining time: 0:01:54\n"
        for at in range(1, 13)
    ]
    every = one(read(tmp_path, "".join(lines)))
    assert every.steps_s == pytest.approx((3 * 0.0805 + 0.0905,) * 2)
    assert "passes-of-a-step" in codes(every)
    assert every.rows[3] == {"iteration": 4, "steps": 1, "loss_train": 2.5, "iteration_s": pytest.approx(0.0905)}
    # logged now and then, with and without the pass that ends a step
    some = one(read(tmp_path, "".join(lines[2::3])))
    assert some.steps_s == pytest.approx((3 * 0.0805 + 0.0905,))
    ends = one(read(tmp_path, "".join(lines[3::4])))
    assert ends.steps_s == pytest.approx((4 * 0.0905,))
    # one iteration to a step, or no such count, is a step
    alone = [f"iter {at} step {at} | loss 2.5 | iter time: 80.5 ms\n" for at in range(1, 5)]
    assert one(read(tmp_path, "".join(alone))).steps_s == pytest.approx((0.0805,) * 3)


NEOX = """\
[2026-01-01 10:00:0{0},000] [INFO] [logging.py:96:log_dist] [Rank 0] rank=0 time (ms) | forward: 650.4 | backward: 2160.5 | backward_inner: 2000.9 | backward_allreduce: 160.6 | step: 1170.1
 samples/sec: 7.799 | iteration       {0}/   10000 | elapsed time per iteration (ms): 410{0}.5 | learning rate: 2.1E-06 | lm_loss: 1.1E+01 |
time (ms) | forward: 659.8 | backward: 2164.6 | backward-backward: 2164.6 | backward-allreduce: 0.00 | optimizer: 1172.5 | batch generator: 0.8
"""  # noqa: E501


def test_timers_of_a_program_above_deepspeed_are_no_steps(tmp_path):
    """Of GPT-NeoX every second step was the forward alone, and the step time with it: 0.66 of 4.1 s."""
    found = one(read(tmp_path, "".join(NEOX.format(at) for at in (1, 2, 3))))
    assert found.origin.producer == "Megatron-LM"
    assert found.steps_s == pytest.approx((4.1025, 4.1035))


def test_minutes_are_no_millions_and_flops_no_seconds(tmp_path):
    nanochat = (
        "step 0000{0}/00100 (0.18%) | loss: 8.12 | dt: 101{0}.33ms | tok/sec: 1,035,803 | mfu: 55.1 | "
        "total time: 1.5{0}m | eta: 93.8m\n"
    )
    found = one(read(tmp_path, "".join(nanochat.format(at) for at in range(4))))
    assert found.rows[1]["total_time_s"] == pytest.approx(90.6)
    assert found.steps_s == pytest.approx((1.01133, 1.01233, 1.01333))
    maxtext = "".join(f"completed step: {at}, seconds: 2.16{at}, TFLOP/s: 36.7, loss: 2.1\n" for at in range(1, 5))
    assert one(read(tmp_path, maxtext)).rows[0]["flops_per_s"] == pytest.approx(36.7e12)


def test_a_step_that_every_rank_of_torchtitan_logs_is_one_row(tmp_path):
    line = (
        "[titan] 2026-01-01 10:00:0{0},500 - root - INFO - step: {0}  loss:  7.6  grad_norm: 2.6  "
        "memory: 0.00GiB(0.00%)  tps: 10,050  tflops: 314.71  mfu: 13.99%\n"
    )
    found = one(read(tmp_path, "".join(2 * line.format(at) for at in (1, 2, 3))))
    assert [row["step"] for row in found.rows] == [1, 2, 3]
    assert found.steps_s == pytest.approx((1.0, 1.0))
    assert "reserved_bytes" not in found.rows[0], "it did not ask the allocator"
    assert found.memory.reserved_bytes is None


def test_rates_of_a_trainer_without_times_are_kept(tmp_path):
    line = "{'loss': 2.5, 'epoch': 0.1, 'step_tokens_per_second': 18801.5, 'avg_tokens_per_second': 18000.5}\n"
    found = one(read(tmp_path, 3 * line))
    assert found.rows[0]["tokens_per_s"] == 18801.5
    (warning,) = found.warnings
    assert "tokens per second" in warning.message
    axolotl = "{'loss': 1.02, 'tokens_per_second_per_gpu': 2450.5, 'epoch': 0.1}\n"
    assert one(read(tmp_path, 2 * axolotl)).rows[0]["tokens_per_s_per_gpu"] == 2450.5


def test_figures_beneath_a_step_and_its_epoch(tmp_path):
    """OLMo's log was refused, as the epoch behind the step was taken for what the line says of it."""
    text = "".join(
        f"2026-01-01 10:00:{at}0.000\thost:0\tolmo.train:900\tINFO\t[step={at}0/739328,epoch=0]\n"
        f"    train/CrossEntropyLoss=10.5{at}\n    throughput/device/tokens_per_second=12,30{at}\n"
        f"    throughput/device/batches_per_second=0.25\n    System/Peak GPU Memory (MB)=41,513\n"
        for at in range(1, 5)
    )
    found = one(read(tmp_path, text))
    assert found.steps_s == pytest.approx((4.0,) * 3)
    assert (found.rows[0]["step"], found.rows[0]["tokens_per_s_per_gpu"]) == (10, 12301.0)
