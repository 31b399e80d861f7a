"""What cells, headings and sentences of a table say of a run: model, chips, batch, plan, software."""

from __future__ import annotations

import pytest

from app.importers.text.kinds.run_cells import describe
from app.importers.text.values.figures import Findings
from app.importers.text.values.header import column
from estimator.validation.predicted_rows.device import TableDevice
from estimator.validation.predicted_rows.text_steps import scenario_of_text_row
from tests.app.importers.reading import codes, one, read, step_rows


@pytest.mark.parametrize(
    ("header", "text", "row"),
    [
        ("Model", "small_seq128", {"model": "small", "seq_len": 128}),
        ("model", "2.7B-ctx512", {"model": "2.7B", "seq_len": 512}),
        ("size", "**xl**", {"model": "xl"}),
        ("Params", "1,998,235,200", {"parameters": 1998235200}),
        ("context_length", "512", {"seq_len": 512}),
        ("bs", "8", {"batch": 8}),
        ("dtype", "torch.bfloat16", {"precision": "bf16"}),
        ("dtype", "", {}),
        ("Peak mem (GiB)", "2", {"peak_memory_bytes": 2.0 * 1024**3}),
        ("GPU", "A100", {"gpu": "A100"}),
        ("layers", "12", {"layers": 12}),
        ("Status", "✓", {}),
    ],
)
def test_what_columns_beside_the_times_say(header, text, row):
    found: dict = {}
    describe(found, column(header), text, Findings())
    assert found == row


def test_a_name_of_the_catalogue_is_its_model_unless_the_parameters_say_otherwise():
    for name, count, key in (
        ("llama3-8b", "", "llama3-8b"),
        ("gpt2", "124,439,808", "gpt2"),
        ("gpt2", "7", None),
        ("mine", "", None),
    ):
        found: dict = {}
        describe(found, column("Model"), name, Findings())
        if count:
            describe(found, column("Params"), count, Findings())
        assert found.get("catalogue_model") == key


def test_parameters_name_the_catalogues_model():
    found: dict = {}
    describe(found, column("Model"), "small_seq128", Findings())
    describe(found, column("Params"), "128,625,408", Findings())
    assert found["catalogue_model"] == "cs336-small"


def test_a_status_may_say_out_of_memory():
    findings = Findings()
    describe({}, column("Status"), "OOM", findings)
    assert findings.oom == 1


def test_the_gpu_and_how_many_are_read_whichever_column_says_it(tmp_path):
    text = "| model | GPU | Batch size per GPU | step (s) |\n|---|---|---|---|\n| gpt2 | 8x A100 80GB | 4 | 0.5 |\n"
    (row,) = step_rows(tmp_path, text)
    assert (row["gpu"], row["gpus"], row["batch_per_gpu"]) == ("A100 80GB", 8, 4)
    (row,) = step_rows(tmp_path, "| model | GPU | # GPUs | step (s) |\n|---|---|---|---|\n| gpt2 | H100 | 16 | 0.5 |\n")
    assert (row["gpu"], row["gpus"]) == ("H100", 16)


def test_a_table_whose_rows_name_their_gpus_asks_only_for_what_may_be_two(tmp_path):
    def device(*gpus):
        lines = "".join(f"gpt2,{gpu},4,1024,{at}00\n" for at, gpu in enumerate(gpus, 1))
        return one(read(tmp_path, f"model,GPU,batch,seq,step (ms)\n{lines}")).device

    assert device("H100", "H100 SXM") == {"name": "NVIDIA H100 SXM 80 GB"}
    assert device("H100", "A100-80GB") == {}
    asked = [chip["chip"] for chip in device("H100", "A100")["candidates"]]
    assert asked == ["a100-80gb-sxm", "a100-80gb-pcie", "a100-40gb-sxm", "a100-40gb-pcie"]


def test_nothing_speaks_for_one_of_the_chips_that_could_where_a_table_names_none(tmp_path):
    text = "model,batch,seq,precision,step (ms)\ngpt2,8,1024,fp32,270\n"
    found = one(read(tmp_path, text)).device["candidates"]
    chips = [chip["chip"] for chip in found]
    # versions for export come behind all others; the H200, whose name begins as the H20's, is none
    assert chips.index("h200-sxm") < chips.index("h100-sxm")
    assert chips[-2:] == ["h20", "h800-sxm"]
    assert {chip["why"] for chip in found} == {""}


HEAD = "| Model | GPU | {} | step (ms) |\n|---|---|{}---|\n"


