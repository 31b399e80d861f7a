"""What the log of a loop of one's own says of its run: model, sizes, chips, plan, and what is a guess or asked for."""

from __future__ import annotations

import json

import pytest

from app.importers.text.trainers.first_lines import settings_before
from estimator.scenario import catalog
from estimator.validation.predicted_rows.said_scenario import answered, said_scenario
from tests.app.importers.reading import codes, of_steps, one, read
from tests.app.importers.test_loops import DLLOGGER, LOOPS, of_phases


def test_a_loop_s_chip_is_proposed_from_what_it_prints(tmp_path):
    text = f"| device | NVIDIA A100-SXM4-80GB |\n{LOOPS['bars between']}"
    assert one(read(tmp_path, text)).device["candidates"][0]["chip"] == "a100-80gb-sxm"


MAXTEXT = "".join(f"Config param {name}: {value}\n" for name, value in {
    "dtype": "bfloat16", "hardware": "gpu", "ici_fsdp_parallelism": 8, "max_target_length": 8192,
    "model_name": "llama3-8b", "per_device_batch_size": 2.0, "remat_policy": "full", "weight_dtype": "float32",
}.items()) + "Num_devices: 8, shape (1, 1, 8)\n" + LOOPS["MaxText"]  # fmt: skip


def test_what_maxtext_was_asked_is_its_scenario(tmp_path):
    found = one(read(tmp_path, MAXTEXT))
    assert found.scenario == {
        "model": "llama3-8b",
        "plan": {"dp": 8, "micro_batch": 2, "sharding": "fsdp", "recompute": "full"},
        "training": {"seq_len": 8192, "global_batch": 16, "precision": "bf16-amp", "framework": "xla"},
    }
    assert found.world_size == 8
    (unsaid,) = [warning.message for warning in found.warnings if warning.code == "settings-unsaid"]
    assert unsaid == "The log does not say its GPU, which a prediction of its step needs"
    usual = MAXTEXT.replace("fsdp_parallelism: 8", "fsdp_parallelism: -1")  # what the other axes leave
    assert one(read(tmp_path, usual)).scenario == found.scenario
    split = usual.replace("Config param dtype", "Config param ici_tensor_parallelism: 4\nConfig param dtype")
    assert one(read(tmp_path, split)).scenario["plan"] == {
        "dp": 2, "tp": 4, "micro_batch": 8, "sharding": "fsdp", "recompute": "full",
    }  # fmt: skip
    beside = split.replace("Config param dtype", "Config param ici_data_parallelism: 2\nConfig param dtype")
    assert "sharding" not in one(read(tmp_path, beside)).scenario["plan"]


def test_what_lines_of_json_say_of_their_run_is_read_and_what_they_do_not_is_said(tmp_path):
    start = {"gpu": "NVIDIA A100-SXM4-80GB", "world_size": 8, "model": "gpt2-xl", "batch_size": 64, "seq_len": 1024,
             "dtype": "bfloat16"}  # fmt: skip
    steps = "".join(json.dumps({"step": at, "step_time": 0.5, "loss": 9.0}) + "\n" for at in (1, 2, 3))
    found = one(read(tmp_path, json.dumps(start) + "\n" + steps))
    assert [chip["chip"] for chip in found.device["candidates"]] == ["a100-80gb-sxm"]
    assert (found.world_size, found.scenario["training"]) == (
        8, {"seq_len": 1024, "global_batch": 512, "precision": "bf16"},
    )  # fmt: skip
    assert codes(found) == {"unit-missing", "first-step-left-out", "batch-guessed"}
    own = {"model": "gpt2-xl", "micro_batch_size": 2, "grad_accum_steps": 4, "tensor_model_parallel_size": 2}
    rates = "".join(json.dumps({"step": at, "step_time": 0.5, "tokens_per_sec": 8000, "tokens_per_sec_per_gpu": 1000})
                    + "\n" for at in (1, 2, 3))  # fmt: skip
    found = one(read(tmp_path, json.dumps(own) + "\n" + rates))  # whose rates alone say how many GPUs there are
    assert (found.world_size, found.scenario["training"]) == (8, {"global_batch": 32})
    assert found.scenario["plan"] == {"dp": 4, "tp": 2, "micro_batch": 2}
    asked = {"step": "PARAMETER", "data": {"train_batch_size": 64, "num_gpus": 8, "gpu_name": "Chip 9000"}}
    found = one(read(tmp_path, "DLLL " + json.dumps(asked) + "\n" + DLLOGGER))
    said = {"plan": {"dp": 8}, "training": {"global_batch": 64}}
    assert (found.world_size, found.scenario, codes(found)) == (8, said, {"settings-unsaid", "first-step-untimed"})
    (unsaid,) = [warning.message for warning in found.warnings if warning.code == "settings-unsaid"]
    assert unsaid.startswith("The log does not say its model, sequence length, GPU, which")
    assert unsaid.endswith("; 'Chip 9000' is none that is known")


