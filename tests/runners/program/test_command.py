"""``python -m runners trace`` refuses what it cannot do, with the field and the remedy."""

import json
from dataclasses import replace

import pytest

from estimator.scenario.op_list import Call, Operand, OpList, Signature
from runners.__main__ import main
from runners.program.command import split, told
from tests.forks import run_forked


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "trace: lacks a program"),
        (["nothing.py"], "nothing.py: there is no such file"),
        (["nothing"], "nothing: this is no script"),
        (["a.py", "--hf", "config.json"], "stands beside --hf"),
        (["a.py", "--world-size", "0"], "--world-size: is below 1. Give the number of ranks, or leave it out"),
        (["a.py", "--world-size", "4", "--rank", "4"], "--rank: is none of the ranks. Give 0 to 3."),
        (["a.py", "--chip", "tpu-v5p"], "runs no CUDA"),
        (["a.py", "--chip", "cpu"], "--chip: a CPU runs no CUDA. Choose a GPU: a program is traced as one runs it. On"),
        (["a.py", "--chip", "z9000"], "z9000"),
        (["a.py", "--steps", "0"], "--steps: is below 1"),
        (["os:getcwd", "--precision", "fp4"], "precision: 'fp4' is not known"),
    ],
)
def test_a_mistake_names_its_field(flags, said, tmp_path, capsys):
    assert main(["trace", *flags, "--out", str(tmp_path / "ops.json")]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "ops.json").exists()


def test_a_script_of_any_name_keeps_its_arguments_and_without_a_process_group_is_one_rank(traced, tmp_path):
    script = tmp_path / "train"
    script.write_text(
        "import subprocess, sys, torch\nassert sys.argv[1:] == ['--lr', '1']\ntorch.ones(8, device='cuda').sum()\n"
        "assert 'traced' in subprocess.run(['nvidia-smi'], check=True, capture_output=True, text=True).stdout"
    )
    found = traced(script, "--world-size", "8", "--rank", "3", "--", "--lr", "1")
    assert (found.program, found.arguments) == ("train", ("--lr", "1"))
    (problem,) = found.problems
    assert str(problem).startswith("--world-size: no process group was made: each of 8 ranks trains apart")
    assert (found.world_size, found.rank) == (1, 0)


def test_a_config_that_does_not_train_is_one_line_without_a_traceback(tmp_path):
    config = {
        "model_type": "siglip2",
        "vision_config": {"num_hidden_layers": 1},
        "text_config": {"num_hidden_layers": 1},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    done = run_forked("trace", "--hf", "config.json", "--seq", "8", "--out", "ops.json", cwd=tmp_path)
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    assert "trace: hf: the model does not train as it is called here: RuntimeError" in done.stderr
    assert "modeling_siglip2.py, line" in done.stderr


def test_a_module_is_run_as_python_runs_it(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "train.py").write_text(
        "import sys, torch\nassert sys.argv[1:] == ['--lr', '1']\nassert __name__ == '__main__'\n"
        "torch.ones(8, device='cuda').sum()"
    )
    done = run_forked("trace", "-m", "own.train", "--out", "ops.json", "--", "--lr", "1", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "ops.json").exists()


def test_a_reader_is_told_by_what_the_right_step_is_known():
    signatures = tuple(
        Signature(op=op, inputs=tuple(Operand(shape=shape, dtype="float32") for shape in shapes))
        for op, shapes in (("aten::embedding", [(512, 8), (2, 16)]), ("aten::nll_loss_forward", [(32, 512), (32,)]))
    )
    calls = tuple(Call(kind="kernel", signature=index, phase="forward") for index in (0, 1))
    found = OpList(source="trace", program="a.py", calls=calls, signatures=signatures, parameters=4096)
    assert told(found) == "2 calls (2 that launch kernels); 4,096 parameters; 32 tokens in the step"
    spread = replace(found, world_size=4, rank=1, parameters=0)
    assert told(spread) == "2 calls (2 that launch kernels); 32 tokens in the step of rank 1"
    assert told(replace(found, calls=calls[:1])) == "1 calls (1 that launch kernels); 4,096 parameters"


def test_what_follows_two_dashes_is_the_programs():
    assert split(["trace", "a.py", "--", "--lr", "1", "--", "x"]) == (["trace", "a.py"], ["--lr", "1", "--", "x"])
    assert split(["trace", "a.py"]) == (["trace", "a.py"], [])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("raise RuntimeError('no data.')", "failed: RuntimeError: no data. The traceback above is the program's own"),
        ("import flash_nothing", "Install it beside Headroom"),
        ("import os; os.environ['LOCAL_RANK']", "it reads LOCAL_RANK, which torchrun sets. Say how many"),
        ("import torch; torch.ones(3)", "ran without anything for the device. Let it move its model and batches to"),
    ],
)
def test_a_program_that_fails_leaves_no_list(text, said, tmp_path):
    script, out = tmp_path / "own.py", tmp_path / "ops.json"
    script.write_text(text)
    done = run_forked("trace", str(script), "--out", str(out), cwd=tmp_path)
    assert done.returncode == 1
    assert said in done.stderr
    assert ("Traceback" in done.stderr) == ("raise" in text or "import flash" in text)
    # what the program did not raise stands as its problem alone
    assert ("RuntimeError" in done.stderr) == ("raise" in text)
    assert not out.exists()