@pytest.mark.parametrize(
    ("columns", "cells", "found"),
    [
        ("GPUs | Global batch | Seq. len", "8 | 1k | 8K", {"gpus": 8, "global_batch": 1024, "seq_len": 8192}),
        ("n_gpu | bs/gpu | ga", "8 | 4 | 16", {"gpus": 8, "batch_per_gpu": 4, "gradient_accumulation": 16}),
        ("nodes | GPUs/node | MicroBatchSize", "2 | 4 | 1", {"nodes": 2, "gpus_per_node": 4, "micro_batch": 1}),
        ("ZeRO | Activation Checkpointing | GPUs", "2 | True | 4", {"sharding": "zero2", "recompute": "full"}),
        ("Sharding Strategy | act_ckpt | NumParams", "FULL_SHARD | no | 1.5B", {"recompute": "none"}),
        ("SeqLen (T) | Batch size (tokens) | # GPUs", "4096 | 4M | 8", {"global_batch": 1024, "seq_len": 4096}),
        ("Batch size (tokens) | seq | # GPUs", "4,000,000 | 4000 | 8", {"global_batch": 1000}),
        ("params | Tokens/s | tok/s/GPU", "124M | 78.2k | 9,775", {"parameters": 124_000_000, "tokens_per_s": 78200}),
    ],
)
def test_what_a_row_says_of_its_run(tmp_path, columns, cells, found):
    text = HEAD.format(columns, "---|" * columns.count("|") + "---|") + f"| gpt2 | H100 | {cells} | 100 |\n"
    (row,) = step_rows(tmp_path, text)
    assert {name: row.get(name) for name in found} == found
    assert row["step_s"] == 0.1


def test_the_size_of_a_file_is_no_model(tmp_path):
    text = "model,size,batch,seq_len,step (ms)\ngpt2,0.5 GB,8,1024,120\n"
    assert step_rows(tmp_path, text)[0]["model"] == "gpt2"
    assert step_rows(tmp_path, text)[0]["size_bytes"] == 5e8
    assert step_rows(tmp_path, "size,batch,seq_len,step (ms)\n7B,8,1024,120\n")[0]["model"] == "7B"


def test_a_column_may_say_what_ran_out_of_memory(tmp_path):
    found = step_rows(tmp_path, "model,micro_batch,step_time_ms,oom\ngpt2,4,120.5,False\ngpt2,8,,True\n")
    assert [(row["step_s"], row["status"]) for row in found] == [(0.1205, "ok"), (None, "oom")]


def test_a_sentence_before_a_table_says_how_the_model_is_spread(tmp_path):
    table = "\n\n| Model | step time (ms) |\n|---|---|\n| llama2-7b | 2500 |\n"
    sharded = "Trained with FSDP on 8 A100 80GB, bf16, seq 2048, batch 16."
    (row,) = step_rows(tmp_path, "# Results\n\n" + sharded + table)
    assert (row["sharding"], row["gpus"], row["precision"]) == ("fsdp", 8, "bf16")
    place = TableDevice(chip="a100-80gb-sxm", ranks=1, calibration=None, assumed={})
    assert scenario_of_text_row({**row, "seq_len": 2048}, place).plan.sharding == "fsdp"
    assert not any("FSDP" in said for said in place.assumed)
    (row,) = step_rows(tmp_path, "All runs: tensor parallel 4, pipeline parallel 2, 8x H100." + table)
    assert {name: row[name] for name in ("gpus", "tp", "pp")} == {"gpus": 8, "tp": 4, "pp": 2}
    stated = "| Model | Strategy | tp | step (ms) |\n|---|---|---|---|\n| gpt2-xl | DDP | 4 | 5 |\n"
    (row,) = step_rows(tmp_path, "FSDP, tensor parallel 2.\n\n" + stated)
    assert ("sharding" in row, row["strategy"], row["tp"]) == (False, "DDP", 4)
    counted = "| Model | gpus | step (ms) |\n|---|---|---|\n| gpt2-xl | 4 | 5 |\n| gpt2-xl | 8 | 6 |\n"
    found = step_rows(tmp_path, "Data parallel 8, tensor parallel 2.\n\n" + counted)
    assert [("dp" in row, row["tp"], row["gpus"]) for row in found] == [(False, 2, 4), (False, 2, 8)]


def test_sentences_before_a_table_say_its_unit_batch_and_length(tmp_path):
    table = "| model | forward | full step |\n|---|---|---|\n| small | 12.1 | 41.0 |\n"
    said = "GPU: H100-80GB. batch = 16, context length 512. BF16 autocast. Times in ms.\n\n"
    imported = read(tmp_path, "## Step times\n\n" + said + table)
    (row,) = one(imported, "step-times").rows
    assert (row["forward_s"], row["step_s"], row["batch"], row["seq_len"]) == (0.0121, 0.041, 16, 512)
    assert not codes(imported) & {"unit-assumed", "batch-assumed"}
    assert "said-in-text" in codes(imported)
    assert row["precision"] == "bf16-amp"


