"""Requests that are sent by halves, over real sockets: they end, and leave nothing; slow answers do not."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time

import pytest

from runners.backends.processes import start_time
from tests.app.examples import write_run
from tests.app.serving import serving

WAIT_S = 3.0
MOST_S = 25
"""A busy machine's share included, and less than what a server waits that nobody told otherwise."""


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tmp_path_factory.mktemp("served")


@pytest.fixture(scope="module")
def address(data):
    """A server that waits for some seconds."""
    with serving(data, HEADROOM_REQUEST_WAIT_S=str(WAIT_S)) as (_, client):
        yield "127.0.0.1", client.base_url.port


def ended(address, *pieces: bytes, pause_s: float = 0.0) -> tuple[bytes, float]:
    """Send pieces, then nothing; gives what the server said and after how many seconds it closed the connection."""
    with socket.create_connection(address) as connection:
        connection.settimeout(120)
        began_s = time.monotonic()
        said = b""
        try:
            for piece in pieces:
                connection.sendall(piece)
                time.sleep(pause_s)
            while received := connection.recv(65536):
                said += received
        except (ConnectionResetError, BrokenPipeError):
            pass
        return said, time.monotonic() - began_s


HEAD = b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n"
UPLOAD = b"PUT /api/uploads?filename=a HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\n"
ESTIMATE = (
    b"POST /api/estimate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n"
)


@pytest.mark.parametrize("pieces", [[], [b"GET /api"], [HEAD], [HEAD + b"\r\n", HEAD]], ids=len)
def test_half_a_head_ends(address, pieces):
    _, took_s = ended(address, *pieces, pause_s=0.2)
    assert WAIT_S * 0.9 < took_s < MOST_S


def test_a_head_that_drips_ends(address):
    _, took_s = ended(address, *([b"a"] * 40), pause_s=0.1)
    assert took_s < MOST_S


@pytest.mark.parametrize("head", [UPLOAD, ESTIMATE], ids=["upload", "json"])
def test_half_a_body_ends_with_an_answer_and_leaves_nothing(address, data, head):
    said, took_s = ended(address, head, b"x" * 10)
    assert WAIT_S * 0.9 < took_s < MOST_S
    assert said.startswith(b"HTTP/1.1 408 Request Timeout\r\n")
    assert b"connection: close" in said
    assert b"application/problem+json" in said
    assert os.listdir(data / "uploads") == []


def test_a_body_of_two_lengths_is_refused_at_once(address):
    said, took_s = ended(address, ESTIMATE.replace(b"99\r\n", b"2\r\nTransfer-Encoding: chunked\r\n"), b"{}")
    assert said.startswith(b"HTTP/1.1 400 Bad Request\r\n")
    assert b"application/problem+json" in said
    assert took_s < WAIT_S


def test_a_body_that_comes_slowly_is_taken(address):
    said, took_s = ended(address, UPLOAD, *([b"x" * 100] * 10), pause_s=0.3 * WAIT_S)
    assert took_s > 2.5 * WAIT_S
    assert said.startswith(b"HTTP/1.1 422 ")


def test_an_idle_connection_may_ask_again(address):
    with socket.create_connection(address) as connection:
        connection.settimeout(120)
        for _ in range(3):
            connection.sendall(HEAD + b"\r\n")
            said = b""
            while not said.endswith(b"}"):
                said += connection.recv(65536)
            assert said.startswith(b"HTTP/1.1 200 ")
            time.sleep(0.5 * WAIT_S)


def test_an_event_stream_stays_open(data):
    """Waiting for an answer has no bound."""
    folder = write_run(data / "open" / "runs", "r1", state="running", measurement=None)
    working = subprocess.Popen(["sleep", "60"])
    handle = {"folder": str(folder), "pid": working.pid, "start_time": start_time(working.pid)}
    (folder / "handle.json").write_text(json.dumps(handle))
    try:
        with serving(data / "open", HEADROOM_REQUEST_WAIT_S=str(WAIT_S)) as (_, client):
            address = "127.0.0.1", client.base_url.port
            with socket.create_connection(address) as connection:
                connection.sendall(b"GET /api/runs/r1/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
                time.sleep(3 * WAIT_S)
                connection.setblocking(False)
                assert b'"running"' in connection.recv(65536)
                with pytest.raises(BlockingIOError):
                    connection.recv(65536)
    finally:
        working.kill()
        working.wait(60)
