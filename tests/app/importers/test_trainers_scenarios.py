"""The scenario that a trainer's first lines are of: what they say, what is a guess, and what is asked for."""

from __future__ import annotations

from dataclasses import replace

import pytest

from estimator.estimate.estimate import estimate
from estimator.scenario.scenario import scenario_from_json
from estimator.validation.predicted_rows.said_scenario import answered, said_scenario
from tests.app.importers.reading import REFERENCE, codes, one, read

NANOGPT = """\
Overriding config with config/train_gpt2.py:
# 12 batch size * 1024 block size * 5 gradaccum * 8 GPUs = 491,520
batch_size = 12
gradient_accumulation_steps = 5 * 8
Overriding: compile = {}

tokens per iteration will be: 491,520
number of parameters: 123.59M
step 0: train loss 10.9897, val loss 10.9884
iter 0: loss 10.9886, time 4361.16ms, mfu -100.00%
iter 6: loss 9.5210, time 253.71ms, mfu {}
iter 7: loss 9.5210, time 252.71ms, mfu {}
"""


def test_settings_of_nanogpt_are_a_scenario(tmp_path):
    found = one(read(tmp_path, NANOGPT.format("True", "66.20%", "66.20%")))
    assert (found.origin.format, found.world_size) == ("log/nanoGPT", 8)
    assert found.steps_s == pytest.approx((0.25371, 0.25271))
    assert found.scenario["plan"] == {"dp": 8, "micro_batch": 12}
    assert found.scenario["training"] == {
        "seq_len": 1024, "global_batch": 480, "precision": "bf16-amp", "framework": "pytorch-compile",
        "optimizer": "adamw",
    }  # fmt: skip
    model = found.scenario["model"]
    assert (model["layers"], model["hidden"], model["heads"], model["vocab"], model["bias"]) == (
        12,
        768,
        12,
        50304,
        False,
    )
    unknown = one(read(tmp_path, NANOGPT.format("False", "-100.00%", "-100.00%")))
    assert (unknown.world_size, unknown.scenario["training"]["framework"]) == (1, "pytorch-eager")
    assert "ranks-unknown" in codes(unknown)
    real = one(read(tmp_path, REFERENCE.joinpath("tools", "nanogpt.log").read_bytes()))
    assert (real.scenario["model"]["layers"], real.scenario["training"]["global_batch"]) == (2, 4)
    assert real.scenario["training"]["precision"] == "tf32"
    assert real.scenario["training"]["optimizer"] == "adamw"
    assert "optimizer_kernel" not in real.scenario["training"]  # its log says that AdamW is not fused


NANOGPT_ALONE = """\
{}tokens per iteration will be: {}
Initializing a new model from scratch
defaulting to vocab_size of GPT-2 to 50304 (50257 rounded up for efficiency)
number of parameters: {}M
num decayed parameter tensors: 50, with {} parameters
num non-decayed parameter tensors: 25, with 19,200 parameters
using fused AdamW: True
compiling the model... (takes a ~minute)
iter 0: loss 10.9886, time 4361.16ms, mfu -100.00%
iter 10: loss 9.5210, time 252.71ms, mfu {}
iter 20: loss 9.5210, time 252.71ms, mfu {}
"""


def test_what_nanogpt_leaves_out_is_a_guess_or_asked_and_what_does_not_divide_is_neither(tmp_path):
    """Its parameters, printed to the digit, settle widths and block; 12 sequences are its default."""
    sure = NANOGPT_ALONE.format("", "491,520", "123.59", "124,354,560", "66.20%", "66.20%")
    found = one(read(tmp_path, sure))
    proposed = said_scenario(found, "a100-40gb-sxm")
    assert proposed.scenario["training"]["optimizer"] == "adamw"
    kernel = proposed.fields["training.optimizer_kernel"]
    assert (kernel.value, kernel.sure) == ("fused", True)
    assert proposed.scenario["model"]["name"] == "GPT-2 small (nanoGPT)"
    assert (proposed.fields["plan.dp"].value, proposed.fields["plan.dp"].sure) == (8, True)
    assert "FLOPs of a step over its time and its MFU" in proposed.fields["plan.dp"].evidence
    told = said_scenario(answered(found, {"gpus": 8}), "a100-40gb-sxm").fields["plan.dp"]
    assert (told.value, told.evidence) == (8, "the file says so")
    guessed = {path for path, field in proposed.fields.items() if not field.sure}
    assert guessed == {"plan.sharding", "plan.micro_batch", "training.precision"} & proposed.fields.keys()
    assert proposed.fields["plan.micro_batch"].value == 12
    passes = sure.replace("tokens per", "gradient_accumulation_steps = 5 * 8\ntokens per")
    assert said_scenario(one(read(tmp_path, passes)), "a100-40gb-sxm").fields["plan.micro_batch"].sure
    odd = one(read(tmp_path, NANOGPT_ALONE.format("", "32,768", "123.59", "124,354,560", "20.40%", "20.40%")))
    assert odd.scenario["plan"] == {}  # 12 does not divide 32, and its MFU is of no whole number of GPUs
    proposed = said_scenario(odd, "h100-sxm")
    assert "gpus" in proposed.asked
    assert (proposed.fields["training.global_batch"].value, proposed.fields["training.global_batch"].sure) == (32, True)
    assert not proposed.fields["plan.micro_batch"].sure
    other = one(read(tmp_path, NANOGPT_ALONE.format("", "491,520", "10.65", "10,740,096", "66.20%", "66.20%")))
    proposed = said_scenario(other)  # its configuration is a file that it does not print
    assert {"model", "chip"} <= set(proposed.asked)
    assert not proposed.fields["training.seq_len"].sure


