"""Logs of trainers: step times, and what they say of themselves; the scenarios of some: test_trainers_scenarios.py."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from estimator.scenario.units import GIB
from tests.app.importers.reading import REFERENCE, codes, of_steps, one, read, refusal

TOOLS = REFERENCE / "tools"


def test_log_and_state_of_transformers(tmp_path):
    log = one(read(tmp_path, TOOLS.joinpath("trainer.log").read_bytes()))
    state = one(read(tmp_path, TOOLS.joinpath("trainer_state.json").read_bytes()))
    assert [row["step"] for row in log.rows] == [row["step"] for row in state.rows] == [2, 4, 6, 8]
    assert state.steps_s == pytest.approx(((6.1462 - 1.85) / 2, (6.9935 - 6.1462) / 2, (7.2769 - 6.9935) / 2))
    assert log.steps_s == pytest.approx(state.steps_s, rel=2e-3)
    assert log.rows[0]["loss"] == pytest.approx(state.rows[0]["loss"], abs=1e-3)
    assert log.scenario["plan"] == {"dp": 1, "micro_batch": 2, "recompute": "none"}
    assert log.scenario["training"] == {
        "precision": "fp32", "framework": "trainer", "global_batch": 4, "seq_len": 64,
    }  # fmt: skip
    model = log.scenario["model"]
    assert (model["layers"], model["hidden"], model["kv_heads"], model["ffn"], model["vocab"]) == (2, 64, 2, 176, 512)


FAIRSEQ = (
    "2021-03-08 18:04:09 | INFO | fairseq_cli.train | training on 8 devices (GPUs/TPUs)\n"
    + "".join(
        f'2021-03-08 18:05:{at}6 | INFO | train_inner | {{"epoch": 1, "loss": "16.4", "wps": "{wps}", '
        f'"ups": "{0.03 if wps else 0}", "wpb": "131072", "bsz": "64", "num_updates": "{at}", "train_wall": "47"}}\n'
        for at, wps in ((1, 0), (2, 3276.8), (3, 3200), (3, 3200))
    )
    + '2021-03-08 18:12:45 | INFO | train | {"train_wps": "2567.8", "train_wpb": "131072", "train_num_updates": "10"}\n'
)
FAIRSEQ_OLD = "| training on 4 GPUs\n" + of_steps(
    "| epoch 001:   {}000 / 2121 loss=9.163, wps={}, ups=9.2, wpb=3472.0, bsz=148.2, num_updates={}001, oom=0",
    (32000, 1), (34720, 2), (31000, 3),
)  # fmt: skip


def test_updates_of_fairseq(tmp_path):
    """An update takes wpb / wps: ups has two digits."""
    found = one(read(tmp_path, FAIRSEQ))
    assert (found.origin.format, found.world_size, len(found.rows)) == ("log/fairseq", 8, 3)
    assert found.steps_s == pytest.approx((40.0, 40.96))
    assert found.rows[1]["tokens_per_s"] == 3276.8
    assert "tokens_per_s" not in found.rows[0]
    older = one(read(tmp_path, FAIRSEQ_OLD))
    assert (older.world_size, older.steps_s) == (4, pytest.approx((0.1, 0.112)))


def test_lines_of_megatron_s_forks_and_nemo(tmp_path):
    primus = of_steps(
        "[rank-7/8]: iteration {}/ 5 | elapsed time per iteration (ms): {}/13240.9 | throughput per GPU (TFLOP/s/GPU): "
        "579.4/573.6 | tokens per GPU (tokens/s/GPU): 10005.5/9903.7 |",
        (13100.0,), (13110.0,),
    )  # fmt: skip
    found = one(read(tmp_path, primus))
    assert found.steps_s == pytest.approx((13.11,))
    assert (found.rows[0]["flops_per_s_per_gpu"], found.rows[0]["tokens_per_s_per_gpu"]) == (579.4e12, 10005.5)
    nemo = of_steps(
        "0: Training epoch 0, iteration {}/99 | global_batch_size: 128 | max_memory_reserved: 127785762816 | "
        "max_memory_allocated: 115792977920 | train_step_timing in s: {} | tokens_per_sec_per_gpu: 6.859e+03",
        (6.08,), (6.061,),
    )  # fmt: skip
    found = one(read(tmp_path, nemo))
    assert (found.steps_s, found.rows[0]["tokens_per_s_per_gpu"]) == (pytest.approx((6.061,)), 6859.0)
    assert (found.memory.peak_bytes, found.memory.reserved_bytes) == (115792977920, 127785762816)


def test_pipelines_of_deepspeed_with_further_losses(tmp_path):
    line = "steps: {} loss: 5.6950 lm loss: 5.6543 moe loss: 0.0407 iter time (s): {} samples/sec: 535.571"
    found = one(read(tmp_path, of_steps(line, (0.239,), (0.241,), (0.24,))))
    assert (found.origin.format, found.steps_s) == ("log/DeepSpeed", pytest.approx((0.241, 0.24)))
    assert found.rows[0]["samples_per_s"] == 535.571


def test_a_run_of_transformers_without_times_between(tmp_path):
    text = "{'loss': 2.5, 'learning_rate': 5e-05, 'epoch': 0.1}\n{'loss': 2.4, 'epoch': 0.2}\n"
    end = "{'train_runtime': 50.0, 'train_samples_per_second': 4.0, 'train_steps_per_second': 0.4, 'epoch': 1.0}\n"
    found = one(read(tmp_path, text + end))
    assert found.steps_s == pytest.approx((2.5,))
    assert "mean-of-run" in codes(found)
    assert one(read(tmp_path, text)).steps_s == ()
    slow = "{'train_runtime': 273.0, 'train_samples_per_second': 3.66, 'train_steps_per_second': 0.007, 'epoch': 1.0}\n"
    assert one(read(tmp_path, text + slow)).steps_s == pytest.approx((136.5,))
    bars = "  9%|▉ | 9/100 [00:09<01:31, 1.0s/it]\r 90%|█████████ | 90/100 [03:00<00:20,  2.00s/it]\n"
    bars += "100%|██████████| 20/20 [00:02<00:00, 10.00it/s]\n"  # of an evaluation
    found = one(read(tmp_path, text + bars))
    assert (found.steps_s, codes(found)) == ((2.0,), {"mean-of-run"})
    state = {"global_step": 20, "log_history": [{"loss": 2.0, "step": 10}, {"train_runtime": 30.0, "step": 20}]}
    assert one(read(tmp_path, state)).steps_s == pytest.approx((1.5,))
    assert refusal(tmp_path, {"log_history": []}).format == "trainer_state"


def test_report_and_bars_of_lightning(tmp_path):
    report = one(read(tmp_path, TOOLS.joinpath("lightning.txt").read_bytes()))
    assert report.steps_s == pytest.approx((0.011458,))
    batch = next(row for row in report.rows if row["name"] == "run_training_batch")
    assert (batch["calls"], batch["total_s"], batch["share_frac"]) == (16, 0.18333, pytest.approx(0.73753))
    assert codes(report) == {"host-times", "mean-of-run"}
    bars = "Epoch 0:  50%|█████     | 5/10 [00:01<00:01,  4.00it/s]\rEpoch 0: 100%|██████████| 10/10 [00:02<00:00,  5.00it/s, v_num=0]\n"  # noqa: E501
    bars += "Epoch 1: 100%|██████████| 10/10 [00:20<00:00,  2.00s/it, v_num=0]\n"
    assert one(read(tmp_path, bars)).steps_s == pytest.approx((0.2, 2.0))


NANOTRON = """\
01/17/2026 14:00:00 [INFO|DP=0|PP=0|TP=0]: Config(general=GeneralArgs(project='p', run='r'),
                      parallelism=ParallelismArgs(dp=2, pp=1, tp=2, pp_engine=<nanotron.AllForwardAllBackward>),
       model=ModelArgs(model_config=LlamaConfig(bos_token_id=1, hidden_act='silu', hidden_size=2048,
           intermediate_size=8192, num_attention_heads=32, num_hidden_layers=16, num_key_value_heads=8,
           max_position_embeddings=4096, tie_word_embeddings=False, vocab_size=32000), dtype=torch.bfloat16),
       tokens=TokensArgs(sequence_length=4096, train_steps=20, micro_batch_size=2, batch_accumulation_per_replica=8),
       optimizer=OptimizerArgs(zero_stage=1))