SAID = {
    "names": (
        "[rank0] loading\nmodel: gpt2-medium | params 354.8M | bs 32 | block 1024 | world size 8 | device NVIDIA "
        "A100-SXM4-80GB | dtype bfloat16 | DDP",
        ("gpt2-medium", 8, "ddp", 1024, 256, "bf16", "a100-80gb-sxm"),
    ),
    "sentence": (
        "Training gpt2-xl with DDP on 4x H100 80GB, global batch 16, seq 1024, bf16 autocast",
        ("gpt2-xl", 4, "ddp", 1024, 16, "bf16-amp", "h100-sxm"),
    ),
    "prose": (
        "Starting run: GPT-2 large (774M), 4x H100, seq length 1024, per-gpu batch 8, bf16 mixed precision, FSDP",
        ("gpt2-large", 4, "fsdp", 1024, 32, "bf16-amp", "h100-sxm"),
    ),
    "layout": (
        "Training gpt2-large on 8x H100: FSDP over all of them, seq length 1024, global batch 32, bf16",
        ("gpt2-large", 8, "fsdp", 1024, 32, "bf16", "h100-sxm"),
    ),
    "lines": (
        "model = gpt2\ngpus = 2\ngpu = H100 SXM\nbatch_size = 4 per GPU\nseq_len = 2k\nprecision = bf16-amp\n"
        "sharding = FULL_SHARD",
        ("gpt2", 2, "fsdp", 2048, 8, "bf16-amp", "h100-sxm"),
    ),
}


@pytest.mark.parametrize("name", SAID)
def test_what_a_loop_says_before_its_first_step_is_its_scenario(tmp_path, name):
    head, said = SAID[name]
    found = one(read(tmp_path, of_phases(head)))
    scenario, training = found.scenario, found.scenario["training"]
    assert said == (
        scenario["model"], found.world_size, scenario["plan"]["sharding"], training["seq_len"],
        training["global_batch"], training["precision"], found.device["candidates"][0]["chip"],
    )  # fmt: skip
    assert "settings-unsaid" not in codes(found)


@pytest.mark.parametrize("name", ["Levanter", "NeMo's bars that round", "iter"])
def test_settings_before_steps_that_are_put_into_words_are_read(tmp_path, name):
    head, (model, *_) = SAID["names"]
    assert one(read(tmp_path, f"{head}\n{LOOPS[name]}")).scenario["model"] == model


@pytest.mark.parametrize("head", ["batch 3 of many", "model: mine", "loading 4 shards\nstarted at 12:00, epoch 1"])
def test_first_lines_that_say_hardly_anything_set_nothing(tmp_path, head):
    found = one(read(tmp_path, of_phases(head)))
    assert (found.scenario, found.world_size) == ({}, 1)
    assert "settings-unsaid" not in codes(found)


SIZES = (
    "world_size=2 device=cpu {}layers=4 d_model=384 heads=6 vocab=8000 seq_len=256 per_device_batch=2 precision=fp32"
)


