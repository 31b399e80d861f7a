"""Recipes of what is measured, read or reproduced: an importer, a benchmark, a backend, a study."""

from __future__ import annotations

import json
import re
import shutil
import textwrap
from pathlib import Path

import pytest

from tests.recipes.following import ROOT, add, block, copy_folders, run_python

READ_TWO = """
import json, sys
from pathlib import Path
from app.importers.sandbox import ImportRefused, import_sandboxed
whole, cut = map(Path, sys.argv[1:])
found = import_sandboxed(whole, "copies.json")
try:
    import_sandboxed(cut, "copies.json")
    refused = None
except ImportRefused as error:
    refused = [error.format, error.remedy]
(one,) = found.measurements
print(json.dumps([one.origin.format, one.rows, found.skipped, refused]))
"""


def test_importer(tmp_path: Path):
    copy_folders(tmp_path, "estimator", "app")
    (tmp_path / "app" / "importers" / "nvbandwidth.py").write_text(block("python app/importers/nvbandwidth.py"))
    add(
        tmp_path / "app" / "importers" / "__init__.py",
        "FORMATS: dict[str, str] = {",
        block("text FORMATS").strip() + ", ",
    )
    (names,) = re.findall(r"^    names = list.*\n", (ROOT / "app/importers/sniff.py").read_text(), re.MULTILINE)
    add(tmp_path / "app" / "importers" / "sniff.py", names, textwrap.indent(block("python sniff"), "    "))
    cases = [
        {"name": "host_to_device_memcpy_ce", "status": "Passed", "bandwidth_matrix": [["55.63"]], "sum": 55.63},
        {"name": "device_to_device_memcpy_read_ce", "status": "Waived"},
    ]
    document = json.dumps({"nvbandwidth": {"CUDA Runtime Version": 12080, "testcases": cases}})
    (tmp_path / "whole").write_text(document)
    (tmp_path / "cut").write_text(document[:-10])
    format, rows, skipped, refused = json.loads(run_python(tmp_path, "-c", READ_TWO, "whole", "cut"))
    assert format == "nvbandwidth"
    assert rows == [{"test": "host_to_device_memcpy_ce", "bytes_per_s": pytest.approx(55.63e9)}]
    assert skipped == 1
    assert refused == ["nvbandwidth", "Run nvbandwidth --json again."]


def test_benchmark(tmp_path: Path):
    copy_folders(tmp_path, "estimator", "runners")
    (tmp_path / "runners" / "benchmarks" / "sort.py").write_text(block("python runners/benchmarks/sort.py"))
    registry = tmp_path / "runners" / "benchmarks" / "__init__.py"
    add(registry, "MODULES = {", block("text MODULES").strip() + ", ")
    add(tmp_path / "runners" / "job.py", "BENCHMARKS = (", '"sort", ')
    job = tmp_path / "job"
    job.mkdir()
    (job / "job.json").write_text(json.dumps({"benchmark": "sort", "steps": 2, "label": "sorting"}))
    run_python(tmp_path, "-m", "runners", "step", "--job", str(job))
    result = json.loads((job / "result.json").read_text())
    assert result["status"] == "ok"
    assert result["origin"]["format"] == "sort"
    assert [row["numbers"] for row in result["rows"]] == [2**power for power in range(10, 17)]
    assert all(row["seconds_s"] > 0 for row in result["rows"])
    events = [json.loads(line) for line in (job / "events.jsonl").read_text().splitlines()]
    assert [event["state"] for event in events if event["kind"] == "state"] == ["running", "ok"]
    copy_folders(tmp_path, "app")
    listed = "import app.api.benchmarks as api; print(api._described('sort')['options'])"
    assert run_python(tmp_path, "-c", listed).strip() == "[]"


RUN_BOTH = """
import os, sys, time
from pathlib import Path
from runners.backends import backend
from runners.backends.processes import marked
from runners.job import Job, read_events, read_measurement, write_job
chosen = backend("niced")
assert chosen.missing() == []
folders = [Path(name).resolve() for name in sys.argv[1:]]
jobs = [Job(backend="niced", benchmark="precision", device="cpu"),
        Job(backend="niced", options={"models": ["tiny"], "seq_lens": [8]}, device="cpu", steps=100_000)]
for folder, job in zip(folders, jobs):
    folder.mkdir()
    write_job(folder, job)
    assert chosen.problems(job) == []
whole, endless = [chosen.submit(chosen.render(folder, job)) for folder, job in zip(folders, jobs)]
while not read_events(folders[1]) or not any(event.get("phase") == "build" for event in read_events(folders[1])):
    time.sleep(0.05)
print(sorted({os.getpriority(os.PRIO_PROCESS, pid) for pid in marked(str(folders[1]))}))
(folders[1] / "handle.json").unlink()
chosen.cancel(chosen.find(folders[1]))
while chosen.status(whole).alive:
    time.sleep(0.05)
print(chosen.status(whole).state, read_measurement(folders[0] / "result.json").status, chosen.status(endless).state)
print([pid for folder in folders for pid in marked(str(folder))])
"""


def test_backend(tmp_path: Path):
    copy_folders(tmp_path, "estimator", "runners")
    place = tmp_path / "runners" / "backends"
    (place / "niced.py").write_text(block("python runners/backends/niced.py"))
    add(place / "__init__.py", "BACKENDS = {", block("text BACKENDS").strip() + ", ")
    said = run_python(tmp_path, "-c", RUN_BOTH, "whole", "endless").splitlines()
    assert said == ["[19]", "ok ok cancelled", "[]"]
    form = tmp_path / "launchForm.js"
    shutil.copy(ROOT / "static" / "js" / "views" / "runs" / "launchForm.js", form)
    add(form, "const BACKENDS = [", block("text launchForm").strip() + ",")
    (pairs,) = re.findall(r"^const BACKENDS = (\[.*?\]),\n\];", form.read_text(), re.MULTILINE | re.DOTALL)
    assert [name for name, _ in json.loads(pairs + "]")] == ["niced", "local", "slurm"]


def test_study(tmp_path: Path):
    copy_folders(tmp_path, "estimator", "app")
    place = tmp_path / "estimator"
    (place / "studies" / "ring_all_reduce.py").write_text(block("python estimator/studies/ring_all_reduce.py"))
    (place / "catalog" / "printed" / "ring-all-reduce.toml").write_text(block("toml printed"))
    add(place / "studies" / "__init__.py", "STUDIES: dict[str, str] = {", block("text STUDIES").strip() + ", ")
    command = ["-c", "from app.cli import main; main()", "study", "ring-all-reduce", "--json"]
    found = json.loads(run_python(tmp_path, *command))
    (figure,) = found["figures"]
    assert figure["value"] == pytest.approx(17.5)
    assert (figure["printed"], figure["agrees"]) == (17.5, True)
    (other,) = json.loads(run_python(tmp_path, *command, "--set", "ranks=2"))["figures"]
    assert (other["value"], other["printed"]) == (pytest.approx(10), None)
