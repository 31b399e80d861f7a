"""PUT /api/uploads: a file becomes measurements, or leaves nothing behind and a message that helps."""

from __future__ import annotations

import gzip
import json
import socket
import threading

import pytest
import uvicorn
from fastapi.testclient import TestClient

from app.importers.names import plain_name
from app.main import create_app
from estimator.scenario.codec import encode
from tests.app.examples import MEASUREMENT
from tests.app.waiting import until

RESULT = json.dumps(encode(MEASUREMENT)).encode()


def put(client, body, filename="result.json"):
    return client.put("/api/uploads", params={"filename": filename}, content=body)


def nothing_is_left(client, settings):
    assert list((settings.data / "uploads").iterdir()) == []
    assert client.get("/api/measurements").json() == {"measurements": [], "predicted": [], "next": ""}
    assert client.get("/api/health").status_code == 200


def test_a_result_becomes_a_measurement(client, settings):
    response = put(client, RESULT)
    assert response.status_code == 201, response.text
    found = response.json()
    assert set(found) == {"upload_id", "measurements", "warnings", "skipped", "same_as"}
    assert found["same_as"] == ""
    assert put(client, RESULT + b"\n").json()["same_as"] == ""
    twin = put(client, RESULT, "again.json").json()
    assert twin["same_as"] == found["upload_id"]
    for other in client.get("/api/measurements").json()["measurements"]:
        if not other["id"].startswith(found["upload_id"]):
            assert client.delete(f"/api/uploads/{other['upload_id']}").status_code == 204
    (summary,) = found["measurements"]
    assert summary["step_time_s"] == 0.011
    assert client.get("/api/measurements").json()["measurements"] == [summary]
    measurement = client.get(f"/api/measurements/{summary['id']}").json()
    assert measurement["id"] == summary["id"]
    assert measurement["prediction"]["step_time_s"] > 0
    folder = settings.data / "uploads" / found["upload_id"]
    assert (folder / "source").read_bytes() == RESULT
    assert json.loads((folder / "upload.json").read_text())["filename"] == "result.json"


def test_a_preview_keeps_nothing_and_columns_can_be_said_anew(client, settings):
    text = b"len  took  what\n128  12.5  a\n256  25.0  b\n512  50.0  c\n"
    seen = client.put("/api/previews", params={"filename": "t.txt"}, content=text).json()
    (table,) = seen["tables"]
    assert (table["line"], table["kind"], table["columns"], table["rows"]) == (1, "table", ["len", "took", "what"], 3)
    assert seen["measurements"][0]["rows"][0]["took"] == 12.5
    said = {"filename": "t.txt", "columns": json.dumps({"1": {"0": "seq_len", "1": "forward (ms)", "2": "model"}})}
    (read,) = client.put("/api/previews", params=said, content=text).json()["measurements"]
    assert (read["format"], read["count"]) == ("text/step-times", 3)
    nothing_is_left(client, settings)
    found = client.put("/api/uploads", params=said, content=text).json()
    (summary,) = found["measurements"]
    rows = client.get(f"/api/measurements/{summary['id']}").json()["rows"]
    assert [(row["seq_len"], row["forward_s"], row["model"]) for row in rows] == [
        (128, 0.0125, "a"), (256, 0.025, "b"), (512, 0.05, "c"),
    ]  # fmt: skip
    about = json.loads((settings.data / "uploads" / found["upload_id"] / "upload.json").read_text())
    assert about["columns"] == json.loads(said["columns"])
    refused = client.put("/api/uploads", params={"filename": "t.txt", "columns": "[1]"}, content=text)
    assert (refused.status_code, refused.json()["problems"][0]["field"]) == (422, "columns")


def test_several_measurements_keep_their_order(client):
    document = [encode(MEASUREMENT) | {"label": f"step {index}"} for index in range(12)]
    response = put(client, gzip.compress(json.dumps(document).encode()), "results.json.gz")
    assert response.status_code == 201, response.text
    assert [item["label"] for item in response.json()["measurements"]] == [f"step {index}" for index in range(12)]
    assert len(client.get("/api/measurements").json()["measurements"]) == 12


