"""Security: who may talk to a server that can start programs, and what a browser may do with its answers."""

from __future__ import annotations

import asyncio
import hmac
import ipaddress
import math
import time
from collections import OrderedDict
from collections.abc import Callable
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, urlencode

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import problem_document, unexpected
from app.settings import Settings, is_loopback

_HEADERS = {
    # plotly.js writes inline styles; it needs neither inline scripts nor eval
    "content-security-policy": "default-src 'self'; script-src 'self'; style-src 'self' 'unsafe-inline'; "
    "img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}
READING = {"GET", "HEAD", "OPTIONS"}
FREE_GUESSES = 5
LONGEST_LOCK_S = 60.0
FORGOTTEN_S = 900.0
MOST_CLIENTS = 1024
OPEN_PATHS = {"/api/health"}
ENDING = "The server ended before this was answered. Ask again once it is back."


class Guard:
    """ASGI middleware: refuses foreign hosts, cross-site writes and callers without the token; adds the headers.

    It also answers for errors of ours and where the server ends, so that even those carry the headers.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.token = settings.token.get_secret_value().encode()
        # What a browser keeps opens this server alone, and does not tell the secret
        self.cookie = hmac.digest(self.token, b"headroom cookie", "sha256").hex()
        self.guesses = Guesses()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer the request itself where it is refused, else pass it on."""
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
            return
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        started = False

        async def send_with_headers(message: Message) -> None:
            nonlocal started
            if message["type"] == "http.response.start":
                started = True
                headers = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    headers.setdefault(name, value)
                if scope["path"].startswith("/api/"):
                    headers.setdefault("cache-control", "no-store")
            await send(message)

        try:
            await (self._refusal(scope) or self.app)(scope, receive, send_with_headers)
        except asyncio.CancelledError:  # by uvicorn, which has waited long enough to end; it would say 500
            if started:
                raise
            await problem_document(503, ENDING, headers={"connection": "close"})(scope, receive, send_with_headers)
        except Exception as error:
            if started:
                raise
            await unexpected(scope["method"], scope["path"], error)(scope, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        # A page elsewhere can point its own name at 127.0.0.1 (DNS rebinding); its Host header gives it away
        if self.settings.loopback and not is_loopback(_host_name(host)) and _host_name(host) != self.settings.host:
            return problem_document(421, f"Host {host[:200]!r} is not served here. Open this server as 127.0.0.1.")
        if scope["method"] not in READING and _cross_site(headers, host):
            return problem_document(403, "Other sites may not write here. Send the request from Headroom's own page.")
        if self.token and scope["path"] not in OPEN_PATHS:
            return self._without_token(scope, headers)
        return None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        name = cookie_name(headers.get("host", ""))
        if hmac.compare_digest(_cookie(headers, name).encode(), self.cookie.encode()):
            return None
        scheme, _, given = headers.get("authorization", "").partition(" ")
        bearer = given.encode("latin-1") if scheme.lower() == "bearer" else b""
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        opening = scope["method"] == "GET" and scope["path"] == "/"
        asked = dict(query).get("token", "").encode() if opening else b""
        client = _client(scope)
        if (bearer or asked) and (wait_s := self.guesses.wait_s(client)) > 0:
            detail = f"Too many wrong tokens came from this address. Try again in {math.ceil(wait_s)} s."
            return problem_document(429, detail, headers={"retry-after": str(math.ceil(wait_s))})
        if hmac.compare_digest(bearer, self.token):
            return None
        if hmac.compare_digest(asked, self.token):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            response = RedirectResponse("/" + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(name, self.cookie, httponly=True, samesite="strict")
            return response
        if bearer or asked:
            self.guesses.note(client)
        detail = (
            "This server needs its token, HEADROOM_TOKEN or the one in the address that it printed at its start: "
            "send 'Authorization: Bearer TOKEN', or open /?token=TOKEN in a browser."
        )
        return problem_document(401, detail, headers={"www-authenticate": "Bearer"})


class Guesses:
    """Wrong tokens by client: beyond FREE_GUESSES no other is looked at for 1, 2, 4 … LONGEST_LOCK_S seconds.

    Kept for FORGOTTEN_S, of the MOST_CLIENTS that tried last.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._wrong: OrderedDict[str, tuple[int, float]] = OrderedDict()

    def wait_s(self, client: str) -> float:
        """Return how long nothing from this client is looked at; 0 or less where it may try."""
        count, last_s = self._wrong.get(client, (0, 0.0))
        if count < FREE_GUESSES:
            return 0.0
        return last_s + min(2.0 ** min(count - FREE_GUESSES, 16), LONGEST_LOCK_S) - self._clock()

    def note(self, client: str) -> None:
        """Count a wrong token."""
        now_s = self._clock()
        count, last_s = self._wrong.pop(client, (0, now_s))
        self._wrong[client] = (1 if now_s - last_s > FORGOTTEN_S else count + 1), now_s
        while len(self._wrong) > MOST_CLIENTS:
            self._wrong.popitem(last=False)


def cookie_name(host: str) -> str:
    """Name the cookie after the port that the browser knows, because cookies of one host are shared by its ports."""
    port = host.rpartition("]")[2].rpartition(":")[2]
    return f"headroom_{port if port.isascii() and port.isdigit() else 80}"


def _cross_site(headers: Headers, host: str) -> bool:
    fetch_site = headers.get("sec-fetch-site")
    if fetch_site is not None and fetch_site not in ("same-origin", "none"):
        return True
    origin = headers.get("origin")
    return origin is not None and origin.lower() not in (f"http://{host.lower()}", f"https://{host.lower()}")


def _host_name(host: str) -> str:
    if host.startswith("["):
        return host[1:].partition("]")[0]
    return host.partition(":")[0].lower()


def _cookie(headers: Headers, name: str) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


def _client(scope: Scope) -> str:
    """Return the caller's address; of IPv6 the network, whose 2^64 addresses are one caller's."""
    host = (scope.get("client") or ("",))[0]
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return str(host)
    return str(ipaddress.ip_network((address, 64), strict=False)) if address.version == 6 else host
