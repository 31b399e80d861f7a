"""Logs of loops of one's own and in JSON lines: steps, times, memory; what they say else: test_loops_scenarios.py."""

from __future__ import annotations

import json

import pytest

from estimator.scenario.measurement import step_time_s
from tests.app.importers.reading import codes, of_steps, one, read, refusal

LOOPS = {
    "iter": of_steps("iter {}: loss 9.{}, time {}ms, mfu {}%", (8, 4361.16, "-100.00"), (7, 136.5, 41.2), (6, 135, 41)),
    "bars between": of_steps(
        "step {}/18865 | loss 11.{} (+nanz)| norm 15.4 (+1.2z)| lr 8.57e-07 | {} ms | 42.6% bf16 MFU | {} tok/s",
        (1, 9000.0, "171,543"), (2, 136.5, "176,742"), (3, 135, "176,712"),
    ),
    "epochs": "".join(
        f"Epoch: [0][{at:4}/5005]\tTime  {s} ( 1.2)\tData  0.001 ( 0.1)\tLoss 7.0e+00 (7.0e+00)\tAcc@1   0.00\n"
        for at, s in ((1, "7.231"), (11, "0.1365"), (21, "0.135"))
    ),
    "in parentheses": of_steps("(epoch: 3, iters: {}, time: {}, data: 0.016) G: 14.7", (1.1,), (0.1365,), (0.135,)),
    "keys": of_steps("2025-03-01 12:00:01 INFO step={} loss=4.2 step_time={}s mem=41.2GB", (9,), (0.1365,), (0.135,)),
    "per step": of_steps("[train] epoch 2, step: {}, time: {}ms/step, loss: 0.6", (347,), (136.5,), (135,)),
    "since the start": of_steps("step:{}/99 train_time:{}ms step_avg:96ms", (188,), (324.5,), (459.5,)),
    "a line each": of_steps(
        "[batch={}/40]:\n\t Train time/epoch: 0\n\t Train throughput/batches_per_sec: {}\n\t Train loss/train: 9.0",
        (0.1,), (1 / 0.1365,), (1 / 0.135,),
    ),
    "verl": of_steps(
        "step:{} - actor/loss:0.01 - timing_s/gen:0.05 - perf/time_per_step:{} - perf/throughput:1820.5",
        (9,), (0.1365,), (0.135,),
    ),
    "Composer's devices": of_steps(
        "[batch={}/40]:\n\t Train throughput/device/batches_per_sec: 0.01\n\t Train throughput/batches_per_sec: {}\n"
        "\t Train throughput/samples_per_sec: 8\n\t Train loss/train: 9.0", (0.1,), (1 / 0.1365,), (1 / 0.135,),
    ),
    "MaxText": of_steps(
        "completed step: {}, seconds: {}, TFLOP/s/device: 180.2, Tokens/s/device: 4500.1, loss: 10.5",
        (9,), (0.1365,), (0.135,),
    ),
    "NeMo's bars": of_steps(
        "Epoch 0: :   1%|█ | 9/99 [00:09<1:00:00, loss=9.1, global_step={}.0, train_step_timing in s={}]",
        (9,), (0.1365,), (0.135,),
    ),
    "Levanter": of_steps(
        "2024-01-01T00:00:00 - 0 - levanter - INFO - Progress on:train 1.20{}kit/10.0kit rate:{}it/s remaining:2:15:00 "
        "elapsed:10:00 postfix:loss=9.1", (0.1,), (1 / 0.1365,), (1 / 0.135,),
    ),
    "numbers alone": of_steps("{} | loss 4.4253 | lr 4.522542e-05 | {}ms | mfu 0.08%", (9000,), (136.5,), (135,)),
    "numbers and commas": of_steps("{}, loss: 6.55, dt: {}s, tok/sec: 2838.1, norm: 1.5", (9,), (0.1365,), (0.135,)),
    "fms-fsdp's": of_steps(
        "step: {}\nloss: 3.2\nLR: 0.0003\nreserved memory: 66571993088\nallocated memory: 60129542144\n"
        "current step time: {}\noverall step time: 1.9\ncurrent token per gpu per sec: 4497",
        (9,), (0.1365,), (0.135,),
    ),
    "NeMo's bars that round": "".join(
        f"Epoch 0: :   3%|▎ | {at}/301500 [1:42:42<55:37:46, v_num=0, global_step=9e+3, train_step_timing in s={s}]\n"
        for at, s in ((9000, 9), (9001, 0.1365), (9002, 0.135))
    ),
    "OpenMMLab's": "".join(
        f"10:12:01 - mmengine - INFO - Epoch(train)   [1][{at:4}/7393]  lr: 1.98e-03  eta: 1 day, 1:02:14  time: {s}  "
        "data_time: 0.0103  loss: 1.95\n" for at, s in ((50, 9.1), (100, 0.1365), (150, 0.135))
    ),
    "of an epoch of several": "".join(
        f"(main.py 296): INFO Train: [1/300][{at}/1251]\teta 0:10:18 lr 0.000005\ttime {s} (0.5371)\tloss 6.9 (6.9)\n"
        for at, s in ((100, 9.1), (200, 0.1365), (300, 0.135))
    ),
    "Paddle's": of_steps(
        "2021-01-19 [INFO] [TRAIN] epoch=1, iter={}/100, loss=2.8, batch_cost={}, reader_cost=0.25 | ETA 00:01:24",
        (9.1,), (0.1365,), (0.135,),
    ),
    "TensorFlow's": "".join(
        f"INFO:tensorflow:global_step/sec: {rate}\nI0611 hooks.py:692] global_step/sec: {rate}\n"
        f"INFO:tensorflow:examples/sec: {8 * rate}\n" for rate in (0.1, 1 / 0.1365, 1 / 0.135)
    ),
    "ColossalAI's": "".join(f"INFO   colossalai - INFO: Step time: {s}\n" for s in ("9.1", "0.1365", "0.135")),
    "beneath": of_steps(
        "\titers: {}, epoch: 1 | loss: 0.34\n\tspeed: {}s/iter; left time: 907.8s", (9,), (0.1365,), (0.135,)
    ),
    "elapsed of each": of_steps("iteration {} | elapsed time: {} ms | loss 9.1", (9000,), (136.5,), (135,)),
    "tinygrad": of_steps(
        "    {} {} s run, 11.8750 loss, 0.000000000001 LR, 642.43 GB used,  19644.30 GFLOPS", (9,), (0.1365,), (0.135,)
    ),
    "tokens of a step": "tokens per iteration will be: 24,576\n" + of_steps(
        "step {} | loss 4.2 | {} tokens/s", (1000.0,), (24576 / 0.1365,), (24576 / 0.135,)
    ),
}  # fmt: skip
UNITLESS = ("epochs", "in parentheses", "verl", "fms-fsdp's", "OpenMMLab's", "of an epoch of several", "Paddle's")