@pytest.mark.parametrize(
    ("said", "key", "value"),
    [
        ("All times are given in milliseconds.", "forward_s", 0.0121),
        ("Times in ms. Of the others, times in s.", "forward_s", 12.1),
        ("Runs with batch 4 and with batch 8.", "batch", None),
        ("Per-GPU batch size of 8.", "batch_per_gpu", 8),
        ("A batch of 4 M tokens, sequence length: 4096.", "seq_len", 4096),
        ("A batch of 4 M tokens, sequence length: 4096.", "batch", None),
        ("On one H100, fp32, 5 warm-up steps.", "precision", "fp32"),
        ("Mixed precision (bf16), batch 4.", "precision", "bf16-amp"),
        ("fp32 with TF32 disabled.", "precision", "fp32"),
        ("fp32 and bf16 are compared.", "precision", None),
        ("Trained on 8x H100.", "gpus", 8),
        ("Trained on 4 GPUs, and on 8 GPUs.", "gpus", None),
    ],
)
def test_a_sentence_is_of_all_rows_only_where_it_names_one(tmp_path, said, key, value):
    table = "| model | forward |\n|---|---|\n| ours | 12.1 |\n"
    (row,) = step_rows(tmp_path, "## Step times\n\n" + said + "\n\n" + table)
    assert row.get(key) == value


def test_flags_of_a_trainer_say_precision_and_sharding(tmp_path):
    flags = ("true,false,full_shard", "false,True,no", "false,false,True", ",,off")
    text = "model,bf16,fp16,fsdp,ms\n" + "".join(f"gpt2,{each},40\n" for each in flags)
    said = [(row.get("precision"), row.get("sharding")) for row in step_rows(tmp_path, text)]
    assert said == [("bf16-amp", "full_shard"), ("fp16-amp", None), ("fp32", "fsdp"), (None, None)]


@pytest.mark.parametrize("flags", ["bf16,amp", "amp,bf16"])
def test_amp_beside_bf16_is_autocast_to_that_whichever_column_comes_first(tmp_path, flags):
    (row,) = step_rows(tmp_path, f"model,{flags},ms\ngpt2,true,true,40\n")
    assert row["precision"] == "bf16-amp"


@pytest.mark.parametrize(
    ("header", "cells"),
    [
        (
            "LLM,Accelerator,World Size,Global BS,Context,Precision,Iteration time [ms]",
            "gpt2-xl,H100,8,64,1024,bf16,890",
        ),
        ("Net;Card;#cards;BS total;ctx len;dtype;sec/it", "gpt2-xl;H100;8;64;1024;bf16;0.89"),
        ("Net;GPU;Cards;Total BS;seq;dtype;s/it", "gpt2-xl;H100;8;64;1024;bf16;0.89"),
    ],
)
def test_words_for_models_cards_and_batches_are_read(tmp_path, header, cells):
    (row,) = step_rows(tmp_path, f"{header}\n{cells}\n")
    assert row == {
        "model": "gpt2-xl",
        "catalogue_model": "gpt2-xl",
        "gpu": "H100",
        "gpus": 8,
        "global_batch": 64,
        "seq_len": 1024,
        "precision": "bf16",
        "step_s": 0.89,
        "status": "ok",
    }


@pytest.mark.parametrize("header", ["optimizer,optimizer kernel", "Optimizer,optimizer_kernel"])
def test_kernels_of_an_optimizer_are_neither_its_time_nor_another_optimizer(tmp_path, header):
    about = f"model,gpu,batch,seq len,{header},step (ms)\n"
    text = about + "gpt2,H100,4,512,AdamW,fused,24\ngpt2,H100,4,512,AdamW,for-loop,33\n"
    measured = one(read(tmp_path, text), "step-times")
    assert [(row["optimizer"], row["optimizer_kernel"]) for row in measured.rows] == [
        ("AdamW", "fused"),
        ("AdamW", "for-loop"),
    ]
    assert not measured.steps_s, "rows of other kernels are no steps of one run"


def test_kernels_alone_are_no_optimizer(tmp_path):
    text = "model,gpu,batch,seq len,optimizer_kernel,step (ms)\ngpt2,H100,4,512,fused,24\n"
    (row,) = step_rows(tmp_path, text)
    assert row["optimizer_kernel"] == "fused"
    assert "optimizer" not in row
