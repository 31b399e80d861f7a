"""``headroom serve``: the dashboard in one process, until a signal ends it."""

from __future__ import annotations

import contextlib
import gc
import logging
import secrets
import signal
import socket
from collections.abc import Mapping
from types import FrameType
from typing import Any

import uvicorn
from pydantic import SecretStr

from app.commands.settings import settings_from
from app.main import create_app
from app.neighbours import neighbours
from app.settings import Settings
from app.slow_callers import HeadInTime
from estimator.scenario.problems import InputProblems, Problem


def serve(arguments: Mapping[str, Any]) -> int:
    """Serve until SIGINT or SIGTERM; raise InputProblems where settings, data folder or port cannot be used."""
    settings = settings_from(arguments)
    why = "" if not settings.loopback or settings.no_token or settings.token.get_secret_value() else neighbours()
    made = secrets.token_urlsafe(24) if why else ""
    if made:
        settings = settings.model_copy(update={"token": SecretStr(made)})
    app = create_app(settings)
    gc.freeze()  # or a request waits now and then while the collector looks through all that was imported
    listener = listening(settings)
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s")
    # What fails is logged by app.errors, and what hinders the start is raised below, without uvicorn's stack trace
    config = uvicorn.Config(
        app,
        http=HeadInTime,
        log_level="critical",
        server_header=False,
        lifespan="on",
        timeout_graceful_shutdown=5,
        proxy_headers=False,  # who guesses tokens may not choose the address that is counted
    )
    server = _Server(config, made)
    if made:
        print(f"This server can start programs, and {why}. Its address has a token, see docs/slurm.md.", flush=True)
    for number in (signal.SIGINT, signal.SIGTERM):
        # uvicorn repeats the signal once it has shut down, and that is the ordinary end of this command
        signal.signal(number, lambda *_: None)
    with contextlib.suppress(SystemExit):
        server.run(sockets=[listener])
    failure: Exception | None = app.state.startup_failure
    if failure is not None:
        raise failure
    return 0 if server.started else 1


class _Server(uvicorn.Server):
    """uvicorn that says where it listens, and ends the event streams before it waits for connections.

    ``token``: one made for this start, which nobody could know if it were not said.
    """

    def __init__(self, config: uvicorn.Config, token: str) -> None:
        super().__init__(config)
        self.token = token

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets=sockets)
        if self.started and sockets:
            host, port = sockets[0].getsockname()[:2]
            name = f"[{host}]" if ":" in host else host
            print(f"Headroom listens on http://{name}:{port}{self.token and f'/?token={self.token}'}", flush=True)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        context = self.config.app.state.context  # type: ignore[union-attr]
        context.supervisor.announce_stop()
        super().handle_exit(sig, frame)


def listening(settings: Settings) -> socket.socket:
    """A socket that listens where the settings say; raise InputProblems where it cannot."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it small answers wait for 40 ms
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((settings.host, settings.port))
        listener.listen(2048)
    except OSError as error:
        listener.close()
        message = f"{settings.host}:{settings.port} cannot be listened on: {error.strerror or error}"
        raise InputProblems([Problem(field="port", message=message, remedy="Choose another with --port.")]) from None
    return listener