01/17/2026 14:00:16 [INFO|DP=0|PP=0|TP=0]: iteration: 1 / 20 | consumed_tokens: 131K | elapsed_time_per_iteration_ms: 5.1K | tokens_per_sec: 25.7K | tokens_per_sec_per_gpu: 6.42K | global_batch_size: 32 | lm_loss: 11 | lr: 1e-05 | model_tflops_per_gpu: 60 | hardware_tflops_per_gpu: 60 | grad_norm: 1.1 | cuda_memory_allocated: 9.1G | cuda_max_memory_reserved: 57G
01/17/2026 14:00:18 [INFO|DP=0|PP=0|TP=0]: iteration: 2 / 20 | consumed_tokens: 262K | elapsed_time_per_iteration_ms: 1.25K | tokens_per_sec: 105K | tokens_per_sec_per_gpu: 26.2K | global_batch_size: 32 | lm_loss: 10.9 | lr: 1e-05 | model_tflops_per_gpu: 240 | hardware_tflops_per_gpu: 240 | grad_norm: 1.1
01/17/2026 14:00:19 [INFO|DP=0|PP=0|TP=0]: iteration: 3 / 20 | consumed_tokens: 393K | elapsed_time_per_iteration_ms: 980 | tokens_per_sec: 134K | tokens_per_sec_per_gpu: 33.4K | global_batch_size: 32 | lm_loss: 10.7 | lr: 1e-05 | model_tflops_per_gpu: 306 | hardware_tflops_per_gpu: 306 | grad_norm: 1.0
"""  # noqa: E501


def test_a_log_of_nanotron(tmp_path):
    found = one(read(tmp_path, NANOTRON))
    assert found.steps_s == pytest.approx((1.25, 0.98))
    assert codes(found) == {"first-step-slow", "three-digits"}
    assert (found.world_size, found.memory.reserved_bytes) == (4, 57e9)
    assert found.rows[1]["flops_per_s_per_gpu"] == pytest.approx(240e12)
    assert found.scenario["plan"] == {"dp": 2, "tp": 2, "pp": 1, "micro_batch": 2, "sharding": "zero1"}
    assert found.scenario["training"] == {"seq_len": 4096, "global_batch": 32, "precision": "bf16-amp"}
    assert found.scenario["model"]["kv_heads"] == 8


CONFIG = """\
[2026-01-01 10:00:00,000] [INFO] [config.py:1001:print]   bfloat16_enabled ............. True
[2026-01-01 10:00:00,000] [INFO] [config.py:1001:print]   train_batch_size ............. 64
[2026-01-01 10:00:00,000] [INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu  4
[2026-01-01 10:00:00,000] [INFO] [config.py:1001:print]   world_size ................... 8
[2026-01-01 10:00:00,000] [INFO] [config.py:1001:print]   zero_optimization_stage ...... 2
"""
TIMER = "[2026-01-01 10:00:0{0},000] [INFO] [timer.py:260:stop] epoch=0/micro_step={0}/global_step={0}, RunningAvgSamplesPerSec=30.0, CurrSamplesPerSec={1}, MemAllocated=4.32GB, MaxMemAllocated=38.5GB\n"  # noqa: E501
CLOCK = "[2026-01-01 10:00:00,000] [INFO] [logging.py:96:log_dist] [Rank 0] time (ms) | fwd{0}: {1} | bwd{0}: 240.5 | bwd_inner{0}: 200.5 | bwd_allreduce{0}: 40.0 | step{0}: 60.0\n"  # noqa: E501


def test_a_log_of_deepspeed(tmp_path):
    timers = "".join(TIMER.format(at, rate) for at, rate in ((1, 16.0), (2, 32.0), (3, 40.0)))
    found = one(read(tmp_path, CONFIG + timers))
    assert found.steps_s == pytest.approx((2.0, 1.6))
    assert (found.world_size, found.memory.peak_bytes) == (8, 38.5 * GIB)
    assert found.scenario == {
        "plan": {"dp": 8, "micro_batch": 4, "sharding": "zero2"},
        "training": {"global_batch": 64, "precision": "bf16-amp", "framework": "pytorch-eager"},
    }
    by_clock = one(read(tmp_path, timers))
    assert (by_clock.steps_s, codes(by_clock)) == ((1.0, 1.0), {"by-clock"})
    assert [row.get("step_s") for row in by_clock.rows] == [None, 1.0, 1.0]
    assert "no-step-time" in codes(one(read(tmp_path, timers.replace("2026-01-01 10", "10"))))
    clocks = "".join(CLOCK.format(word, forward) for forward in (500.0, 100.0, 110.0) for word in ("_microstep", ""))
    clocked = one(read(tmp_path, CONFIG + clocks + timers))
    assert clocked.steps_s == pytest.approx((0.4005, 0.4105))
    assert clocked.phases_s == pytest.approx(
        {"forward": 0.105, "backward": 0.2005, "exposed_communication": 0.04, "optimizer": 0.06}
    )


def test_clocks_of_deepspeed_s_pipelines_are_of_many_steps(tmp_path):
    steps = "steps: {} loss: 4.6178 iter time (s): {} samples/sec: 257.601\n"
    text = "".join(steps.format(at, s) + CLOCK.format("", 2785.9) for at, s in ((10, 9.9), (20, 0.994), (30, 0.996)))
    found = one(read(tmp_path, text))
    assert (found.steps_s, found.phases_s) == (pytest.approx((0.994, 0.996)), {})


PROFILER = """\
-------------------------- DeepSpeed Flops Profiler --------------------------
Profile Summary at step 10:
world size:                                                             8
batch size per GPU:                                                     80
params per gpu:                                                         336.23 M
fwd MACs per GPU:                                                       3139.93 G
fwd flops per GPU:                                                      6279.86 G
fwd latency:                                                            76.67 ms
bwd latency:                                                            108.02 ms
fwd FLOPS per GPU = fwd flops per GPU / fwd latency:                    81.9 TFLOPS
step latency:                                                           34.09 us
iter latency:                                                           184.73 ms
samples/second:                                                         433.07
"""


def test_the_flops_profiler_of_deepspeed(tmp_path):
    found = one(read(tmp_path, PROFILER))
    (row,) = found.rows
    assert found.steps_s == (0.18473,)
    assert found.phases_s == pytest.approx({"forward": 0.07667, "backward": 0.10802, "optimizer": 34.09e-6})
    assert (found.world_size, row["forward_flops"], row["samples_per_s"]) == (8, 6279.86e9, 433.07)


def test_a_trainer_that_drives_another_gives_the_scenario(tmp_path):
    clocks = "".join(CLOCK.format("", 100.0) for _ in range(5))
    found = one(read(tmp_path, TOOLS.joinpath("trainer.log").read_text(encoding="utf-8") + clocks))
    assert found.origin.format == "log/DeepSpeed"
    assert found.steps_s == pytest.approx((0.4005,) * 4)
    assert found.scenario["training"]["seq_len"] == 64


def test_numbers_that_are_none_and_labels_that_are_no_host(tmp_path):
    table = "\n| model | step time (ms) |\n|---|---|\n| gpt2 | 10.5 |\n"
    assert one(read(tmp_path, "Peak memory: 1.2.3 GB\nflops: 1..2 GFLOPs\n" + table)).rows[0]["step_s"] == 0.0105
    lines = "".join(
        f" iteration {at}/ 9 | elapsed time per iteration (ms): 100.0 | global batch size: 8 |\n" for at in (1, 2)
    )
    log = one(read(tmp_path, "world_size .......... 0\nnum_layers ......... ²\n" + lines))
    assert (log.steps_s, log.world_size, log.scenario) == ((0.1,), 1, {})
    assert one(read(tmp_path, "Total optimization steps = ,\n{'loss': 1.0}\n")).rows == ({"loss": 1.0},)
    deep = '{"a": ' + 20 * ("[" * 7000 + "\n")
    assert one(read(tmp_path, "{'loss': 1.0}\nloading Config BertConfig {\n" + deep[1:])).scenario == {}
    assert refusal(tmp_path, '{"global_step": 2, "log_history": ' + deep).format == "trainer_state"
    titan = "".join(f"step: {at}  loss: 8.1  memory: 42.50GiB(53.7%)  tps: 7,012  mfu: 20.1%\n" for at in range(1, 7))
    assert [row["step"] for row in one(read(tmp_path, titan)).rows] == [1, 2, 3, 4, 5, 6]
    assert one(read(tmp_path, "".join(f"forward: {at}.5 ms\n" for at in range(1, 7)))).rows[0]["name"] == "forward"
    behind = "".join(f"node3: forward: {at}.5 ms\n" for at in range(1, 7))
    assert one(read(tmp_path, behind)).rows[0]["name"] == "forward"


def test_a_log_of_nemo(tmp_path):
    line = "Training epoch 0, iteration {}/99 | lr: 3e-07 | global_batch_size: 512 | reduced_train_loss: 11.03 | {}"
    found = one(read(tmp_path, of_steps(line, *((f"train_step_timing in s: {s}",) for s in (50.0, 5.7, 5.8)))))
    assert (found.steps_s, found.rows[1]["global_batch"]) == (pytest.approx((5.7, 5.8)), 512)


SPAN = {"start_step": 1, "end_step": 15, "step_interval": 5}
GOLDEN = {
    "lm loss": {**SPAN, "values": {"1": 10.5, "5": 10.25, "10": 9.5}},
    "mem-max-allocated-bytes": {**SPAN, "values": {"1": 3e9, "5": 4e9, "10": 4e9}},
    "iteration-time": {**SPAN, "values": {"1": 22.5, "5": "nan", "10": 0.5, "15": 0.25}},
}


def test_golden_values_of_megatron(tmp_path):
    span, document = SPAN, deepcopy(GOLDEN)
    found = one(read(tmp_path, document))
    assert (found.steps_s, found.memory.peak_bytes) == ((0.5, 0.25), 4e9)
    assert found.rows[1] == {"step": 5, "lm_loss": 10.25, "peak_bytes": 4e9}
    document["iteration-time"]["values"].pop("1")
    document["iteration-time"]["values"]["5"] = 9.5
    assert one(read(tmp_path, document)).steps_s == (0.5, 0.25)  # the first that has a time holds the start-up work
    listed = {"iteration-time": {**span, "values": [22.5, 0.5, 0.25]}}
    assert one(read(tmp_path, listed)).rows[2] == {"step": 11, "step_s": 0.25}
    assert "no-step-time" in codes(read(tmp_path, {"lm loss": document["lm loss"]}))
    assert refusal(tmp_path, {"lm loss": {**span, "values": {}}}).format == "golden values"


FORMER_ARGUMENTS = """\
  deepspeed ....................... True
  hidden_size ..................... 8192
  model_parallel_size ............. 4
  num_attention_heads ............. 32
  num_layers ...................... 64
  pipe_parallel_size .............. 0
  seq_length ...................... 1024
  world_size ...................... 64
"""


def test_what_one_trainer_leaves_out_the_other_says(tmp_path):
    step = " iteration {:>8}/ 1000 | elapsed time per iteration (ms): 100.0 | lm loss: 1.0E+01 |\n"
    steps = "".join(step.format(at) for at in (1, 2, 3))
    config = CONFIG.replace("... 2\n", "... 3\n") + TIMER.format(1, 640.0) + TIMER.format(2, 640.0)
    found = one(read(tmp_path, FORMER_ARGUMENTS + config + steps))
    assert (found.origin.producer, found.world_size) == ("Megatron-LM", 64)
    assert found.memory.peak_bytes == 38.5 * GIB
    assert found.scenario["plan"] == {"tp": 4, "dp": 8, "micro_batch": 4, "sharding": "zero3"}
    assert found.scenario["training"] == {
        "seq_len": 1024, "global_batch": 64, "precision": "fp32", "framework": "megatron",
    }  # fmt: skip
    lines = FORMER_ARGUMENTS.replace("deepspeed", "deepscale").splitlines()
    alone = one(read(tmp_path, "\n".join(f"vm-07-05: {line}" for line in lines) + "\n" + steps))
    assert alone.scenario["plan"] == {"tp": 4, "dp": 16}


def mlperf(*events):
    """Lines of MLPerf's logger, behind the number of the rank that printed them."""
    return "".join(
        "0: :::MLLOG " + json.dumps({"namespace": "", "time_ms": 1712973717648 + round(1000 * at), "key": key,
                                     "value": value, "metadata": {"file": "run.py", "lineno": 1, **said}}) + "\n"
        for at, key, value, said in events
    )  # fmt: skip


MLPERF = (
    (0, "global_batch_size", 64, {}), (0, "gradient_accumulation_steps", 2, {}), (0, "local_batch_size", 4, {}),
    (0, "train_samples", 6400, {}), (0, "max_sequence_length", 2048, {}), (1, "run_start", None, {}),
)  # fmt: skip


def test_a_log_of_mlperf_takes_a_rate_that_the_way_bears_out(tmp_path):
    rates = [(1, "epoch_start", None, {}), (11, "tracked_stats", {"throughput": 640.0}, {"step": 1}),
             (15, "eval_accuracy", 0.5, {}), (26, "tracked_stats", {"throughput": 640.0}, {"step": 2})]  # fmt: skip
    found = one(read(tmp_path, mlperf(*MLPERF, *rates)))
    assert found.origin.format == "log/MLPerf"
    assert (found.steps_s, found.world_size, codes(found)) == ((0.1, 0.1), 8, {"mean-of-block"})
    assert found.rows[1] == {"since_start_s": pytest.approx(14.0), "eval_accuracy": 0.5}
    losses = [(at, "train_loss", 9.0, {"samples_count": 64 * count})
              for at, count in ((2, 1), (2.5, 2), (4.5, 4), (9, 5))]  # fmt: skip
    evaluated = [*losses[:3], (5, "eval_start", None, {}), losses[3]]
    found = one(read(tmp_path, mlperf(*MLPERF, *evaluated)))  # whose blocks count nothing
    assert found.steps_s == pytest.approx((0.5, 1.0))
    at_once = mlperf(*MLPERF, *evaluated).replace("1712973720148", "1712973719648.4")
    assert one(read(tmp_path, at_once)).steps_s == pytest.approx((1.25,))  # lines within a millisecond have no time
    of_a_rank = [(at, key, {"throughput": 80.0} if value and key == "tracked_stats" else value, said)
                 for at, key, value, said in rates]  # fmt: skip
    found = one(read(tmp_path, mlperf(*MLPERF, *of_a_rank)))  # as SSD counts it: of one GPU of eight
    assert (found.steps_s, codes(found)) == ((), {"no-step-time"})
    assert "no losses between which to count them" in found.warnings[0].message
    without = [one for one in MLPERF if one[1] != "global_batch_size"]
    counted = [(1, "epoch_start", None, {}), (11, "tracked_stats", {"throughput": 64.0}, {"samples_count": 640})]
    (said,) = one(read(tmp_path, mlperf(*without, *counted))).warnings  # samples are counted, a step is not
    assert "but not its global batch" in said.message


def test_blocks_of_mlperf_count_samples_or_tokens(tmp_path):
    samples = [(1, "block_start", None, {"samples_count": 0}), (11, "block_stop", None, {"samples_count": 640}),
               (20, "block_start", None, {}), (22, "block_stop", None, {"samples_count": 768})]  # fmt: skip
    assert one(read(tmp_path, mlperf(*MLPERF, *samples))).steps_s == pytest.approx((1.0, 1.0))
    tokens = [(1, "block_start", None, {"epoch_count": 64 * 2048 * 5}), (11, "block_stop", None, {}),
              (11, "block_start", None, {"epoch_count": 64 * 2048 * 5}), (20, "eval_start", None, {}),
              (40, "block_stop", None, {})]  # fmt: skip
    assert one(read(tmp_path, mlperf(*MLPERF, *tokens))).steps_s == pytest.approx((2.0,))
    loop = "".join(f"Iter: {at} Time(100 iters): 0.4{at}s Loss: 0.13 lr:0.004\n" for at in (100, 200, 300))
    hugectr = one(read(tmp_path, mlperf(*MLPERF) + loop))  # the loop within says the times
    assert (hugectr.origin.format, hugectr.steps_s) == ("log/loop", pytest.approx((0.0042, 0.0043)))


def test_the_results_that_the_trainer_writes_at_its_end_have_its_mean_step(tmp_path):
    results = {"epoch": 3.0, "total_flos": 1.1e15, "train_loss": 2.38, "train_runtime": 472.0904,
               "train_samples_per_second": 0.763, "train_steps_per_second": 0.095}  # fmt: skip
    found = one(read(tmp_path, results, "train_results.json"))
    assert found.origin.format == "log/Transformers"
    assert found.steps_s == pytest.approx((1 / 0.095,), rel=0.01)
    assert "mean-of-run" in codes(found)
    untimed = one(read(tmp_path, {**results, "train_steps_per_second": 0.0}, "train_results.json"))
    assert (untimed.steps_s, codes(untimed)) == ((), {"no-step-time"})


def test_steps_of_ms_swift_are_timed_by_what_has_elapsed(tmp_path):
    line = (
        "{{'loss': 0.48, 'learning_rate': 1e-06, 'memory(GiB)': {}, 'train_speed(iter/s)': 0.0104, "
        "'global_step/max_steps': '{}/94', 'percentage': '12.77%', 'elapsed_time': '{}', 'remaining_time': '2h 5m'}}\n"
    )
    given = ((60.5, 12, "58m 26s"), (69.19, 13, "59m 58s"), (69.19, 15, "1h 3m 0s"))
    found = one(read(tmp_path, "".join(line.format(*one_of) for one_of in given)))
    assert found.steps_s == (92.0, 91.0)
    assert [row["step"] for row in found.rows] == [12, 13, 15]
    assert found.memory.reserved_bytes == 69.19 * GIB