@pytest.mark.parametrize(
    ("count", "ffn", "gated", "tied"),
    [("", 1536, False, True), ("params=13.3M ", 1536, False, False), ("n_params: 10.2M ", 1024, True, True)],
)
def test_a_model_that_a_loop_states_by_its_sizes_is_taken_with_what_its_parameters_say(
    tmp_path, monkeypatch, count, ffn, gated, tied
):
    found = one(read(tmp_path, of_phases(SIZES.format(count))))
    model = found.scenario["model"]
    assert [model[name] for name in ("layers", "hidden", "heads", "vocab")] == [4, 384, 6, 8000]
    assert (model["ffn"], model["gated_ffn"], model["tied_embedding"]) == (ffn, gated, tied)
    said = next(w.message for w in found.warnings if w.code == "model-assumed")
    assert ("to which its parameters come nearest" in said) == bool(count)
    assert found.device == {"kind": "cpu"}
    with monkeypatch.context() as here:
        here.setattr(catalog, "known", lambda *_: None)  # not even the CPU that another test measured
        proposed = said_scenario(found)
    assert proposed is not None
    assert "ran on a CPU" in proposed.reason
    on_gpu = said_scenario(found, "a100-80gb-sxm")
    assert on_gpu is not None
    for one_of in (proposed, on_gpu):
        name = one_of.fields["model.name"]
        assert (name.value, name.evidence) == ("4 layers of width 384", "the file says its sizes, and no name")
    assert on_gpu.scenario is not None
    assert on_gpu.scenario["model"]["hidden"] == 384


@pytest.mark.parametrize(("printed", "near"), [("124.4M", True), (124439808, True), ("inf", False), ("many", False)])
def test_a_count_of_parameters_in_lines_of_json_may_be_printed_or_none(tmp_path, printed, near):
    sizes = {"n_layer": 12, "n_embd": 768, "n_head": 12, "vocab_size": 50257, "seq_len": 1024, "parameters": printed}
    text = "".join(json.dumps({"step": at, "step_time_s": 0.1, **sizes}) + "\n" for at in range(4))
    found = one(read(tmp_path, text, "log.jsonl"))
    assert (found.scenario["model"]["hidden"], found.scenario["model"]["tied_embedding"]) == (768, True)
    said = next(w.message for w in found.warnings if w.code == "model-assumed")
    assert ("to which its parameters come nearest" in said) == near


WHOSE = {
    "that of each": ({"batch_size": 8}, {}, 64, 8, False),
    "that of all": ({"batch": 8}, {}, 8, None, False),
    "too few for all": ({"batch": 4}, {}, 32, 4, True),
    "in passes": ({"batch_size": 4, "gradient_accumulation_steps": 2}, {}, 64, 4, True),
    "nanoGPT's": (
        {"batch_size": 4, "gradient_accumulation_steps": 16, "n_embd": 768, "block_size": 1024}, {}, 64, 4, True,
    ),
    "Transformers'": ({"per_device_train_batch_size": 8}, {}, 64, 8, True),
    "torchtitan's": ({"local_batch_size": 8}, {}, 64, 8, True),
    "Megatron-LM's": ({"micro_batch_size": 2, "global_batch_size": 64}, {}, 64, 2, True),
    "DeepSpeed's": ({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 8}, {}, 64, 8, True),
    "in tokens": ({"total_batch_size": 65536, "device_batch_size": 8}, {}, 64, 8, True),
    "told by samples": ({"batch_size": 8}, {"samples_per_sec": 16.0}, 8, None, True),
    "told by tokens": ({"batch_size": 8}, {"tokens_per_sec": 131072.0}, 64, 8, True),
    "told by tokens of each": ({"batch": 8}, {"tokens_per_sec_per_gpu": 16384.0}, 64, 8, True),
}  # fmt: skip


def test_a_batch_beside_no_count_of_gpus_is_a_guess_too(tmp_path):
    steps = [{"step": at, "step_time_s": 0.5} for at in (1, 2, 3)]
    run = {"model": "gpt2", "gpu": "H100", "seq_len": 1024, "batch_size": 8}
    found = one(read(tmp_path, "".join(json.dumps(row) + "\n" for row in [run, *steps])))
    asked = said_scenario(found)
    assert (asked.fields["training.global_batch"].value, asked.fields["training.global_batch"].sure) == (8, False)
    assert {"gpus", "global_batch"} <= set(asked.asked)