TITAN = """\
[rank0]:[titan] 2025-03-11 10:21:03,456 - root - INFO - Building {}
[rank0]:[titan] 2025-03-11 10:21:05,456 - root - INFO - CUDA capacity: NVIDIA A100-SXM4-80GB with 79.15GiB memory
[rank0]:[titan] 2025-03-11 10:21:05,500 - root - INFO - Building {}
[rank0]:[titan] 2025-03-11 10:21:06,000 - root - INFO - Model {} total parameters
[rank0]:[titan] 2025-03-11 10:21:06,100 - root - INFO - Applied {} activation checkpointing to the model
[rank0]:[titan] 2025-03-11 10:21:06,200 - root - INFO - Applied {} to the model
[rank0]:[titan] 2025-03-11 10:21:07,100 - root - INFO - {}, total steps 1000 (warmup 200).
"""
TITAN_STEP = "[rank0]:[titan] {} - root - INFO - step: {:2}  loss: 8.1  memory: 42.50GiB(53.7%)  tps: 4,096  mfu: 20%\n"
TITAN_STEPS = "".join(TITAN_STEP.format(f"2025-03-11 10:2{at}:00,500", 10 * at) for at in range(2, 6))


@pytest.mark.parametrize(
    ("said", "plan", "training", "model"),
    [
        (
            ("1-D device mesh with ['dp_shard'], [8]", "llama3 8B with ModelArgs()", "llama3 8B size: 8,030,261,248",
             "selective", "FSDP",
             "Training starts at step 1, with local batch size 1, global batch size 16, sequence length 8192"),
            {"dp": 8, "sharding": "fsdp", "micro_batch": 1, "recompute": "selective"},
            {"seq_len": 8192, "global_batch": 16},
            "llama3-8b",
        ),
        (
            ("device mesh with parallelism: pp=1, dp_replicate=2, dp_shard=4, cp=1, tp=2, ep=1, etp=1",
             "llama3 debug with TransformerModelArgs(dim=256, n_layers=6, n_heads=16, n_kv_heads=None, "
             "vocab_size=2048, multiple_of=256, ffn_dim_multiplier=None, norm_eps=1e-05)",
             "llama3 debug size: 6,163,712", "full", "HSDP",
             "Trainer is initialized with local batch size 8, global batch size 64, gradient accumulation steps 1, "
             "sequence length 2048"),
            {"dp": 8, "tp": 2, "sharding": "fsdp", "shard_ranks": 4, "micro_batch": 8, "recompute": "full"},
            {"seq_len": 2048, "global_batch": 64},
            "llama3 debug",
        ),
    ],
)  # fmt: skip
def test_a_log_of_torchtitan_says_its_scenario(tmp_path, said, plan, training, model):
    found = one(read(tmp_path, TITAN.format(*said) + TITAN_STEPS))
    assert found.scenario["plan"] == plan
    assert found.scenario["training"] == {**training, "framework": "torchtitan"}
    named = found.scenario["model"]
    assert (named if isinstance(named, str) else named["name"]) == model
    proposed = said_scenario(found)
    assert proposed.asked == ()
    assert proposed.scenario["cluster"]["chip"]["name"] == "a100-80gb-sxm"
    assert {path for path, field in proposed.fields.items() if not field.sure} == {"training.precision"}
    bare = TITAN.format(*said) + "".join(f"step: {at}  loss: 8.1  tps: 4,096  mfu: 20%\n" for at in range(1, 5))
    tokens = training["seq_len"] * training["global_batch"] / found.world_size
    assert one(read(tmp_path, bare)).steps_s == pytest.approx((tokens / 4096,) * 3)  # no clock: by its rate
    alone = said_scenario(one(read(tmp_path, TITAN_STEPS)))
    assert alone.asked == ("model", "global_batch", "seq_len", "gpus", "chip")


TRAINER_HEAD = """\
***** Running training *****
  Num examples = 20,000
  Instantaneous batch size per device = 8
  Total train batch size (w. parallel, distributed & accumulation) = {}
  Gradient Accumulation steps = 2
  Total optimization steps = 939
  Number of trainable parameters = {}
  3%|▎         | 30/939 [01:00<30:18,  2.00s/it]
"""
TRAINED = "{'loss': 2.4, 'epoch': 0.03}\n{'train_runtime': 1878.0, 'train_steps_per_second': 0.5, 'epoch': 3.0}\n"