@pytest.mark.parametrize("name", LOOPS)
def test_a_loop_of_one_s_own(tmp_path, name):
    found = one(read(tmp_path, f"using device: cuda\n{LOOPS[name]}saved\n"))
    assert found.origin.format == "log/loop"
    assert found.steps_s == pytest.approx((0.1365, 0.135))
    assert len({row.get("step", row.get("print")) for row in found.rows}) == 3
    assert ("unit-missing" in codes(found)) == (name in UNITLESS)
    if name == "fms-fsdp's":
        assert (found.memory.peak_bytes, found.memory.reserved_bytes) == (60129542144, 66571993088)


def test_rates_of_a_loop_that_says_no_time(tmp_path):
    text = of_steps(
        "step {} | loss 4.{} | {} tokens/s | {} tok/s/gpu", (2, 184523.2, 23065.4), (1, 8e5, 1e5), (0, 8e5, 1e5)
    )
    found = one(read(tmp_path, text))
    assert (found.steps_s, found.world_size, codes(found)) == ((), 8, {"no-step-time"})
    assert found.rows[0] == {"step": 1, "loss": 4.2, "tokens_per_s": 184523.2, "tokens_per_s_per_gpu": 23065.4}
    each = "Step {} | loss:1.6 tokens_per_second_per_gpu:{} TFLOP/s/device: {}"
    found = one(read(tmp_path, of_steps(each, (900, 180), (901, 180), (902, 180))))
    assert found.rows[0] == {
        "step": 1, "loss": 1.6, "tokens_per_s_per_gpu": 900.0, "flops_per_s_per_gpu": 180e12,
    }  # fmt: skip
    long = one(read(tmp_path, of_steps("step {} time {}, tok/s 9", *[(at,) for at in (310, 312, 311)])))
    assert (long.steps_s, codes(long)) == ((), {"unit-missing", "no-step-time"})


