"""The command line as other programs see it: exit status, JSON alone on stdout, one line per problem on stderr."""

from __future__ import annotations

import csv
import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx2
import pytest

from app.cli import run
from app.commands.validate import COLUMNS, read_efficiencies
from estimator.codec import encode
from estimator.efficiency import efficiencies
from estimator.estimate import estimate
from estimator.scenario import scenario_from_json
from tests.app.examples import LLAMA, MEASUREMENT, scenario
from tests.markdown import blocks

ROOT = Path(__file__).parents[2]
HF_CONFIGS = Path(__file__).parents[1] / "reference" / "hf_configs"
HEADROOM = [sys.executable, "-c", "from app.cli import main; main()"]
COMMANDS = ["serve", "estimate", "validate", "sweep", "catalog", "import", "run", "study"]
SPEC = {key: LLAMA[key] for key in ("model", "cluster", "training")} | {"locked": {"pp": 1, "tp": 1}}
BF16 = {"training": LLAMA["training"] | {"precision": "bf16"}}
JOB = {"scenario": scenario(), "device": "cpu", "warmup": 1, "steps": 2}
ROWS = """\
source_id,source,hardware,n_gpus,model,n_layers,d_model,n_heads,seq_len,global_batch,precision,measured_step_time_s,measured_peak_mem_gib
a,somewhere,A100-80GB,1,"GPT, small",12,768,12,1024,8,bf16,0.25,14
b,somewhere,A100-80GB,1,GPT small,12,768,12,1024,8,fp8,0.25,
c,elsewhere,H100-SXM,8,GPT medium,24,1024,16,1024,64,bf16,0.30,
"""


@pytest.fixture
def write(tmp_path):
    def write_file(content, name="input.json"):
        path = tmp_path / name
        path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        return str(path)

    return write_file


@pytest.fixture(autouse=True)
def _data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HEADROOM_DATA", str(tmp_path / "data"))


