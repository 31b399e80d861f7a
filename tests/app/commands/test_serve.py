"""``headroom serve``: its address, its end, and what hinders its start."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess

import httpx2

from app.cli import run
from app.commands.serve import listening
from tests.app.examples import HEADROOM


def test_serve_prints_its_address_answers_and_ends_well(served):
    process, address = served
    with httpx2.Client(base_url=address) as client:
        assert client.get("/api/health").json()["status"] == "ok"
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0
    assert process.stderr.read() == ""


def test_small_answers_wait_for_no_acknowledgement_of_those_before(settings):
    async def delay_is_off() -> bool:
        accepted: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def take(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            own = writer.get_extra_info("socket")
            accepted.set_result(own.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
            writer.close()

        listener = listening(settings.model_copy(update={"port": 0}))
        async with await asyncio.start_server(take, sock=listener):
            _, writer = await asyncio.open_connection(*listener.getsockname())
            found = await asyncio.wait_for(accepted, 60)
            writer.close()
        return bool(found)

    assert asyncio.run(delay_is_off())


def test_serve_says_in_one_line_what_hinders_its_start(served, tmp_path):
    _, address = served
    port = address.rpartition(":")[2]
    for arguments, words in (
        (["--port", port], f"headroom: port: 127.0.0.1:{port} cannot be listened on"),
        (["--port", "0", "--data", str(tmp_path / "served")], "headroom: data: another Headroom server uses"),
    ):
        found = subprocess.run(
            [*HEADROOM, "serve", *arguments], capture_output=True, text=True, timeout=120, check=False
        )
        assert found.returncode == 2
        assert found.stderr.startswith(words)
        assert len(found.stderr.splitlines()) == 1


def test_serve_makes_a_token_where_others_are_logged_in(tmp_path):
    who = tmp_path / "bin" / "who"
    who.parent.mkdir()
    who.write_text("#!/bin/sh\necho 'nobody pts/0 2026-11-20 10:00 (10.0.0.7)'\n")
    who.chmod(0o755)
    command = [*HEADROOM, "serve", "--port", "0", "--data", str(tmp_path / "served")]
    environment = {**os.environ, "HEADROOM_PROBE_CPU": "false", "PATH": f"{who.parent}:{os.environ['PATH']}"}
    for extra, known in (([], True), (["--no-token"], False)):
        process = subprocess.Popen([*command, *extra], stdout=subprocess.PIPE, text=True, env=environment)
        try:
            said = [process.stdout.readline()]
            if known:
                assert "others use this machine: nobody" in said[0]
                said.append(process.stdout.readline())
            url = said[-1].split()[-1]
            assert ("/?token=" in url) == known
            address = url.partition("/?")[0]
            assert httpx2.get(f"{address}/api/runs").status_code == (401 if known else 200)
            if known:
                bearer = {"authorization": f"Bearer {url.partition('=')[2]}"}
                assert httpx2.get(f"{address}/api/runs", headers=bearer).status_code == 200
        finally:
            process.terminate()
            process.communicate(timeout=120)


def test_serve_refuses_to_listen_for_others_without_a_token(capsys):
    assert run(["serve", "--host", "0.0.0.0", "--port", "0"]) == 2
    assert "HEADROOM_TOKEN" in capsys.readouterr().err