def test_rates_of_a_loop_are_timed_by_its_clock(tmp_path):
    line = "2026-02-28T23:59:{}Z INFO step {} | loss 4.2 | {} tok/s\n"
    text = line.format("10.250", 1, 9) + line.format("10.250", 1, 9) + line.format("20.250", 11, 9)
    text += "eval of 3 batches\n" + line.format("59.000", 5, 9).replace("2026-02-28T23:59", "2026-03-01T00:00")
    text += line.format("61.000", 21, 9) + line.format("59.900", 31, 9)
    found = one(read(tmp_path, text))
    assert (found.steps_s, codes(found)) == ((1.0,), {"by-clock"})  # a second 61 is no time, and steps begin anew
    whole = "".join(line.format(f"{10 + at}", at, 9) for at in range(5))
    assert codes(one(read(tmp_path, whole))) == {"no-step-time"}  # four seconds that are whole are no four steps
    whole = "".join(line.format(f"{10 + at}", at, 9) for at in range(41))
    internlm = "".join(
        f"2023-07-07 12:29:{at:02},250\tINFO train.py:323 in record -- tflops=189.8,step={at},loss=11.6,"
        f"tgs (tokens/gpu/second)=4274.45,lr=6e-07,fwd_bwd_time=3.67\n"
        for at in range(3)
    )
    found = one(read(tmp_path, internlm))
    assert (found.steps_s, found.rows[2]["tokens_per_s_per_gpu"]) == ((1.0, 1.0), 4274.45)
    for name, column in (("dev_tok_per_s", "tokens_per_s"), ("tok_per_s_per_dev", "tokens_per_s_per_gpu")):
        text = "".join(f"step {at} | 135 ms | {name} 24576\n" for at in range(3))
        assert one(read(tmp_path, text)).rows[0][column] == 24576
    assert one(read(tmp_path, whole)).steps_s == (1.0,)


DLLOGGER = "".join(
    "DLLL " + json.dumps({"timestamp": str(1.6e9 + s), "elapsedtime": str(s), "type": "LOG", "step": [0, step],
                          "data": {"train_loss": 7.1, "lr": 1e-3}}) + "\n"
    for step, s in ((10, 21.0), (20, 22.5), (30, 24.0))
) + 'DLLL {"type": "LOG", "step": [], "data": {"train_time": 30.0}}\n'  # fmt: skip


def test_runs_that_write_into_one_log_are_told_apart(tmp_path):
    """LLaMA-Factory's log of two processes, of which one began anew: lines of far steps stand by turns."""
    lines = []
    for at in range(1, 6):
        for step, since_s in ((1000 + 10 * at, 15000 + 150 * at), (1000 + 10 * at, 15001 + 150 * at),
                              (800 + 10 * at, 12000 + 152 * at)):  # fmt: skip
            said = f"{since_s // 3600}:{since_s // 60 % 60:02}:{since_s % 60:02}"
            lines.append(json.dumps({"current_steps": step, "loss": 0.7, "elapsed_time": said}) + "\n")
    assert sorted(one(read(tmp_path, "".join(lines))).steps_s) == pytest.approx([15.0] * 4 + [15.2] * 4)


def test_the_rate_of_llama_factory_is_that_of_all_gpus(tmp_path):
    line = '{{"current_steps": {0}, "elapsed_time": "0:0{0}:00", "throughput": {1}, "total_tokens": {2}}}\n'
    found = one(read(tmp_path, "".join(line.format(at, 13061.5 if at > 1 else 0.0, at * 1000) for at in (1, 2, 3))))
    assert [row.get("tokens_per_s") for row in found.rows] == [None, 13061.5, 13061.5]


def test_logs_in_lines_of_json(tmp_path):
    found = one(read(tmp_path, "NVIDIA Release 23.04\n" + DLLOGGER))
    assert (found.origin.format, found.steps_s) == ("log/JSON lines", pytest.approx((0.15, 0.15)))
    assert found.rows[0]["train_loss"] == 7.1
    factory = "".join(
        json.dumps({"current_steps": step, "total_steps": 99, "loss": 1.9, "elapsed_time": said}) + "\n"
        for step, said in ((10, "0:59:50"), (20, "1:00:10"), (40, "1 day, 1:00:10"))
    )  # fmt: skip
    assert one(read(tmp_path, factory)).steps_s == pytest.approx((2.0, 86400 / 20))
    own = "".join(f'{{"step": {at}, "step_time": 0.{at}, "ok": true, "loss": NaN}}\n' for at in (1, 2, 3))
    assert one(read(tmp_path, own)).steps_s == pytest.approx((0.2, 0.3))
    rates = "".join(json.dumps({"step": at, "tok/s": 9.0, "_timestamp": 1.7e12 + 1e4 * at}) + "\n" for at in (1, 2, 3))
    assert one(read(tmp_path, rates)).steps_s == pytest.approx((10.0, 10.0))
    plain = one(read(tmp_path, '{"size": 8, "busBw": 6.9}\n{"size": 16, "busBw": 7.9}\n'))
    assert (plain.rows[1], codes(plain)) == ({"size": 16.0, "busbw": 7.9}, {"no-step-time"})
    assert refusal(tmp_path, '{"size": 8}\n').format == "json"


