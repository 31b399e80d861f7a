"""The server as a whole: what it serves, and that every failure is a problem document."""

from __future__ import annotations

import asyncio
import json
import socket

import pytest
import uvicorn
from fastapi.testclient import TestClient

from app.main import create_app
from app.settings import Settings
from estimator.scenario.problems import InputProblems


@pytest.mark.postgres
def test_the_server_works_on_postgresql(settings, postgres_url):
    chosen = settings.model_copy(update={"database_url": postgres_url})
    with TestClient(create_app(chosen), base_url="http://127.0.0.1:8000") as client:
        assert client.get("/api/health").json()["database"] == "postgresql"
        assert client.get("/api/measurements").json() == {"measurements": [], "predicted": [], "next": ""}


def test_a_second_server_may_not_use_the_same_data_folder(settings, client):
    with pytest.raises(InputProblems, match="another Headroom server"), TestClient(create_app(settings)):
        pass


def test_beyond_loopback_a_token_is_needed(settings):
    with pytest.raises(InputProblems, match="HEADROOM_TOKEN"):
        create_app(settings.model_copy(update={"host": "0.0.0.0"}))


def test_a_data_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputProblems, match="--data"):
        create_app(Settings(data=tmp_path / "file" / "data", probe_cpu=False))


def test_what_a_server_s_end_breaks_off_is_told_so(settings):
    app = create_app(settings)
    search = b'{"model": "gpt2", "cluster": {"chip": "h200-sxm"}, "training": {"seq_len": 8, "global_batch": 1}}'
    head = (
        b"POST /api/sweep HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    )

    async def asked_while_it_ends() -> bytes:
        server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on", timeout_graceful_shutdown=0))
        with socket.create_server(("127.0.0.1", 0)) as listener:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            await app.state.context.sweeps.acquire()  # so that the search waits
            writer.write(head % len(search) + search)
            while not server.server_state.tasks:
                await asyncio.sleep(0.01)
            server.should_exit = True
            said = await reader.read()
            await serving
            writer.close()
        return said

    said, _, body = asyncio.run(asked_while_it_ends()).partition(b"\r\n\r\n")
    assert said.startswith(b"HTTP/1.1 503 ")
    assert b"x-frame-options" in said
    assert "Ask again" in json.loads(body)["detail"]


def test_the_schema_is_served_and_pages_that_load_from_elsewhere_are_not(client):
    assert "/api/estimate" in client.get("/api/openapi.json").json()["paths"]
    assert client.get("/docs").status_code == 404
