"""Runs through a real Slurm by the server: queued, followed across a restart, measured, failed, cancelled."""

from __future__ import annotations

import json
import subprocess

import pytest
from fastapi.testclient import TestClient

from app.cli import run as run_command
from app.main import create_app
from app.settings import ROOT
from runners.backends import slurm as backend
from runners.backends.processes import marked
from runners.guard.journal import journal_of
from runners.guard.journal import read as read_journal
from runners.job import RESULT_FILE
from tests.app.examples import scenario
from tests.app.waiting import events, measuring, run_in, until
from tests.markdown import blocks

TWO = scenario(plan__dp=2, cluster__chips_per_node=2, training__global_batch=4)
JOB = {"scenario": scenario(), "backend": "slurm", "device": "cpu", "warmup": 1, "steps": 2, "label": "through Slurm"}
ENDLESS = {
    "benchmark": "attention",
    "options": {"seq_lens": [8, 4096], "dims": [16], "implementations": ["naive"], "precisions": ["fp32"]},
    "backend": "slurm",
    "device": "cpu",
    "steps": 1000,
    "label": "three short rows, then one without end",
}


@pytest.fixture(autouse=True)
def _look_often(monkeypatch):
    """This Slurm has nobody else to answer."""
    monkeypatch.setattr(backend, "LOOK_S", 0.2)


@pytest.fixture
def server(slurm, settings):
    """Start servers one after the other on the same data folder, with a local run's only slot."""

    def start(**changes):
        return TestClient(create_app(settings.model_copy(update=changes)), base_url="http://127.0.0.1:8000")

    return start


def launch(client, job) -> str:
    response = client.post("/api/runs", json=job)
    assert response.status_code == 201, response.text
    return response.json()["id"]


def test_a_run_outlives_its_server_and_lands_beside_its_prediction(server, settings):
    with server() as client:
        dry = client.post("/api/runs?dry_run=true", json=JOB).json()
        assert dry["command"][0] == "sbatch"
        assert "--time" not in dry["script"], "the partition's limit, where the job names none"
        run_id = launch(client, {**JOB, "scenario": TWO, "steps": 40, "time_limit_s": 600})
        assert measuring(client, run_id)["state"] == "running"
    with server() as client:
        run = run_in(client, run_id, "ok")
        measured = client.get(f"/api/measurements/{run['measurement_id']}").json()
        assert (len(measured["steps_s"]), measured["world_size"]) == (40, 2)
        assert measured["prediction"]["step_time_s"] > 0
        compared = client.post(
            "/api/compare",
            json={"items": [{"measurement": run_id}, {"scenario": measured["scenario"], "label": "predicted"}]},
        )
        assert compared.status_code == 200
        assert [item["label"] for item in compared.json()["items"]] == ["through Slurm", "predicted"]
        states = [event["state"] for _, event in events(client, run_id) if event["kind"] == "state"]
        assert list(dict.fromkeys(states)) == ["queued", "running", "ok"]


def rows_so_far(folder) -> list[dict]:
    journal = read_journal(journal_of(folder / RESULT_FILE))
    return journal.rows if journal else []


def test_a_failed_node_a_waiting_run_and_one_cancelled_behind_our_back(server, slurm, settings):
    with server() as client:
        failing = launch(client, {**ENDLESS, "placement": {"options": ["--nodelist=two"]}})
        waiting = launch(client, {**JOB, "placement": {"options": ["--begin=now+3600"]}})
        elsewhere = launch(client, {**JOB, "placement": {"options": ["--begin=now+3600"]}})
        until(lambda: "BeginTime" in run_in(client, waiting, "queued")["message"])
        assert client.post(f"/api/runs/{waiting}/cancel").json()["state"] == "cancelled"
        until(lambda: "BeginTime" in run_in(client, elsewhere, "queued")["message"])
        slurm.run("scancel", f"--name=headroom-{elsewhere}")
        until(lambda: len(rows_so_far(settings.data / "runs" / failing)) == 3)
        slurm.down("two", "fan broke")
        try:
            assert run_in(client, elsewhere, "cancelled")["message"].startswith("Slurm: CANCELLED")
            run = run_in(client, failing, "failed")
            assert run["message"].startswith("Slurm: NODE_FAIL, node two is down: fan broke")
            kept = client.get(f"/api/measurements/{run['measurement_id']}").json()
            assert kept["status"] in ("cancelled", "failed"), "as its worker was asked to end, or was killed"
            assert [row["status"] for row in kept["rows"]][:3] == ["ok"] * 3, "measured before the node failed"
        finally:
            slurm.up("two")
        until(lambda: not marked(str(settings.data / "runs" / failing)))


def test_a_list_of_jobs_is_one_array_that_the_command_follows_to_its_measurements(slurm, settings, tmp_path, capsys):
    jobs = tmp_path / "JOBS.json"
    jobs.write_text(json.dumps([JOB | {"label": "first"}, JOB | {"label": "second", "steps": 3}]))
    assert run_command(["run", str(jobs), "--dry-run", "--data", str(settings.data)]) == 0
    shown = capsys.readouterr()
    assert "#SBATCH --array=0-1\n" in shown.out
    assert "does not exist yet" in shown.err
    assert run_command(["run", str(jobs), "--json", "--data", str(settings.data)]) == 0
    said = capsys.readouterr()
    measured = json.loads(said.out)
    assert [(one["label"], len(one["steps_s"])) for one in measured] == [("first", 2), ("second", 3)]
    assert {"first: ok", "second: ok"} <= set(said.err.splitlines())


def test_an_array_of_unlike_jobs_is_refused(server):
    with server() as client:
        refused = client.post("/api/runs", json=[JOB, {**JOB, "time_limit_s": 60}])
        assert refused.status_code == 422
        assert refused.json()["problems"][0]["message"].startswith("jobs of one array differ")
        assert client.get("/api/runs").json() == {"runs": []}


def test_what_slurm_refuses_is_the_runs_message(server):
    with server(placement={"partition": "nowhere"}) as client:
        run = run_in(client, launch(client, JOB), "failed")
        assert "could not be started: Slurm refused it: " in run["message"]
        assert "nvalid partition" in run["message"]
        assert run["job"]["placement"]["partition"] == "nowhere"


def test_without_slurm_here_a_run_is_refused_and_a_dry_run_is_not(client, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert client.post("/api/runs?dry_run=true", json=JOB).status_code == 200
    refused = client.post("/api/runs", json=JOB)
    assert refused.status_code == 422
    (problem,) = refused.json()["problems"]
    assert problem["field"] == "backend"
    assert problem["message"].startswith("this machine has no Slurm: sbatch, ")
    assert client.get("/api/runs").json() == {"runs": []}


def test_the_script_that_is_shown_is_one_that_bash_reads(client):
    script = client.post("/api/runs?dry_run=true", json=JOB).json()["script"]
    subprocess.run(("bash", "-n"), input=script, text=True, check=True)


def test_the_job_in_the_document_is_one(client):
    (job,) = (block.json() for block in blocks(ROOT / "docs" / "slurm.md", "json"))
    dry = client.post("/api/runs?dry_run=true", json=job)
    assert dry.status_code == 200, dry.text
    script = dry.json()["script"]
    for line in ("--nodes=2", "--gres=gpu:8", "--time=30", "--partition=gpu", "--exclusive"):
        assert f"#SBATCH {line}\n" in script
    assert "--nproc-per-node 8" in script