@pytest.mark.parametrize("name", WHOSE)
def test_a_batch_beside_gpus_is_a_guess_where_neither_its_name_nor_a_rate_says_whose_it_is(tmp_path, name):
    said, rates, batch, of_pass, sure = WHOSE[name]
    run = {"model": "gpt2", "gpu": "H100", "gpus": 8, "seq_len": 1024, **said}
    steps = [{"step": at, "step_time_s": 0.5, **rates} for at in (1, 2, 3)]
    found = one(read(tmp_path, "".join(json.dumps(row) + "\n" for row in [run, *steps])))
    assert (found.scenario["training"]["global_batch"], found.scenario["plan"].get("micro_batch")) == (batch, of_pass)
    asked = said_scenario(found)
    assert (asked.fields["training.global_batch"].sure, "global_batch" in asked.asked) == (sure, not sure)
    other = answered(found, {"global_batch": 64})
    assert said_scenario(other).fields["training.global_batch"].sure
    assert other.scenario["plan"].get("micro_batch") == (of_pass if sure else None)


@pytest.mark.parametrize(
    ("said", "recompute"),
    [
        ("activation checkpointing full", "full"),
        ("gradient checkpointing: True", "full"),
        ("recompute=selective", "selective"),
        ("recompute off", "none"),
        ("activation checkpoint saved", None),
    ],
)
def test_what_a_loop_s_first_line_recomputes_is_its_plan_s(tmp_path, said, recompute):
    head = f"model: gpt2 | 8x H100 80GB | DDP | seq_len 1024 | global batch 64 | {said}\n"
    steps = of_steps("step {} | loss 9.1 | {} ms", (900,), (136,), (135,))
    assert one(read(tmp_path, head + steps)).scenario["plan"].get("recompute") == recompute


@pytest.mark.parametrize(("said", "warned"), [
    ("modification_type: lora", True), ("lora_rank: 4", True), ("QLoRA of gpt2", True), ("use_lora: False", False),
    ("flora fauna exploration", False), ('{"use_lora": false}', False), ("{'lora': None}", False),
])  # fmt: skip
def test_a_log_that_names_adapters_says_that_its_prediction_trains_every_weight(tmp_path, said, warned):
    found = one(read(tmp_path, said + "\n" + of_steps("step {} | loss 4.2 | {} ms", (900,), (135,), (134,))))
    assert ("adapters" in codes(found)) == warned


@pytest.mark.parametrize(
    ("line", "gpu"),
    [
        ("device: cpu", "cpu"),
        ("offload device: cpu", None),
        ("offload_optimizer, device: cpu", None),
        ("device: cpu, offload: optimizer", None),
        ("device: cpu, offload: none", "cpu"),
        ("batch 8 | device cpu", "cpu"),
        ("offload device cpu", None),
        ("offload_optimizer=False, device: cpu", "cpu"),
        ("device: cpu, no_sync, offload no", "cpu"),
        ("device: cpu, offload: nothing, offload: optimizer", None),
        ("device: cpu, offload: none, offload_params: 1", None),
    ],
)
def test_what_is_offloaded_to_a_cpu_did_not_run_on_it(line, gpu):
    assert settings_before(["model: gpt2 | batch 8 | seq 512", line]).get("gpu") == gpu


@pytest.mark.parametrize("said", ["d_model=1024 layers=12", "layers: 12, d_model: 1024", "layers 12 d_model=1024"])
def test_the_name_of_a_width_is_no_model_s(tmp_path, said):
    head = f"model: {said} heads=16 vocab=50304 seq_len=1024\nper_device_batch=8 world_size=8\n"
    found = one(read(tmp_path, head + of_steps("step {} | step_time {} ms", (100, 71.2), (110, 70.9), (120, 71.0))))
    model = found.scenario["model"]
    assert (model["name"], model["hidden"], model["layers"]) == ("", 1024, 12)


