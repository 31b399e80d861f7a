"""Other people's modules: the convention of factories, models of Hugging Face, and that a step of them is theirs."""

from __future__ import annotations

import statistics
import time
from pathlib import Path

import pytest
import torch

from estimator.scenario.problems import InputProblems
from runners.benchmarks.program_step import run, trainer_of
from runners.job import Job, read_measurement
from runners.options import ProgramOptions
from runners.program_of import loss_of_output, program_of
from runners.ranks import Ranks
from runners.timed_step import timed_step
from runners.train_step import one_step
from tests.runners.examples import run_module
from tests.runners.programs import write_config

FILE = Path(__file__).with_name("programs.py")
FP32 = ProgramOptions(batch=2, seq=16, precision="fp32")


@pytest.mark.parametrize("factory", ["as_dict", "as_tuple", "as_tensor", "as_function", "with_optimizer"])
def test_every_form_of_a_factory_trains(factory):
    program = program_of(module=f"{FILE}:{factory}", options=FP32, device="cpu")
    trainer = trainer_of(program, Ranks())
    before = [parameter.detach().clone() for parameter in program.module.parameters()]
    one_step(trainer, lambda phase: None)
    assert float(trainer.loss) > 0
    assert any(not torch.equal(b, p) for b, p in zip(before, program.module.parameters(), strict=True))


def test_a_factory_is_given_what_it_takes_and_its_optimizer_is_used():
    assert program_of(module=f"{FILE}:as_dict", options=FP32, device="cpu").batch["x"].shape == (2, 16)
    given = program_of(module=f"{FILE}:with_optimizer", options=FP32, device="cpu").optimizer
    assert (type(given), given.param_groups[0]["lr"]) == (torch.optim.SGD, 0.5)
    chosen = program_of(module=f"{FILE}:as_tuple", options=ProgramOptions(optimizer="sgd"), device="cpu").optimizer
    assert type(chosen) is torch.optim.SGD
    halves = program_of(module=f"{FILE}:as_dict", options=ProgramOptions(precision="bf16"), device="cpu")
    assert {p.dtype for p in halves.module.parameters()} == {torch.bfloat16}


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ({"module": "nowhere.py:tiny"}, "there is no file nowhere.py"),
        ({"module": "programs"}, "names no factory"),
        ({"module": "no_such_package:tiny"}, "cannot be imported"),
        ({"module": f"{FILE}:missing"}, "has no function missing"),
        ({"module": f"{FILE}:without_batch"}, "gave Linear"),
        ({"hf": "nowhere/config.json"}, "cannot be read"),
    ],
)
def test_what_is_no_program_is_refused_with_a_remedy(source, words):
    with pytest.raises(InputProblems) as refused:
        program_of(**source, options=FP32, device="cpu")
    assert words in str(refused.value)
    assert refused.value.problems[0].remedy


def test_a_module_without_a_loss_is_refused_when_it_runs():
    program = program_of(module=f"{FILE}:without_loss", options=FP32, device="cpu")
    with pytest.raises(InputProblems, match="returned str, which has no loss"):
        program.loss(program.batch)


def test_a_hugging_face_step_is_a_bare_loop_of_the_same_model(tmp_path):
    """The same losses to the bit, and the same work; a GPU, which nobody shares, is held to 1 % in tests/gpu."""
    config = str(write_config(tmp_path))
    torch.manual_seed(0)
    program = program_of(hf=config, options=FP32, device="cpu")
    trainer = trainer_of(program, Ranks())
    torch.manual_seed(0)
    other = program_of(hf=config, options=FP32, device="cpu")
    optimizer = torch.optim.AdamW(other.module.parameters(), lr=1e-4)

    def bare() -> float:
        loss = other.module(**other.batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return float(loss.detach())

    def step() -> float:
        timed_step(trainer)
        return float(trainer.loss)

    found: dict[str, list[float]] = {"bare": [], "step": []}
    for _ in range(25):
        losses = []
        for name, way in (("bare", bare), ("step", step)):
            begin_s = time.process_time()  # what others do on this machine does not count
            losses.append(way())
            found[name].append(time.process_time() - begin_s)
        assert losses[0] == losses[1]
    assert statistics.median(a / b for a, b in zip(found["step"], found["bare"], strict=True)) < 1.25


def test_a_result_of_a_program_holds_what_a_scenarios_does(tmp_path):
    job = Job(device="cpu", warmup=1, steps=2)
    result = run(job, lambda event: None, hf=str(write_config(tmp_path)), options=ProgramOptions(seq=16))
    assert result.status == "ok"
    assert (result.scenario, len(result.steps_s)) == ({}, 2)
    assert sum(result.phases_s.values()) == pytest.approx(result.samples["spread"]["step"]["median_s"])
    assert result.memory.peak_bytes > 0
    assert result.kernels
    assert result.samples["program"]["options"]["attention"] == "sdpa"
    assert result.samples["throughput"]["tokens_per_s"] > 0
    assert str(tmp_path) not in str(result)


def test_programs_are_measured_from_the_command_line_alone(tmp_path):
    out = tmp_path / "out.json"
    flags = ("--seq", "3", "--batch", "2", "--precision", "fp32", "--device", "cpu", "--steps", "2", "--out", str(out))
    done = run_module("step", "--module", f"{FILE}:as_dict", *flags)
    assert done.returncode == 0, done.stderr
    assert read_measurement(out).label == "programs.py:as_dict"
    done = run_module("step", "--module", f"{FILE}:as_dict", "--hf", "c.json", "--models", "tiny", *flags)
    assert done.returncode == 2
    assert "--hf: stands beside --module" in done.stderr
    assert "--models: says something of a scenario's step" in done.stderr


def test_what_a_dictionary_without_a_loss_holds_first_is_what_is_trained():
    assert loss_of_output({"sample": torch.full((2, 3), 2.0), "rest": None}) == 4


@pytest.mark.parametrize(
    ("config", "kind", "shapes"),
    [
        ({"model_type": "bart", "encoder_layers": 1, "decoder_layers": 1, "d_model": 16, "encoder_ffn_dim": 16,
          "decoder_ffn_dim": 16, "encoder_attention_heads": 2, "decoder_attention_heads": 2, "vocab_size": 64},
         "BartForConditionalGeneration", {"input_ids": (2, 16), "labels": (2, 16)}),
        ({"model_type": "hubert", "num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16,
          "num_attention_heads": 2, "num_conv_pos_embedding_groups": 2},
         "HubertForSequenceClassification", {"input_values": (2, 16 * 320), "labels": (2,)}),
        ({"model_type": "hubert", "num_hidden_layers": 1, "hidden_size": 16, "intermediate_size": 16,
          "num_attention_heads": 2, "num_conv_pos_embedding_groups": 2, "architectures": ["HubertForCTC"]},
         "HubertForCTC", {"input_values": (2, 16 * 320), "labels": (2, 8)}),
        ({"model_type": "audio-spectrogram-transformer", "num_hidden_layers": 1, "hidden_size": 16,
          "intermediate_size": 16, "num_attention_heads": 2, "max_length": 64, "num_mel_bins": 32},
         "ASTForAudioClassification", {"input_values": (2, 64, 32), "labels": (2,)}),
    ],
)  # fmt: skip
def test_a_config_without_architectures_is_its_whole_model_and_gets_the_batch_that_it_takes(config, kind, shapes):
    program = program_of(hf=config, options=FP32, device="cpu")
    assert type(program.module).__name__ == kind
    assert {name: tuple(value.shape) for name, value in program.batch.items()} == shapes
    assert program.loss(program.batch).numel() == 1