def test_help_answers_at_once():
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = subprocess.run([*HEADROOM, "--help"], capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    for command in COMMANDS:
        assert command in found.stdout
    assert after.ru_utime - before.ru_utime < 1, "without heavy imports it takes a fifth of a second"


def test_help_imports_nothing_heavy():
    code = "import sys; from app.cli import run; run(['--help']); print(sorted(sys.modules), file=sys.stderr)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for heavy in ("'numpy'", "'torch'", "'fastapi'", "'sqlalchemy'", "'pandas'", "'pydantic'"):
        assert heavy not in found.stderr


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_has_help(command, capsys):
    assert run([command, "--help"]) == 0
    assert "Usage: headroom" in capsys.readouterr().out


def test_the_entry_point_is_installed():
    found = subprocess.run(["headroom", "estimate"], capture_output=True, text=True, env=_path(), check=False)
    assert found.returncode == 2
    assert found.stderr.splitlines() == [
        "headroom: SCENARIO.json: is missing. Name a SCENARIO.json, or a model by --hf config.json."
    ]


def test_estimate_gives_what_the_model_says(write, capsys):
    assert run(["estimate", write(LLAMA), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(json.dumps(encode(estimate(scenario_from_json(LLAMA)))))
    assert run(["estimate", write(LLAMA)]) == 0
    out = capsys.readouterr().out
    for words in ("step time", "MFU", "peak memory", "fits", "forward", "parameters"):
        assert words in out


def test_estimate_takes_the_model_of_a_config_json(write, capsys):
    config = str(HF_CONFIGS / "llama3.1-8b.json")
    assert run(["estimate", "--hf", config, write(LLAMA), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert run(["estimate", write(LLAMA | {"model": "llama3-8b"}), "--json"]) == 0
    assert found == json.loads(capsys.readouterr().out)
    without_model = {key: value for key, value in LLAMA.items() if key != "model"}
    assert run(["estimate", "--hf", config, write(without_model), "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == found


def test_a_config_json_alone_is_predicted_on_one_node(capsys):
    assert run(["estimate", "--hf", str(HF_CONFIGS / "gpt2-xl.json"), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["parameters"] == 1_557_611_200
    assert found["tokens_per_s"] * found["step_time_s"] == pytest.approx(8 * 1024), "no longer than its positions"
    assert run(["estimate", "--hf", str(HF_CONFIGS / "deepseek-v3.json")]) == 0
    assert "Multi-token prediction layers are left out." in capsys.readouterr().out


def test_a_config_json_that_cannot_be_used_is_named_with_its_key(write, capsys):
    path = write({"architectures": ["LlamaForCausalLM"], "hidden_size": -3}, "config.json")
    assert run(["estimate", "--hf", path]) == 2
    assert capsys.readouterr().err.startswith(f"headroom: {path}: hidden_size: -3 is out of range.")
    assert run(["estimate", "--hf", write({"model_type": "t5"}, "t5.json")]) == 2
    assert "LlamaForCausalLM" in capsys.readouterr().err


def test_sweep_lists_plans(write, capsys):
    assert run(["sweep", write(SPEC), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert {"plans_tried", "plans_fitting", "plans_per_s", "seconds", "best", "pareto"} <= set(found)
    assert run(["sweep", write(SPEC)]) == 0
    text = capsys.readouterr().out
    assert "best by step_time" in text
    assert "training, where the file leaves it out: " in text
    assert "framework pytorch-eager" in text.split("best by")[0]
    assert "precision" not in text.split("best by")[0], "the file gives it"
    assert run(["sweep", write(SPEC | {"limits": {"memory_bytes": 80}})]) == 0
    assert "No plan fits within limits.memory_bytes = 80 B: allow more, " in capsys.readouterr().out
    locked = SPEC | {"locked": {"cp": 1, "schedule": "gpipe", "placement": "dp-tp-cp-pp", "offload": "none"}}
    assert run(["sweep", write(locked), "--json"]) == 0
    for found in json.loads(capsys.readouterr().out)["best"]:
        assert found["scenario"]["plan"]["placement"] == "dp-tp-cp-pp"
        assert found["scenario"]["plan"]["schedule"] == "gpipe"


def test_validate_scores_every_row_or_says_why_not(write, capsys, tmp_path):
    rows = write(ROWS, "rows.csv")
    assert run(["validate", rows, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["rows"], found["predicted"], found["time"]["n"], found["memory"]["n"]) == (3, 2, 2, 1)
    assert found["baseline"]["naive"]["n"] == 2
    assert found["skipped"][0]["source_id"] == "b"
    assert set(found["time"]) == {"n", "mape", "median_ape", "p90_ape", "max_ape", "bias"}
    assert set(found["by"]) == {"hardware", "model", "source"}

    out = tmp_path / "predicted.csv"
    assert run(["validate", rows, "--out", str(out)]) == 0
    text = capsys.readouterr().out
    assert "2 of 3 rows predicted" in text
    assert "naive (baseline, time)" in text
    assert "b: training.precision: " in text
    assert "has no matrix unit for fp8" in text
    assert "naive: 6·parameters·tokens FLOPs" in text
    assert "need more memory" not in text
    assert run(["validate", write(ROWS.replace("12,1024,8,", "12,200000,8,"), "rows.csv"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["not_fitting"] == ["a"]
    assert run(["validate", write(ROWS.replace("12,1024,8,", "12,200000,8,"), "rows.csv")]) == 0
    said = "1 scored although, by the prediction, they need more memory than their chips have: a"
    assert said in " ".join(capsys.readouterr().out.split())
    write(ROWS, "rows.csv")
    with out.open(newline="") as file:
        written = list(csv.DictReader(file))
    assert [row["source_id"] for row in written] == ["a", "b", "c"]
    assert written[0]["model"] == "GPT, small"
    low, step, high = (float(written[0][f"predicted_{name}_s"]) for name in ("low", "step_time", "high"))
    assert low <= step <= high
    assert float(written[0]["time_error_pct"]) == pytest.approx(100 * (step / 0.25 - 1), rel=1e-4)
    assert float(written[0]["predicted_peak_mem_gib"]) > 0
    assert written[1]["predicted_step_time_s"] == ""
    assert written[1]["assumptions"].startswith("skipped: ")
    assert "n_kv_heads" in written[0]["assumptions"] or written[0]["assumptions"]


def test_validate_says_what_it_does_not_read_and_scores_nothing_where_nothing_is_predicted(write, capsys):
    header, first = ROWS.replace("n_gpus", "n_gpu").splitlines()[:2]
    assert run(["validate", write(f"{header},\n{first.replace('A100-80GB', 'H300')}\n", "rows.csv")]) == 1
    captured = capsys.readouterr()
    unread, nothing = captured.err.splitlines()
    assert unread == "not read: columns n_gpu (did you mean n_gpus?), (without a name)"
    assert nothing.endswith("rows.csv: no row could be predicted; every row says why under skipped")
    assert captured.out.startswith("0 of 1 rows predicted; errors in percent\n\nskipped:\n  a: cluster.chip: 'H300' is")
    assert run(["validate", write(ROWS.replace(",0.25,14", ",-0.25,14"), "rows.csv")]) == 0
    assert "a: measured_step_time_s is -0.25, below 0" in capsys.readouterr().out
    unnamed = f"{header},\n,{first.partition(',')[2].replace('A100-80GB', 'H300')}\n"
    assert run(["validate", write(unnamed, "rows.csv")]) == 1
    assert "skipped:\n  row 1: cluster.chip" in capsys.readouterr().out
    assert run(["validate", write(unnamed, "rows.csv"), "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["skipped"][0]["reason"].startswith("cluster.chip")


def test_validate_says_what_it_assumed(write, capsys):
    """A row that leaves out its micro-batch must not look as if it had stated one."""
    header = "hardware,n_layers,d_model,n_heads,seq_len,global_batch,micro_batch,measured_step_time_s"
    row = "A100-80GB,12,1024,16,512,4"
    assert run(["validate", write(f"{header}\n{row},,0.2\n{row},2,0.2\n{row},2,0.2\n", "rows.csv")]) == 0
    said = " ".join(capsys.readouterr().out.split())
    often, also = said.partition("In 3 rows something was assumed, most often ")[2].split(". Also: ")
    assert often.count("(3 rows)") == 3
    assert "micro_batch" in also.partition(".")[0]


@pytest.mark.parametrize(
    ("calibration", "said"),
    [
        ([], "has no object 'ranges'. Write {"),
        ({"ranges": {"gemm": 3}}, "ranges.gemm: unknown key. "),
        ({"ranges": {"gemm_matrix_frac": 3}}, "ranges.gemm_matrix_frac: must be a JSON object. "),
        ({"base": "zen", "ranges": {}}, "base: 'zen' is not known. One of: ada, ampere, "),
        ({"ranges": {"gemm_matrix_frac": {"value": 2, "low": 0.1, "high": 1, "unit": "1", "source": ""}}},
         "ranges.gemm_matrix_frac.value: must lie between its low and its high"),
    ],
)  # fmt: skip
def test_a_calibration_that_cannot_be_used_is_named(write, capsys, calibration, said):
    assert run(["validate", write(ROWS, "rows.csv"), "--calibration", write(calibration, "calibration.json")]) == 2
    assert said in capsys.readouterr().err


def test_the_readme_lists_every_column_and_every_option():
    readme = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    columns = readme.partition("`headroom validate` reads a CSV")[2].partition("\n## ")[0]
    assert set(COLUMNS) <= set(re.findall(r"[a-z][a-z0-9_]+", columns))
    for option in ("--wide", "--all", "--set", "--hf", "--table", "--out", "--calibration", "--dry-run", "--port"):
        assert option in readme


def test_validate_with_a_calibration_changes_the_prediction(write, capsys):
    rows = write(ROWS, "rows.csv")
    slow = {"value": 0.1, "low": 0.05, "high": 0.2, "unit": "fraction", "source": "test"}
    calibration = write({"ranges": {"gemm_matrix_frac": slow}}, "calibration.json")
    assert run(["validate", rows, "--json"]) == 0
    before = json.loads(capsys.readouterr().out)["time"]["bias"]
    assert run(["validate", rows, "--json", "--calibration", calibration]) == 0
    assert json.loads(capsys.readouterr().out)["time"]["bias"] > before


def test_the_calibration_in_the_documents_is_one(write, capsys):
    (given,) = [one for block in blocks(ROOT / "docs" / "measuring.md", "json") if "ranges" in (one := block.json())]
    found = read_efficiencies(Path(write(given, "calibration.json")))
    assert (found.name, found.gemm_matrix_frac, found.link_frac) == ("our cluster", 0.70, 0.75)
    assert found.memory_frac == efficiencies("hopper").memory_frac


def test_import_gives_measurements_and_names_files_that_cannot_be_read(write, capsys):
    good, bad = write(encode(MEASUREMENT), "good.json"), write("nothing here", "bad.txt")
    assert run(["import", good, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"measurements", "warnings", "skipped"}
    assert found["measurements"][0]["steps_s"] == [0.011, 0.010, 0.012]
    assert run(["import", good, bad, "--json"]) == 2
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["measurements"]) == 1
    assert captured.err.startswith(f"headroom: {bad}: ")
    assert len(captured.err.splitlines()) == 1
    assert run(["import", good]) == 0
    assert "step 11 ms" in capsys.readouterr().out


def test_run_measures_and_keeps_the_result(write, capsys, tmp_path):
    assert run(["run", write(JOB), "--dry-run", "--json"]) == 0
    request = json.loads(capsys.readouterr().out)
    assert request["command"][4:7] == ["-m", "runners", "step"]
    assert run(["run", write(JOB), "--dry-run"]) == 0
    captured = capsys.readouterr()
    assert "-m runners step" in captured.out
    assert "does not exist yet" in captured.err
    assert list((tmp_path / "data" / "runs").iterdir()) == []

    assert run(["run", write(JOB), "--json"]) == 0
    captured = capsys.readouterr()
    assert len(json.loads(captured.out)["steps_s"]) == 2
    assert "measure 2/2" in captured.err
    (folder,) = (tmp_path / "data" / "runs").iterdir()
    assert (folder / "result.json").exists()


def test_what_was_measured_stands_beside_its_prediction(write, capsys):
    assert run(["run", write(JOB)]) == 0
    found = re.search(r"^predicted    \d\S* ms on a100-80gb-sxm, [+-]\d+\.\d%$", capsys.readouterr().out, re.MULTILINE)
    assert found, "the scenario's chip is named, whatever measured"


ROWS_JOB = {
    "benchmark": "attention",
    "device": "cpu",
    "warmup": 0,
    "steps": 1,
    "options": {
        "implementations": ["naive"],
        "dims": [16],
        "seq_lens": [64],
        "precisions": ["fp32"],
        "causals": ["no"],
    },
}


def test_rows_are_counted_and_stand_beside_their_predictions(write, capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("HEADROOM_PROBE_SECONDS", "1")
    assert run(["run", write(ROWS_JOB)]) == 0
    text = capsys.readouterr().out
    assert re.search(r"^rows         3: 3 ok$", text, re.MULTILINE), text
    assert re.search(r"^predicted    on This CPU", text, re.MULTILINE), text
    errors = r"^  median_s  3 rows, off by \d+\.\d% in the median, [+-]\d+\.\d% on average$"
    assert re.search(errors, text, re.MULTILINE), text

    assert run(["run", write(ROWS_JOB), "--json"]) == 0
    document = capsys.readouterr().out
    found = json.loads(document)
    assert len(found["rows"]) == 3
    assert found["rows_by_status"] == {"ok": 3}
    assert found["predicted_rows"]["errors"]["median_s"]["n"] == 3
    assert all(row["median_s"] > 0 for row in found["predicted_rows"]["rows"])
    assert run(["import", write(document, "result.json"), "--json"]) == 0
    (imported,) = json.loads(capsys.readouterr().out)["measurements"]
    assert imported["rows"] == found["rows"], "what a run prints can be imported"


def test_a_number_of_processes_with_nothing_to_measure_is_refused_before_anything_starts(write, capsys, tmp_path):
    assert run(["run", write({"benchmark": "collectives"})]) == 2
    assert "world_size: one process has nobody to talk to. Start at least two" in capsys.readouterr().err
    assert run(["run", write({"options": {"models": ["tiny"]}, "world_size": 2})]) == 2
    assert "world_size: a grid runs on one rank" in capsys.readouterr().err
    assert not list((tmp_path / "data" / "runs").iterdir())


def test_the_catalogue_lists_what_a_scenario_may_name(capsys):
    assert run(["catalog"]) == 0
    text = capsys.readouterr().out
    for words in (r"llama3-8b +8\.03 G", r"h200-sxm +989 TFLOP/s", r"nvlink4 +450 GB/s +0\.6 µs"):
        assert re.search(words, text), words
    assert run(["catalog", "chips", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found) == {"chips"}
    assert {"h100-sxm", "mi300x"} <= {one["key"] for one in found["chips"]}
    assert run(["catalog", "gpus"]) == 2
    assert "'gpus' is not known. One of: models, chips, links." in capsys.readouterr().err


def test_a_run_that_fails_says_why(write, capsys):
    assert run(["run", write(JOB | {"steps": 100_000, "time_limit_s": 1})]) == 1
    assert capsys.readouterr().err.splitlines()[-1].endswith(" failed: stopped at its time limit of 1 s")
    assert run(["run", write(JOB | {"device": "cuda"})]) == 2
    assert capsys.readouterr().err.startswith("headroom: device: this machine has no GPU. ")


@pytest.mark.parametrize(
    ("arguments", "content", "words"),
    [
        (["estimate"], scenario(plan__tq=2), "plan.tq: unknown key. "),
        (["estimate"], scenario(plan__dp=3), "plan.dp: "),
        (["estimate"], '{"model": NaN}', "is not JSON"),
        (["estimate"], "[" * 100_000, "is nested too deeply"),
        (["estimate"], "", "is empty"),
        (["estimate"], [1], "scenario: must be a JSON object. Give model, cluster, plan, training."),
        (["estimate"], {"a": 1}, "a: unknown key. Known keys: model, cluster, plan, training."),
        (["estimate"], LLAMA | {"model": "lama3-8b"}, "model: 'lama3-8b' is not in the catalogue of models. Did you"),
        (["estimate"], LLAMA | {"model": 7}, 'model: must be a name of the catalogue or an object. Write "gpt2".'),
        (["estimate"], scenario(cluster__chip="h300"), "cluster.chip: 'h300' is not in the catalogue of chips. Did "),
        (["estimate"], scenario(cluster__chip=3), "cluster.chip: must be a name of the catalogue or an object. Wr"),
        (["estimate"], scenario(cluster__link=3), "cluster.link: must be a name of the catalogue or an object. Wr"),
        (["estimate"], scenario(plan__schedule="1F1B"), "plan.schedule: '1F1B' is not known. Did you mean '1f1b'?"),
        (["estimate"], LLAMA | {"plan": {"tp": 3}}, "plan.tp: tp = 3 does not divide heads = 32. Choose tp 2 or 4."),
        (["sweep"], {"model": "llama3-8b"}, "cluster: is missing"),
        (["sweep"], SPEC | {"locked": {"placement": "tp-dp"}}, "locked.placement: "),
        (["sweep"], SPEC | {"cluster": {"chip": "v100-32gb"}} | BF16, "training.precision: "),
        (["sweep"], [], 'holds a list, not a search. Write {"model": '),
        (["sweep"], "null", "holds null, not a search. "),
        (["sweep"], LLAMA, "plan: is what a search finds. Leave it out; "),
        (["sweep"], SPEC | {"locked": {"tp": 3}}, "locked.tp: tp = 3 does not divide 8 chips. "),
        (["sweep"], SPEC | {"limits": {"memory": 80}}, "limits.memory: unknown key. Did you mean 'memory_bytes'?"),
        (["run"], {"steps": 0}, "steps: 0 is out of range"),
        (["run"], LLAMA, 'is a scenario, which a job holds inside. Write {"benchmark": "step", "scenario": {...}}.'),
        (["run"], [{}, 1], "[1]: must be a job, a JSON object. "),
        (["run", "--dry-run"], {"scenario": scenario(plan__dp=2)}, "scenario.plan.dp: "),
        (["run", "--dry-run"], {"scenario": scenario(training__framework="xla")}, "scenario.training.framework: "),
        (["validate"], "", "is empty"),
        (["validate"], "a,b\n1,2\n", "has no column hardware"),
        (["validate"], ROWS.replace(",", ";"), "Separate the columns by commas, not by ';'."),
        (["validate"], ROWS.splitlines()[0], "has a header and no rows. Give one line per measured run."),
        (["validate"], ROWS + "d" + "," * 20 + "\n", "line 5 has 21 cells"),
        (["validate"], ROWS + '"open', "is not CSV"),
        (["validate"], ROWS.replace("source,", "model,"), "has column model twice"),
    ],
)
def test_bad_input_is_one_line_per_problem_and_status_2(write, capsys, arguments, content, words):
    assert run([*arguments, write(content)]) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert any(words in line for line in lines), captured.err
    assert all(line.startswith("headroom: ") for line in lines)


@pytest.mark.parametrize("command", ["estimate", "validate", "sweep", "import", "run"])
def test_a_missing_file_is_named(command, capsys, tmp_path):
    assert run([command, str(tmp_path / "none")]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert str(tmp_path / "none") in line


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nothing"], "No such command 'nothing'. Run 'headroom --help'"),
        (["stdy"], "No such command 'stdy'. Did you mean 'study'? Run 'headroom --help'"),
        (["serve", "--port", "many"], "Run 'headroom serve --help'"),
        (["estimate", "--colour"], "No such option: --colour. Run 'headroom estimate --help'"),
        (["sweep"], "Missing argument 'SPEC.json'. Run 'headroom sweep --help'"),
        (["study", "cs336-4d", "more"], "Run 'headroom study --help'"),
        (["estimate"], "SCENARIO.json: is missing. "),
    ],
)
def test_wrong_usage_is_one_line_and_status_2(arguments, said, capsys):
    assert run(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert said in line


def test_an_error_of_our_own_is_one_line_that_names_the_file_with_its_trace(write, capsys, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("app.commands.estimate.scenario_from_json", None)
    assert run(["estimate", write(LLAMA)]) == 70
    captured = capsys.readouterr()
    (line,) = captured.err.splitlines()
    assert line.startswith("headroom: this is an error of Headroom's own; ")
    (trace,) = tmp_path.glob("headroom-*.txt")
    assert str(trace) in line
    assert "TypeError" in trace.read_text()


def test_estimate_measures_this_cpu_on_demand_and_once(write, capsys, monkeypatch):
    monkeypatch.setenv("HEADROOM_PROBE_SECONDS", "0.3")
    path = write(scenario(cluster__chip="cpu"))
    command = [*HEADROOM, "estimate", path, "--json"]
    first, second = (subprocess.run(command, capture_output=True, text=True, check=True) for _ in range(2))
    assert "Measuring this CPU" in first.stderr
    assert second.stderr == ""
    assert json.loads(first.stdout) == json.loads(second.stdout)


@pytest.fixture
def server(tmp_path):
    """A running ``headroom serve`` with the command that started it."""
    command = [*HEADROOM, "serve", "--port", "0", "--data", str(tmp_path / "served")]
    environment = {**os.environ, "HEADROOM_PROBE_CPU": "false"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        yield process, process.stdout.readline().split()[-1]
    finally:
        process.kill()
        process.communicate()


def test_serve_prints_its_address_answers_and_ends_well(server):
    process, address = server
    with httpx2.Client(base_url=address) as client:
        assert client.get("/api/health").json()["status"] == "ok"
        took_s = []
        for _ in range(20):
            began_s = time.perf_counter()
            assert client.get("/api/health").status_code == 200
            took_s.append(time.perf_counter() - began_s)
        assert min(took_s) < 0.04, "small answers must not wait for acknowledgements, as each of them would"
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 0
    assert process.stderr.read() == ""


def test_serve_says_in_one_line_what_hinders_its_start(server, tmp_path):
    _, address = server
    port = address.rpartition(":")[2]
    for arguments, words in (
        (["--port", port], f"headroom: port: 127.0.0.1:{port} cannot be listened on"),
        (["--port", "0", "--data", str(tmp_path / "served")], "headroom: data: another Headroom server uses"),
    ):
        found = subprocess.run(
            [*HEADROOM, "serve", *arguments], capture_output=True, text=True, timeout=30, check=False
        )
        assert found.returncode == 2
        assert found.stderr.startswith(words)
        assert len(found.stderr.splitlines()) == 1


def test_serve_refuses_to_listen_for_others_without_a_token(capsys):
    assert run(["serve", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "HEADROOM_TOKEN" in capsys.readouterr().err


def _path():
    return {**os.environ, "PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}"}
