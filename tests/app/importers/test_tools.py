"""Results of other tools: sums of the profiler, logs of trainers, Proton; and what is no result."""

from __future__ import annotations

import marshal

import pytest

from app.importers.text import nvidia_smi
from tests.app.importers.reading import REFERENCE, codes, one, read, refusal

KEY_AVERAGES = """\
-----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
                   Name    Self CPU %      Self CPU     CPU total     Self CUDA    CUDA total       CPU Mem      CUDA Mem    # of Calls  Total MFLOPs
-----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
               aten::mm        60.00%       1.500ms       1.600ms       0.000us       2.000ms           0 B      72.00 KB             9         2.359
   ampere_sgemm_128x64         0.00%       0.000us       0.000us       2.000ms       2.000ms           0 B           0 B             9            --
-----------------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------  ------------
Self CPU time total: 2.500ms
Self CUDA time total: 2.000ms
"""  # noqa: E501


def test_spans_that_the_profiler_draws_over_kernels_are_no_kernels(tmp_path):
    columns = "Name,Self CPU %,Self CPU,CPU total,Self CUDA,CUDA total,# of Calls\n"
    spans = "".join(
        f"{name},0.00%,0.000us,0.000us,4.816s,4.816s,5\n"
        for name in ("ProfilerStep*", "nccl:all_reduce", "Optimizer.step#AdamW.step", "my block")
    )
    host = "my block,1.00%,10.000us,20.000us,0.000us,0.000us,5\n"
    kernel = "void gemm_kernel,0.00%,0.000us,0.000us,2.000ms,2.000ms,4\n"
    found = one(read(tmp_path, columns + spans + host + kernel))
    assert [(one.name, one.count, one.total_s) for one in found.kernels] == [("void gemm_kernel", 4, 0.002)]


def test_key_averages_as_text_and_as_csv(tmp_path):
    found = one(read(tmp_path, KEY_AVERAGES))
    op, _ = found.rows
    assert (op["calls"], op["flops"], op["device_memory_bytes"]) == (9, pytest.approx(2.359e6), 72 * 1024)
    assert (op["self_cpu_s"], op["total_device_s"]) == (pytest.approx(1.5e-3), pytest.approx(2e-3))
    # the op says its kernels' time once more
    assert [(one.name, one.count, one.total_s) for one in found.kernels] == [
        ("ampere_sgemm_128x64", 9, pytest.approx(2e-3))
    ]
    former = KEY_AVERAGES.replace("    Self CPU ", "    Self CPU total ").replace("# of Calls", "Number of Calls")
    assert one(read(tmp_path, former)).rows == found.rows  # until PyTorch 1.6
    printed = one(read(tmp_path, REFERENCE.joinpath("tools", "key_averages.txt").read_bytes()))
    first = printed.rows[0]
    assert (len(printed.rows), first["name"], first["calls"], first["flops"]) == (10, "aten::mm", 6, 6.291e6)
    raw = "key,count,self_cpu_time_total,self_device_time_total,flops\n"
    raw += "aten::mm,9,1500.0,0.0,2359000\nsgemm,9,0.0,2000.0,0\n"
    table = one(read(tmp_path, raw))
    assert table.rows[0]["self_cpu_s"] == pytest.approx(1.5e-3)
    assert [one.total_s for one in table.kernels] == [pytest.approx(2e-3)]


MEGATRON = """\
  bf16 ............................................ True
  context_parallel_size ........................... 1
  data_parallel_size .............................. 4
  ffn_hidden_size ................................. 14336
  global_batch_size ............................... 128
  hidden_size ..................................... 4096
  micro_batch_size ................................ 1
  num_attention_heads ............................. 32
  num_layers ...................................... 32
  num_query_groups ................................ 8
  padded_vocab_size ............................... 128256
  pipeline_model_parallel_size .................... 1
  seq_length ...................................... 8192
  swiglu .......................................... True
  tensor_model_parallel_size ...................... 2
  use_distributed_optimizer ....................... True
  world_size ...................................... 8
 [2026-01-01 00:00:00] iteration        1/     100 | consumed samples:          128 | elapsed time per iteration (ms): 21000.0 | throughput per GPU (TFLOP/s/GPU): 100.0 | lm loss: 1.1E+01 |
 [2026-01-01 00:00:20] iteration        2/     100 | consumed samples:          256 | elapsed time per iteration (ms): 10000.0 | throughput per GPU (TFLOP/s/GPU): 420.5 | lm loss: 1.0E+01 |
[Rank 0] (after 2 iterations) memory (MB) | allocated: 1000.0 | max allocated: 2000.5 | reserved: 3000.0 | max reserved: 4000.0
 [2026-01-01 00:00:30] iteration        3/     100 | consumed samples:          384 | elapsed time per iteration (ms): 10200.0 | throughput per GPU (TFLOP/s/GPU): 412.0 | lm loss: 9.0E+00 |
"""  # noqa: E501