def test_what_the_trainer_says_as_it_starts_is_its_scenario(tmp_path):
    for steps in (TRAINED, ""):  # a run that just began has but its bar
        found = one(read(tmp_path, TRAINER_HEAD.format(64, "1,235,814,400") + steps))
        assert (found.origin.format, found.world_size, found.steps_s) == ("log/Transformers", 4, (2.0,))
        assert found.scenario["model"] == "llama3.2-1b"
        assert found.scenario["plan"] == {"dp": 4, "micro_batch": 8}
        assert found.scenario["training"] == {"global_batch": 64, "framework": "trainer"}
        assert found.samples == {"parameters": 1_235_814_400}
        proposed = said_scenario(found)
        assert proposed.asked == ("seq_len", "chip")
        assert "sequence length" in proposed.reason
    whole = said_scenario(answered(found, {"seq_len": 2048}), "h100-sxm")
    assert (whole.asked, whole.scenario["training"]["global_batch"]) == ((), 64)
    derived = "Derived: 64 sequences of a step over 8 of a device in 2 passes"
    assert {said.fields["plan.dp"].evidence for said in (proposed, whole)} == {derived}
    assert (whole.fields["plan.dp"].sure, whole.fields["plan.micro_batch"].evidence) == (True, "the file says so")
    assert not whole.fields["training.precision"].sure
    odd = one(read(tmp_path, TRAINER_HEAD.format(72, "3,407,872") + TRAINED))  # adapters, and 72 of 16
    assert (odd.scenario["plan"], "model" in odd.scenario) == ({"micro_batch": 8}, False)
    asked = said_scenario(odd)
    assert (set(asked.asked), asked.parameters) == ({"model", "seq_len", "gpus", "chip"}, 3_407_872)
    assert (asked.fields["plan.dp"].value, asked.fields["plan.dp"].sure) == (1, False), "one GPU is a guess"


def test_a_trainer_s_run_that_plain_data_parallel_has_no_memory_for_is_guessed_to_be_sharded(tmp_path):
    found = one(read(tmp_path, TRAINER_HEAD.format(128, "8,030,261,248") + TRAINED))
    fields = said_scenario(answered(found, {"seq_len": 512}), "h100-sxm").fields
    assert (fields["plan.sharding"].value, fields["plan.sharding"].sure) == ("fsdp", False)
    assert fields["plan.sharding"].evidence == "it ran, and plain data parallel would not have fitted"
    assert "plan.recompute" not in fields
    long = said_scenario(answered(found, {"seq_len": 2048}), "h100-sxm")
    assert (long.fields["plan.recompute"].value, long.fields["plan.recompute"].sure) == ("full", False)
    assert estimate(scenario_from_json(long.scenario)).memory.fits
    never = replace(found, steps_s=())  # nothing says that it ran
    assert said_scenario(answered(never, {"seq_len": 512}), "h100-sxm").fields["plan.sharding"].value == "ddp"
    small = one(read(tmp_path, TRAINER_HEAD.format(64, "1,235,814,400") + TRAINED))
    assert said_scenario(answered(small, {"seq_len": 512}), "h100-sxm").fields["plan.sharding"].value == "ddp"


LIGHTNING = """\
GPU available: True (cuda), used: True
Using bfloat16 Automatic Mixed Precision (AMP)
All distributed processes registered. Starting with 4 processes

  | Name  | Type            | Params | Mode
--------------------------------------------------
0 | model | {} | 124 M  | train
--------------------------------------------------
124 M     Trainable params
124 M     Total params
Epoch 0:   0%|          | 5/1000 [00:00<02:40,  1.00it/s, v_num=3]
Epoch 0:   2%|██        | 20/1000 [00:05<02:40,  4.00it/s, v_num=3]
"""


def test_what_lightning_says_as_it_starts_is_part_of_its_scenario(tmp_path):
    found = one(read(tmp_path, LIGHTNING.format("GPT2LMHeadModel")))
    assert (found.origin.format, found.world_size, found.steps_s) == ("log/Lightning", 4, (0.25,))
    proposed = said_scenario(found)
    assert set(proposed.asked) == {"model", "global_batch", "seq_len", "chip"}
    model = proposed.fields["model.name"]
    assert (model.value, model.sure) == ("GPT-2 small", False)
    assert (proposed.fields["plan.dp"].value, proposed.fields["training.precision"].value) == (4, "bf16-amp")
    answers = {"model": "gpt2", "global_batch": 32, "seq_len": 1024}
    whole = said_scenario(answered(found, answers), "h100-sxm")
    assert (whole.asked, whole.fields["model.name"].sure) == ((), True)
    assert "model" not in one(read(tmp_path, LIGHTNING.format("ResNet         "))).scenario
    physics = LIGHTNING.format("PhysicsNet     ").replace("124 M", "129 M")  # as many as cs336-small, a course's model
    assert "model" not in one(read(tmp_path, physics)).scenario