TORCHTUNE = """INFO:torchtune.utils._logging:Running FullFinetuneRecipeSingleDevice with resolved config:

batch_size: 4
checkpointer:
  _component_: torchtune.training.FullModelHFCheckpointer
  checkpoint_files:
  - model.safetensors
compile: {compile}
dataset:
  _component_: torchtune.datasets.alpaca_dataset
  packed: {packed}
device: cuda
dtype: bf16
enable_activation_checkpointing: true
gradient_accumulation_steps: 2
model:
  _component_: torchtune.models.llama3_2.llama3_2_1b
tokenizer:
  max_seq_len: 2048

INFO:torchtune.utils._logging:Model is initialized with precision torch.bfloat16 on NVIDIA H100 80GB HBM3.
"""


@pytest.mark.parametrize("packed", [True, False])
def test_what_torchtune_resolved_is_its_scenario_where_its_tokens_tell_its_steps(tmp_path, packed):
    line = "Step {} | loss:2.08 lr:2e-05 tokens_per_second_per_gpu:{} peak_memory_active:14.1 peak_memory_alloc:14.0"
    head = TORCHTUNE.format(packed=str(packed).lower(), compile=str(packed).lower())
    found = one(read(tmp_path, head + of_steps(line, (900.5,), (8192.0,), (16384.0,))))
    assert found.memory.peak_bytes == pytest.approx(14.0 * 2**30)
    if not packed:
        assert (found.steps_s, found.scenario) == ((), {})
        return
    assert found.steps_s == pytest.approx((2.0, 1.0)), "4 · 2 · 2048 tokens"
    scenario = said_scenario(found).scenario
    assert (scenario["model"]["name"], scenario["cluster"]["chip"]["name"]) == ("llama3.2-1b", "h100-sxm")
    training, plan = scenario["training"], scenario["plan"]
    assert (training["seq_len"], training["global_batch"], training["framework"]) == (2048, 8, "pytorch-compile")
    assert (plan["micro_batch"], plan["recompute"], training["precision"]) == (4, "full", "bf16")


SOURCE = "import os\nimport torch\n\ndef main():\n    batch_size = 3\n    print(f'step {1} loss 2 time 5 ms')\n"
BUSY = (
    "+------------+\n| NVIDIA-SMI 535.1   Driver Version: 535.1 |\n|   0  NVIDIA H100 80GB HBM3    On  | 00000000 |\n"
    "|   1  NVIDIA H100 80GB HBM3    On  | 00000000 |\n+------------+\n| Processes: |\n{}+------------+\n"
)
PROCESS = "|    {}   N/A  N/A      672{}      C   /usr/bin/python3         5776MiB |\n"


@pytest.mark.parametrize("gpus", [0, 2])
def test_a_program_s_own_source_in_its_log_says_nothing_and_its_nvidia_smi_how_many_gpus_worked(tmp_path, gpus):
    busy = BUSY.format("".join(PROCESS.format(at, at) for at in range(gpus)))
    steps = of_steps("step:{}/99 train_time:{}ms", (188,), (324.5,), (459.5,))
    rule = "=" * 60 + "\n"
    said = "model: gpt2-medium, sequence length 1024, global batch 16\n"
    text = f"{rule}{SOURCE}{rule}nvidia-smi:\n{busy}{rule}{said}{steps}"
    found = one(read(tmp_path, text))
    assert (found.steps_s, found.world_size) == (pytest.approx((0.1365, 0.135)), max(gpus, 1))
    proposal = said_scenario(found)
    assert proposal.fields["cluster.chip"].value.startswith("NVIDIA H100 SXM")
    assert ("gpus" in proposal.asked) == (not gpus), proposal.reason
    if gpus:
        assert (proposal.fields["plan.dp"].value, proposal.fields["plan.dp"].sure) == (2, False)
        assert proposal.fields["plan.dp"].evidence == "nvidia-smi saw work on 2 GPUs as the run began"