def test_a_log_of_megatron_sets_the_scenario(tmp_path):
    found = one(read(tmp_path, MEGATRON))
    assert found.origin.format == "log/Megatron-LM"
    assert found.steps_s == pytest.approx((10.0, 10.2))
    assert "first-step-slow" in codes(found)
    assert (found.memory.peak_bytes, found.memory.reserved_bytes) == (2000.5 * 2**20, 4000.0 * 2**20)
    assert (found.world_size, found.scenario["plan"]["tp"], found.scenario["plan"]["sharding"]) == (8, 2, "zero1")
    assert found.scenario["model"]["kv_heads"] == 8
    assert found.scenario["training"] == {
        "seq_len": 8192, "global_batch": 128, "precision": "bf16", "framework": "megatron",
    }  # fmt: skip
    assert found.rows[1]["flops_per_s_per_gpu"] == pytest.approx(420.5e12)


def test_a_log_of_torchtitan_gives_rates_and_its_clock_the_step_times(tmp_path):
    line = "[rank0]:\x1b[32m[titan] step: {}  \x1b[33mloss: 8.1  \x1b[39mmemory: 42.50GiB(53.7%)  "
    line += "tps: 7,012  tflops: 406.1  mfu: 41.06%\n"
    found = one(read(tmp_path, "".join(line.format(i) for i in (1, 10, 20))))
    assert found.rows[1] == pytest.approx({
        "step": 10, "loss": 8.1, "reserved_bytes": 42.5 * 2**30, "tokens_per_s_per_gpu": 7012.0,
        "flops_per_s_per_gpu": 406.1e12, "mfu_frac": 0.4106,
    })  # fmt: skip
    assert "no-step-time" in codes(found)
    assert found.steps_s == ()
    stamped = "".join(f"[rank0]:2026-01-01 10:00:{i:02},500 - root - INFO - {line.format(i)}" for i in (1, 10, 20))
    assert one(read(tmp_path, stamped)).steps_s == (1.0, 1.0)