def test_bars_of_a_loop(tmp_path):
    bars = "train:  11%|█         | 55/500 [05:03<40:38,  1.00it/s, loss=5.6]\rtrain: 100%|██████████| 500/500 [00:50<00:00,  5.00it/s]\n"  # noqa: E501
    bars += "test\n100/100 ━━━━━━━━━━━━━━━━━━━━ 12s 98ms/step - loss: 1.9\nEpoch 2/2\n"
    bars += "100/100 ━━━━━━━━━━━━━━━━━━━━ 9s 91ms/step\n"
    found = one(read(tmp_path, bars))
    assert found.steps_s == pytest.approx((0.2, 0.098, 0.091))
    assert codes(found) == {"mean-of-run"}


def test_the_date_before_a_bar_is_none(tmp_path):
    text = "".join(
        f"07/02/2025 22:{at}:06 - INFO - __main__ - Steps:   1%|      | {at}/3000 [04:26<22:54:49, 1.5s/it, lr=1e-18]\n"
        for at in (20, 21)
    )
    assert one(read(tmp_path, text)).rows == ({"bar": 1, "step": 21, "steps": 3000, "step_s": 1.5},)


def test_tables_and_named_trainers_are_no_loops(tmp_path):
    table = "| step | time (ms) |\n|---|---|\n| 1 | 5.5 |\n| 2 | 5.4 |\n| 3 | 5.6 |\n"
    assert one(read(tmp_path, table)).origin.format == "log/columns"
    assert refusal(tmp_path, "step 1 done\nstep 2 done\nstep 3 done\nno more steps: 4\n").format == "text"
    assert refusal(tmp_path, "step 1: 5.5 ms of nothing\n").format == "text"


def of_phases(head, forward=60.0):
    line = "step {} | loss 9.1 | forward {} ms | backward 190.2 ms | optimizer 21.0 ms | step {} ms"
    return head + "\n" + of_steps(line, (forward, 900.0), (forward, 291.0), (forward, 292.0))


def test_phases_of_a_loop_that_nearly_add_to_its_step_are_the_measurement_s(tmp_path):
    found = one(read(tmp_path, of_phases("")))
    assert found.phases_s == pytest.approx({"forward": 0.06, "backward": 0.1902, "optimizer": 0.021}, rel=1e-5)
    assert "add to 93% of the step" in next(w.message for w in found.warnings if w.code == "phases-of-a-log")
    short = of_phases("").replace("forward", "fwd").replace("backward", "bwd").replace("optimizer", "optim")
    assert one(read(tmp_path, short)).phases_s == found.phases_s
    for forward in (20.0, 120.0):
        assert one(read(tmp_path, of_phases("", forward))).phases_s == {}


@pytest.mark.parametrize(("total", "step_s"), [(", total 23.4ms", 0.0234), ("", 0.0232)])
def test_a_line_of_passes_alone_has_their_total_or_their_sum(tmp_path, total, step_s):
    text = "".join(f"iter {at}: loss 9.01, fwd 6.1ms, bwd 13.9ms, opt 3.2ms{total}\n" for at in range(5))
    found = one(read(tmp_path, text))
    assert found.steps_s == pytest.approx([step_s] * 4)
    assert found.phases_s["backward"] == pytest.approx(0.0139, rel=1e-2)


def test_phases_of_steps_that_differ_add_as_they_do_in_each_step(tmp_path):
    line = "step {} forward {} ms backward {} ms optimizer {} ms step_time {} ms\n"
    parts = [(700, 640, 190), (250, 590, 50), (320, 480, 90), (180, 660, 110), (270, 470, 85)]
    text = "".join(line.format(at, *one, sum(one)) for at, one in enumerate(parts))
    found = one(read(tmp_path, text))
    assert sum(found.phases_s.values()) == pytest.approx(step_time_s(found.steps_s))


