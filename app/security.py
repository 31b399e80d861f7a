"""Security: who may talk to a server that can start programs, and what a browser may do with its answers."""

from __future__ import annotations

import hmac
from http.cookies import CookieError, SimpleCookie
from urllib.parse import parse_qsl, quote, unquote, urlencode

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
_READING = {"GET", "HEAD", "OPTIONS"}
COOKIE = "headroom_token"
OPEN_PATHS = {"/api/health"}


class Guard:
    """ASGI middleware: refuses foreign hosts, cross-site writes and callers without the token; adds the headers.

    It also answers for errors of ours, so that even those carry the headers.
    """

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self.app, self.settings = app, settings
        self.token = settings.token.get_secret_value()

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
        if scope["method"] not in _READING and _cross_site(headers, host):
            return problem_document(403, "Other sites may not write here. Send the request from Headroom's own page.")
        if self.token and scope["path"] not in OPEN_PATHS:
            return self._without_token(scope, headers)
        return None

    def _without_token(self, scope: Scope, headers: Headers) -> Response | None:
        scheme, _, given = headers.get("authorization", "").partition(" ")
        bearer = given.encode("latin-1") if scheme.lower() == "bearer" else b""
        if self._is_token(bearer) or self._is_token(_cookie(headers).encode()):
            return None
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if scope["method"] == "GET" and scope["path"] == "/" and self._is_token(dict(query).get("token", "").encode()):
            rest = urlencode([pair for pair in query if pair[0] != "token"])
            response = RedirectResponse("/" + (f"?{rest}" if rest else ""), 303)
            response.set_cookie(COOKIE, quote(self.token, safe=""), httponly=True, samesite="strict")
            return response
        detail = "This server needs its token: send 'Authorization: Bearer TOKEN', or open /?token=TOKEN in a browser."
        return problem_document(401, detail, headers={"www-authenticate": "Bearer"})

    def _is_token(self, given: bytes) -> bool:
        return hmac.compare_digest(given, self.token.encode())


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


def _cookie(headers: Headers) -> str:
    try:
        cookies = SimpleCookie(headers.get("cookie", ""))
    except CookieError:
        return ""
    return unquote(cookies[COOKIE].value) if COOKIE in cookies else ""