@pytest.mark.parametrize(
    ("content", "format", "word"),
    [
        (b"<!DOCTYPE html>\n<html>", "html", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n", "git-lfs", "git lfs pull"),
        (b"%PDF-1.7\n", "pdf", "PDF"),
        (b'{"segments": [], "device_traces": []}', "snapshot", "while tensors are on the device"),
        (b'{"exporter": "py-spy@0.3.14", "shared": {}, "profiles": []}', "speedscope", "torch.profiler"),
        (b'[{"children": [], "frame": {"name": "ROOT"}, "metrics": {}}]', "proton", "proton.finalize"),
        (b"Tue Nov 12 10:00:00 2024\n+---+\n| NVIDIA-SMI 550.54.15   Driver\n", "nvidia-smi", "busy"),
        (b"# gpu    pwr  gtemp\n# Idx      W      C\n    0     70     34\n", "nvidia-smi", "times of steps"),
        (marshal.dumps({("a.py", 1, "train"): (1, 1, 0.5, 0.5, {})}), "cProfile", "torch.profiler"),
    ],
)
def test_what_is_no_result_has_its_own_sentence(tmp_path, content, format, word):
    error = refusal(tmp_path, content)
    assert error.format == format
    assert word in str(error)


SMI = """\
Sun Aug 17 00:40:32 2025
+---------------------------------------------------------------------------------------+
| NVIDIA-SMI 535.129.03             Driver Version: 535.129.03   CUDA Version: 12.2     |
|-----------------------------------------+----------------------+----------------------+
| GPU  Name                 Persistence-M | Bus-Id        Disp.A | Volatile Uncorr. ECC |
|=========================================+======================+======================|
|   0  NVIDIA A100-SXM4-40GB          On  | 00000000:D1:00.0 Off |                    0 |
| N/A   32C    P0              67W / 400W |      4MiB / 40960MiB |      0%      Default |
+-----------------------------------------+----------------------+----------------------+

+---------------------------------------------------------------------------------------+
| Processes:                                                                            |
|    0   N/A  N/A      1234      C   python                                  4MiB |
+---------------------------------------------------------------------------------------+
"""
ALIGNED = "\n# Forward alone\n\nseq_len  forward_ms  backward_ms\n128  1.5  2.5\n256  2.5  3.5\n512  3.5  4.5\n"


@pytest.mark.parametrize(("behind", "format"), [
    ("".join(f"step {at} | loss 4.2 | 135 ms\n" for at in range(4)), "log/loop"),
    ("\n| model | seq_len | step (ms) |\n|---|---|---|\n| gpt2 | 1024 | 12 |\n", "text/step-times"),
])  # fmt: skip
def test_a_job_s_log_may_begin_with_nvidia_smi_which_names_its_chip(tmp_path, behind, format):
    found = one(read(tmp_path, SMI + behind))
    assert found.origin.format == format
    assert found.device["candidates"][0]["chip"] == "a100-40gb-sxm"
    for only in (SMI + SMI, SMI.replace("\n", "\r\n")):
        assert refusal(tmp_path, only).format == "nvidia-smi"


def test_what_stands_behind_nvidia_smi_is_as_without_it(tmp_path):
    assert one(read(tmp_path, SMI + ALIGNED)).rows == one(read(tmp_path, ALIGNED)).rows
    assert (
        nvidia_smi.without(SMI).split("\n", 1)[1].strip()
        == "GPU: NVIDIA A100-SXM4-40GB\nnvidia-smi: devices with work: 1"
    )
    named = "# gpu     sm    mem\n# Idx      %      %\n"
    assert nvidia_smi.without(named + "    0     45     12\n# Results\n") == "# Results\n"
    assert "more rows than the limit" in refusal(tmp_path, SMI + ALIGNED, rows=2).message


def test_torch_benchmark_and_flop_counter(tmp_path):
    folder = REFERENCE / "tools"
    compared = one(read(tmp_path, folder.joinpath("benchmark_compare.txt").read_bytes()))
    assert len(compared.rows) == 12
    assert compared.rows[3] == {
        "label": "Batched dot", "sub_label": "[64, 64]", "description": "mul/sum", "threads": 1,
        "median_s": pytest.approx(6.8e-6),
    }  # fmt: skip
    timed = one(read(tmp_path, folder.joinpath("benchmark_timer.txt").read_bytes()))
    assert [(row["label"], row.get("median_s", row.get("mean_s"))) for row in timed.rows] == [
        ("Matmul", pytest.approx(31.11e-6)), ("a+a", pytest.approx(1.4e-6)),
    ]  # fmt: skip
    counted = one(read(tmp_path, folder.joinpath("flop_counter.txt").read_bytes()))
    assert counted.rows[0] == {"module": "Sequential", "flops": 11.534e6, "share_frac": 1.0}
    assert counted.rows[4] == {"module": "Sequential.0", "op": "aten.addmm", "flops": 2.097e6, "share_frac": 0.1818}


def proton_node(name, metrics, *children):
    return {"children": children, "frame": {"name": name, "type": "function"}, "metrics": metrics}


def proton_kernel(name, ns, count, **said):
    metrics = {"count": count, "device_id": "0", "device_type": "CUDA", "time (ns)": ns, **said}
    return proton_node(name, metrics)


PROTON = [
    proton_node(
        "ROOT",
        {"count": 0, "time (ns)": 0, "flops16": 0},
        proton_node("step", {}, proton_kernel("matmul_kernel", 2000, 2, flops16=4e6, bytes=3e3)),
        proton_node("launch of attention", {"flops": 7e6, "bytes": 5e3}, proton_kernel("_attn_fwd", 3000, 1)),
        proton_node(
            "both", {"bytes": 9e3}, proton_kernel("add", 5, 1), proton_kernel("matmul_kernel", 500, 1, flops16=1e6)
        ),
    ),
    {"CUDA": {"0": {"arch": "90", "num_sms": 132}}},
]


def test_a_profile_of_proton(tmp_path):
    found = one(read(tmp_path, PROTON))
    assert [(one.name, one.category, one.count, one.flops, one.bytes) for one in found.kernels] == [
        ("_attn_fwd", "attention", 1, 7e6, 5e3), ("matmul_kernel", "matmul", 3, 5e6, None),
        ("add", "elementwise", 1, None, None),
    ]  # fmt: skip
    assert [one.total_s for one in found.kernels] == pytest.approx([3e-6, 2.5e-6, 5e-9])
    assert codes(found) == {"whole-recording"}