@pytest.mark.parametrize(
    ("said", "peak_bytes"),
    [
        ("mem 41.2 GB", 41.2e9),
        ("gpu_mem: 41.2GB", 41.2e9),
        ("memory: 6836", 6836 * 2**20),
        ("mem 41.2", None),
        ("lr 4.1", None),
    ],
)
def test_memory_that_is_not_said_to_be_a_peak_is_taken_as_one_and_that_is_said(tmp_path, said, peak_bytes):
    found = one(read(tmp_path, of_steps("step {} | loss 9.1 | " + said + " | {} ms", (900,), (136,), (135,))))
    assert found.memory.peak_bytes == (peak_bytes and pytest.approx(peak_bytes))
    assert ("memory-as-peak" in codes(found)) == (peak_bytes is not None)


def test_zeros_that_a_file_system_left_in_a_log_are_passed_over_and_more_of_them_are_no_text(tmp_path):
    text = "starting\n" * 600 + of_steps("step {} | loss 4.2 | {} ms", (900,), (135,), (134,))
    assert one(read(tmp_path, text.replace("step 2", "\x00" * 100 + "step 2"))).steps_s == pytest.approx((0.135, 0.134))
    assert refusal(tmp_path, text + "\x00" * 1000).format == "binary"


@pytest.mark.parametrize("said", ["max_mem: 3961M", "max mem: 3961"])
def test_memory_of_detectors_is_in_mib(tmp_path, said):
    found = one(read(tmp_path, of_steps("eta: 8:08:27  iter: {}  time: {}  " + said, (9.0,), (0.3,), (0.3,))))
    assert (found.steps_s, found.memory.peak_bytes) == ((0.3, 0.3), pytest.approx(3961 * 2**20))


EVALUATED = (
    "Training Epoch: {0}/3, step 98/99 completed (loss: 0.76): 100%|████| 99/99 [01:54<00:00,  1.16s/it]\n"
    "evaluating Epoch: 100%|████| 25/25 [00:06<00:00,  3.69it/s]\n"
)
DETECTED = (
    "    15{0}/200      12.1G      0.463      0.234   1762        640: 100%|████| 99/99 [01:54<00:00,  1.16s/it]\n"
    "                 Class     Images      Box(P       mAP50  mAP50-95): 100%|████| 32/32 [00:15<00:00,  2.01it/s]\n"
)


@pytest.mark.parametrize("epoch", [EVALUATED, DETECTED])
def test_bars_of_evaluation_are_no_steps_and_counts_in_a_bar_s_name_are_none_of_its_own(tmp_path, epoch):
    text = "Map: 100%|████| 5200/5200 [00:01<00:00, 3901.52 it/s]\n" + "".join(epoch.format(at) for at in (1, 2, 3))
    found = one(read(tmp_path, text))
    assert found.steps_s == (1.16,) * 3
    assert {row["steps"] for row in found.rows} == {99}


def test_the_bar_of_keras_is_taken_by_its_whole_time_as_it_rounds_that_of_a_step(tmp_path):
    bar = "Epoch {0}/9\n1000/1000 [==============================] - {1}s {2}/step - loss: 3.8849\n"
    lines = [bar.format(*each) for each in ((1, 1843, "2s"), (2, 1898, "2s"), (3, 12, "12ms"))]
    assert one(read(tmp_path, "".join(lines))).steps_s == pytest.approx((1.843, 1.898, 0.012))


def test_objects_behind_a_logger_s_words_are_read(tmp_path):
    line = '[INFO: logging.py:   67]: json_stats: {{"cur_epoch": "1", "cur_iter": "{}", "loss": 0.17, "time_diff": {}}}'
    assert one(read(tmp_path, of_steps(line, (9.0,), (0.25,), (0.26,)))).steps_s == (0.25, 0.26)


def test_memory_of_composer_is_in_gb(tmp_path):
    line = "[batch={}/9]:\n\t Train memory/peak_allocated_mem: 44.642\n\t Train throughput/batches_per_sec: {}"
    found = one(read(tmp_path, of_steps(line, (0.1,), (4.0,), (5.0,))))
    assert (found.steps_s, found.memory.peak_bytes) == (pytest.approx((0.25, 0.2)), 44.642e9)


def test_losses_without_times_are_timed_by_the_clock_of_their_lines(tmp_path):
    line = "DLL 2024-05-01 10:00:{:06.3f} - Training Epoch: 0 Training Iteration: {}  step_loss : 2.05\n"
    text = "".join(line.format(at * 0.25, 601 + at) for at in (0, 50, 100))
    found = one(read(tmp_path, text))
    assert (found.steps_s, codes(found)) == ((0.25, 0.25), {"by-clock"})
    assert refusal(tmp_path, text.replace("step_loss :", "saved to")).format == "text"
