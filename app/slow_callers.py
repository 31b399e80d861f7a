"""Slow callers: a request that is sent by halves ends after a while, instead of keeping a connection for ever."""

from __future__ import annotations

import asyncio

import h11
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from app.errors import Refused, problem_document


class BodyInTime:
    """ASGI middleware: refuses (408) a request whose body falls silent for longer than ``wait_s``.

    One that gives its length and sends chunks as well may mean either, and is refused at once (400; RFC 9112, 6.3).
    """

    def __init__(self, app: ASGIApp, wait_s: float) -> None:
        self.app, self.wait_s = app, wait_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; once its body is there, waiting for the caller to go away has no bound."""
        complete = scope["type"] != "http"
        if not complete and {b"content-length", b"transfer-encoding"} <= {name for name, _ in scope["headers"]}:
            detail = "A request has a Content-Length or is sent in chunks, not both. Leave one of the two headers out."
            await problem_document(400, detail, headers={"connection": "close"})(scope, receive, send)
            return

        async def receive_in_time() -> Message:
            nonlocal complete
            if complete:
                return await receive()
            try:
                async with asyncio.timeout(self.wait_s):
                    message = await receive()
            except TimeoutError:
                detail = f"Nothing of the request's body came for {self.wait_s:g} s. Send it again, without a pause."
                raise Refused(408, detail) from None
            complete = not message.get("more_body", False)
            return message

        await self.app(scope, receive_in_time, send)


class HeadInTime(H11Protocol):
    """A connection that is closed where the head of a request takes longer than ``request_wait_s``."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Begin to wait for the first request."""
        super().connection_made(transport)
        self._bound_waiting()

    def data_received(self, data: bytes) -> None:
        """Take in a piece; what is no whole head yet does not win time."""
        super().data_received(data)
        self._bound_waiting()

    def on_response_complete(self) -> None:
        """Begin to wait for the next request."""
        super().on_response_complete()
        self._bound_waiting()

    def connection_lost(self, exc: Exception | None) -> None:
        """Wait no longer."""
        self._stop_timer()
        super().connection_lost(exc)

    def _bound_waiting(self) -> None:
        if self.conn.their_state is not h11.IDLE:
            self._stop_timer()
        elif self._timer is None:
            wait_s = self.config.app.state.context.settings.request_wait_s  # type: ignore[union-attr]
            self._timer = self.loop.call_later(wait_s, self.transport.close)

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
