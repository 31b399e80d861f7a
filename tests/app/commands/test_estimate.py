"""``headroom estimate``: what the model says, the model of a config.json, and input that is refused."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import pytest

from app.cli import run
from app.commands.estimate import text
from app.commands.files import WIDTH
from app.commands.risk import at_risk
from estimator.estimate.estimate import estimate
from estimator.estimate.of_op_list import cluster_for, estimate_op_list
from estimator.scenario.codec import encode
from estimator.scenario.op_list import from_json
from estimator.scenario.scenario import scenario_from_json
from tests.app.examples import HF_CONFIGS, LLAMA, scenario


def test_estimate_gives_what_the_model_says(write, capsys):
    assert run(["estimate", write(LLAMA), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    predicted = scenario_from_json(LLAMA)
    assert scenario_from_json(found.pop("scenario")) == predicted, "what it was predicted for"
    assert found == json.loads(json.dumps(encode(estimate(predicted))))
    assert run(["estimate", write(LLAMA)]) == 0
    out = capsys.readouterr().out
    assert out.startswith(
        "scenario     llama3-8b on 8 × NVIDIA H200 SXM 141 GB, dp 8, fsdp, micro_batch 1, recompute full,\n"
    )
    for words in ("step time", "MFU", "peak memory", "fits", "forward", "parameters"):
        assert words in out
    lower = "as what attention masks"
    assert lower not in out, "what is recomputed makes HFU the higher one"
    assert run(["estimate", write({**LLAMA, "plan": {**LLAMA["plan"], "recompute": "none"}})]) == 0
    assert lower in " ".join(capsys.readouterr().out.split())


@pytest.mark.parametrize(
    ("risk", "surely"),
    [
        (None, None),
        (0.049, None),
        (0.12, ", most likely"),
        (0.27, " only just"),
        (0.45, " only just, if at all"),
        (0.5, " as predicted, but more likely not"),
        (0.73, " as predicted, but more likely not"),
        (0.9, " as predicted, but most likely not"),
    ],
)
def test_a_risk_worth_a_word_stands_behind_fits(risk, surely):
    words = "" if surely is None else f"{surely} (about {risk:.0%} of steps predicted like it run out of memory)"
    assert at_risk(risk) == words
    if risk is not None:
        one = estimate(scenario_from_json(LLAMA))
        held = dataclasses.replace(one.memory, out_of_memory_frac=risk)
        lines = text(dataclasses.replace(one, memory=held)).splitlines()
        assert max(map(len, lines)) <= WIDTH
        said = " ".join("\n".join(lines).split())
        assert f": fits{words} limit " in said


def test_estimate_takes_the_model_of_a_config_json(write, capsys):
    config = str(HF_CONFIGS / "llama3.1-8b.json")
    assert run(["estimate", "--hf", config, write(LLAMA), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert run(["estimate", write(LLAMA | {"model": "llama3-8b"}), "--json"]) == 0
    named = json.loads(capsys.readouterr().out)
    assert {**found, "scenario": {**found["scenario"], "model": {}}} == {
        **named,
        "scenario": {**named["scenario"], "model": {}},
    }
    without_model = {key: value for key, value in LLAMA.items() if key != "model"}
    assert run(["estimate", "--hf", config, write(without_model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_a_config_json_alone_is_predicted_on_one_node(capsys):
    assert run(["estimate", "--hf", str(HF_CONFIGS / "gpt2-xl.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == 1_557_611_200
    assert found["tokens_per_s"] * found["step_time_s"] == pytest.approx(8 * 1024), "no longer than its positions"
    assert run(["estimate", "--hf", str(HF_CONFIGS / "deepseek-v3.json")]) == 0
    out = capsys.readouterr().out
    assert "Multi-token prediction layers are left out." in out
    assert out.startswith(
        "scenario     deepseek-v3 on 8 × NVIDIA H200 SXM 141 GB, dp 8, fsdp, micro_batch 1, seq_len 4096,"
    )


@pytest.mark.parametrize("kept", ["model_type", "architectures"])
def test_a_config_json_names_its_model_not_the_folder(tmp_path, capsys, kept):
    config = json.loads((HF_CONFIGS / "llama3.1-8b.json").read_text())
    config.pop({"model_type": "architectures", "architectures": "model_type"}[kept])
    path = tmp_path / "config.json"
    path.write_text(json.dumps(config))
    assert run(["estimate", "--hf", str(path)]) == 0
    named = {"model_type": "llama", "architectures": "LlamaForCausalLM"}[kept]
    assert capsys.readouterr().out.startswith(f"scenario     {named} 8.03B on 8 ")


def test_a_config_json_that_cannot_be_used_is_named_with_its_key(write, capsys):
    path = write({"architectures": ["LlamaForCausalLM"], "hidden_size": -3}, "config.json")
    assert run(["estimate", "--hf", path]) == 2
    assert capsys.readouterr().err.startswith(f"headroom: {path}: hidden_size: -3 is out of range.")
    assert run(["estimate", "--hf", write({"model_type": "t5"}, "t5.json")]) == 2
    assert "LlamaForCausalLM" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (scenario(plan__tq=2), "plan.tq: unknown key. "),
        (scenario(plan__dp=3), "plan.dp: "),
        ('{"model": NaN}', "is not JSON"),
        ("[" * 100_000, "is nested too deeply"),
        ("", "is empty"),
        ([1], "scenario: must be a JSON object. Give model, cluster, plan, training."),
        ({"a": 1}, "a: unknown key. Known keys: model, cluster, plan, training."),
        (LLAMA | {"model": "lama3-8b"}, "model: 'lama3-8b' is not in the catalogue of models. Did you"),
        (LLAMA | {"model": 7}, 'model: must be a name of the catalogue or an object. Write "gpt2".'),
        (scenario(cluster__chip="h300"), "cluster.chip: 'h300' is not in the catalogue of chips. Did "),
        (scenario(cluster__chip=3), "cluster.chip: must be a name of the catalogue or an object. Wr"),
        (scenario(cluster__link=3), "cluster.link: must be a name of the catalogue or an object. Wr"),
        (scenario(plan__schedule="1F1B"), "plan.schedule: '1F1B' is not known. Did you mean '1f1b'?"),
        (LLAMA | {"plan": {"tp": 3}}, "plan.tp: tp = 3 does not divide heads = 32. Choose tp 2 or 4."),
    ],
)
def test_bad_input_is_one_line_per_problem(refused, content, words):
    refused(["estimate"], content, words)


def test_a_recording_is_sent_to_the_command_that_reads_it(tmp_path, capsys):
    path = tmp_path / "trace.json.gz"
    path.write_bytes(b"\x1f\x8b\x08")
    assert run(["estimate", str(path)]) == 2
    assert "is read by headroom import trace.json.gz" in capsys.readouterr().err
    program = tmp_path / "train.py"
    program.write_text("import torch\n")
    assert run(["estimate", str(program)]) == 2
    assert f"is a program, not JSON. Run headroom trace {program}" in capsys.readouterr().err


OPS = Path(__file__).parents[2] / "reference" / "ops" / "llama.json"


def test_an_op_list_ends_in_the_same_estimate(capsys):
    assert run(["estimate", str(OPS), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    ops = from_json(json.loads(OPS.read_text(encoding="utf-8")))
    assert (found.pop("program"), found.pop("chip")) == (ops.program, "h200-sxm")
    assert found == json.loads(json.dumps(encode(estimate_op_list(ops, cluster_for(ops)))))
    assert run(["estimate", str(OPS)]) == 0
    out = capsys.readouterr().out
    assert out.startswith("op list      tests/reference/ops/llama.py (trace), one rank on NVIDIA H200 SXM 141 GB, ")
    for words in ("step time", "MFU", "peak memory", "host wait", "activations", "layers.*.attention", "kernels"):
        assert words in out
    assert run(["estimate", str(OPS), "--chip", "a100-80gb-sxm"]) == 0
    assert "on NVIDIA A100 SXM 80 GB" in capsys.readouterr().out


def test_an_op_list_is_laid_out_by_a_plan(write, capsys):
    plan = ["--plan", "dp=8", "--plan", "sharding=fsdp", "--plan", "pp=2", "--plan", "micro_batches=4"]
    assert run(["estimate", str(OPS), *plan, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["chips"], found["micro_batches"]) == (16, 4)
    assert {one["kind"] for one in found["collectives"]} >= {"all-gather", "reduce-scatter", "p2p"}
    assert run(["estimate", str(OPS), "--plan", "tp=2", "--split", "gate=column", "--split", "down=row"]) == 0
    out = capsys.readouterr().out
    assert "laid out over 2 ranks" in out
    assert "layers.*.mlp.gate column" in " ".join(out.split())
    shares = re.findall(r"(\d+\.\d)%", out.partition("of the step  kernels")[2])
    assert sum(map(float, shares)) == pytest.approx(100, abs=0.05 * len(shares)), "modules and waits are the whole step"
    for bad, said in (
        (["--plan", "dp"], "--plan: 'dp' is not key=value"),
        (["--plan", "micro_batches=many"], "--plan micro_batches: is 'many'"),
        (["--plan", "cp=2"], "--plan cp: is for scenarios"),
        (["--plan", "tp=2", "--split", "gate"], "--split: 'gate' names no linear"),
        (["--split", "gate=column"], "--split: does nothing with tp 1. Give tp of 2 or more"),
        (["--plan", "sharding=fsdp"], "--plan sharding: does nothing with dp 1. Give dp of 2 or more"),
        (["--plan", "tp=3"], "--plan tp: is 3, which does not divide the 1024 features that"),
        (["--chip", "h300"], "--chip: 'h300' is not in the catalogue"),
    ):
        assert run(["estimate", str(OPS), *bad]) == 2
        assert said in capsys.readouterr().err
    assert run(["estimate", write(LLAMA), "--plan", "dp=2"]) == 2
    assert "--plan: is for op lists" in capsys.readouterr().err


def test_a_calibration_moves_a_prediction(write, capsys):
    slow = {"value": 0.44, "low": 0.4, "high": 0.5, "unit": "of memory bandwidth", "source": "a test"}
    # the host binds in every part of the list's step
    host = {"value": 1e-3, "low": 9e-4, "high": 2e-3, "unit": "s per forward kernel", "source": "a test"}
    file = write({"base": "hopper", "ranges": {"memory_frac": slow, "host_forward_s": host}}, "slow.json")
    seconds = []
    for given in (LLAMA, None):
        path = write(given) if given else str(OPS)
        for more in ([], ["--calibration", file]):
            assert run(["estimate", path, "--json", *more]) == 0
            seconds.append(json.loads(capsys.readouterr().out)["step_time_s"])
    assert seconds[0] < seconds[1]
    assert seconds[2] < seconds[3]


def test_a_calibration_of_another_chip_is_said_not_to_be_used(write, capsys):
    ranges = {
        "memory_frac": {"value": 0.44, "low": 0.4, "high": 0.5, "unit": "of memory bandwidth", "source": "a test"}
    }
    given = {"name": "ours", "base": "hopper", "device": "NVIDIA B200", "ranges": ranges}
    other, again = (write(given, name) for name in ("other.json", "again.json"))
    own = write(given | {"device": "NVIDIA H200"}, "own.json")
    said = "No calibration is used: “ours” is of b200, and this is predicted for"
    sweep = {**{key: LLAMA[key] for key in ("model", "cluster", "training")}, "locked": {"pp": 1, "tp": 1}}
    scenario = write(LLAMA)
    for command, path in (("estimate", scenario), ("estimate", str(OPS)), ("sweep", write(sweep, "sweep.json"))):
        assert run([command, path, "--json", "--calibration", other]) == 0
        found = capsys.readouterr()
        where = found.err if command == "sweep" else " ".join(json.loads(found.out)["assumptions"])
        assert f"{said} h200-sxm, with the efficiencies of its family." in where
    assert run(["estimate", scenario, "--json", "--calibration", other, "--calibration", own]) == 0
    assert "No calibration" not in capsys.readouterr().out
    assert run(["estimate", scenario, "--calibration", other, "--calibration", again]) == 2
    assert f"--calibration: {other} and {again} are both of b200. Give one for each device." in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (["--chip", "h100-sxm"], LLAMA, "--chip: is for op lists; this is a scenario."),
        (["--chip", "h900"], None, "'h900' is not in the catalogue of chips."),
        (["--table", "layer.csv"], None, "--table: is for scenarios; this is an op list."),
        (["--plan", "dp=2", "--plan", "overlap=false"], None, "--plan overlap: is for scenarios. An op list is laid"),
        (["--plan", "dp=2", "--plan", "overlap=maybe"], None, "--plan overlap: must be true or false, not 'maybe'."),
        (
            ["--plan", "foo=2"],
            None,
            "--plan foo: unknown key. Known keys: dp, sharding, tp, pp, schedule, virtual_stages, bucket_bytes,"
            " micro_batches.",
        ),
        ([], {"format": "headroom-ops", "schema_version": 9}, "schema_version: is 9; this version reads 1."),
    ],
)
def test_what_an_op_list_cannot_be_asked_is_one_line(write, capsys, arguments, content, words):
    path = write(content) if content else str(OPS)
    assert run(["estimate", path, *arguments]) == 2
    assert words in capsys.readouterr().err


def test_what_would_be_faster_or_fit_is_said_with_the_fields_to_change(write, capsys):
    # What one gains is what an estimate of it says.
    assert run(["estimate", write(LLAMA)]) == 0
    out = capsys.readouterr().out
    (said,) = re.findall(r"^faster +(.*(?:\n {13}.*)*)", out, re.MULTILINE)
    alone = re.search(r"(?:^|; )recompute none \(−(\d+)%\)", said)
    assert alone is not None, said
    changed = {**LLAMA, "plan": {**LLAMA["plan"], "recompute": "none"}}
    gained = 1 - estimate(scenario_from_json(changed)).step_time_s / estimate(scenario_from_json(LLAMA)).step_time_s
    assert int(alone[1]) == round(100 * gained)
    large = {**LLAMA, "plan": {"dp": 8, "micro_batch": 1}, "training": {**LLAMA["training"], "seq_len": 65_536}}
    assert run(["estimate", write(large)]) == 0
    out = capsys.readouterr().out
    assert "DOES NOT FIT" in out
    assert re.search(r"^fits with +\S.* \([\d.]+ s\)", out, re.MULTILINE)
