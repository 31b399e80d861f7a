"""The API of runs on real processes: they are started, events stream, results are imported."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from fastapi.testclient import TestClient

from app.disk import DataFolder
from app.main import create_app
from app.runs.run import read_run
from app.store import Store
from tests.app.examples import ENDLESS, MEASUREMENT, scenario, write_run
from tests.app.waiting import events, measuring, processes_of, run_in

JOB = {"scenario": scenario(), "device": "cpu", "warmup": 1, "steps": 2, "label": "tiny"}


def launch(client, job=JOB):
    response = client.post("/api/runs", json=job)
    assert response.status_code == 201, response.text
    return response.json()


def test_a_run_is_followed_to_its_measurement(client, settings):
    run = launch(client)
    assert run["state"] == "queued"
    assert run["job"]["label"] == "tiny"
    assert run["job"]["world_size"] == 1
    assert run["job"]["scenario"]["cluster"]["chip"]["memory_bytes"] > 0, "a worker has no probed chips: names go"
    assert "-m runners step" in " ".join(run["command"])

    seen = events(client, run["id"])
    assert [number for number, _ in seen] == list(range(1, len(seen) + 1))
    states = [event["state"] for _, event in seen if event["kind"] == "state"]
    assert states[0] == "queued"
    assert states[-1] == "ok"
    assert set(states) == {"queued", "running", "ok"}
    assert {event["phase"] for _, event in seen if event["kind"] == "progress"} == {
        "build",
        "warmup",
        "measure",
        "profile",
    }

    done = client.get(f"/api/runs/{run['id']}").json()
    assert done["state"] == "ok"
    assert done["created_s"] <= done["started_s"] <= done["finished_s"]
    assert isinstance(done["log_tail"], str)
    assert client.get("/api/runs").json()["runs"][0]["id"] == run["id"]
    log = client.get(f"/api/runs/{run['id']}/log")
    assert log.status_code == 200
    assert log.headers["content-type"] == "text/plain; charset=utf-8"

    measurement = client.get(f"/api/measurements/{done['measurement_id']}").json()
    assert len(measurement["steps_s"]) == 2
    assert measurement["kernels"]
    assert measurement["prediction"]["step_time_s"] > 0
    (summary,) = client.get("/api/measurements").json()["measurements"]
    assert summary["id"] == done["measurement_id"]
    assert summary["has_scenario"]

    assert events(client, run["id"], after=len(seen) - 2) == seen[-2:]
    finished = client.get(f"/api/runs/{run['id']}/events", headers={"last-event-id": str(len(seen))})
    assert finished.status_code == 204
    assert processes_of(settings.data / "runs" / run["id"]) == []


def test_the_whole_log_is_served_also_where_there_is_none_yet(settings):
    folder = write_run(settings.data / "runs", "r1")
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/api/runs/r1/log").text == ""
        text = "".join(f"line {number}\n" for number in range(20_000))
        (folder / "log").write_text(text)
        assert client.get("/api/runs/r1/log").text == text
        tail = client.get("/api/runs/r1").json()["log_tail"]
        assert len(tail) < 20_000
        assert text.endswith(tail)


def test_a_run_that_has_ended_is_deleted_with_its_measurement(settings):
    kept, gone = (write_run(settings.data / "runs", name) for name in ("r1", "r2"))
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        assert client.delete("/api/runs/r2").status_code == 204
        assert [run["id"] for run in client.get("/api/runs").json()["runs"]] == ["r1"]
        assert [one["id"] for one in client.get("/api/measurements").json()["measurements"]] == ["r1"]
        assert client.delete("/api/runs/r2").status_code == 404
    assert [folder.name for folder in gone.parent.iterdir()] == [kept.name]


def test_a_run_at_work_is_not_deleted(client):
    run = launch(client, ENDLESS)
    refused = client.delete(f"/api/runs/{run['id']}")
    assert (refused.status_code, refused.json()["detail"]) == (409, "The run has not ended. Cancel it first.")
    client.post(f"/api/runs/{run['id']}/cancel")
    assert client.delete(f"/api/runs/{run['id']}").status_code == 204
    assert client.get("/api/runs").json() == {"runs": []}


def test_runs_wait_for_one_another_and_cancelling_ends_every_process(client, settings):
    first, second = launch(client, {**JOB, "steps": 100_000, "label": "endless"}), launch(client)
    measuring(client, first["id"])
    waiting = client.get(f"/api/runs/{second['id']}").json()
    assert (waiting["state"], waiting["message"]) == ("queued", "waits for endless; one runs at a time here")
    assert client.get("/api/health").json()["runs"] == {"queued": 1, "running": 1}
    folder = settings.data / "runs" / first["id"]
    assert len(processes_of(folder)) >= 2, "the worker and its watchdog"

    third = client.post(f"/api/runs/{second['id']}/retry").json()
    assert third["id"] != second["id"]
    assert third["job"] == second["job"]
    messages = [run["message"] for run in client.get("/api/runs").json()["runs"]]
    assert messages == ["2 before it; one runs at a time here", waiting["message"], ""]
    waiting = client.post(f"/api/runs/{second['id']}/cancel").json()
    assert (waiting["state"], waiting["measurement_id"]) == ("cancelled", None)
    assert client.post(f"/api/runs/{third['id']}/cancel").json()["state"] == "cancelled"

    cancelled = client.post(f"/api/runs/{first['id']}/cancel")
    assert cancelled.status_code == 200
    assert cancelled.json()["state"] == "cancelled"
    assert processes_of(folder) == []
    # a step that ended meanwhile may have told its progress last
    assert [event["state"] for _, event in events(client, first["id"]) if "state" in event][-1] == "cancelled"
    again = client.post(f"/api/runs/{first['id']}/cancel").json()
    assert again["state"] == "cancelled"
    assert client.get("/api/measurements").json()["measurements"] == []


def test_a_run_of_a_command_is_listed_and_its_stream_ends_only_when_its_result_is_stored(client, settings):
    data = DataFolder(settings.data)
    store = Store(settings.index_url, data, settings.samples)
    folder = write_run(settings.data / "runs", "r1")
    ended = read_run(folder)
    store.put_run(replace(ended, state="running", finished_s=None, measurement_id=None))
    (listed,) = client.get("/api/runs").json()["runs"]
    assert (listed["id"], listed["state"], listed["measurement_id"]) == ("r1", "running", None)
    early = events(client, "r1")
    assert [event.get("state") for _, event in early] == ["queued", "running", None]
    store.put_run(ended, replace(MEASUREMENT, id="r1"))
    store.close()
    assert [event["state"] for _, event in events(client, "r1", after=len(early))] == ["ok"]
    assert client.get("/api/runs").json()["runs"][0]["measurement_id"] == "r1"
    assert client.get("/api/measurements/r1").json()["steps_s"]


def test_a_gpu_where_there_is_none_is_refused_before_anything_starts(client):
    refused = client.post("/api/runs", json={**JOB, "device": "cuda"})
    assert refused.status_code == 422
    (problem,) = refused.json()["problems"]
    assert (problem["field"], problem["message"]) == ("device", "this machine has no GPU")
    assert client.get("/api/runs").json() == {"runs": []}


def test_a_run_that_the_worker_refuses_fails_with_its_reason(settings):
    folder = write_run(settings.data / "runs", "20260101-000000-000-abcdef", state="queued", measurement=None)
    (folder / "job.json").write_text(json.dumps({**JOB, "device": "cuda"}))
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        run = run_in(client, folder.name, "failed")
        run |= client.get(f"/api/runs/{folder.name}").json()
    assert "device: process 0 of this host has no GPU" in run["message"]
    assert run["measurement_id"] is None
    assert run["log_tail"]


def test_a_dry_run_shows_the_request_and_starts_nothing(client, settings):
    response = client.post("/api/runs?dry_run=true", json=JOB)
    assert response.status_code == 200
    request = response.json()
    assert set(request) == {"command", "environment", "folder", "script"}
    assert request["command"][:2] == ["timeout", "--kill-after=5"], "a run ends at its limit even without a server"
    assert request["command"][4:7] == ["-m", "runners", "step"]
    assert list((settings.data / "runs").iterdir()) == []
    assert client.get("/api/runs").json() == {"runs": []}


@pytest.mark.parametrize(
    ("job", "field"),
    [
        ({**JOB, "benchmark": "dance"}, "benchmark"),
        ({**JOB, "backend": "cloud"}, "backend"),
        ({**JOB, "steps": 0}, "steps"),
        ({**JOB, "step": 3}, "step"),
        ({**JOB, "device": "tpu"}, "device"),
        ({**JOB, "world_size": 2}, "world_size"),
        ({**JOB, "scenario": scenario(plan__tp=3)}, "scenario.plan.tp"),
        ({**JOB, "scenario": scenario(cluster__chip="cpu")}, "scenario.cluster.chip"),
        ({**JOB, "scenario": {}}, "scenario.model"),
        ({**JOB, "label": {"a": 1}}, "label"),
        ("job", "(document)"),
        ([], "jobs"),
        ([JOB, JOB], "jobs"),
    ],
)
def test_a_job_that_cannot_run_is_refused_by_field(client, job, field):
    response = client.post("/api/runs", json=job)
    assert response.status_code == 422
    assert field in [problem["field"] for problem in response.json()["problems"]]
    assert client.get("/api/runs").json() == {"runs": []}


@pytest.mark.parametrize("path", ["", "/log", "/events", "/cancel", "/retry"])
def test_an_unknown_run_is_not_found(client, path):
    method = "POST" if path in ("/cancel", "/retry") else "GET"
    response = client.request(method, f"/api/runs/..%2f..{path}")
    assert response.status_code == 404
    response = client.request(method, f"/api/runs/none{path}")
    assert response.status_code == 404
    assert response.headers["content-type"] == "application/problem+json"
