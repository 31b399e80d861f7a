"""Who may talk to the server: hosts, origins and tokens; and what every answer carries."""

from __future__ import annotations

import functools
from http.cookies import SimpleCookie
from urllib.parse import unquote

import pytest
from fastapi.testclient import TestClient
from pydantic import SecretStr

from app.main import create_app
from app.security import FORGOTTEN_S, FREE_GUESSES, MOST_CLIENTS, Guesses, cookie_name
from tests.app.examples import scenario

TOKEN = "a long secret, with % and ü"


@pytest.fixture
def client(shared_client):
    return shared_client


@pytest.fixture
def still_clock(monkeypatch):
    """No time passes between guesses, however slow the machine."""
    monkeypatch.setattr("app.security.Guesses", functools.partial(Guesses, lambda: 0.0))


@pytest.fixture
def open_client(settings):
    chosen = settings.model_copy(update={"host": "0.0.0.0", "token": SecretStr(TOKEN)})
    with TestClient(create_app(chosen), base_url="http://headroom.example:8000", follow_redirects=False) as found:
        yield found


@pytest.mark.parametrize("host", ["127.0.0.1:8000", "localhost", "LOCALHOST:1", "[::1]:8000", "127.0.0.1"])
def test_names_of_this_machine_are_served(client, host):
    assert client.get("/api/health", headers={"host": host}).status_code == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "[::2]", "192.168.1.5:8000", "[", ":"])
def test_other_names_that_point_here_are_refused(client, host):
    response = client.get("/api/health", headers={"host": host})
    assert response.status_code == 421
    assert response.headers["content-type"] == "application/problem+json"


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "http://evil.example"},
        {"origin": "null"},
        {"origin": "http://127.0.0.1:9999"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
        {"sec-fetch-site": "cross-site", "origin": "http://127.0.0.1:8000"},
    ],
)
def test_other_sites_may_not_write(client, headers):
    response = client.post("/api/estimate", json=scenario(), headers=headers)
    assert response.status_code == 403
    assert client.put("/api/uploads", content=b"x", headers=headers).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [{}, {"origin": "http://127.0.0.1:8000"}, {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8000"}],
)
def test_the_own_page_and_programs_may_write(client, headers):
    assert client.post("/api/estimate", json=scenario(), headers=headers).status_code == 200


@pytest.mark.parametrize("path", ["/", "/api/health", "/api/nothing", "/static/any/js/main.js"])
def test_every_answer_carries_the_headers(client, path):
    headers = client.get(path).headers
    policy = headers["content-security-policy"]
    assert "default-src 'self'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe-eval" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"


def test_without_the_token_only_health_answers(open_client):
    assert open_client.get("/api/health").status_code == 200
    for path in ("/", "/api/runs", "/static/any/js/main.js"):
        response = open_client.get(path)
        assert response.status_code == 401
        assert response.headers["www-authenticate"] == "Bearer"
        assert "TOKEN" in response.json()["detail"]
    assert open_client.post("/api/estimate", json=scenario()).status_code == 401


def test_programs_send_the_token_as_bearer(open_client):
    bearer = {"authorization": f"Bearer {TOKEN}".encode()}
    assert open_client.get("/api/runs", headers=bearer).status_code == 200
    wrong = {"authorization": f"Bearer {TOKEN[:-1]}".encode()}
    assert open_client.get("/api/runs", headers=wrong).status_code == 401
    basic = {"authorization": f"Basic {TOKEN}".encode()}
    assert open_client.get("/api/runs", headers=basic).status_code == 401


def test_a_browser_gets_a_cookie_and_its_state_back(open_client):
    response = open_client.get("/", params={"token": TOKEN, "view": "runs"})
    assert response.status_code == 303
    assert response.headers["location"] == "/?view=runs"
    cookie = response.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert open_client.get("/api/runs").status_code == 200
    assert open_client.get("/").status_code == 200


def test_the_cookie_does_not_tell_the_token_and_is_the_ports_own(open_client):
    response = open_client.get("/", params={"token": TOKEN})
    ((name, kept),) = SimpleCookie(response.headers["set-cookie"]).items()
    assert name == "headroom_8000"
    assert TOKEN not in unquote(kept.value)
    assert TOKEN not in kept.value  # without the quotes and numbers that a cookie has for letters beyond ASCII
    open_client.cookies.clear()
    bearer = {"authorization": f"Bearer {kept.value}".encode()}
    assert open_client.get("/api/runs", headers=bearer).status_code == 401
    elsewhere = open_client.get("/", params={"token": TOKEN}, headers={"host": "headroom.example:8001"})
    assert [name for name, _ in elsewhere.cookies.items()] == ["headroom_8001"]


@pytest.mark.parametrize(
    ("host", "name"),
    [("127.0.0.1:8000", "8000"), ("headroom.example", "80"), ("[::1]:81", "81"), ("[::1]", "80"), ("a:b; c", "80")],
)
def test_the_cookie_is_named_after_the_port_that_the_browser_knows(host, name):
    assert cookie_name(host) == f"headroom_{name}"


def wrong(client, guess="wrong"):
    return client.get("/api/runs", headers={"authorization": f"Bearer {guess}".encode()})


def test_who_guesses_is_soon_told_to_wait_and_not_even_a_right_guess_is_seen(still_clock, open_client):
    found = [wrong(open_client, f"guess {number}").status_code for number in range(FREE_GUESSES + 1)]
    assert found == [401] * FREE_GUESSES + [429]
    waiting = wrong(open_client, TOKEN)
    assert waiting.status_code == 429
    assert waiting.headers["content-type"] == "application/problem+json"
    assert 1 <= int(waiting.headers["retry-after"]) <= 60
    assert open_client.get("/", params={"token": "wrong"}).status_code == 429


def test_who_gives_no_token_guesses_nothing(open_client):
    assert {open_client.get("/api/runs").status_code for _ in range(3 * FREE_GUESSES)} == {401}


def test_who_is_in_stays_in_while_others_at_the_address_guess(open_client):
    open_client.get("/", params={"token": TOKEN})
    other = TestClient(open_client.app, base_url="http://headroom.example:8000")
    assert [wrong(other).status_code for _ in range(FREE_GUESSES + 1)][-1] == 429
    assert open_client.get("/api/runs").status_code == 200


def test_waits_double_up_to_a_minute_and_are_forgotten():
    now_s = [0.0]
    guesses = Guesses(lambda: now_s[0])
    waits = []
    for _ in range(FREE_GUESSES + 8):
        waits.append(guesses.wait_s("a"))
        now_s[0] += max(waits[-1], 0.0)
        guesses.note("a")
    assert waits == [0.0] * FREE_GUESSES + [1, 2, 4, 8, 16, 32, 60, 60]
    assert guesses.wait_s("b") == 0
    now_s[0] += 2 * FORGOTTEN_S
    assert guesses.wait_s("a") <= 0
    guesses.note("a")
    assert guesses.wait_s("a") == 0


def test_only_so_many_guessers_are_remembered():
    guesses = Guesses()
    for number in range(2 * MOST_CLIENTS):
        guesses.note(str(number))
    assert len(guesses._wrong) == MOST_CLIENTS


def test_a_wrong_token_in_the_address_gives_no_cookie(open_client):
    response = open_client.get("/", params={"token": "wrong"})
    assert response.status_code == 401
    assert "set-cookie" not in response.headers