def test_an_upload_is_deleted_with_all_its_measurements_and_no_other(client, settings):
    document = [encode(MEASUREMENT) | {"label": f"step {index}"} for index in range(2)]
    first = put(client, json.dumps(document).encode()).json()["upload_id"]
    (kept,) = put(client, RESULT).json()["measurements"]
    assert client.delete(f"/api/uploads/{first}").status_code == 204
    assert client.get("/api/measurements").json()["measurements"] == [kept]
    assert [folder.name for folder in (settings.data / "uploads").iterdir()] == [kept["id"].rpartition("-")[0]]
    for unknown in (first, "..", "%", "a%00b"):
        answer = client.delete(f"/api/uploads/{unknown}")
        assert answer.status_code in (404, 405), unknown
    assert client.get(f"/api/measurements/{kept['id']}").status_code == 200


@pytest.mark.parametrize(
    "body",
    [
        b"",
        RESULT[: len(RESULT) // 2],
        gzip.compress(RESULT)[:-20],
        b"\x80\x04\x95\x05\x00\x00\x00\x00\x00\x00\x00\x8c\x01x\x94.",
        bytes(range(256)) * 50,
        b"[" * 200_000,
        b"null",
        b"a walk in the park\n",
    ],
    ids=["empty", "truncated", "truncated gzip", "pickle", "binary", "deep", "null", "prose"],
)
def test_what_cannot_be_read_is_refused_with_a_remedy_and_leaves_nothing(client, settings, body):
    response = put(client, body)
    assert response.status_code == 422, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert len(response.json()["detail"]) > 10
    if body:
        document = response.json()
        assert document["format"]
        assert document["remedy"]
        assert document["problems"][0]["remedy"] == document["remedy"]
    nothing_is_left(client, settings)


def test_a_long_file_is_refused_announced_or_not(settings):
    chosen = settings.model_copy(update={"upload_limit_bytes": 10_000})
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        for body in (b"x" * 10_001, iter([b"x" * 6_000, b"x" * 6_000])):
            response = put(client, body)
            assert response.status_code == 413
            assert "10000 bytes" in response.json()["detail"]
        nothing_is_left(client, settings)


def test_a_connection_that_breaks_leaves_nothing(settings):
    app = create_app(settings)
    server = uvicorn.Server(uvicorn.Config(app, port=0, log_level="critical"))
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        until(lambda: server.started)
        port = server.servers[0].sockets[0].getsockname()[1]
        with socket.create_connection(("127.0.0.1", port)) as connection:
            head = f"PUT /api/uploads?filename=a HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Length: 1000000\r\n\r\n"
            connection.sendall(head.encode() + b"x" * 10_000)
            until(lambda: list((settings.data / "uploads").iterdir()))
        until(lambda: not list((settings.data / "uploads").iterdir()))
    finally:
        server.should_exit = True
        thread.join(20)


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("../../etc/passwd", "passwd"),
        ("C:\\temp\\trace.json", "trace.json"),
        ("", "upload"),
        ("/", "upload"),
        ("a\x00b\n.json", "ab.json"),
        ("x" * 1000, "x" * 200),
        ("Schritt Zeiten.txt", "Schritt Zeiten.txt"),
    ],
)
def test_names_are_only_ever_labels(client, settings, name, plain):
    assert plain_name(name) == plain
    unlabelled = json.dumps(encode(MEASUREMENT) | {"label": ""}).encode()
    response = put(client, unlabelled, name)
    assert response.status_code == 201
    assert response.json()["measurements"][0]["label"] == plain
    (folder,) = (settings.data / "uploads").iterdir()
    assert sorted(path.name for path in folder.iterdir()) == ["measurements", "source", "upload.json"]


def test_uploads_survive_a_restart_and_the_loss_of_the_index(settings):
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        put(client, RESULT)
        before = client.get("/api/measurements").json()
    for path in settings.data.glob("index.sqlite3*"):
        path.unlink()
    with TestClient(create_app(settings), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/api/measurements").json() == before
        assert len(before["measurements"]) == 1
